#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: reserve
# description: reservations under edf and rm: admission with numbers, no deadline missed beside others, overload harms nobody else
# cpus: 1
# timeout: 1800
# minutes: 1
# prepare: qlinux up cpu
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

# works RUN PERIOD RESERVATION: a periodic program with a reservation in /rt; its id is in $!
works() {
	qlinux run /rt --reserve "$3" -- qlinux-work rounds --run "$1" --period "$2" --counter "/tmp/rounds$1" &
}
misses() { # of all threads of /rt
	qlinux class show /rt --json | awk -F: '/"misses"/ { gsub(/[^0-9]/, "", $2); print $2 }'
}
received() { # CLASS: processors it gets in 5 s
	qlinux class show "$1" --interval 5 --json | awk -F: '/"received_cpus"/ { gsub(/[ ,]/, "", $2); print $2 }'
}
within() { # NAME FOUND LOW HIGH
	check "$1: $2" awk -v x="$2" -v l="$3" -v h="$4" 'BEGIN { exit !(x >= l && x <= h) }'
}

check add-rt qlinux class add /rt --weight 300 --leaf edf
check add-busy qlinux class add /busy --weight 100 --leaf sfq
qlinux run /busy -- qlinux-work inf --threads 20 --counter /tmp/busy &
busy=$!
qlinux run /bomb --weight 100 -- qlinux-work forkstorm --threads 8 --counter /tmp/bomb &
bomb=$!

# What does not fit is refused, changes nothing, and tells the numbers.
refused=$(qlinux run /rt --reserve 40ms/60ms -- true 2>&1)
equal refused-status $? 1
check refused-says grep -q 'does not fit into class /rt: its share is [0-9.]* % of a CPU' <<<"$refused"
qlinux run /busy --reserve 1ms/60ms -- true 2>/tmp/refused
equal wrong-leaf-status $? 1
check wrong-leaf-says grep -q 'leaf scheduler sfq knows none' /tmp/refused
qlinux reserve $$ 5ms 2>/dev/null
equal usage-status $? 2

works 10ms 60ms 10300us/60ms
a=$!
works 150ms 960ms 152ms/960ms
b=$!
sleep 1
check shown grep -q '10.3ms/60ms' <<<"$(qlinux class show /rt --threads)"
check fits qlinux reserve --dry-run $a 11ms/60ms
sleep 10
equal edf-misses "$(misses)" 0
check becomes-rm qlinux class set /rt --leaf rm
sleep 10
equal rm-misses "$(misses)" 0

# An overcommitted class misses its own deadlines and takes nothing from others.
qlinux run /rt --reserve 55ms/60ms --force -- qlinux-work inf --counter /tmp/hog &
hog=$!
sleep 1
within others-keep-their-share "$(received /busy)" 0.197 0.203
check overload-missed test "$(misses)" -gt 0
check becomes-edf qlinux class set /rt --leaf edf
sleep 3
before=$(misses)
sleep 6
# The hog hurts itself first: the two keep their deadlines under edf.
check hog-misses test "$(misses)" -ge "$before"
check remove qlinux reserve --remove $hog
kill $a $b $hog $busy $bomb
wait 2>/dev/null

# svr4: real time before the others, and back.
check svr4 qlinux class add /desk --leaf svr4
qlinux run /desk -- sh -c 'while :; do :; done' &
a=$!
qlinux run /desk -- sh -c 'while :; do :; done' &
b=$!
sleep 1
exec_ns() { awk '{ print $1 }' "/proc/$1/schedstat"; }
check rt qlinux class set /desk --thread $a --priority rt:10
sleep 0.1
was=$(exec_ns $b)
sleep 2
equal rt-goes-first "$(($(exec_ns $b) - was))" 0
check ts-again qlinux class set /desk --thread $a --priority ts
sleep 3
check ts-shares test "$(($(exec_ns $b) - was))" -gt 1000000000
kill $a $b
wait 2>/dev/null
check down qlinux down cpu
finish
