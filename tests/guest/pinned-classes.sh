#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: pinned-classes
# description: sixteen classes of threads bound to single processors: none is lost from sight when several pass it over
# cpus: 4
# minutes: 1
# only: long
# prepare: qlinux up cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly CLASSES=16

usage() { # CPU time of each class, in microseconds
	local i
	for ((i = 0; i < CLASSES; i++)); do
		awk '/^usage_usec/ { print $2 }' "$CG/c$i/cpu.stat"
	done
}

mkdir /tmp/count
for ((i = 0; i < CLASSES; i++)); do
	qlinux class add /c$i || fail add "class $i"
	for k in 1 2; do
		cpu=$(((i + k) % 4))
		qlinux run /c$i -- taskset -c $cpu sh -c 'while :; do :; done' &
		qlinux run /c$i -- taskset -c $cpu qlinux-work burst --run 200us --sleep 300us --seed $i --counter /tmp/count/$i.$k &
	done
done
for ((round = 1; round <= $(times 1 4); round++)); do
	usage >/tmp/before
	sleep 2
	usage >/tmp/after
	equal "served-in-round-$round" "$(paste /tmp/before /tmp/after | awk '$2 > $1 + 10000' | wc -l)" $CLASSES
done
passed=$(qlinux status --json | sed -n 's/.*"passed_over": \([0-9]*\).*/\1/p')
if ((passed > 1000)); then pass passed-over; else fail passed-over "only $passed times: nothing was tested"; fi
equal none-rescued "$(qlinux status --json | sed -n 's/.*"rescued": \([0-9]*\).*/\1/p')" 0
for ((i = 0; i < CLASSES; i++)); do
	echo 1 >$CG/c$i/cgroup.kill
done
wait 2>/dev/null
check down qlinux down cpu
finish
