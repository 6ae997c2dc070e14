#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: domains-load
# description: kernels that can have several domains load them
# cpus: 2
# prepare: qlinux up cpu --domains 2
# kernels-long: cpu-load
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

like said "$(qlinux status)" 'in 2 domains'
for cpu in 0 1; do
	check "goes-on-$cpu" timeout 10 taskset -c $cpu sleep 0.01
done
check down qlinux down cpu
finish
