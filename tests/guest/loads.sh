#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: loads
# description: what programs do with the scheduler all day is at least 0.45 times as fast as under the stock kernel
# cpus: 4
# minutes: 8
# only: long
#
# Each line is operations a second under the stock kernel, under H-SFQ, and their ratio; LOADS chooses some of them.
# Left out are stressors whose operation is not the same amount of work: --tee counts calls, however much each moves, and
# --wait signals that arrived, however many were sent.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

loads=${LOADS:-switch pthread fork vfork clone sem futex mutex pipe fifo poll epoll yield nanosleep mq msg sock eventfd affinity signal sigfd timer hrtimers}
cpus=$(nproc)

rate() { # rate LOAD: operations a second of real time
	stress-ng --quiet --metrics --timeout 2 --yaml /tmp/rate "--$1" "$cpus" >/dev/null 2>&1
	awk '/bogo-ops-per-second-real-time/ { print $2; exit }' /tmp/rate
}

declare -A stock
for load in $loads; do
	stock[$load]=$(rate "$load")
done
check up qlinux up cpu
for load in $loads; do
	here=$(rate "$load")
	ratio=$(awk -v a="${stock[$load]}" -v b="$here" 'BEGIN { printf "%.2f", (a > 0 ? b / a : 0) }')
	check "$load: ${stock[$load]} stock, $here here: $ratio" awk -v r="$ratio" 'BEGIN { exit !(r >= 0.45) }'
done
check down qlinux down cpu
finish
