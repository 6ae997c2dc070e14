#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: class-storm
# description: hundreds of random operations on classes while their threads compute, sleep and fork
# cpus: 2
# turns: coarse
# minutes: 1
# prepare: qlinux up cpu
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

/usr/lib/qlinux/tests/capi/random "$(times 120 1000)" 1 || failures=1
like still-up "$(qlinux status)" 'H-SFQ schedules'
check down qlinux down cpu
finish
