#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-saves
# description: an interactive program that saves a file (16 KB and fsync, each 200 ms) beside one that writes as much as it can, with and without a third, interactive too, that reads all the time, on an arm: how long it waits, and how long `sync` takes
# cpus: 2
# timeout: 1500
# minutes: 12
# only: long
# Arguments: for how long in seconds (10), models ("turning")
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh

seconds=${1:-10}
modprobe cello
echo '+io +memory' >$CG/cgroup.subtree_control
mkdir -p $CG/a $CG/b $CG/c

cat >/tmp/saves.py <<'EOF'
import os, sys, time
took, end = [], time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    began = time.monotonic()
    with open("/mnt/saved.new", "wb") as saved:
        saved.write(os.urandom(16384))
        saved.flush()
        os.fsync(saved.fileno())
    os.rename("/mnt/saved.new", "/mnt/saved")
    took.append((time.monotonic() - began) * 1000)
    time.sleep(0.2)
took.sort()
print(f"mean {sum(took) / len(took):.0f}, median {took[len(took) // 2]:.0f}, longest {took[-1]:.0f} ms of {len(took)}")
EOF

declare -A mean
# saving SCHEDULER READERS
saving() {
	local found began waiting
	scheduler "$1"
	if [[ $1 == cello ]]; then
		echo interactive >$CG/a/io.cello.class
		echo throughput >$CG/b/io.cello.class
		echo interactive >$CG/c/io.cello.class
	fi
	mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 -J size=16 /dev/testdisk0 2g
	mount /dev/testdisk0 /mnt
	inside b fio --name=writer --directory=/mnt --rw=write --bs=256k --size=400m --time_based --runtime=1000 --ioengine=psync --output-format=terse >/dev/null 2>&1 &
	[[ $2 == 0 ]] || inside c fio --name=reader --filename=/dev/testdisk0 --invalidate=0 --offset=300m --size=1200m --readonly --rw=randread --bs=4k --direct=1 --ioengine=psync \
		--time_based --runtime=1000 --output-format=terse >/dev/null 2>&1 &
	sleep 2.5
	# What is written back has but some of the tags.
	if [[ $1 == cello ]]; then
		waiting=$(<$QUEUE/iosched/throughput_waiting)
		check "$model-$2-waiting" test $((waiting > 8 && waiting <= 32)) = 1
	fi
	sleep 0.5
	found=$(inside a python3 /tmp/saves.py "$seconds")
	pkill fio
	wait
	began=$(date +%s%N)
	sync -f /mnt
	mean[$1]=${found#mean }
	mean[$1]=${mean[$1]%%,*}
	echo "$model, $2 readers, $1: $found; then sync $((($(date +%s%N) - began) / 1000000)) ms"
	umount /mnt
}

for model in ${2:-turning}; do
	modprobe testdisk "model=$model"
	for readers in 0 1; do
		for name in mq-deadline bfq cello; do saving $name $readers; done
		check "$model-$readers-sooner" test "${mean[cello]}" -lt "${mean[mq-deadline]}"
	done
	away "$model"
done
finish
