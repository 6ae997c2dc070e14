#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cpu-max-smp
# description: cpu.max at every level on two and four CPUs
# cpus: 4
# minutes: 1
# only: long
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

echo +cpu +cpuset >$CG/cgroup.subtree_control
make_class early "20000 100000"
busy early 4
check up qlinux up cpu
for cpus in 0-1 0-3; do
	echo $cpus >$CG/early/cpuset.cpus
	use 10 early
	near max-20-on-$cpus "${used[early]}" 0.2
done
make_class big "150000 100000"
busy big 4
use 5 big
near max-150-on-0-3 "${used[big]}" 1.5
echo 0-1 >$CG/big/cpuset.cpus
use 10 big early
near max-150-on-0-1 "${used[big]}" 1.5
near max-20-beside "${used[early]}" 0.2
gone big
make_class outer "80000 100000"
make_class outer/inner "40000 100000"
busy outer/inner 4
busy early 2
use 10 outer early
near nested-50-of-80 "${used[outer]}" 0.4
near max-20-beside-others "${used[early]}" 0.2
make_class outer/other
busy outer/other 4
use 10 outer
near outer-80 "${used[outer]}" 0.8
gone outer/other outer/inner outer early
like still-up "$(qlinux status)" 'H-SFQ schedules'
finish
