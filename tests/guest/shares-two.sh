#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: shares-two
# description: two CPUs are divided by weight at every level, also where a class has too few threads for its share
# cpus: 2
# prepare: qlinux up cpu
# kernels-long: cpu rt
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

# So many seconds suffice for 1 %.
span=$(times 4 10)
nested 2
near_nested 2 1 "$span"

# One thread cannot use more than one CPU: what is left of its share is its sibling's.
gone b/y
make_class b/y
echo 10000 >$CG/b/y/cpu.weight
busy b/y
use "$span" a b/x b/y
near few-a "$(of a a b/x b/y)" 0.2 1
near few-b-x "$(of b/x a b/x b/y)" 0.3 1
near few-b-y "$(of b/y a b/x b/y)" 0.5 1

# Turns that are much shorter than a tick end in time: not at the tick, however often one CPU takes
# a thread from the other.
for class in a b/x b/y b; do gone $class; done
check up qlinux up cpu --replace --trace 16M
make_class light
make_class heavy
echo 1 >$CG/light/cpu.weight
for class in light heavy; do busy $class 4; done
check trace qlinux trace --duration 4 --output /run/quanta.csv
lengths=$(awk -F, '$2 == "quantum" && $5 == "/light" { print $8 }' /run/quanta.csv)
check turns [ "$(wc -l <<<"$lengths")" -gt 100 ]
late=$(awk '$1 > 1500000' <<<"$lengths" | wc -l)
echo "late: $late of $(wc -l <<<"$lengths")"
check late [ $((late * 50)) -le "$(wc -l <<<"$lengths")" ] # of a turn of 0.1 ms
for class in light heavy; do gone $class; done

like still-up "$(qlinux status)" 'H-SFQ schedules'
check down qlinux down cpu
finish
