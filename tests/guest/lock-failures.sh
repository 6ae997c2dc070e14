#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lock-failures
# description: the tree's lock is not to be had again and again: nothing is lost, shares stay, the scheduler goes on
# only: long
# cpus: 4
# minutes: 4
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

# Once a second in the long run; the usual one makes as many failures in less time.
check up qlinux up cpu --fail-lock "$(times 0.1 1)"
make_class a
make_class b
make_class b/x
make_class b/y
make_class short
echo 200 >$CG/b/cpu.weight
echo 300 >$CG/b/y/cpu.weight
for class in a b/x b/y; do busy $class 4; done
# Threads that wake, sleep, come and go meet the failures in all other places.
(
	echo $BASHPID >$CG/short/cgroup.procs
	while :; do hackbench -g1 -l20 >/dev/null && taskset -c 2 true && sleep 0.01; done
) 2>/dev/null &
disown

use "$(times 6 60)" a b/x b/y
near one-third "$(of a a b/x b/y)" 0.33333 2
near one-sixth "$(of b/x a b/x b/y)" 0.16667 2
near one-half "$(of b/y a b/x b/y)" 0.5 2
before=$(awk '/^usage_usec/ { print $2 }' $CG/short/cpu.stat)
sleep 1
check goes-on test "$(awk '/^usage_usec/ { print $2 }' $CG/short/cpu.stat)" -gt "$before"
# A thread that never ends its quantum by itself is seen by whoever wakes on its CPU, on each of them.
for cpu in 0 1 2 3; do
	check "wakes-$cpu" timeout 10 taskset -c $cpu sleep 0.01
done
like counted "$(qlinux status)" ' [0-9]+ lock failures'
like up "$(qlinux status)" 'H-SFQ schedules'
for class in short b/x b/y a; do echo 1 >$CG/$class/cgroup.kill; done
sleep 0.5
check removed rmdir $CG/short $CG/b/x $CG/b/y $CG/b $CG/a
check down qlinux down cpu
finish
