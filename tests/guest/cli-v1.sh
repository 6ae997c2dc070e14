#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-v1
# description: where the cpu controller is in a hierarchy of cgroup v1, check says so, and up cpu is refused until it is back
# cpus: 1
# append: cgroup_no_v1=none
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

mkdir /run/v1
check mount mount -t cgroup -o cpu none /run/v1
mkdir /run/v1/a
equal controllers "$(tr ' ' '\n' <$CG/cgroup.controllers | grep -cx cpu)" 0

remedy='boot with the kernel parameter cgroup_no_v1=all'
said=$(qlinux check)
[[ $said == *"the cpu controller belongs to a hierarchy of cgroup v1"* && $said == *"$remedy"* ]] &&
	pass check-says || fail check-says "$said"
refused up 1 "the cpu controller belongs to a hierarchy of cgroup v1: $remedy" qlinux up cpu
equal not-loaded "$(cat /sys/kernel/sched_ext/state)" disabled
equal nothing-pinned "$(ls /sys/fs/bpf/qlinux 2>/dev/null)" ''

# As soon as it is given up, nothing is in the way any more.
rmdir /run/v1/a
sleep 1 # the group goes in the background, and keeps the hierarchy until then
check unmount umount /run/v1
for ((i = 0; i < 200; i++)); do
	[[ $(<$CG/cgroup.controllers) =~ (^| )cpu( |$) ]] && break
	sleep 0.05
done
check up-then qlinux up cpu
check down qlinux down cpu
finish
