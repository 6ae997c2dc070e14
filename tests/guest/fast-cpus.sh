#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: fast-cpus
# description: threads that wake are served on fast processors as long as one is idle, and on the others then; who works on and on goes there
# only: long
# cpus: 4
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

used() { awk -v cpus="^cpu$1$" '$1 ~ cpus { n += $2 + $3 + $4 } END { print n }' /proc/stat; }
# share CPUS: of all ticks in which processors were used in two seconds, how many percent were of these
share() {
	local fast all
	fast=$(used "[$1]") all=$(used '[0-9]')
	sleep 2
	echo $((100 * ($(used "[$1]") - fast) / ($(used '[0-9]') - all + 1)))
}
pids=()
start() { # start N: threads that work for 2 ms of every 5 ms
	local i
	for ((i = 0; i < $1; i++)); do
		qlinux-work sleeper --run 2ms --period 4ms --vary 2ms --counter "/tmp/counter$RANDOM$RANDOM" >/dev/null 2>&1 &
		pids+=($!)
	done
	sleep 0.5
}
# busy CPUS: a thread that works on and on, on the first of these that is slow; then it may be on all
busy() {
	local cpu
	for cpu in 0 1 2 3; do
		[[ $1 == *$cpu* ]] || break
	done
	taskset -c "$cpu" qlinux-work inf --counter "/tmp/counter$RANDOM$RANDOM" >/dev/null 2>&1 &
	pids+=($!)
	sleep 0.3
	taskset -acp 0-3 $! >/dev/null
	sleep 0.3
}
end() {
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	pids=()
}

refused "no list" 2 "no list of processors" qlinux up cpu --fast-cpus 2-9
for at in $(times '0,3:2' '0,1:1 2,3:1 0,3:2 2,3:2'); do
	fast=${at%:*} domains=${at#*:}
	check "up, $fast are fast, $domains domains" qlinux up cpu --fast-cpus "$fast" --domains "$domains"
	start 2
	part=$(share "$fast")
	check "two threads are where it is fast: $part %" test "$part" -ge 90
	end
	start 4
	part=$(share "$fast")
	check "four use the slow ones as well: $part %" test "$part" -le 85
	end
	busy "$fast"
	part=$(share "$fast")
	check "who began on a slow one and works on and on goes to a fast one: $part %" test "$part" -ge 90
	end
	check down qlinux down cpu
done
finish
