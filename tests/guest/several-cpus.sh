#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: several-cpus
# description: affinity, cpusets, hotplug, a freezer and a fork storm on four CPUs: everything goes on
# cpus: 4
# turns: coarse
# prepare: qlinux up cpu
# kernels-long: cpu rt
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

busy() { # busy CLASS COMMAND...: in the background, in that class
	qlinux run "$1" -- "${@:2}" >/dev/null 2>&1 &
}
served() { # CPU time of a class, in microseconds
	awk '/^usage_usec/ { print $2 }' "$CG/$1/cpu.stat"
}
# grows NAME CLASS: the class is served
grows() {
	local before
	before=$(served "$2")
	sleep 1
	if (($(served "$2") > before + 1000)); then pass "$1"; else fail "$1" "/$2 got nothing in a second"; fi
}

echo +cpuset >$CG/cgroup.subtree_control
for class in pinned set cold storm; do
	check "add-$class" qlinux class add /$class
done
echo 1-2 >$CG/set/cpuset.cpus
for cpu in 0 1 2 3; do
	busy /pinned taskset -c "$cpu" sh -c 'while :; do :; done'
done
for _ in 1 2 3 4 5; do
	busy /set sh -c 'while :; do :; done'
done
busy /cold sh -c 'while :; do :; done'
busy /storm stress-ng --quiet --fork 2 --affinity 1 --timeout 60
sleep 1
grows pinned-served pinned
grows set-served set
# One thread of four classes on four CPUs: all of one, or less while others are runnable.
like entitled "$(qlinux class show /cold --json | tr -d ' \n')" '"entitled_cpus":(1\.0|0\.[6-9])'

echo 1 >$CG/cold/cgroup.freeze
sleep 0.3
frozen=$(served cold)
for _ in $(times '1 2' '1 2 3 4 5 6'); do
	echo 0 >/sys/devices/system/cpu/cpu3/online
	sleep 0.2
	echo 1 >/sys/devices/system/cpu/cpu3/online
	sleep 0.2
done
equal frozen "$(served cold)" "$frozen"
echo 0 >$CG/cold/cgroup.freeze
grows thawed cold
grows pinned-after-hotplug pinned
grows set-after-hotplug set
grows storm-goes-on storm
# The class with a cpuset may use two CPUs, and does.
before=$(served set)
read -r start _ </proc/uptime
sleep 2
read -r end _ </proc/uptime
used=$(awk -v a="$before" -v b="$(served set)" -v s="$start" -v e="$end" 'BEGIN { printf "%.2f", (b - a) / 1e6 / (e - s) }')
check "set-uses-$used-of-2-cpus" awk -v u="$used" 'BEGIN { exit !(u > 0.5 && u < 2.05) }'
# One CPU is left, and each class has its turn there.
for cpu in 1 2 3; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done
for class in pinned set cold storm; do
	grows "one-left-$class" $class
done
for cpu in 1 2 3; do echo 1 >/sys/devices/system/cpu/cpu$cpu/online; done
like still-up "$(qlinux status)" 'H-SFQ schedules'
# From the CPU that went: its interrupts to itself must still arrive.
check down timeout 60 taskset -c 3 qlinux down cpu
for class in pinned set cold storm; do
	echo 1 >$CG/$class/cgroup.kill
done
wait 2>/dev/null
finish
