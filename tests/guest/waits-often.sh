#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: waits-often
# description: a thread that waits for something a thousand times a second is served beside busy ones of its class
# cpus: 4
# minutes: 2
# only: long
#
# Each line is how often it is served in a second under the stock kernel, under H-SFQ, and their ratio, beside four busy
# threads for each processor: in the same class, and in a class of its own of the same weight.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

served() { # how often the process and its threads began to be served so far
	awk '{ n += $3 } END { print n }' /proc/"$1"/task/*/schedstat
}
start() { # start CLASS ARG...: in this class, in the background
	(
		echo $BASHPID >"$CG/$1/cgroup.procs"
		exec qlinux-work "${@:2}" >/dev/null 2>&1
	) &
}
rate() { # rate CLASS RUN SLEEP: how often a thread of the class is served in a second that runs and sleeps for so long
	local i one before after
	local -a pids=()
	for ((i = 0; i < 4 * $(nproc); i++)); do
		start busy inf --counter /tmp/busy$i
		pids+=($!)
	done
	start "$1" burst --run "$2" --sleep "$3" --counter /tmp/waits
	one=$!
	sleep 1
	before=$(served $one)
	sleep 4
	after=$(served $one)
	kill "${pids[@]}" $one
	wait "${pids[@]}" $one 2>/dev/null
	echo $(((after - before) / 4))
}

mkdir "$CG/busy" "$CG/own"
loads='busy:30us:200us busy:100us:1ms busy:10us:100us own:30us:200us own:100us:1ms'
declare -A stock
for load in $loads; do
	IFS=: read -r class run pause <<<"$load"
	stock[$load]=$(rate "$class" "$run" "$pause")
done
check up qlinux up cpu
for load in $loads; do
	IFS=: read -r class run pause <<<"$load"
	here=$(rate "$class" "$run" "$pause")
	ratio=$(awk -v a="${stock[$load]}" -v b="$here" 'BEGIN { printf "%.2f", (a > 0 ? b / a : 0) }')
	least=0.5
	[[ $class == busy ]] || least=0.9
	check "in $class, runs $run, sleeps $pause: ${stock[$load]} stock, $here here: $ratio" \
		awk -v r="$ratio" -v least=$least 'BEGIN { exit !(r >= least) }'
done
check down qlinux down cpu
finish
