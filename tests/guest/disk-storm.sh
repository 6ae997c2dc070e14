#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-storm
# description: a disk under Cello while everything changes, fails and goes: no data is lost, each error is told once, nothing stays behind
# cpus: 2
# turns: coarse
# minutes: 4
#
# disk-storm.sh [long [SEED]]
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh
mkdir -p $CG/{a/in,b,c}
echo +io +memory >$CG/cgroup.subtree_control
echo +io +memory >$CG/a/cgroup.subtree_control
modprobe testdisk queues=2 count=0
modprobe cello

# ---- the storm: five programs write, read what they wrote and compare it, over and over
client() { # client CGROUP FIO-OPTION...: two rounds at least, however soon the storm is over
	local cgroup=$1 rounds=0 said
	shift
	said=$(mktemp)
	echo "$BASHPID" >"$CG/$cgroup/cgroup.procs"
	until [[ -e /tmp/stop && $rounds -gt 1 ]]; do
		if ! fio --name="file$BASHPID" --directory=/mnt --verify=crc32c --verify_state_save=0 --verify_fatal=1 \
			--randseed=$((++rounds)) "$@" >"$said" 2>&1; then
			cat "$said"
			return 1
		fi
	done
}
clients() { # clients SIZE: of their files
	local direct='--direct=1 --ioengine=libaio --iodepth=16'
	# shellcheck disable=SC2086 # several words
	{
		client a/in $direct --rw=randrw --bsrange=4k-64k --size="$1" &
		client a/in --rw=randwrite --bs=4k --fsync=32 --fallocate=none --size="$1" &
		client b --direct=1 --rw=randrw --bs=4k --ioengine=psync --numjobs=2 --size="$1" --unlink=1 &
		client c $direct --rw=write --bs=128k --size=4m &
		client c --rw=readwrite --bs=64k --end_fsync=1 --size="$1" &
	}
}
storm() { # storm MODEL SIZE SWITCHES SEED: in the long run for five minutes at least
	local served i
	local -a programs
	rm -f /tmp/stop
	echo "$1" >/sys/kernel/debug/testdisk/add
	scheduler cello
	mkfs.ext4 -qF -J size=16 /dev/testdisk0 2g
	mount -o discard /dev/testdisk0 /mnt
	clients "$2"
	mapfile -t programs < <(jobs -p)
	served=$(python3 /usr/lib/qlinux/tests/guest/lib/disk-storm.py "$3" "$(times 0 300)" "$4" $CG/{a/in,b,c})
	equal "storm-$1" $? 0
	echo "$served requests were served by Cello"
	set_fault busy_every 0
	set_fault requeue_every 0
	scheduler cello
	touch /tmp/stop
	for i in "${!programs[@]}"; do
		wait "${programs[i]}"
		equal "client-$1-$i" $? 0
	done
	umount /mnt
	check "clean-$1" fsck.ext4 -fn /dev/testdisk0
	check "times-$1" replayed "$1"
	equal "nobody-waits-$1" "$(waiting)" 0
	pull
}
storm turning 256k "$(times 3 500)" "${2:-1}"
storm flat 2m "$(times 3 500)" "${2:-2}"

# ---- faults, each while programs of all classes and of none use the disk
echo turning >/sys/kernel/debug/testdisk/add
for c in a/in b c; do
	echo none >$CG/$c/io.cello.class
done
anew() { # Cello takes the disk over, with an empty record
	scheduler none
	scheduler cello
	forget
}
in_all_classes() { # in_all_classes COMMAND...: what each said; $n is 0 to 3 there
	local class n=0 bad=0
	local -a programs=()
	for class in interactive throughput realtime none; do
		as_class $class "$@" &
		programs+=($!)
		n=$((n + 1))
	done
	for n in "${programs[@]}"; do
		wait "$n" || bad=1
	done
	return $bad
}
sum() { # sum WORD TEXT: of results as "EIO 4 ok 20" tell
	awk -v word="$1" '{ for (i = 1; i < NF; i += 2) if ($i == word) n += $(i + 1) } END { print n + 0 }' <<<"$2"
}
account() { # account NAME: each request of the disk is one that Cello served or let pass
	equal "$1-account" "$(passed)" "$(record | grep -vc ' again$')"
	equal "$1-waiting" "$(waiting)" 0
	check "$1-times" replayed turning
}

