#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-debug
# description: everything that can happen to disks under Cello happens at once, and memory is refused at each place where it is asked for: for kernels that check themselves
# cpus: 2
# timeout: 3600
# minutes: 10
# only: long
# kernels: debug
#
# disk-debug.sh [long|brief] [SECONDS]: how long each storm takes (20). It asks for no figures: that the kernel complains of
# nothing is what counts (vm/run exits with 98 then), and that what was there before is there in the end.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh
readonly SECONDS_EACH=${2:-20} DISKS=/sys/kernel/debug/testdisk LIB=/usr/lib/qlinux/tests/guest/lib
# A kernel that may choose is to preempt itself wherever it can.
echo full 2>/dev/null >/sys/kernel/debug/sched/preempt
echo '+io +memory +pids' >$CG/cgroup.subtree_control
mkdir -p $CG/{a/{in,own},b}
echo '+io +memory' >$CG/a/cgroup.subtree_control
echo '+io +memory' >$CG/a/in/cgroup.subtree_control
# The kernel is not to tell of each time that the cache is dropped.
echo 4 >/proc/sys/vm/drop_caches
modprobe testdisk queues=2 count=1 model=flat
modprobe cello

# ---- what goes on side by side, each until the storm is over
over() {
	sleep 0.01
	[[ -e /tmp/over ]]
}
one_of() { # one_of WORD...
	local words=("$@")
	echo "${words[RANDOM % $#]}"
}
put() { # put FILE VALUE: if it is there and takes it
	echo "$2" 2>/dev/null >"$1"
}
inside() { # inside CGROUP COMMAND...
	(echo "$BASHPID" 2>/dev/null >"$CG/$1/cgroup.procs" && "${@:2}")
}
switches() { # switches DISK
	until over; do
		put /sys/block/"$1"/queue/scheduler "$(one_of cello cello cello none mq-deadline bfq)"
		sleep "0.0$((RANDOM % 10))"
	done
}
looks() {
	until over; do
		# Not of other schedulers: from 6.16 on theirs may be looked at when they have gone, which the kernel does not survive.
		cat /sys/block/*/queue/iosched/* /sys/kernel/debug/block/*/sched/{scheduled,pending,groups,realtime} $DISKS/*/[a-z]* \
			$CG/{,a/,b/,a/*/}io.* /proc/diskstats
	done >/dev/null 2>&1
}
settings() {
	local set
	until over; do
		for set in /sys/block/{testdisk0,testdisk1}/queue/iosched; do
			put $set/round_us "$(one_of 1000 100000 500000)"
			put $set/in_flight "$(one_of 0 1 2 8 1024)"
			put $set/in_flight_us "$(one_of 0 1 2000 10000000)"
			put $set/deadline_ms "$(one_of 1 100 1000)"
			put $set/unclassified "$(one_of none interactive throughput realtime)"
			put "$set/weight_$(one_of interactive throughput realtime)" "$(one_of 0 1 100 10000)"
			put $set/../nr_requests "$(one_of 4 16 64)"
			put $set/../nomerges "$(one_of 0 0 0 1 2)"
		done
	done
}
weights() {
	local c
	until over; do
		for c in a b a/in a/own; do
			put $CG/$c/io.cello.weight "$(one_of default 1 100 10000)"
			put $CG/$c/io.weight "default $(one_of 1 100 10000)"
			put $CG/$c/io.bfq.weight "$(one_of 1 100 1000)"
			put $CG/$c/io.cello.class "$(one_of none interactive throughput realtime)"
		done
	done
}
# A cgroup that goes while its requests are still under way; deeper ones too.
cgroups() {
	local i=0 c
	until over; do
		c=a/in/go$((i++ % 4))
		mkdir -p "$CG/$c"
		inside "$c" dd if=/dev/zero of="/mnt/${c##*/}" bs=64k count=16 status=none 2>/dev/null &
		inside "$c" dd "if=/dev/testdisk$((RANDOM % 2))" of=/dev/null bs=4k count=16 skip=$RANDOM iflag=direct status=none 2>/dev/null
		wait $!
		until rmdir "$CG/$c" 2>/dev/null; do sleep 0.01; done
	done
}
loads() { # loads DISK FIO-OPTION...: until the storm is over; on with the next disk of that name when this one goes
	local dev=$1 class
	shift
	until over; do
		class=$(one_of interactive throughput realtime none)
		inside "$(one_of a/own b)" as_class "$class" fio --name=load --filename="/dev/$dev" --allow_file_create=0 --direct=1 \
			--time_based --runtime=2 --output-format=terse "$@"
	done >/dev/null 2>&1
}
files() {
	until over; do
		inside "$(one_of a/own b)" fio --name=files --directory=/mnt --rw=randwrite --bsrange=4k-64k --size=2m --fsync=16 --unlink=1 \
			--time_based --runtime=2 --output-format=terse
		fstrim /mnt
		echo 1 >/proc/sys/vm/drop_caches
	done >/dev/null 2>&1
}
# A second disk, which is pulled out again and again.
comes_and_goes() {
	until over; do
		put $DISKS/add "$(one_of turning flat parallel card)"
		put /sys/block/testdisk1/queue/scheduler "$(one_of cello cello bfq)"
		sleep "0.$((RANDOM % 5))"
		put $DISKS/testdisk1/remove 1
		sleep 0.1
	done
}
faults() { # faults DISK
	local kind
	until over; do
		kind=$(one_of error busy requeue)
		put "$DISKS/$1/${kind}_every" "$(one_of 0 2 3 7)"
		sleep 0.1
		put "$DISKS/$1/${kind}_every" 0
	done
}
modules() {
	until over; do
		modprobe -r bfq 2>/dev/null
		modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=100000 hw_queue_depth=16 submit_queues=2 gb=1 2>/dev/null
		put /sys/block/nullb0/queue/scheduler cello
		dd if=/dev/nullb0 of=/dev/null bs=4k count=64 iflag=direct status=none 2>/dev/null
		rmmod null_blk 2>/dev/null
		modprobe bfq
		rmmod cello 2>/dev/null && modprobe cello
	done
}

