#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: many-cpus
# description: twenty CPUs in two sockets are two domains by themselves, and are divided by weight
# cpus: 20
# minutes: 2
# only: long
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

check up timeout 60 qlinux up cpu
like said "$(qlinux status)" 'in 2 domains'
for class in a b; do make_class $class; done
echo 300 >$CG/b/cpu.weight
for class in a b; do busy $class 24; done
use 3 a b
near quarter "$(of a a b)" 0.25 2
near all "$(awk -v a="${used[a]}" -v b="${used[b]}" 'BEGIN { print a + b }')" 20 3
for class in a b; do gone $class; done
check down qlinux down cpu
finish