anew
set_fault error_every 7
said=$(in_all_classes reads 35)
set_fault error_every 0
equal errors "$(sum EIO "$said") $(sum ok "$said")" '20 120'
equal errors-counted "$(fault errors) $(record | grep -c ' eio$')" '20 20'
account errors

anew
set_fault error_every 5
as_class throughput fio --name=load --filename=/dev/testdisk0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randread --bs=4k --size=1g \
	--io_size=800k --continue_on_error=all --output-format=json --output=/tmp/fio
set_fault error_every 0
equal errors-fio "$(python3 -c 'import json; print(json.load(open("/tmp/fio"))["jobs"][0]["total_err"])')" 40
equal errors-fio-counted "$(fault errors) $(record | grep -c ' eio$')" '60 40'
account errors-fio

# What is never answered holds Cello up until its timeout, and no longer.
anew
set_fault timeout_ms 500
set_fault timeout_every 30
said=$(in_all_classes reads 24)
set_fault timeout_every 0
equal timeouts "$(sum ETIMEDOUT "$said") $(sum ok "$said")" '3 93'
equal timeouts-counted "$(fault timeouts)" 3
account timeouts

# The disk refuses, and is asked again.
apart() {
	verified --rw=randrw --bs=4k --size=512k --offset="$((n * 10))g"
}
anew
set_fault busy_every 3
check busy in_all_classes apart
set_fault busy_every 0
check busies test "$(fault busies)" -gt 100
account busy

# The disk gives back what it served, to be asked for it again.
anew
set_fault requeue_every 3
check requeue in_all_classes apart
set_fault requeue_every 0
check requeues test "$(fault requeues)" -gt 100
account requeue

# ---- the disk is pulled out under load, and comes back
until_error() {
	load_on 2>/dev/null || echo error
}
for _ in $(times once '1 2 3'); do
	scheduler cello
	in_all_classes until_error >/tmp/said &
	program=$!
	until [[ $(waiting) -gt 60 ]]; do sleep 0.02; done
	pull
	wait $program
	equal pulled "$(sort /tmp/said | uniq -c | xargs)" '4 error'
	echo turning >/sys/kernel/debug/testdisk/add
	scheduler cello
	equal back "$(in_all_classes reads 3)" "$(printf 'ok 3\n%.0s' {1..4})"
	account back
done

# ---- a module that is used stays; one that is not goes, whatever it was used for
check module-in-use sh -c '! rmmod cello 2>/dev/null'
equal module-works "$(reads 3)" 'ok 3'
in_all_classes load_on >/dev/null 2>&1 &
program=$!
sleep 1
check module-under-load sh -c '! rmmod cello 2>/dev/null'
scheduler mq-deadline
check module-goes rmmod cello
equal module-gone "$(compgen -G "$CG/a/io.cello.*")$(grep -o cello $QUEUE/scheduler)" ''
check module-again modprobe cello
scheduler cello
sleep 1
pull
wait $program
echo turning >/sys/kernel/debug/testdisk/add

# ---- little memory: what a program wrote is written back to make room, in its cgroup's class
scheduler cello
mkfs.ext4 -qF -J size=16 /dev/testdisk0 2g
mount /dev/testdisk0 /mnt
echo throughput >$CG/b/io.cello.class
echo 16M >$CG/b/memory.max
large() {
	yes "$(seq 5000)" | head -c 48M
}
(
	echo "$BASHPID" >$CG/b/cgroup.procs
	large | dd of=/mnt/large bs=64k iflag=fullblock conv=fsync status=none
)
equal written-back $? 0
check pressed test "$(awk '$1 == "max" { print $2 }' $CG/b/memory.events)" -gt 100
echo 1 >/proc/sys/vm/drop_caches
check kept cmp /mnt/large <(large)
used=$(grep -o 'cello.throughput_us=[0-9]*' $CG/b/io.stat)
check its-class test "${used#*=}" -gt 240000
umount /mnt
check clean fsck.ext4 -fn /dev/testdisk0
check times replayed turning
equal nobody-waits "$(waiting)" 0
scheduler none
check no-module rmmod cello
check no-disk rmmod testdisk
finish
