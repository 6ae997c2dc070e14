#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: domains
# description: two domains of two CPUs, each with a tree of its own, are divided as one: by weight, by cpu.max, with loans, and while CPUs come and go
# cpus: 4
# turns: coarse
# minutes: 3
# kernels-long: cpu-max
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh
# shellcheck source-path=SCRIPTDIR source=lib/lending.sh
. /usr/lib/qlinux/tests/guest/lib/lending.sh

# So many seconds suffice for 2 %.
span=$(times 3 5)
readonly span

like too-many "$(qlinux up cpu --domains 5 2>&1)" '5 domains of 4 processors: give 1 to 4'
echo +cpuset +cpu >$CG/cgroup.subtree_control
check up qlinux up cpu --domains 2
like said "$(qlinux status)" 'in 2 domains'

nested 4
near_nested 4 0.5 "$(times 5 10)"
# What `qlinux top` shows is of both domains.
equal threads "$(qlinux class show / --json | tr -d ' \n' | grep -o '"path":"/b/y"[^}]*"threads":4' | grep -c .)" 1

# Threads that wake and sleep beside those do not change what the others have of the rest.
make_class waker
echo 400 >$CG/waker/cpu.weight
(
	echo $BASHPID >$CG/waker/cgroup.procs
	exec cyclictest -q -t4 -i1000 --policy=other -D100s
) >/dev/null 2>&1 &
use "$span" a b/x b/y
near beside-a "$(of a a b/x b/y)" 0.2 2
near beside-b-y "$(of b/y a b/x b/y)" 0.5 2
gone waker

for _ in $(times '' once); do
	# An idle class counts 0.3, beside 100 and 400.
	if [[ $(qlinux status) == *"idle classes (cpu.idle) share"* ]]; then
		echo "not asked: an idle class, for this kernel does not tell of it"
	else
		make_class lazy
		echo 1 >$CG/lazy/cpu.idle
		busy lazy 4
		use "$span" lazy
		check "lazy: ${used[lazy]}" awk -v u="${used[lazy]}" 'BEGIN { exit !(u < 0.02) }'
		gone lazy
	fi

	# Bound to one domain, a class has of that domain what it is due; the others have what is left.
	echo 0-1 >$CG/a/cpuset.cpus
	echo 300 >$CG/a/cpu.weight
	use "$span" a b/x b/y
	near bound "$(of a a b/x b/y)" 0.42857 2
	echo 100 >$CG/a/cpu.weight
	echo >$CG/a/cpuset.cpus
done

# A domain goes away whole, and comes back.
for cpu in 2 3; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done
sleep 0.5
near_nested 2 2 "$span"
for cpu in 2 3; do echo 1 >/sys/devices/system/cpu/cpu$cpu/online; done
sleep 0.5
for _ in $(times '' once); do near_nested 4 2 "$span"; done

# Budgets are of all domains together, also of a class above. What is used ends a period early or
# late, which is less than 2 % of six seconds.
echo "100000 100000" >$CG/b/x/cpu.max
for _ in $(times '' once); do
	use 6 b/x
	near max-of-one "${used[b/x]}" 1
done
echo "150000 100000" >$CG/b/cpu.max
use 6 b a
near max-of-both "${used[b]}" 1.5
near rest "${used[a]}" 2.5 4
echo max >$CG/b/cpu.max
echo max >$CG/b/x/cpu.max
for _ in $(times '' once); do near_nested 4 0.5 5; done
for class in a b/x b/y b; do gone $class; done

for _ in $(times '' once); do
	# Threads of a class get the same in both domains, though they start in one and cannot be divided.
	make_class mates
	echo 0-1 >$CG/mates/cpuset.cpus
	busy mates 5
	until (($(wc -l <$CG/mates/cgroup.procs) == 5)); do sleep 0.01; done
	echo >$CG/mates/cpuset.cpus
	sleep 0.5
	mapfile -t mates <$CG/mates/cgroup.procs
	ran_all() { for pid in "${mates[@]}"; do cut -d' ' -f1 "/proc/$pid/schedstat"; done | tr '\n' ' '; }
	read -ra before <<<"$(ran_all)"
	sleep 10
	read -ra after <<<"$(ran_all)"
	# They take turns of some 24 ms at being where there are fewer, some sooner than others.
	mean=0
	for i in "${!mates[@]}"; do mean=$((mean + (after[i] - before[i]) / 5)); done
	for i in "${!mates[@]}"; do near mate $((after[i] - before[i])) $mean 3; done
	gone mates
done

# A holder in one domain, in a class of weight 1; who waits is in the other domain and in a heavy class.
for class in light heavy other; do make_class $class; done
echo 1 >$CG/light/cpu.weight
echo 2-3 >$CG/light/cpuset.cpus
echo 0-1 >$CG/heavy/cpuset.cpus
lock /light a -- --hold 1000s
holder=$!
sleep 0.1
busy light 10
busy other 4
sleep 0.5
alone=$(served $holder 3)
check "alone: $alone" test "$alone" -lt 200
lock /heavy a -- --hold 1ms
waiter=$!
sleep 0.3
lent=$(served $holder 3)
check "lent: $lent" test "$lent" -gt 5000
kill -KILL $waiter
sleep 0.3
returned=$(served $holder 3)
check "returned: $returned" test "$returned" -lt 200
kill -KILL $holder
for class in light heavy other; do gone $class; done

# The numbers of classes that are gone are given again, to others.
made=0
rounds=$(times 3 40)
for ((i = 0; i < rounds; i++)); do
	make_class short && busy short 2
	until grep -q . $CG/short/cgroup.procs; do sleep 0.01; done
	gone short && made=$((made + 1))
done
equal made "$made" "$rounds"
like up "$(qlinux status)" 'H-SFQ schedules.* threads moved to other domains'
check down qlinux down cpu
finish
