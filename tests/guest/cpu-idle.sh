#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cpu-idle
# description: an idle class gets what its siblings leave, steps aside at once, and has its weight back afterwards
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

echo +cpu >$CG/cgroup.subtree_control
make_class early
echo 300 >$CG/early/cpu.weight
echo 1 >$CG/early/cpu.idle
busy early
check up qlinux up cpu
make_class normal
busy normal
use 10 early normal
echo "idle: ${used[early]} beside ${used[normal]}"
check little-beside-others awk -v v="${used[early]}" 'BEGIN { exit !(v > 0.001 && v < 0.006) }'
gone normal
use 1 early
check all-alone awk -v v="${used[early]}" 'BEGIN { exit !(v > 0.95) }'
make_class normal
check off qlinux class set /early --idle off
busy normal
use 4 early normal
check old-weight-is-back awk -v a="${used[early]}" -v b="${used[normal]}" 'BEGIN { exit !(a / b > 2.9 && a / b < 3.1) }'
check limits qlinux class set /early --max 20% --burst 10ms --idle off
equal cpu.max "$(cat $CG/early/cpu.max)" '20000 100000'
equal cpu.max.burst "$(cat $CG/early/cpu.max.burst)" 10000
use 10 early
near limited "${used[early]}" 0.2
like shown "$(qlinux class show /early)" '20 %.*[0-9] s'
refused too-long-a-burst 1 'burst' qlinux class set /early --burst 50ms
check none qlinux class set /early --burst 0ms --max none
equal cpu.max-none "$(cat $CG/early/cpu.max)" 'max 100000'
refused no-limit 2 'limit' qlinux class set /early --max 2
refused the-root 2 'root' qlinux class set / --max 20%
gone early normal
finish
