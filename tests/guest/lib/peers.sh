# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What tests share that hold Cello against the schedulers that come with the kernel, on any disk.

modprobe -a mq-deadline bfq null_blk cello
rmmod null_blk # it made a device of its own

# requests_for DEV, which Cello has: how many `qlinux up disk` has the kernel keep for it
requests_for() {
	local queues=$(($(<"/sys/block/$1/queue/iosched/tags") / $(<"/sys/block/$1/queue/nr_requests")))
	local each=$((1024 / queues))
	if (($(<"/sys/block/$1/queue/rotational") || each < 128)); then
		each=128
	elif ((each > 512)); then
		each=512
	fi
	echo $each
}

# under DEV SCHEDULER: is in force, with as many requests as `qlinux up disk` gives it
under() {
	echo "$2" >/sys/block/"$1"/queue/scheduler || fail "under-$2" "$1 does not take it"
	[[ $2 != cello ]] || requests_for "$1" >/sys/block/"$1"/queue/nr_requests
}

# rate DEV SECONDS [FIELD]: reads completed in that time, or what else that field of its account counts (2:
# sectors read). To start a program takes a hundredth of a second here and more, so the clock is read with
# the number.
rate() {
	local -a before after
	local from to
	from=${EPOCHREALTIME/./}
	read -ra before </sys/block/"$1"/stat
	sleep "$2"
	to=${EPOCHREALTIME/./}
	read -ra after </sys/block/"$1"/stat
	echo $(((after[${3:-0}] - before[${3:-0}]) * $2 * 1000000 / (to - from)))
}

quit() {
	pkill fio
	wait
}

# One that serves MANY at a time, each of them in so many us; needs sd_mod.
device() { # device KIND US MANY: loads it, tells its name
	case $1 in
	null_blk)
		modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=$(($2 * 1000)) hw_queue_depth="$3" submit_queues=1 gb=16
		echo nullb0
		;;
	scsi_debug)
		modprobe scsi_debug max_queue="$3" ndelay=$(($2 * 1000)) delay=0 fake_rw=1 virtual_gb=16 dev_size_mb=8
		until compgen -G '/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*' >/dev/null; do sleep 0.1; done
		basename /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*
		;;
	esac
}
