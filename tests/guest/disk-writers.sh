#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-writers
# description: an interactive program that reads at random beside programs that write a file system: what it waits for and what is written, as the disk is after `up disk`; and one that writes here and there, alone
# cpus: 2
# timeout: 1500
# minutes: 14
# only: long
# Arguments: how long to read in seconds (6), models ("turning parallel"), writers ("buffered fsync")
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh

seconds=${1:-6}
models=${2:-turning parallel}
kinds=${3-buffered fsync}
echo '+io +memory' >$CG/cgroup.subtree_control
mkdir -p $CG/a $CG/b

# writer KIND: until it is killed
writer() {
	local options=(--rw=write --bs=256k --size=400m)
	[[ $1 == buffered ]] || options=(--rw=randwrite --bs=8k --size=32m --numjobs=3 --fsync=4)
	inside b fio --name=writer --directory=/mnt --time_based --runtime=1000 --ioengine=psync --output-format=terse "${options[@]}" >/dev/null 2>&1 &
}

written() { # sectors
	awk '{ print $7 }' /sys/block/testdisk0/stat
}

declare -A mean kib
# beside WRITER SCHEDULER: mean response in us and KiB written
beside() {
	local before found
	scheduler "$2"
	if [[ $2 == cello ]]; then
		requests_for testdisk0 >$QUEUE/nr_requests
		echo interactive >$CG/a/io.cello.class
		echo throughput >$CG/b/io.cello.class
	fi
	mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 -J size=16 /dev/testdisk0 2g
	mount /dev/testdisk0 /mnt
	writer "$1"
	sleep 3
	before=$(written)
	# Without --invalidate=0 it begins by writing all that is dirty.
	found=$(inside a fio --name=reader --invalidate=0 --filename=/dev/testdisk0 --offset=300m --size=1200m --readonly --rw=randread --bs=4k --direct=1 --ioengine=psync \
		--time_based --runtime="$seconds" --output-format=json | python3 -c 'import json, sys
read = json.load(sys.stdin)["jobs"][0]["read"]
times = read["clat_ns"]
print(int(times["mean"] / 1000), int(times["percentile"]["99.000000"] / 1000), int(times["max"] / 1000), read["total_ios"])')
	kib[$2]=$((($(written) - before) / 2))
	mean[$2]=${found%% *}
	pkill fio
	wait
	umount /mnt
	echo "$model, $1, $2: mean, p99, longest in us, reads: $found; ${kib[$2]} KiB written"
}

declare -A took
# scattered SCHEDULER: ms until 800 MiB are on the disk that one program writes through the page cache, 8 KB at a time, in an order of chance
scattered() {
	local began
	scheduler "$1"
	mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 /dev/testdisk0 2g
	mount /dev/testdisk0 /mnt
	dd if=/dev/zero of=/mnt/file bs=1M count=400 conv=fsync status=none
	began=$(date +%s%N)
	inside b fio --name=writer --filename=/mnt/file --rw=randwrite --bs=8k --size=400m --loops=2 --ioengine=psync --end_fsync=1 --output-format=terse >/dev/null
	took[$1]=$((($(date +%s%N) - began) / 1000000))
	umount /mnt
	echo "$model, here and there, $1: ${took[$1]} ms"
}

for model in $models; do
	modprobe testdisk "model=$model"
	for kind in $kinds; do
		for name in mq-deadline bfq cello; do beside $kind $name; done
		# The writer's class has half of the disk, which is more than BFQ leaves it.
		check "$model-$kind-written" test "${kib[cello]}" -ge "${kib[bfq]}"
		[[ $model != turning ]] || check "$model-$kind-sooner" test "${mean[cello]}" -lt "${mean[mq-deadline]}"
	done
	for name in mq-deadline bfq cello; do scattered $name; done
	check "$model-scattered" test $((took[cello] * 10)) -le $((took[mq-deadline] * 11))
	away "$model"
done
finish
