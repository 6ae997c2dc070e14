# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# Threads that hold mutexes and wait for them, and what each is served.

# served PID SECONDS: its service in about that time, in ten-thousandths of the time
# (this script and its programs take some of it)
served() {
	local from to first last
	from=${EPOCHREALTIME/./}
	read -r first _ <"/proc/$1/schedstat"
	sleep "$2"
	to=${EPOCHREALTIME/./}
	read -r last _ <"/proc/$1/schedstat"
	echo $(((last - first) / 100 * 1000 / (to - from)))
}
# part PID OTHER SECONDS: of what both are served in that time the first one's, in ten-thousandths
part() {
	local of_one of_other one other
	read -r of_one _ <"/proc/$1/schedstat"
	read -r of_other _ <"/proc/$2/schedstat"
	sleep "$3"
	read -r one _ <"/proc/$1/schedstat"
	read -r other _ <"/proc/$2/schedstat"
	one=$((one - of_one)) other=$((other - of_other))
	echo $((one * 10000 / (one + other)))
}
# lock CLASS MUTEX... -- OPTIONS: its process id is in $!
# Returns when it has all of them or waits in the kernel.
lock() {
	local class=$1 take=() counter=/dev/shm/count.$RANDOM$RANDOM
	shift
	while [[ $1 != -- ]]; do
		take+=(--take "/dev/shm/$1")
		shift
	done
	shift
	qlinux run "$class" -- qlinux-work lock --counter "$counter" "${take[@]}" "$@" &
	until [[ -e $counter ]]; do sleep 0.05; done
	sleep 0.2
}
stop() {
	kill -CONT "$@" 2>/dev/null
	kill -KILL "$@"
	wait "$@" 2>/dev/null
	rm -f /dev/shm/{a,b,count.*}
}
