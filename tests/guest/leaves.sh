#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: leaves
# description: inside a class: sfq by thread weight, ts by nice, rr in equal turns, fifo one after the other; sched_yield()
# cpus: 1
# prepare: qlinux up cpu
# kernels-long: cpu rt
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

exec_ns() { # service of a thread so far
	awk '{ print $1 }' "/proc/$1/schedstat"
}
# two CLASS COMMAND...: two busy programs in the class; their ids are in a and b
two() {
	qlinux run "$1" -- sh -c 'while :; do :; done' &
	a=$!
	sleep 0.2
	qlinux run "$1" -- sh -c 'while :; do :; done' &
	b=$!
	sleep 0.5
}
# ratio SECONDS: of what b got to what a got
ratio() {
	local a0 b0
	a0=$(exec_ns $a) b0=$(exec_ns $b)
	sleep "$1"
	awk -v a=$(($(exec_ns $a) - a0)) -v b=$(($(exec_ns $b) - b0)) 'BEGIN { printf "%.3f", a ? b / a : 999 }'
}
# within NAME FOUND LOW HIGH
within() {
	check "$1: $2" awk -v x="$2" -v l="$3" -v h="$4" 'BEGIN { exit !(x >= l && x <= h) }'
}
stop() {
	kill $a $b
	wait $a $b 2>/dev/null
}

for leaf in sfq ts rr fifo; do
	check "add-$leaf" qlinux class add /$leaf --leaf $leaf
done

two /sfq
check weight-a qlinux class set /sfq --thread $a --weight 5
check weight-b qlinux class set /sfq --thread $b --weight 10
within sfq-5:10 "$(ratio 4)" 1.98 2.02
check weight-nice qlinux class set /sfq --thread $b --weight nice
within sfq-5:100 "$(ratio 4)" 19 21
stop

if [[ -z $BRIEF ]]; then
	two /ts
	within ts-equal "$(ratio 4)" 0.98 1.02
	renice -n 5 $b >/dev/null
	within ts-nice-5 "$(ratio 4)" 0.31 0.35
	stop

	two /rr
	within rr-equal "$(ratio 4)" 0.98 1.02
	stop
fi

two /fifo
within fifo-first "$(ratio 2)" 0 0.001
check becomes-sfq qlinux class set /fifo --leaf sfq
sleep 0.2
within fifo-made-sfq "$(ratio 2)" 0.97 1.03
stop

# yielding CLASS: a is busy, b only asks whether somebody else wants the processor
yielding() {
	qlinux run "$1" -- sh -c 'while :; do :; done' &
	a=$!
	sleep 0.2
	rm -f /tmp/yields
	qlinux run "$1" -- python3 -c 'import os
open("/tmp/yields", "w")
while True: os.sched_yield()' &
	b=$!
	until [[ -e /tmp/yields ]]; do sleep 0.1; done
	sleep 0.2
}

for leaf in ts rr; do
	yielding /$leaf
	within $leaf-yields "$(ratio 2)" 0 0.03
	stop
done
check down qlinux down cpu
finish
