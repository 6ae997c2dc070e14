#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-arm
# description: a disk that says it turns is taken for one with an arm unless reads all over it tell otherwise, and is as before when Cello goes
# cpus: 2
# turns: coarse
# minutes: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh

modprobe testdisk count=0
# disk DEV FILE: what a file of its queue says
disk() {
	cat "/sys/block/$1/queue/$2"
}
says() { # says DEV 0|1: whether it turns
	echo "$2" >"/sys/block/$1/queue/rotational"
}
# taken NAME DEV FOUND ARM [OPTION...]: what `up disk` finds, and what the disk is taken for
taken() {
	local name=$1 dev=$2 found
	found=$(qlinux --json up disk "$dev" "${@:5}" | tr -d ' "\n' | grep -o 'found:[a-z-]*')
	equal "$name-found" "${found#*:}" "$3"
	# An arm has one request at a time.
	equal "$name-taken" "$(disk "$dev" rotational) $(disk "$dev" iosched/in_flight)" "$4 $4"
}

# ---- one without an arm, as a virtual machine has them
echo parallel >/sys/kernel/debug/testdisk/add
says testdisk0 1
rate_of() { # rate_of DEV: reads a second, 64 at a time
	fio --name=x --filename=/dev/"$1" --direct=1 --ioengine=libaio --size=4g --norandommap --time_based --runtime=1000 --rw=randread --bs=4k --iodepth=64 >/dev/null 2>&1 &
	sleep 1.5
	rate "$1" 1
	quit
}
under testdisk0 mq-deadline
usual=$(rate_of testdisk0)
like words "$(qlinux up disk testdisk0)" 'reads all over it tell that it has no arm'
served=$(rate_of testdisk0)
echo "reads a second: mq-deadline $usual, cello $served"
check as-much test $((served * 100)) -ge $((usual * 95))
like status "$(qlinux --json status | tr -d ' \n')" '"arm":false'
qlinux down disk testdisk0 >/dev/null
equal turns-again "$(disk testdisk0 rotational)" 1
taken parallel testdisk0 no-arm 0
# Somebody else takes Cello off.
echo none >/sys/block/testdisk0/queue/scheduler
taken parallel-again testdisk0 null 0
echo none >/sys/block/testdisk0/queue/scheduler
qlinux down disk testdisk0 >/dev/null
equal turns-after-all "$(disk testdisk0 rotational)" 1
taken told-yes testdisk0 null 1 --arm yes
qlinux down disk testdisk0 >/dev/null
says testdisk0 0
taken says-no testdisk0 null 0
qlinux down disk testdisk0 >/dev/null
equal turns-not "$(disk testdisk0 rotational)" 0

# ---- one with an arm, idle and busy
echo turning >/sys/kernel/debug/testdisk/add
taken turning testdisk1 arm 1
qlinux down disk testdisk1 >/dev/null
under testdisk1 mq-deadline
fio --name=x --filename=/dev/testdisk1 --direct=1 --ioengine=libaio --size=4g --norandommap --time_based --runtime=1000 --rw=randread --bs=4k --iodepth=16 >/dev/null 2>&1 &
sleep 1
taken busy testdisk1 busy 1
quit
qlinux down disk testdisk1 >/dev/null
taken told-no testdisk1 null 0 --arm no
qlinux down disk testdisk1 >/dev/null
equal turning-again "$(disk testdisk1 rotational)" 1

# ---- a slow one that serves many at once, as one far away behind a network
modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=5000000 hw_queue_depth=64 submit_queues=1 gb=16
says nullb0 1
taken far nullb0 no-arm 0
qlinux down disk nullb0 >/dev/null
equal far-again "$(disk nullb0 rotational)" 1
rmmod null_blk

# ---- all hardware queues keep as many requests, unless they share those; polled ones have none of these
modprobe sd_mod
modprobe null_blk nr_devices=1 queue_mode=2 submit_queues=2 poll_queues=1
modprobe scsi_debug delay=0 submit_queues=2 max_queue=64 host_max_queue=64
until compgen -G '/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*' >/dev/null; do sleep 0.1; done
sharing=$(basename /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*)
taken own-tags nullb0 null 0
equal own-tags "$(disk nullb0 nr_requests) $(disk nullb0 iosched/tags)" '512 1024'
taken shared-tags "$sharing" null 0
equal shared-tags "$(disk "$sharing" nr_requests) $(disk "$sharing" iosched/tags)" '512 512'
finish