# storm NAME COMMAND-LINE...: all of them at once
storm() {
	local name=$1 line
	local -a programs=()
	shift
	rm -f /tmp/over
	for line; do
		# shellcheck disable=SC2086 # several words
		$line &
		programs+=($!)
	done
	sleep "$SECONDS_EACH"
	touch /tmp/over
	wait "${programs[@]}"
	[[ ! -e $DISKS/testdisk1 ]] || put $DISKS/testdisk1/remove 1
	for line in error busy requeue; do
		put "$FILES/${line}_every" 0
	done
	pass "$name"
}

scheduler cello
mkfs.ext4 -qF -J size=16 -E lazy_itable_init=0,lazy_journal_init=0 /dev/testdisk0 1g
mount /dev/testdisk0 /mnt
random='--rw=randread --bsrange=4k-64k --ioengine=libaio --iodepth=32 --offset=1g --size=1g'
merged='--rw=write --bs=4k --ioengine=io_uring --iodepth=32 --iodepth_batch=16 --offset=2g --size=64m'
sync='--rw=randrw --bs=4k --ioengine=psync --numjobs=2 --offset=3g --size=64m'
storm switched 'switches testdisk0' looks settings "loads testdisk0 $random" "loads testdisk0 $merged" files
storm cgroups cgroups weights looks "loads testdisk0 $random" "loads testdisk0 $sync" files
storm gone comes_and_goes 'switches testdisk1' looks settings "loads testdisk1 $random" "loads testdisk1 $merged" cgroups
storm modules modules weights 'switches testdisk0' "loads testdisk0 $merged" "loads testdisk1 $sync" comes_and_goes
umount /mnt
check clean fsck.ext4 -fn /dev/testdisk0
storm faults 'faults testdisk0' 'faults testdisk1' 'switches testdisk0' "loads testdisk0 $random" "loads testdisk0 $sync" comes_and_goes looks

# ---- memory is refused, at the first place where it is asked for, then the second, and so on
scheduler cello
if [[ -e /proc/self/fail-nth ]]; then
	echo N >/sys/kernel/debug/failslab/ignore-gfp-wait
	echo 0 >/sys/kernel/debug/failslab/verbose
	python3 $LIB/disk-refuse.py
	equal refused-memory $? 0
fi

# ---- nothing stays behind
scheduler cello
check works verified --rw=randrw --bs=4k --size=1m
equal nobody-waits "$(waiting)" 0
scheduler none
rmdir $CG/a/{in,own} $CG/{a,b}
check no-module rmmod cello
check no-disk rmmod testdisk
leaks=/sys/kernel/debug/kmemleak
if [[ -e $leaks ]] && echo scan 2>/dev/null >$leaks; then
	sleep 6
	echo scan >$leaks
	equal no-leaks "$(grep -E 'cello|testdisk' $leaks | sort | uniq -c)" ''
fi
finish
