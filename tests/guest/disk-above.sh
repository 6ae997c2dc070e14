#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-above
# description: what lies above a disk under Cello - file systems, dm-linear, dm-crypt, MD, loop, swap - keeps its data and its classes, and who names it is told which disk to name
# only: long
# cpus: 2
# minutes: 3
# kernels-long: disk
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh

modprobe testdisk model=flat count=0
modprobe -a cello dm-mod dm-crypt raid1 loop xfs btrfs
echo '+io +memory' >$CG/cgroup.subtree_control
mkdir -p $CG/film
echo realtime >$CG/film/io.cello.class

anew() { # a disk under Cello
	[[ -e $FILES ]] || echo flat >/sys/kernel/debug/testdisk/add
	until [[ -e $QUEUE/scheduler ]]; do sleep 0.02; done
	scheduler cello
	echo 128 >$QUEUE/nr_requests
	echo none >$QUEUE/iosched/unclassified
}

files() { # files DIRECTORY FIO-OPTION...: the same ones each time
	fio --name=files --directory="$1" --rw=randwrite --bsrange=4k-64k --size=8m --numjobs=2 --randseed=5 --verify=crc32c --verify_fatal=1 \
		--verify_state_save=0 --output-format=terse "${@:2}" >/dev/null
}

# film COMMAND...: in the cgroup
film() {
	(echo "$BASHPID" >$CG/film/cgroup.procs && "$@")
}

classed() { # classed NAME BEFORE: requests have gone by the class since
	check "$1" test $(($(cat $IOSCHED/realtime_requests) - $2)) -gt 16
}

# kept NAME DEV KIND OPTIONS: files written past the page cache, and through it with little memory, are what they were
kept() {
	local name=$1 before
	check "$name-mount" mount -t "$3" -o "$4" "$2" /mnt
	mkdir -p /mnt/direct /mnt/buffered
	before=$(cat $IOSCHED/realtime_requests)
	check "$name-direct" film files /mnt/direct --direct=1 --ioengine=libaio --iodepth=16 --end_fsync=1
	classed "$name-direct-classed" "$before"
	before=$(cat $IOSCHED/realtime_requests)
	echo 48M >$CG/film/memory.max
	check "$name-buffered" film files /mnt/buffered --ioengine=psync --end_fsync=1
	echo max >$CG/film/memory.max
	classed "$name-buffered-classed" "$before"
	check "$name-unmount" umount /mnt
	check "$name-mount-again" mount -t "$3" -o "$4" "$2" /mnt
	check "$name-direct-kept" files /mnt/direct --verify_only
	check "$name-buffered-kept" files /mnt/buffered --verify_only
	check "$name-unmount-again" umount /mnt
	equal "$name-nobody-waits" "$(waiting)" 0
}

# told NAME DEV: it is refused, with the disk to name instead
told() {
	like "$1-refused" "$(qlinux up disk "$2" 2>&1)" 'has no I/O scheduler, because it passes requests on to testdisk0: name the disks below it'
}

# ---- file systems, and the disk goes while files are written
for kind in $(times ext4 'ext4 xfs btrfs'); do
	anew
	case $kind in
	ext4) options=(-q -F -J size=16) test=(fsck.ext4 -fn) ;;
	xfs) options=(-q -f) test=(xfs_repair -n) ;;
	btrfs) options=(-q -f) test=(btrfs check) ;;
	esac
	"mkfs.$kind" "${options[@]}" /dev/testdisk0
	kept $kind /dev/testdisk0 $kind noatime
	check $kind-clean "${test[@]}" /dev/testdisk0
	mount -t $kind /dev/testdisk0 /mnt
	mkdir -p /mnt/gone
	film files /mnt/gone --ioengine=psync --time_based --runtime=1000 2>/dev/null &
	sleep 1
	pull
	wait
	check $kind-gone umount /mnt
done

# ---- devices that pass requests on
mapped() { # mapped TABLE: by device mapper; its device
	dmsetup --noudevsync create above --table "$1" && echo "/dev/dm-$(dmsetup info -c --noheadings -o minor above)"
}

above() { # above NAME DEV
	told "$1" "$2"
	mkfs.ext4 -qF -J size=16 "$2" 1g
	kept "$1" "$2" ext4 noatime
}

anew
sectors=$(blockdev --getsz /dev/testdisk0)
above linear "$(mapped "0 $((sectors - 2048)) linear /dev/testdisk0 2048")"
dmsetup --noudevsync remove above
for _ in $(times '' once); do
	above crypt "$(mapped "0 $sectors crypt aes-xts-plain64 $(printf '%064d' 1) 0 /dev/testdisk0 0")"
	dmsetup --noudevsync remove above
	mdadm --build /dev/md0 --quiet --level=1 --raid-devices=2 /dev/testdisk0 missing
	above raid /dev/md0
	mdadm --stop --quiet /dev/md0

	mkfs.ext4 -qF -J size=16 /dev/testdisk0 1g
	mkdir -p /tmp/below
	mount /dev/testdisk0 /tmp/below
	truncate -s 256M /tmp/below/image
	loop=$(losetup --direct-io=on -f --show /tmp/below/image)
	mkfs.ext4 -qF -J size=16 "$loop"
	kept loop "$loop" ext4 noatime
	losetup -d "$loop"
	umount /tmp/below
done

# ---- memory that goes to the disk
mkswap -q /dev/testdisk0 >/dev/null
swapon /dev/testdisk0
before=$(cat $IOSCHED/realtime_requests)
echo "$(times 16 32)M" >$CG/film/memory.max
check swap film python3 -c 'page = lambda i: i.to_bytes(8, "little") * 512
pages = [page(i) for i in range('"$(times 8192 24576)"')]
assert all(pages[i] == page(i) for i in range(len(pages)))'
classed swap-classed "$before"
swapoff /dev/testdisk0
check unload rmmod testdisk
finish
