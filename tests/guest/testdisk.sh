#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: testdisk
# description: the disk that tests use takes the times of its model, keeps what is written, and fails as it is told to
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh

# ---- what it says of itself
for wrong in model=square sectors=100 depth=0 queues=0 count=17; do
	check "refuses-$wrong" sh -c "! modprobe testdisk $wrong 2>/dev/null"
done
modprobe testdisk
scheduler none
equal rotational "$(cat "$QUEUE/rotational")" 1
equal write-cache "$(cat "$QUEUE/write_cache" "$QUEUE/fua" | tr '\n' ' ')" 'write back 1 '
equal size "$(blockdev --getsz /dev/testdisk0)" $((1 << 28))
equal nothing-yet "$(record | wc -l)" 0

# ---- times: those of the model, one request at a time; in the order of their submission
busy_before=$(fault busy_ns)
load --rw=randrw --bsrange=512-256k --blockalign=512 --size=16m --io_size=8m --fsync=16 --write_iolog=/tmp/asked
record >/tmp/record
check times replayed turning
like flushes "$(sorts)" 'd0 f[1-9]'
equal busy "$(awk '{ sum += $2 - $1 } END { print sum }' /tmp/record)" $(($(fault busy_ns) - busy_before))
equal served "$(wc -l </tmp/record)" "$(fault served)"
equal order "$(awk '$3 == "r" || $3 == "w" { print $3, $4, $5 }' /tmp/record)" \
	"$(awk '$3 == "read" || $3 == "write" { print substr($3, 1, 1), $4 / 512, $5 / 512 }' /tmp/asked)"
forget
equal forgotten "$(record | wc -l)" 0
for offset in 0 10g 64g 120g; do
	load --rw=randrw --bsrange=4k-64k --offset=$offset --size=1g --io_size=1m
done
check times-everywhere replayed turning
forget
load --rw=read --bs=64k --size=4m --iodepth=1
like in-line "$(record | awk 'NR > 1 && $1 - end < 4e6 { n++ } { end = $2 } END { print n }')" '^6[0-9]$'
# The time of 128 sectors on the outer tracks, and the overhead; a new track costs a seek more.
equal in-line-time "$(record | awk 'NR > 1 && $2 - $1 < 1e6 { print $2 - $1 }' | sort -u)" 642592

# ---- data: what was written is there, however it was ordered on its way
for name in none mq-deadline bfq; do
	scheduler $name
	check "kept-$name" verified --rw=randrw --bsrange=4k-64k --size=16m
	check "times-$name" replayed turning
done
equal zeros "$(dd if=/dev/testdisk0 bs=1M skip=5000 count=1 iflag=direct status=none | tr -d '\0' | wc -c)" 0
dd if=/dev/urandom of=/tmp/noise bs=4k count=64 status=none
dd if=/tmp/noise of=/dev/testdisk0 bs=4k oflag=direct status=none
check noise cmp -n 262144 /tmp/noise /dev/testdisk0
forget
check discard blkdiscard -o 4096 -l 131072 /dev/testdisk0
like discarded "$(sorts)" 'd1 '
equal rest "$(cmp -l /tmp/noise <(dd if=/dev/testdisk0 bs=4k count=64 iflag=direct status=none) | awk '$3 != 0 || $1 <= 4096 || $1 > 135168' | wc -l)" 0
forget
dd if=/tmp/noise of=/dev/testdisk0 bs=4k count=4 oflag=direct,dsync status=none
# A flush each for the program; a disk without FUA would need another each for the write.
equal fua "$(sorts)" 'd0 f4 r0 w4'
check file-system file_system

# ---- faults: each is told to the program, and to it only once
faulty() { # faulty FAULT N: reads with each Nth meeting the fault
	set_fault "$1" "$2"
	reads 24
	set_fault "$1" 0
}
equal no-errors "$(reads 10)" 'ok 10'
forget
equal errors "$(faulty error_every 6)" 'EIO 4 ok 20'
equal errors-counted "$(fault errors) $(record | grep -c ' eio$')" '4 4'
check times-errors replayed turning
forget
set_fault timeout_ms 500
equal timeouts "$(faulty timeout_every 12)" 'ETIMEDOUT 2 ok 22'
equal timeouts-counted "$(fault timeouts) $(record | grep -c ' timeout$')" '2 2'
check times-timeouts replayed turning
# What is lost does not stop what came after it.
set_fault timeout_every 8
lost=$(together 8)
set_fault timeout_every 0
equal lost "$lost" 'ETIMEDOUT 1 ok 7'
for name in none mq-deadline bfq; do
	scheduler $name
	set_fault busy_every 3
	check "busy-$name" verified --rw=randrw --bs=4k --size=1m
	set_fault busy_every 0
done
check busies test "$(fault busies)" -gt 300
for name in none mq-deadline bfq; do
	scheduler $name
	forget
	set_fault requeue_every 3
	check "requeue-$name" verified --rw=randrw --bs=4k --size=1m
	set_fault requeue_every 0
	check "requeued-$name" test "$(record | grep -c ' again$')" -gt 100
	check "times-requeue-$name" replayed turning
done
check never-through sh -c "! echo 1 2>/dev/null >$FILES/busy_every"
equal again "$(reads 10)" 'ok 10'

# ---- pulled out while it is used
for name in none mq-deadline bfq; do
	scheduler $name
	endless=$(mktemp)
	load_on >"$endless" 2>&1 &
	program=$!
	until [[ $(in_flight) -gt 8 ]]; do sleep 0.02; done
	pull
	wait $program
	equal "pulled-$name" $? 1
	like "pulled-error-$name" "$(cat "$endless")" 'Input/output error|No such device'
	equal "gone-$name" "$(compgen -G '/sys/block/testdisk*'; compgen -G '/sys/kernel/debug/testdisk/testdisk*')" ''
	echo 1 >/sys/kernel/debug/testdisk/add
	equal "back-$name" "$(reads 3)" 'ok 3'
done
mkfs.ext4 -qF /dev/testdisk0 1g
mount /dev/testdisk0 /mnt
(while :; do dd if=/tmp/noise of=/mnt/file bs=64k conv=fsync status=none || exit; done) 2>/dev/null &
program=$!
sleep 0.2
pull
wait $program
equal file-system-pulled $? 1
umount /mnt
check rmmod rmmod testdisk

# ---- other disks: without moving parts, several, several queues
modprobe testdisk model=flat count=2 queues=2 depth=7
scheduler none
equal flat "$(cat "$QUEUE/rotational")" 0
equal depth "$(cat "$QUEUE/nr_requests")" 7
equal two "$(cd /sys/block && echo testdisk*)" 'testdisk0 testdisk1'
check kept-flat verified --rw=randrw --bsrange=4k-64k --size=16m --numjobs=2 --offset_increment=16m
check times-flat replayed flat
equal untouched "$(cat /sys/kernel/debug/testdisk/testdisk1/served)" 0
exec 5</dev/testdisk1
check in-use sh -c '! rmmod testdisk 2>/dev/null'
exec 5<&-
check rmmod-again rmmod testdisk
equal nothing-left "$(compgen -G '/sys/kernel/debug/testdisk*'; compgen -G '/dev/testdisk*')" ''
finish
