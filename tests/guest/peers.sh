#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: peers
# description: peers of a class do not interrupt each other more than under stock, and a class that wakes does not wait for quanta to end
# cpus: 4
# minutes: 3
# only: long
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly TRACING=/sys/kernel/tracing

switches() {
	awk '$1 == "ctxt" { print $2 }' /proc/stat
}

# hackbench OPTION...: its context switches and how many ms it takes, once warm
messages() {
	local before start
	hackbench -g2 -l30 "$@" >/dev/null
	before=$(switches) start=${EPOCHREALTIME/./}
	hackbench -g2 -l200 "$@" >/dev/null
	echo $(($(switches) - before)) $(((${EPOCHREALTIME/./} - start) / 1000))
}

# waits CLASS US: median and 90th percentile, in us, of what a thread of it that wakes so often waits
# from the wake-up to the switch.  Its own figure would contain when QEMU runs the CPU whose timer is due.
waits() {
	echo 0 >$TRACING/tracing_on
	echo >$TRACING/trace
	echo 1 >$TRACING/tracing_on
	(echo "$BASHPID" >$CG/$1/cgroup.procs && exec cyclictest -i "$2" --policy=other -l 400 -q >/dev/null)
	echo 0 >$TRACING/tracing_on
	python3 - $TRACING/trace <<-'EOF'
		import re, sys
		woken, waits = {}, []
		for line in open(sys.argv[1]):
		    event = re.search(r" ([\d.]+): (sched_waking|sched_switch): (.*)", line)
		    thread = event and re.search(r"(?:^|next_)comm=cyclictest (?:next_)?pid=(\d+)", event[3])
		    if not thread:
		        continue
		    at, tid = float(event[1]), thread[1]
		    if event[2] == "sched_waking":
		        woken[tid] = at
		    elif tid in woken:
		        waits.append(at - woken.pop(tid))
		waits.sort()
		print(*(round(waits[int(len(waits) * part)] * 1e6) for part in (0.5, 0.9)))
	EOF
}

mount -t tracefs tracefs $TRACING 2>/dev/null
echo 8000 >$TRACING/buffer_size_kb
echo +cpu >$CG/cgroup.subtree_control
mkdir $CG/wakes $CG/busy-{1,2,3}
for event in sched_waking sched_switch; do
	echo 1 >$TRACING/events/sched/$event/enable
done
busy() {
	local i
	for i in 1 2 3; do
		echo 20 >$CG/busy-$i/cpu.weight
		for _ in 1 2 3 4; do
			(echo "$BASHPID" >$CG/busy-$i/cgroup.procs && exec sh -c "while :; do :; done") &
		done
	done
}
peers() { # in the class of who wakes, and no other is busy
	local i
	for i in 1 2 3 4 5 6 7 8; do
		(echo "$BASHPID" >$CG/wakes/cgroup.procs && exec sh -c "while :; do :; done") &
	done
}
measure() { # measure NAME: sets NAME_sockets, NAME_pipes, NAME_median and NAME_late, NAME_among and NAME_among_late
	read -r "$1_sockets" "$1_sockets_ms" < <(messages)
	read -r "$1_pipes" "$1_pipes_ms" < <(messages -p)
	busy
	sleep 1
	read -r "$1_median" "$1_late" < <(waits wakes 2000)
	pkill -f "while :"
	peers
	sleep 1
	read -r "$1_among" "$1_among_late" < <(waits wakes 5000)
	pkill -f "while :"
	wait
}
echo 0 >$TRACING/tracing_on
measure stock
check up qlinux up cpu
measure hsfq
check down qlinux down cpu
# shellcheck disable=SC2154 # set by measure
{
	echo "switches: sockets $stock_sockets, $hsfq_sockets, pipes $stock_pipes, $hsfq_pipes; waits: $stock_median $stock_late, $hsfq_median $hsfq_late us, among busy peers $stock_among $stock_among_late, $hsfq_among $hsfq_among_late us"
	echo "time: sockets $stock_sockets_ms, $hsfq_sockets_ms, pipes $stock_pipes_ms, $hsfq_pipes_ms ms"
	check sockets test "$hsfq_sockets" -le $((stock_sockets * 3 / 2))
	check pipes test "$hsfq_pipes" -le "$stock_pipes"
	# It may wait for what others have in peace, 0.5 ms, and for the guest's interrupts, 0.7 ms,
	# but not for the end of their quanta, 3 ms.
	check median test "$hsfq_median" -le 500
	check late test "$hsfq_late" -le 1500
	# Among its own it comes first as long as it uses little of its share, also of what it is
	# charged while QEMU runs other CPUs, up to 1 ms at a time.
	check among test "$hsfq_among" -le $((stock_among + 100))
	check among-late test "$hsfq_among_late" -le $((stock_among_late + 500))
}
finish
