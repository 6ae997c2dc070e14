#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-path
# description: instructions of one read of 4 KB, from the program to the disk and back, under each scheduler
# only: long
# cpus: 1
# minutes: 2
# kernels-long: disk
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

modprobe -a cello bfq kyber-iosched mq-deadline null_blk
rmmod null_blk
echo '+io' >$CG/cgroup.subtree_control
mkdir -p $CG/a
modprobe null_blk nr_devices=1 queue_mode=2 irqmode=0 submit_queues=1 gb=16

# One after the other, from a disk that answers at once. An instruction of the guest takes 2 ns.
path() {
	bash -c 'echo $$ >"$0/cgroup.procs" && exec python3 -' $CG/a <<'P'
import mmap, os, random, time
fd, page, place = os.open("/dev/nullb0", os.O_RDONLY | os.O_DIRECT), [mmap.mmap(-1, 4096)], random.Random(1)
at = [place.randrange(1 << 20) * 4096 for _ in range(1000)]
for _ in range(3):
    begin = time.perf_counter_ns()
    for offset in at:
        os.preadv(fd, page, offset)
    took = time.perf_counter_ns() - begin
print(took // 2 // len(at))
P
}

declare -A took
for name in none mq-deadline kyber bfq cello; do
	echo $name >/sys/block/nullb0/queue/scheduler
	took[$name]=$(path)
	echo "$name: ${took[$name]} instructions"
done
for class in interactive realtime; do
	echo $class >$CG/a/io.cello.class
	took[$class]=$(path)
	echo "cello, $class: ${took[$class]} instructions"
	check "$class" test "${took[$class]}" -le "${took[bfq]}"
done
check unclassified test "${took[cello]}" -le "${took[bfq]}"
awk -v a="${took[cello]}" -v b="${took[mq-deadline]}" 'BEGIN { printf "%.3f of mq-deadline'"'"'s\n", a / b }'
echo none >/sys/block/nullb0/queue/scheduler
check unload rmmod null_blk cello
finish
