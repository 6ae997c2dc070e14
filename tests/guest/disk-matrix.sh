#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-matrix
# description: devices of 1, 8 and 64 requests at a time of 0.1, 1 and 5 ms, random and sequential reads, 1 to 128 outstanding: as much as under mq-deadline and BFQ, as the disk is after `up disk`
# only: long
# cpus: 1
# timeout: 5400
# minutes: 40
# With one processor what a request costs is counted alike each time; with two it depends on which of
# them has the program and which the device, and varies by 8 % under every scheduler.
# disk-matrix.sh [US [MANY [DEVICE [DEPTH]]]]: words each
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh
modprobe sd_mod

declare -A served
# serve DEV FIO-OPTION...: KiB in a second under each of the three; requests would tell of merges too
serve() {
	local dev=$1 scheduler
	shift
	for scheduler in mq-deadline bfq cello; do
		under "$dev" $scheduler
		fio --name=x --filename="/dev/$dev" --direct=1 --ioengine=libaio --norandommap --size=200m --time_based --runtime=1000 "$@" >/dev/null 2>&1 &
		sleep 1.5
		served[$scheduler]=$(($(rate "$dev" 2 2) / 4))
		[[ $scheduler != cello ]] || echo "$(<"/sys/block/$dev/queue/iosched/in_flight_now") at a time, $(<"/sys/block/$dev/queue/iosched/lanes") lanes"
		quit
	done
}
cell() { # cell NAME DEV FIO-OPTION...
	local name=$1
	shift
	serve "$@"
	echo "$name: KiB/s mq-deadline ${served[mq-deadline]}, bfq ${served[bfq]}, cello ${served[cello]}"
	check "$name-as-mq-deadline" test $((served[cello] * 100)) -ge $((served[mq-deadline] * 95))
	check "$name-as-bfq" test $((served[cello] * 100)) -ge $((served[bfq] * 99))
}
for us in ${1:-100 1000 5000}; do
	for many in ${2:-1 8 64}; do
		for kind in ${3:-null_blk scsi_debug}; do
			dev=$(device $kind $us $many)
			for depth in ${4:-1 8 128}; do
				cell "$kind-$us-us-$many-random-$depth" "$dev" --rw=randread --bs=4k --iodepth=$depth
				cell "$kind-$us-us-$many-sequential-$depth" "$dev" --rw=read --bs=128k --iodepth=$depth
			done
			under "$dev" none
			rmmod $kind
		done
	done
done
finish
