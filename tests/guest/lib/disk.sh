# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What the tests of disks share, after cli.sh: a disk in memory, and Cello's attributes.

DEV=testdisk0
readonly SYS=/sys/block/$DEV/queue

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

# attribute NAME: its value
attribute() {
	cat $SYS/iosched/"$1"
}

# The scheduler in force.
scheduler() {
	sed 's/.*\[\(.*\)\].*/\1/' $SYS/scheduler
}

# Everything about disks that a refused command must leave as it was. As few programs as can be: it is
# asked often.
disk_state() {
	grep -so '\[.*\]' /sys/block/*/queue/scheduler
	grep -s . /sys/block/*/queue/{nr_requests,wbt_lat_usec} \
		/sys/block/*/queue/iosched/{round_us,weight_*,in_flight,in_flight_us,deadline_ms,read_expire} /run/qlinux/disk/*
	grep -rs . $CG --include=io.cello.class --include=io.cello.weight --include=cgroup.subtree_control | LC_ALL=C sort
}

# refuses NAME STATUS REGEX COMMAND...: as refused() of cli.sh, for disks.
refuses() {
	local name=$1 status=$2 like=$3 before after said found=0
	shift 3
	before=$(disk_state)
	said=$("$@" 2>&1 >/dev/null) || found=$?
	after=$(disk_state)
	if [[ $found != "$status" ]]; then
		fail "$name" "status $found instead of $status: $said"
	elif [[ $said == *$'\n'* || ! $said =~ $like ]]; then
		fail "$name" "said '$said'"
	elif [[ $before != "$after" ]]; then
		fail "$name" "changed something: $(diff <(echo "$before") <(echo "$after"))"
	else
		pass "$name"
	fi
}

# reads N COMMAND...: that many requests of 4 KB from places not read before, by COMMAND... dd
place=0
reads() {
	local n=$1
	shift
	"$@" dd if=/dev/$DEV of=/dev/null bs=4k count="$n" skip=$place iflag=direct status=none
	place=$((place + n))
}
