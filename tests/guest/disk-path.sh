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
def once():
    begin = time.perf_counter_ns()
    for offset in at:
        os.preadv(fd, page, offset)
    return time.perf_counter_ns() - begin
print(min(once() for _ in range(6)) // 2 // len(at))
P
}

declare -A took
under() { # under NAME SCHEDULER: the least of several
	local once
	echo "$2" >/sys/block/nullb0/queue/scheduler
	once=$(path)
	[[ -n ${took[$1]:-} ]] && ((took[$1] < once)) || took[$1]=$once
}

# The CPU scheduler's part of it changes by one part in a hundred from time to time.
for _ in 1 2 3; do
	under mq-deadline mq-deadline
	under cello cello
done
for name in none kyber bfq; do
	under $name $name
done
for class in interactive realtime; do
	echo $class >$CG/a/io.cello.class
	under "cello, $class" cello
done
for name in none mq-deadline kyber bfq cello 'cello, interactive' 'cello, realtime'; do
	echo "$name: ${took[$name]} instructions"
done
awk -v a="${took[cello]}" -v b="${took[mq-deadline]}" 'BEGIN { printf "%.3f of mq-deadline'"'"'s\n", a / b }'
check 'at most 1.02 of mq-deadline' test $((took[cello] * 100)) -le $((took[mq-deadline] * 102))
check 'interactive: below BFQ' test "${took["cello, interactive"]}" -lt "${took[bfq]}"
check 'real-time: below BFQ' test "${took["cello, realtime"]}" -lt "${took[bfq]}"
echo none >/sys/block/nullb0/queue/scheduler
check unload rmmod null_blk cello
finish
