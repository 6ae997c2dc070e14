#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: shares
# description: classes get CPU by weight at every level, and what one leaves goes to the others
# cpus: 1
# prepare: qlinux up cpu
# kernels: cpu
# kernels-long: rt
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

make_class a
make_class b
make_class b/x
make_class b/y
echo 400 >$CG/b/cpu.weight
echo 300 >$CG/b/x/cpu.weight
echo 500 >$CG/b/y/cpu.weight
for class in a b/x b/y; do busy $class; done

# Ten seconds of quanta of some milliseconds: half a percent is a few of them.
use 10 a b/x b/y
near nested-a "$(of a a b/x b/y)" 0.2 0.5
near nested-b-x "$(of b/x a b/x b/y)" 0.3 0.5
near nested-b-y "$(of b/y a b/x b/y)" 0.5 0.5
near all "$(awk -v a="${used[a]}" -v x="${used[b/x]}" -v y="${used[b/y]}" 'BEGIN { print a + x + y }')" 1 2

# Its sibling has what one leaves, before anyone else.
gone b/y
use 5 a b/x
near left-a "${used[a]}" 0.2 1
near left-b-x "${used[b/x]}" 0.8 1

check weight qlinux class set /a --weight 400
use 5 a b/x
near changed-a "${used[a]}" 0.5 1
near changed-b-x "${used[b/x]}" 0.5 1

like still-up "$(qlinux status)" 'H-SFQ schedules'
check down qlinux down cpu
finish
