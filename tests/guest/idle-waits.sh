#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: idle-waits
# description: fewer threads wait long beside an idle processor than under the stock kernel, and pairs pass nobody
# cpus: 4
# minutes: 3
# only: long
#
# Of each load, under the stock kernel and under H-SFQ: how often a thread waited for a processor for more than 0.3 ms in
# which another was idle, and the longest such wait. A wait is from the wake-up, or from a preemption, to the switch. Which
# virtual processor has its turn in QEMU is part of it, some 0.1 ms.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly TRACING=/sys/kernel/tracing
readonly LOADS='pairs messages mixed programs sleepers'
cpus=$(nproc)

load() {
	case $1 in
	pairs) stress-ng --quiet --timeout 1 --switch $((cpus / 2 + 1)) ;;
	messages) hackbench -g1 -l30 ;;
	mixed) stress-ng --quiet --timeout 1 --cpu $((cpus - 1)) --switch 1 --timer 1 ;;
	programs) seq 100 | xargs -n 1 -P $((cpus + 1)) sh -c 'gzip -nc </etc/services' ;;
	sleepers) stress-ng --quiet --timeout 1 --nanosleep 2 --cpu $((cpus / 2)) ;;
	esac >/dev/null 2>&1
}

# waits LOAD: waits of more than 0.3 ms beside an idle CPU, the longest in us, and all waits
waits() {
	echo >$TRACING/trace
	echo 1 >$TRACING/tracing_on
	load "$1"
	echo 0 >$TRACING/tracing_on
	python3 - $TRACING/trace "$cpus" <<-'EOF'
		import re, sys
		serves = dict.fromkeys(range(int(sys.argv[2])))  # thread by CPU, 0: idle
		waiting, beside, before = {}, [], None  # waiting: how long beside an idle CPU so far
		for line in open(sys.argv[1]):
		    event = re.search(r"\[(\d+)\] \S+ +([\d.]+): (sched_\w+): (.*)", line)
		    if not event:
		        continue
		    now = float(event[2])
		    if before and 0 in serves.values():
		        for thread in waiting:
		            waiting[thread] += now - before
		    before = now
		    if event[3] != "sched_switch":
		        thread, priority = map(int, re.search(r"pid=(\d+) prio=(\d+)", event[4]).groups())
		        if priority >= 100 and thread not in serves.values():
		            waiting.setdefault(thread, 0)
		        continue
		    switch = re.search(r"prev_pid=(\d+) prev_prio=(\d+) prev_state=(\S+) .*next_pid=(\d+)", event[4])
		    left, priority, follows = int(switch[1]), int(switch[2]), int(switch[4])
		    serves[int(event[1])] = follows
		    if follows in waiting:
		        beside.append(waiting.pop(follows))
		    if left and switch[3].startswith("R") and priority >= 100:
		        waiting[left] = 0
		print(sum(wait > 300e-6 for wait in beside), round(max(beside) * 1e6), len(beside))
	EOF
}

echo 60000 >$TRACING/buffer_size_kb
echo 0 >$TRACING/tracing_on
for event in sched_switch sched_wakeup sched_wakeup_new; do
	echo 1 >$TRACING/events/sched/$event/enable
done

stock=0 here=0
declare -A before
for load in $LOADS; do
	load "$load"
	before[$load]=$(waits "$load")
	read -r many _ <<<"${before[$load]}"
	stock=$((stock + many))
done
check up qlinux up cpu
for load in $LOADS; do
	read -r many longest all <<<"$(waits "$load")"
	here=$((here + many))
	name="$load: $many of $all waits longer than 0.3 ms beside an idle CPU, the longest $longest us; stock: ${before[$load]}"
	check "$name" test "${all:-0}" -ge 500 # or the trace was not understood
done
check "$here such waits, under the stock kernel $stock" test "$here" -le "$stock"

# Pairs that wake each other follow each other on a CPU, but do not pass who waits for that CPU: threads bound to it, in
# a class entitled to all that they want, get it.
mkdir -p $CG/bound
stress-ng --quiet --timeout 6 --switch 2 >/dev/null 2>&1 &
bound=()
for cpu in 0 1; do
	(echo "$BASHPID" >$CG/bound/cgroup.procs && exec taskset -c $cpu sh -c 'while :; do :; done') &
	bound+=($!)
done
usage() {
	awk '$1 == "usage_usec" { print $2 }' $CG/bound/cpu.stat
}
sleep 1
before_us=$(usage) start=${EPOCHREALTIME/./}
sleep 3
part=$((($(usage) - before_us) * 500 / (${EPOCHREALTIME/./} - start)))
check "two bound threads beside pairs get $part thousandths of what they want" test $part -ge 980
kill "${bound[@]}"
wait
check down qlinux down cpu
finish
