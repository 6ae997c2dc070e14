#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lending
# description: who holds a lock is served with the weight of those who wait for it, in chains and across classes, and gives it back
# cpus: 1
# minutes: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

# served PID SECONDS: its service in about that time, in thousandths of the time
# (this script and its programs take some of it)
served() {
	local from to first last
	from=${EPOCHREALTIME/./}
	read -r first _ <"/proc/$1/schedstat"
	sleep "$2"
	to=${EPOCHREALTIME/./}
	read -r last _ <"/proc/$1/schedstat"
	echo $(((last - first) / (to - from)))
}
within() { # NAME FOUND LOW HIGH
	check "$1: $2" test "$2" -ge "$3" -a "$2" -le "$4"
}
loans() {
	qlinux status --json | tr -d ' \n' | sed -n "s/.*\"lending\":{[^}]*\"$1\":\([0-9]*\).*/\1/p"
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
busy() { # CLASS N
	qlinux run "$1" -- qlinux-work threads "$2" --counter "/dev/shm/count.$RANDOM$RANDOM" &
}
stop() {
	kill -CONT "$@" 2>/dev/null
	kill -KILL "$@"
	wait "$@" 2>/dev/null
	rm -f /dev/shm/{a,b,count.*}
}

check up qlinux up cpu
check light qlinux class add /light --leaf sfq --weight 1
check heavy qlinux class add /heavy --leaf sfq --weight 99
check other qlinux class add /other --leaf sfq --weight 100

# A holder that never lets go, in a class of weight 1 with ten busy threads. Of a
# second it gets 1/11 of 1/101 by itself: /heavy wants nothing.
for kind in "" --inherit --robust; do
	lock /light a -- --hold 1000s $kind
	holder=$!
	sleep 0.1
	busy /light 10
	first=$!
	busy /other 1
	second=$!
	sleep 0.5
	within "alone$kind" "$(served $holder 2)" 0 6
	# The waiter's class is due 99/200.
	lock /heavy a -- --hold 1ms
	waiter=$!
	sleep 0.3
	within "lent$kind" "$(served $holder 2)" 485 500
	# /other keeps its own.
	within "other$kind" "$(served $second 2)" 490 505
	# A waiter that is killed takes it back.
	kill -KILL $waiter
	sleep 0.1
	within "returned$kind" "$(served $holder 2)" 0 6
	stop $holder $first $second $waiter
done

# Through a chain of three: /heavy waits for b, whose holder waits for a.
lock /light a -- --hold 1000s
holder=$!
lock /light b a -- --hold 1ms
middle=$!
lock /heavy b -- --hold 1ms
waiter=$!
busy /light 10
first=$!
busy /other 1
second=$!
sleep 0.5
within chain "$(served $holder 2)" 485 500
check chained test "$(loans chained)" -ge 1
# The one in the middle goes, and with it what came through it.
kill -KILL $middle
sleep 0.3
within chain-broken "$(served $holder 2)" 0 6
stop $holder $middle $waiter $first $second

# In one class: 1 + 100 of 1 + 100 + 100, when the waiter moves away 1 of 101.
check one qlinux class add /one --leaf sfq
lock /one a -- --hold 1000s
holder=$!
sleep 0.1
lock /one a -- --hold 1ms
waiter=$!
busy /one 1
first=$!
sleep 0.3
check weight qlinux class set /one --thread $holder --weight 1
sleep 0.3
within one-class "$(served $holder 2)" 493 508
check weight-of-waiter qlinux class set /one --thread $waiter --weight 300
sleep 0.3
within one-class-heavier "$(served $holder 2)" 740 755
# The holder is killed: a mutex that is not robust stays locked, nobody is left to lend to.
stop $holder
within nothing-left "$(served $first 1)" 985 1001
stop $waiter $first

check balanced test "$(loans loans)" -eq "$(loans returned)"
check down qlinux down cpu
check up-without qlinux up cpu --no-lending
like said "$(qlinux status)" 'no weight is lent'
check down-again qlinux down cpu
finish
