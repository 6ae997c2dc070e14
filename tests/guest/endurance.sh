#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: endurance
# description: all of stress-ng's scheduler stressors, hackbench with 40 groups, classes and hotplug at once: no complaint, no ejection
# cpus: 4
# mem: 4G
# minutes: 4
# only: long
# prepare: qlinux up cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
seconds=$(times 30 300)

for class in stress hack busy; do
	check "add-$class" qlinux class add /$class
done
check limit qlinux class set /busy --max 50%
# softlockup keeps every CPU away from all others on purpose, by real-time threads.
qlinux run /stress -- stress-ng --quiet --all 1 --class scheduler --exclude softlockup \
	--timeout "$seconds" --oomable >/dev/null 2>&1 &
stress=$!
qlinux run /hack -- sh -c 'while :; do hackbench --groups 40 --loops 20 --pipe; done' >/dev/null 2>&1 &
qlinux run /busy -- sh -c 'while :; do :; done' >/dev/null 2>&1 &
end=$((SECONDS + seconds))
while ((SECONDS < end)); do
	for cpu in 3 2; do
		echo 0 >/sys/devices/system/cpu/cpu$cpu/online
		sleep 0.3
	done
	for cpu in 2 3; do
		echo 1 >/sys/devices/system/cpu/cpu$cpu/online
		sleep 0.3
	done
done
like still-up "$(qlinux status)" 'H-SFQ schedules'
for class in stress hack busy; do
	echo 1 >$CG/$class/cgroup.kill
done
wait $stress 2>/dev/null
check down qlinux down cpu
finish
