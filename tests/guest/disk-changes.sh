#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-changes
# description: what a disk does for a time: it flushes its cache, which is not taken for what somebody's requests take, and serves a quarter as fast, and again as before
# only: long
# cpus: 1
# minutes: 1
# Arguments: how long to read beside flushes (5), and after each change (3), in seconds
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh

reading=${1:-5} each=${2:-3}
echo +io >$CG/cgroup.subtree_control
mkdir -p $CG/reader $CG/writer
modprobe cello

# served CGROUP: requests and microseconds of its class
served() {
	awk -v id="$(stat -c %i "$CG/$1")" '$1 == id { requests += $4; us += $5 } END { print requests + 0, us + 0 }' /sys/kernel/debug/block/testdisk0/sched/groups
}

reader() { # reader CGROUP SECONDS FIO-OPTION...: reads a second
	inside "$1" fio --name=reader --filename=/dev/testdisk0 --readonly --rw=randread --bs=4k --direct=1 --thread --time_based --runtime="$2" \
		--output-format=terse "${@:3}" | awk -F';' '{ n += $8 } END { print n + 0 }'
}

# ---- an arm that takes 20 ms to flush its cache, beside one who has it flushed all the time
modprobe testdisk sectors=$((1 << 22))
mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 /dev/testdisk0 1g
mount /dev/testdisk0 /mnt
scheduler cello
echo interactive >$CG/reader/io.cello.class
echo throughput >$CG/writer/io.cello.class
set_fault flush_us 20000
cat >/tmp/writer.py <<'PYTHON'
import os
file = os.open("/mnt/log", os.O_RDWR | os.O_CREAT)
i = 0
while True:
    os.pwrite(file, os.urandom(4096), i % 1000 * 4096)
    os.fsync(file)
    i += 1
PYTHON
inside writer python3 /tmp/writer.py &
sleep 1
# Somebody's requests are known by that cgroup and, at the disk, by their place.
forget
before=$(served reader)
reader reader "$reading" --offset=1100m --size=900m >/dev/null
read -r requests us < <(served reader)
record | awk '$3 == "r" && $4 > 2200000 { n++; us += ($2 - $1) / 1000 } $3 == "f" { f++ } END { print n + 0, int(us), f + 0 }' >/tmp/record
pkill -f writer.py
wait
read -r was was_us <<<"$before"
read -r recorded recorded_us flushes </tmp/record
charged=$((us - was_us))
echo "$((requests - was)) reads took $recorded_us us, $charged were charged; $flushes flushes"
equal all-recorded $((requests - was)) "$recorded"
check flushed test "$flushes" -ge $((reading * 5))
# A tenth: what is beside a flush is charged what it was estimated to take.
check flushes-are-nobodys test $((charged * 10)) -le $((recorded_us * 11)) -a $((charged * 11)) -ge $((recorded_us * 10))
umount /mnt
check file-system fsck.ext4 -fn /dev/testdisk0
away turning

# ---- a parallel disk becomes slower by four times, and faster again: 1 to 4 stays so
modprobe testdisk model=card
declare -A whole
scheduler mq-deadline
for slow in 10 40; do
	set_fault slow $slow
	whole[$slow]=$(reader reader "$each" --size=10g --ioengine=libaio --iodepth=64)
	echo "mq-deadline, $slow times as long: ${whole[$slow]} reads a second"
done
scheduler cello
for class in reader writer; do
	echo throughput >$CG/$class/io.cello.class
	inside $class fio --name=load --filename=/dev/testdisk0 --readonly --rw=randread --bs=4k --direct=1 --thread --time_based --runtime=1000 \
		--size=10g --ioengine=libaio --iodepth=32 >/dev/null &
done
echo 25 >$CG/reader/io.cello.weight
echo 100 >$CG/writer/io.cello.weight
sleep 3 # what the disk serves side by side is learned
for slow in 10 40 10; do
	set_fault slow $slow
	sleep 1
	read -r n1 us1 n2 us2 < <({ served reader; served writer; } | xargs)
	sleep "$each"
	read -r m1 now1 m2 now2 < <({ served reader; served writer; } | xargs)
	less=$((now1 - us1)) more=$((now2 - us2)) all=$((m1 + m2 - n1 - n2))
	echo "$slow times as long: $all reads in $each seconds, $less and $more us"
	check "slow-$slow-shares" test $((more * 100)) -ge $((less * 385)) -a $((more * 100)) -le $((less * 415)) -a "$less" -gt 0
	check "slow-$slow-whole" test $((all * 100)) -ge $((whole[$slow] * each * 95))
done
pkill fio
wait
away card
finish
