# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What tests share that use the test disk testdisk0: its record and its faults
# (kernel/testdisk), and programs that read and write.

readonly QUEUE=/sys/block/testdisk0/queue FILES=/sys/kernel/debug/testdisk/testdisk0

modprobe -a mq-deadline bfq 2>/dev/null

scheduler() {
	echo "$1" >$QUEUE/scheduler
}

record() {
	cat $FILES/record
}

forget() {
	echo 1 >$FILES/record
}

fault() { # fault NAME: a number of its files
	cat "$FILES/$1"
}

set_fault() { # set_fault NAME N
	echo "$2" >"$FILES/$1"
}

# replayed SHAPE: the record is what the disk of the simulations does, to the nanosecond
replayed() {
	record | /usr/lib/qlinux/tests/bin/disk-replay "$1"
}

# How many of each kind the record has.
sorts() {
	record | awk '{ n[$3]++ } END { print "d" n["d"] + 0, "f" n["f"] + 0, "r" n["r"] + 0, "w" n["w"] + 0 }'
}

in_flight() {
	awk '{ print $1 + $2 }' /sys/block/testdisk0/inflight
}

# The disk is pulled out; back when it is gone.
pull() {
	set_fault remove 1
	while [[ -e $FILES || -e /sys/block/testdisk0 ]]; do sleep 0.02; done
}

inside() { # inside CGROUP COMMAND...
	# shellcheck disable=SC2016 # expanded inside
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CG/$1" "${@:2}"
}

# away MODEL: Cello was on the disk until now, which goes
away() {
	check "$1-under-cello" grep -q '\[cello\]' $QUEUE/scheduler
	scheduler none
	pull
	modprobe -r testdisk
}

# Who comes when the disk is gone makes no file of its name: the next disk would not be seen behind it.
load() { # load FIO-OPTION...
	fio --name=load --filename=/dev/testdisk0 --allow_file_create=0 --direct=1 --ioengine=libaio --iodepth=16 --randseed=7 --output-format=terse "$@" >/dev/null
}

# It ends with the disk.
load_on() {
	load --rw=randrw --bs=4k --size=1g --time_based --runtime=1000 --iodepth=32
}

verified() { # verified FIO-OPTION...
	load --verify=crc32c --verify_state_save=0 --verify_fatal=1 "$@"
}

# A file system, its files and its own opinion of itself.
file_system() {
	mkfs.ext4 -qF /dev/testdisk0 1g && mount /dev/testdisk0 /mnt || return
	cp -r /etc /mnt/ && umount /mnt && fsck.ext4 -fn /dev/testdisk0 && mount /dev/testdisk0 /mnt &&
		diff -r --no-dereference /etc /mnt/etc && umount /mnt
}

# reads N: reads one after the other; how often each result was had
reads() {
	python3 - "$1" <<-'EOF'
		import collections, errno, mmap, os, sys
		disk, page = os.open("/dev/testdisk0", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
		seen = collections.Counter()
		for i in range(int(sys.argv[1])):
		    try:
		        os.preadv(disk, [page], i * 4096)
		        seen["ok"] += 1
		    except OSError as error:
		        seen[errno.errorcode[error.errno]] += 1
		print(*(f"{name} {seen[name]}" for name in sorted(seen)))
	EOF
}

# together N: as many programs read at once; results as of reads
together() {
	local i
	for ((i = 0; i < $1; i++)); do
		reads 1 &
	done | sort | uniq -c | awk '{ printf "%s%s %d", space, $2, $1 * $3; space = " " }'
}

# ---- under Cello

readonly IOSCHED=$QUEUE/iosched

# as_class CLASS COMMAND...: in that class by its process's I/O priority (core/disk/cello_hint.h); none: in no class
as_class() {
	(
		python3 - "$BASHPID" "$1" <<-'EOF' && "${@:2}"
			import ctypes, os, sys
			hint = 0x200 | ["interactive", "throughput", "realtime", "none"].index(sys.argv[2]) << 6
			if ctypes.CDLL(None, use_errno=True).syscall(251, 1, int(sys.argv[1]), 2 << 13 | hint << 3 | 4):
			    sys.exit(f"ioprio_set: {os.strerror(ctypes.get_errno())}")
		EOF
	)
}

# What Cello served and let pass since it took the disk over.
passed() {
	cat $IOSCHED/{{interactive,throughput,realtime}_requests,bypassed} | awk '{ sum += $1 } END { print sum }'
}

# Requests that it has now.
waiting() {
	cat $IOSCHED/{interactive,throughput,realtime}_waiting | awk '{ sum += $1 } END { print sum }'
}
