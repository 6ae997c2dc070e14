#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-crowd
# description: one that reads at random beside 200 cgroups of one tenant, which read one thing after the other each and want more than the kernel's 128 requests: in a class of its own, and in theirs
# cpus: 1
# minutes: 2
# only: long
# Arguments: how long to read in seconds (3)
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh

modprobe testdisk
modprobe cello
echo +io >$CG/cgroup.subtree_control
mkdir -p $CG/crowd $CG/one
echo +io >$CG/crowd/cgroup.subtree_control
for ((i = 0; i < 200; i++)); do mkdir $CG/crowd/$i; done

declare -A reads
# beside NAME SCHEDULER [CLASS]: reads, with as many requests in all under each scheduler
beside() {
	local found
	scheduler "$2"
	echo 128 >$QUEUE/nr_requests
	if [[ -n ${3:-} ]]; then
		echo throughput >$CG/crowd/io.cello.class
		echo "$3" >$CG/one/io.cello.class
	fi
	for ((i = 0; i < 200; i++)); do
		inside crowd/$i dd if=/dev/testdisk0 of=/dev/null bs=4k iflag=direct skip=$((i * 150000)) 2>/dev/null &
	done
	sleep 2
	found=$(inside one fio --name=reader --filename=/dev/testdisk0 --readonly --rw=randread --bs=4k --direct=1 --ioengine=psync --time_based --runtime="$seconds" \
		--size=10g --output-format=json | python3 -c '
import json, sys
read = json.load(sys.stdin)["jobs"][0]["read"]
took = read["clat_ns"]
print(read["total_ios"], "reads, mean %.1f ms, p99 %.1f, longest %.1f" % (took["mean"] / 1e6, took["percentile"]["99.000000"] / 1e6, took["max"] / 1e6))')
	pkill dd
	wait
	reads[$1]=${found%% *}
	echo "$1: $found"
}

seconds=${1:-3}
beside mq-deadline mq-deadline
beside bfq bfq
beside class cello interactive
beside tenant cello throughput
check class-sooner test "${reads[class]}" -ge "${reads[bfq]}"
# A half of the disk is its under both.
check tenant-served test $((reads[tenant] * 10)) -ge $((reads[bfq] * 8))
away turning
finish
