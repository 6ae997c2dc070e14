#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-storm
# description: a disk under Cello while everything changes, fails and goes: no data is lost, each error is told once, nothing stays behind
# cpus: 2
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
client() { # client CGROUP FIO-OPTION...
	local cgroup=$1 rounds=0 said
	shift
	said=$(mktemp)
	echo "$BASHPID" >"$CG/$cgroup/cgroup.procs"
	until [[ -e /tmp/stop ]]; do
		if ! fio --name="file$BASHPID" --directory=/mnt --verify=crc32c --verify_state_save=0 --verify_fatal=1 \
			--randseed=$((++rounds)) "$@" >"$said" 2>&1; then
			cat "$said"
			return 1
		fi
	done
	[[ $rounds -gt 1 ]]
}
clients() { # clients SIZE: of their files
	local direct='--direct=1 --ioengine=libaio --iodepth=16'
	# shellcheck disable=SC2086 # several words
	{
		client a/in $direct --rw=randrw --bsrange=4k-64k --size="$1" &
		client a/in --rw=randwrite --bs=4k --fsync=32 --fallocate=none --size="$1" &
		client b --direct=1 --rw=randrw --bs=4k --ioengine=psync --numjobs=2 --size="$1" &
		client c $direct --rw=write --bs=128k --size=4m &
		client c --rw=readwrite --bs=64k --end_fsync=1 --size="$1" &
	}
}
storm() { # storm MODEL SIZE SWITCHES SEED
	local served i
	local -a programs
	rm -f /tmp/stop
	echo "$1" >/sys/kernel/debug/testdisk/add
	scheduler cello
	mkfs.ext4 -qF -J size=16 /dev/testdisk0 2g
	mount /dev/testdisk0 /mnt
	clients "$2"
	mapfile -t programs < <(jobs -p)
	served=$(python3 /usr/lib/qlinux/tests/guest/lib/disk-storm.py "$3" "$4" $CG/{a/in,b,c})
	equal "storm-$1" $? 0
	echo "$served requests were served by Cello"
	check "served-$1" test "$served" -gt 500
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
storm turning 256k "$(times 30 500)" "${2:-1}"
storm flat 2m "$(times 30 500)" "${2:-2}"
finish
