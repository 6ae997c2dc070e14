#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: shares
# description: classes get CPU by weight at every level, and what one leaves goes to the others
# cpus: 1
# prepare: qlinux up cpu
# kernels-long: cpu rt
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

nested 1
# Ten seconds of quanta of some milliseconds: half a percent is a few of them.
near_nested 1 0.5

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
