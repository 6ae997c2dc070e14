#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-kill
# description: the command is killed at random moments under load; what is left is whole and the next command works
# cpus: 1
# cpus-long: 2
# minutes: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly PINS=/sys/fs/bpf/qlinux/cpu
RANDOM=1

# Load of many short processes, in the root and in a class.
mkdir $CG/load
storm() {
	while :; do
		/bin/true
		sleep 0.1
	done
}
storm &
loads=$!
storm &
loads+=" $!"
echo $! >$CG/load/cgroup.procs

# killed MILLISECONDS COMMAND...
killed() {
	local after=$1
	shift
	"$@" >/dev/null 2>&1 &
	sleep "$((after / 1000)).$(printf %03d $((after % 1000)))"
	kill -9 $! 2>/dev/null
	wait $! 2>/dev/null
}

# The pin decides; the kernel may take a moment to let a killed start go.
agree() {
	local said kernel i
	said=$(qlinux status --json | grep -o '"state": "[a-z]*"')
	for ((i = 0; i < 100; i++)); do
		kernel=$(cat /sys/kernel/sched_ext/state)
		case $said/$kernel in
		*'"up"/enabled') [[ -e $PINS/link ]] && return 0 ;;
		*'"down"/disabled') return 0 ;;
		esac
		sleep 0.05
	done
	echo "status says $said, the kernel $kernel, pins: $(ls $PINS 2>/dev/null | tr '\n' ' ')"
	return 1
}

is_up() {
	[[ -e $PINS/link && $(cat /sys/kernel/sched_ext/state) == enabled ]]
}

# up: how long does a whole one take?
start=$(date +%s%N)
check up qlinux up cpu
whole=$((($(date +%s%N) - start) / 1000000))
start=$(date +%s%N)
check down qlinux down cpu
whole_down=$((($(date +%s%N) - start) / 1000000))

bad=0 ups=0
for ((round = 0; round < $(times 2 6); round++)); do
	killed $((RANDOM % (whole * 5 / 4))) qlinux up cpu
	problem=$(agree) || { fail "up-killed-$round" "$problem"; bad=1; }
	if is_up; then
		ups=$((ups + 1))
		said=$(qlinux down cpu 2>&1) || { fail "up-killed-$round" "then down: $said"; bad=1; }
	elif ((round % 4 == 0)); then
		said=$(qlinux up cpu 2>&1) || { fail "up-killed-$round" "then up: $said"; bad=1; }
		said=$(qlinux down cpu 2>&1) || { fail "up-killed-$round" "then up and down: $said"; bad=1; }
	fi
done
[[ $bad == 1 ]] || pass "up-killed ($ups of $round had come up)"

bad=0
for ((round = 0; round < $(times 1 2); round++)); do
	is_up || qlinux up cpu >/dev/null || { fail "down-killed-$round" 'up failed'; bad=1; }
	killed $((RANDOM % (whole_down + 10))) qlinux down cpu
	problem=$(agree) || { fail "down-killed-$round" "$problem"; bad=1; }
done
for ((round = 0; round < $(times 1 2); round++)); do
	is_up || qlinux up cpu >/dev/null || { fail "replace-killed-$round" 'up failed'; bad=1; }
	killed $((RANDOM % (whole + whole_down))) qlinux up cpu --replace
	problem=$(agree) || { fail "replace-killed-$round" "$problem"; bad=1; }
done
[[ $bad == 1 ]] || pass down-and-replace-killed

# Class operations: whatever a killed one left is a class like any other.
is_up || qlinux up cpu >/dev/null
bad=0
sleep 10000 &
sleeper=$!
for ((round = 0; round < $(times 4 24); round++)); do
	case $((RANDOM % 6)) in
	0) killed $((RANDOM % 60)) qlinux class add -p /k/l/m --weight 300 --leaf rr ;;
	1) killed $((RANDOM % 60)) qlinux class del /k/l/m ;;
	2) killed $((RANDOM % 60)) qlinux class set /k/l/m --weight $((RANDOM % 10000 + 1)) --leaf sfq ;;
	3) killed $((RANDOM % 60)) qlinux class move /k/l/m $sleeper ;;
	4) killed $((RANDOM % 60)) qlinux class move / $sleeper ;;
	5) killed $((RANDOM % 120)) qlinux run /k2 --rm -- sleep 10 ;;
	esac
	while read -r path _ leaf _; do
		[[ $leaf == - ]] && { fail "class-killed-$round" "$path has no node"; bad=1; }
	done < <(qlinux class show | tail -n +2 | sed 's/^[^a-z\/]*//')
	is_up || { fail "class-killed-$round" 'the scheduler is gone'; bad=1; }
done
[[ $bad == 1 ]] || pass class-killed
kill $sleeper
pkill -x sleep 2>/dev/null
sleep 0.5
for class in k/l/m k/l k k2; do
	[[ ! -d $CG/$class ]] || check "del-$class" qlinux class del /$class
done
# shellcheck disable=SC2086 # words
kill $loads
wait 2>/dev/null
# What they had started last ends by itself.
until grep -q 'populated 0' $CG/load/cgroup.events; do sleep 0.05; done
check down qlinux down cpu
check del-load qlinux class del /load
equal pins "$(ls /sys/fs/bpf)" ''
finish
