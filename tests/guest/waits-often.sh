#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: waits-often
# description: a thread that waits for something a thousand times a second is served beside busy ones of its class
# cpus: 4
# minutes: 2
# only: long
#
# Each line is how often it is served in a second under the stock kernel, under H-SFQ, and their ratio, beside four busy
# threads for each processor. In a class of its own it has its share, and is not asked for here.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

served() { # how often the process and its threads began to be served so far
	awk '{ n += $3 } END { print n }' /proc/"$1"/task/*/schedstat
}
rate() { # rate RUN SLEEP: how often a thread is served in a second that runs for so long and sleeps for so long
	local i one before after
	local -a pids=()
	for ((i = 0; i < 4 * $(nproc); i++)); do
		qlinux-work inf --counter /tmp/busy$i >/dev/null 2>&1 &
		pids+=($!)
	done
	qlinux-work burst --run "$1" --sleep "$2" --counter /tmp/waits >/dev/null 2>&1 &
	one=$!
	sleep 1
	before=$(served $one)
	sleep 4
	after=$(served $one)
	kill "${pids[@]}" $one
	wait "${pids[@]}" $one 2>/dev/null
	echo $(((after - before) / 4))
}

loads='30us:200us 100us:1ms 10us:100us'
declare -A stock
for load in $loads; do
	stock[$load]=$(rate "${load%:*}" "${load#*:}")
done
check up qlinux up cpu
for load in $loads; do
	here=$(rate "${load%:*}" "${load#*:}")
	ratio=$(awk -v a="${stock[$load]}" -v b="$here" 'BEGIN { printf "%.2f", (a > 0 ? b / a : 0) }')
	check "runs ${load%:*}, sleeps ${load#*:}: ${stock[$load]} stock, $here here: $ratio" awk -v r="$ratio" 'BEGIN { exit !(r >= 0.1) }'
done
check down qlinux down cpu
finish
