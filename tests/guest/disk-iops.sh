#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-iops
# description: four programs read from a disk that answers at once, with one hardware queue and with four: what the processors are left with
# only: long
# cpus: 4
# minutes: 3
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh

declare -A served
for queues in 1 4; do
	modprobe null_blk nr_devices=1 queue_mode=2 irqmode=0 hw_queue_depth=128 submit_queues=$queues gb=16
	for scheduler in none mq-deadline bfq cello impatient; do
		under nullb0 ${scheduler/impatient/cello}
		# Requests are left to another processor whenever it has the lock.
		[[ $scheduler != impatient ]] || echo 1 >/sys/module/cello/parameters/impatient
		fio --name=x --filename=/dev/nullb0 --direct=1 --ioengine=libaio --norandommap --size=200m --time_based --runtime=1000 --rw=randread --bs=4k --iodepth=32 \
			--numjobs=4 --thread >/dev/null 2>&1 &
		sleep 1.5
		served[$scheduler]=$(rate nullb0 1)
		quit
	done
	echo 0 >/sys/module/cello/parameters/impatient
	rmmod null_blk
	echo "$queues hardware queues: none ${served[none]}, mq-deadline ${served[mq-deadline]}, bfq ${served[bfq]}, cello ${served[cello]}, impatient ${served[impatient]}"
	check "$queues-as-bfq" test "${served[cello]}" -ge "${served[bfq]}"
done
finish
