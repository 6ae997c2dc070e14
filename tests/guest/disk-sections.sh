#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-sections
# description: interrupts are off for 25,000 instructions at most (50 us of the guest's) while Cello chooses, with 512 requests of 64 cgroups in three classes waiting
# only: long
# cpus: 1
# minutes: 3
# timeout: 1200
# kernels-long: disk
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly TRACING=/sys/kernel/tracing GROUPS_OF=64 EACH=8

modprobe -a cello null_blk testdisk
rmmod null_blk testdisk
[[ -e $TRACING/trace ]] || mount -t tracefs none $TRACING
echo '+io' >$CG/cgroup.subtree_control

# All programs begin at once, each with so many threads in a cgroup of its own.
load() { # load DEV
	python3 - "$1" "$CG" $GROUPS_OF $EACH <<'P' >/dev/null 2>&1 &
import mmap, os, random, sys, threading, time
dev, cg, groups, each = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
begin = time.monotonic() + 5
def reads(seed):
    fd = os.open("/dev/" + dev, os.O_RDWR | os.O_DIRECT)
    place, page = random.Random(seed), mmap.mmap(-1, 4096)
    time.sleep(max(0, begin - time.monotonic()))
    while True:
        at = place.randrange(1 << 18) * 4096
        os.preadv(fd, [page], at) if place.random() < 0.7 else os.pwrite(fd, page, at)
for g in range(groups):
    if os.fork() == 0:
        with open(f"{cg}/g{g}/cgroup.procs", "w") as procs:
            procs.write("0")
        for t in range(each):
            threading.Thread(target=reads, args=(g * each + t,)).start()
        break
time.sleep(10000)
P
}

# The longest call of each function that nothing has interrupted. `chosen` and `insert_some` are
# called with the lock held: nothing can interrupt those.
longest() {
	python3 - <<'P'
import re
inside = ("chosen", "insert_some")
worst, calls, stack = {}, {}, []
def ended(name, us):
    calls[name] = calls.get(name, 0) + 1
    worst[name] = max(worst.get(name, 0), float(us))
for line in open("/tmp/trace"):
    m = re.match(r"[^|]*?(?:([\d.]+) us)?\s*\|\s*(.*)", line)
    if not m:
        continue
    us, what = m.groups()
    name = re.match(r"\w*", what)[0]
    if what.endswith("{"):
        stack.append(name)
    elif what.startswith("}"):
        name = stack.pop() if stack else ""
        if us and name in inside:
            ended(name, us)
    elif us and name:
        ended(name, us)
for name in sorted(worst):
    print(name, calls[name], worst[name])
P
}

sections() { # sections DEV NAME
	local i many name worst
	echo cello >/sys/block/"$1"/queue/scheduler
	echo 1024 >/sys/block/"$1"/queue/nr_requests
	for ((i = 0; i < GROUPS_OF; i++)); do
		mkdir -p $CG/g$i
		echo $((100 + i)) >$CG/g$i/io.cello.weight
		case $((i % 3)) in 0) echo interactive ;; 1) echo throughput ;; 2) echo realtime ;; esac >$CG/g$i/io.cello.class
	done
	load "$1"
	sleep 7
	many=$(cat /sys/block/"$1"/{inflight,queue/iosched/*_waiting} | xargs | tr ' ' '+')
	many=$((many))
	check "$2-many: $many" test "$many" -ge 500
	{
		echo 'chosen*:mod:cello'
		echo 'insert_some*:mod:cello'
		echo 'disk_*:mod:cello'
		echo handle_softirqs
		echo preempt_schedule_irq
	} | while read -r i; do echo "$i" >>$TRACING/set_ftrace_filter; done 2>/dev/null
	echo 4096 >$TRACING/buffer_size_kb
	echo function_graph >$TRACING/current_tracer
	sleep 1
	echo 0 >$TRACING/tracing_on
	cat $TRACING/trace >/tmp/trace
	echo nop >$TRACING/current_tracer
	echo >$TRACING/set_ftrace_filter
	echo 1 >$TRACING/tracing_on
	pkill python3
	wait
	longest >/tmp/sections
	cat /tmp/sections
	while read -r name _ worst; do
		case $name in
		chosen | insert_some | disk_completed_request | disk_bio_merge)
			check "$2-$name: $worst us" awk -v w="$worst" 'BEGIN { exit !(w <= 50) }'
			;;
		esac
	done </tmp/sections
	# Both were seen: what is not traced is never long.
	for name in chosen insert_some; do
		check "$2-$name-often" awk -v n=$name '$1 == n { calls = $2 } END { exit !(calls >= 50) }' /tmp/sections
	done
	echo none >/sys/block/"$1"/queue/scheduler
}

modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=5000000 hw_queue_depth=32 submit_queues=1 gb=16
sections nullb0 parallel
rmmod null_blk
modprobe testdisk model=turning
sections testdisk0 arm
check unload rmmod testdisk
finish
