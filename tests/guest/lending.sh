#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lending
# description: who holds a lock is served with the weight of those who wait for it, in chains and across classes, and gives it back
# cpus: 1
# minutes: 1
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/lending.sh
. /usr/lib/qlinux/tests/guest/lib/lending.sh

within() { # NAME FOUND LOW HIGH
	check "$1: $2" test "$2" -ge "$3" -a "$2" -le "$4"
}
loans() {
	qlinux status --json | tr -d ' \n' | sed -n "s/.*\"lending\":{[^}]*\"$1\":\([0-9]*\).*/\1/p"
}
busy() { # CLASS N
	qlinux run "$1" -- qlinux-work threads "$2" --counter "/dev/shm/count.$RANDOM$RANDOM" &
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
	within "alone$kind" "$(served $holder 4)" 0 25
	# The waiter's class is due 99/200, and /other 100/200.
	lock /heavy a -- --hold 1ms
	waiter=$!
	sleep 0.3
	within "lent$kind" "$(part $holder $second 2)" 4925 5025
	# /other keeps its own.
	within "other$kind" "$(served $second 2)" 4950 5050
	# A waiter that is killed takes it back.
	kill -KILL $waiter
	sleep 0.1
	within "returned$kind" "$(served $holder 2)" 0 40
	stop $holder $first $second $waiter
done

# Through a chain of three: /heavy waits for b, whose holder waits for a. The ten are all there
# before: with a hundredth of the processor it would take them seconds to start.
busy /light 10
first=$!
until [[ $(compgen -G "/proc/$first/task/*" | wc -l) -ge 10 ]]; do sleep 0.1; done
lock /light a -- --hold 1000s
holder=$!
lock /light b a -- --hold 1ms
middle=$!
lock /heavy b -- --hold 1ms
waiter=$!
busy /other 1
second=$!
sleep 0.5
within chain "$(part $holder $second 2)" 4925 5025
check chained test "$(loans chained)" -ge 1
# The one in the middle goes, and with it what came through it.
kill -KILL $middle
sleep 0.3
within chain-broken "$(served $holder 2)" 0 40
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
within one-class "$(part $holder $first 2)" 5000 5050
check weight-of-waiter qlinux class set /one --thread $waiter --weight 300
sleep 0.3
within one-class-heavier "$(part $holder $first 2)" 7470 7540
# The holder is killed: a mutex that is not robust stays locked, nobody is left to lend to.
stop $holder
within nothing-left "$(served $first 1)" 9900 10010
stop $waiter $first

check balanced test "$(loans loans)" -eq "$(loans returned)"
check down qlinux down cpu
check up-without qlinux up cpu --no-lending
like said "$(qlinux status)" 'no weight is lent'
check down-again qlinux down cpu
finish
