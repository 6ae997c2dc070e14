#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cpu-max
# description: cpu.max and its burst at every level on one CPU, and everything that may happen to a class that is held
# minutes: 1
# kernels-long: cpu-max
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

echo +cpu >$CG/cgroup.subtree_control
# One that has its limit when the scheduler comes.
make_class early "20000 100000"
busy early
check up qlinux up cpu
use 4 early
near max-20 "${used[early]}" 0.2
make_class free
busy free
make_class outer "40000 100000"
make_class outer/inner "20000 100000"
busy outer/inner 3
use 4 early outer free
near max-20-beside-others "${used[early]}" 0.2
near nested-50-of-40 "${used[outer]}" 0.2
near the-rest "${used[free]}" 0.6
make_class outer/other
busy outer/other
use 4 outer outer/inner outer/other
near outer-40 "${used[outer]}" 0.4
near inner-20 "${used[outer/inner]}" 0.2
near its-sibling-20 "${used[outer/other]}" 0.2

gone free outer/inner outer/other outer early

if [[ -n $BRIEF ]]; then
	check down qlinux down cpu
	finish
fi

# 35 ms of work after a rest: two periods' quota, or one with a burst.
make_class burst "20000 100000"
work() { # work: prints how many us it took, five times added up
	bash -c "echo \$\$ >$CG/burst/cgroup.procs
	for _ in 1 2 3 4 5; do
		sleep 0.34\$RANDOM
		read -r _ used <$CG/burst/cpu.stat
		start=\${EPOCHREALTIME/./}
		for ((to = used + 35000; used < to;)); do read -r _ used <$CG/burst/cpu.stat; done
		took=\$((took + \${EPOCHREALTIME/./} - start))
	done
	echo \$took"
}
took=$(work)
check "without-a-burst-$took-us" test "$took" -gt 230000
echo 20000 >$CG/burst/cpu.max.burst
took=$(work)
check "with-a-burst-$took-us" test "$took" -lt 250000
busy burst
use 4 burst
near burst-in-the-long-run "${used[burst]}" 0.2

# Held, and then: another limit, another weight, no limit, and back.
echo 50 >$CG/burst/cpu.weight
echo "30000 50000" >$CG/burst/cpu.max
use 2 burst
near another-limit "${used[burst]}" 0.6
echo max >$CG/burst/cpu.max
use 1 burst
near no-limit "${used[burst]}" 1 4
# All of the CPU, and as much as its share: the limit takes nothing.
echo 0 >$CG/burst/cpu.max.burst
echo "20000 20000" >$CG/burst/cpu.max
use 2 burst
near limit-of-the-whole-cpu "${used[burst]}" 1 4
make_class equal
echo 50 >$CG/equal/cpu.weight
echo "10000 20000" >$CG/burst/cpu.max
busy equal
use 4 burst equal
near limit-of-its-share "${used[burst]}" 0.5
gone equal
echo "1000 1000000" >$CG/burst/cpu.max
sleep 1.5

# Held for most of a second: frozen and thawed, moved out, killed, removed.
echo 1 >$CG/burst/cgroup.freeze
for _ in {1..100}; do
	grep -q 'frozen 1' $CG/burst/cgroup.events && break
	sleep 0.05
done
like frozen "$(cat $CG/burst/cgroup.events)" 'frozen 1'
echo 0 >$CG/burst/cgroup.freeze
make_class open
read -r pid <$CG/burst/cgroup.procs
echo "$pid" >$CG/open/cgroup.procs
use 1 open
near moved-out "${used[open]}" 1 4
echo "$pid" >$CG/burst/cgroup.procs
use 1 open
check moved-back awk -v v="${used[open]}" 'BEGIN { exit !(v < 0.02) }'
# Twenty enter it of themselves while it is held, and are preempted wherever they are: one that
# is so with the mutex of all cgroups keeps nobody for longer than the others of its kind.
longest=0
for _ in {1..6}; do
	[[ -d $CG/burst ]] || make_class burst "1000 1000000"
	busy burst 21
	sleep 1.2
	read -r start _ </proc/uptime
	gone burst
	read -r end _ </proc/uptime
	longest=$(awk -v l="$longest" -v s="$start" -v e="$end" 'BEGIN { print (e - s > l) ? e - s : l }')
done
gone open
echo "killed and removed while held: within $longest s"
check killed-and-removed-while-held awk -v l="$longest" 'BEGIN { exit !(l < 5) }'

# The scheduler goes and comes back while a class is held.
make_class again "20000 100000"
busy again 2
sleep 0.3
check down qlinux down cpu
check up-again qlinux up cpu
use 5 again
near after-up-again "${used[again]}" 0.2
gone again

# So small a limit that a thread would wait longer than the kernel allows.
make_class tiny "1000 1000000"
busy tiny 40
sleep 45
like not-ejected "$(qlinux status)" 'H-SFQ schedules'
gone tiny
finish
