#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: sleepers
# description: a thousand short sleepers beside busy classes shift no busy class by more than 2 % of its share, on one CPU and on two
# cpus: 2
# minutes: 1
# only: long
# prepare: qlinux up cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

cat >/tmp/sleepers.py <<'END'
import random, threading, time

def sleeper(seed):
    r = random.Random(seed)
    while True:
        time.sleep(0.02 + 2 * r.random())

threading.stack_size(65536)
for seed in range(1000):
    threading.Thread(target=sleeper, args=(seed,), daemon=True).start()
open("/tmp/started", "w").close()
time.sleep(10000)
END

served() { # CPU time of a class, in microseconds
	awk '/^usage_usec/ { print $2 }' "$CG/$1/cpu.stat"
}
# measure NAME: the busy classes' parts of what all three get in ten seconds, by weight.
measure() {
	local class before=() weight=(1 2 4) parts
	for class in b1 b2 b4 sleepers; do
		before+=("$(served $class)")
	done
	sleep 10
	for class in b1 b2 b4 sleepers; do
		before+=("$(served $class)")
	done
	parts=$(awk -v w="${weight[*]}" '{ split(w, weight)
		for (i = 1; i <= 4; i++) s[i] = $(i + 4) - $i
		sum = s[1] + s[2] + s[3]
		for (i = 1; i <= 3; i++) {
			off = s[i] / sum / weight[i] * 7 - 1
			if (off < 0) off = -off
			if (off > most) most = off
		}
		printf "%.2f %.2f", 100 * most, s[4] / 1e6 }' <<<"${before[*]}")
	echo "# $1: off by at most ${parts% *} %, the sleepers got ${parts#* } s"
	if awk '{ exit !($1 <= 2) }' <<<"$parts"; then
		pass "$1"
	else
		fail "$1" "a busy class is off by ${parts% *} % of its share"
	fi
	if awk '{ exit !($2 > 0.1) }' <<<"$parts"; then
		pass "$1-sleepers-ran"
	else
		fail "$1-sleepers-ran" "they got ${parts#* } s"
	fi
}

for weight in 1 2 4; do
	check add-b$weight qlinux class add /b$weight --weight ${weight}00
	for _ in 1 2; do
		qlinux run /b$weight -- sh -c 'while :; do :; done' &
	done
done
check add-sleepers qlinux class add /sleepers
qlinux run /sleepers -- python3 /tmp/sleepers.py &
for _ in $(seq 100); do
	[[ -e /tmp/started ]] && break
	sleep 0.2
done
sleep 1
measure two-cpus
echo 0 >/sys/devices/system/cpu/cpu1/online
sleep 0.5
measure one-cpu
echo 1 >/sys/devices/system/cpu/cpu1/online
for class in b1 b2 b4 sleepers; do
	echo 1 >$CG/$class/cgroup.kill
done
wait 2>/dev/null
check down qlinux down cpu
finish
