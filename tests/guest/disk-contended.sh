#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-contended
# description: requests that come while another processor has the disk's lock are left to it: each is served
# cpus: 4
# minutes: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly TRACING=/sys/kernel/tracing
modprobe cello
# One is left where two processors wait already, which guests of four hardly ever see.
echo 1 >/sys/module/cello/parameters/impatient
[[ -e $TRACING/trace ]] || mount -t tracefs none $TRACING
# The kernel counts how often requests are left.
echo 'p:left cello:leave' >$TRACING/kprobe_events
echo 1 >$TRACING/events/kprobes/left/enable

# Programs ask for something at the same time, each of another processor, and go on when all have it: who is
# left behind stops all, and nobody's next request comes to its rescue.
programs() { # programs NUMBER SECONDS ROUNDS
	timeout "$2" python3 - "$1" "$3" <<'P'
import mmap, os, random, sys
number, rounds = map(int, sys.argv[1:])
at = memoryview(mmap.mmap(-1, 4096)).cast("Q")
me = next((i for i in range(1, number) if os.fork() == 0), 0)
os.sched_setaffinity(0, [me])
fd = os.open("/dev/nullb0", os.O_RDWR | os.O_DIRECT)
place, page = random.Random(me), mmap.mmap(-1, 4096)
for i in range(1, rounds + 1):
    at[me] = i
    while min(at[:number]) < i:
        pass
    for _ in range(place.randrange(200)):
        pass
    os.preadv(fd, [page], place.randrange(1 << 18) * 4096)
if me == 0:
    for _ in range(number - 1):
        if os.wait()[1]:
            sys.exit(1)
P
}

for queues in $(times 4 '1 4'); do
	modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=2000 hw_queue_depth=64 submit_queues=$queues gb=16
	echo cello >/sys/block/nullb0/queue/scheduler
	for set in in_flight=1 in_flight=2 in_flight=0 unclassified=none; do
		echo "${set#*=}" >/sys/block/nullb0/queue/iosched/"${set%=*}"
		for number in 2 4; do
			check "$queues-queues-$set-$number-programs" programs $number 60 "$(times 500 20000)"
		done
		echo "left so far: $(awk '$1 == "left" { print $2 }' $TRACING/kprobe_profile)"
	done
	rmmod null_blk
done
check some-were-left test "$(awk '$1 == "left" { print $2 }' $TRACING/kprobe_profile)" -gt 100
echo 0 >$TRACING/events/kprobes/left/enable
echo >$TRACING/kprobe_events
check unload rmmod cello
finish
