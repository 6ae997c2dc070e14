#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-crowd
# description: one that reads at random beside 200 cgroups of one tenant, which read one thing after the other each and want more than the kernel's 128 requests: in a class of its own, and in theirs
# cpus: 1
# minutes: 2
# only: long
# Arguments: how long to read in seconds (3), tags (128)
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

served() { # the disk's time of that one, and of all, in us
	awk -v id="$(stat -c %i $CG/one)" '{ us += $5 } $1 == id { own += $5 } END { print own + 0, us + 0 }' /sys/kernel/debug/block/testdisk0/sched/groups
}

declare -A reads part
# beside NAME SCHEDULER [CLASS]: reads, with as many requests in all under each scheduler
beside() {
	local found own all
	scheduler "$2"
	echo "$tags" >$QUEUE/nr_requests
	if [[ -n ${3:-} ]]; then
		echo throughput >$CG/crowd/io.cello.class
		echo "$3" >$CG/one/io.cello.class
	fi
	for ((i = 0; i < 200; i++)); do
		inside crowd/$i dd if=/dev/testdisk0 of=/dev/null bs=4k iflag=direct skip=$((i * 150000)) 2>/dev/null &
	done
	sleep 2
	[[ $2 != cello ]] || read -r own all < <(served)
	found=$(inside one fio --name=reader --filename=/dev/testdisk0 --readonly --rw=randread --bs=4k --direct=1 --ioengine=psync --time_based --runtime="$seconds" \
		--size=10g --output-format=json | python3 -c '
import json, sys
read = json.load(sys.stdin)["jobs"][0]["read"]
took = read["clat_ns"]
print(read["total_ios"], "reads, mean %.1f ms, p99 %.1f, longest %.1f" % (took["mean"] / 1e6, took["percentile"]["99.000000"] / 1e6, took["max"] / 1e6))')
	[[ $2 != cello ]] || part[$1]=$(served | awk -v own="$own" -v all="$all" '{ printf "%d", ($1 - own) * 1000 / ($2 - all) }')
	pkill dd
	wait
	reads[$1]=${found%% *}
	echo "$1: $found${part[$1]:+, ${part[$1]} of 1000 of the time}"
}

seconds=${1:-3} tags=${2:-128}
beside mq-deadline mq-deadline
beside bfq bfq
beside class cello interactive
beside tenant cello throughput
check class-sooner test "${reads[class]}" -ge "${reads[bfq]}"
check tenant-sooner test "${reads[tenant]}" -ge "${reads[bfq]}"
away turning
finish
