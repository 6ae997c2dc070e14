# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What tests share that hold Cello against the schedulers that come with the kernel, on any disk.

modprobe -a mq-deadline bfq null_blk cello
rmmod null_blk # it made a device of its own

requests_for() {
	local -a queues=(/sys/block/"$1"/mq/*)
	local each=$((1024 / ${#queues[@]}))
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
