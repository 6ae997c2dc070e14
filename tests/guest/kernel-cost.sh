#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: kernel-cost
# description: a context switch and a packet cost at most 5 % more instructions than was recorded of the newest kernel
# cpus: 1
# kernels: link
# only: long
#
# The record is lib/kernel-costs, of kernel 7.3; QLINUX_RECORD=1 prints a new one. Where CPU or links cannot
# be scheduled, that line is left out, with the reason.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/link.sh
. /usr/lib/qlinux/tests/guest/lib/link.sh

readonly RECORD=/usr/lib/qlinux/tests/guest/lib/kernel-costs
readonly PACKETS=20000 OPERATIONS=20000 RUNS=7

# An instruction takes 2 ns in this guest.
now() {
	echo $(($(date +%s%N) / 2))
}

# Instructions of a byte sent there and back through two pipes: two context switches.
pipe() {
	perf bench sched pipe -l "$OPERATIONS" | awk '/usecs\/op/ { printf "%d\n", $1 * 500 }'
}

# The least of several runs: what else the machine does only ever adds.
least() { # least COMMAND
	local i
	for ((i = 0; i < RUNS; i++)); do "$1"; done | sort -n | head -n 1
}

packets() {
	local begin
	begin=$(now)
	udp "$PACKETS" 200 9
	echo $((($(now) - begin) / PACKETS))
}

judge() { # judge NAME INSTRUCTIONS
	local recorded
	recorded=$(awk -v name="$1" '$1 == name { print $2 }' $RECORD)
	if [[ -n ${QLINUX_RECORD:-} ]]; then
		echo "$1 $2"
	elif (($2 * 100 <= ${recorded:-0} * 105)); then
		pass "$1: $2 instructions, $recorded on the newest kernel"
	else
		fail "$1" "$2 instructions, ${recorded:-none} on the newest kernel"
	fi
}

[[ -z ${QLINUX_RECORD:-} ]] || echo "# Instructions, kernel $(uname -r)"
if said=$(qlinux up cpu 2>&1); then
	pipe >/dev/null # warms up
	judge pipe "$(least pipe)"
	qlinux down cpu >/dev/null
else
	echo "# no context switch is measured: $said"
	like refused-with-reason "$said" 'bpf_kfunc tag'
fi
wire
packets >/dev/null
before=$(least packets)
check up qlinux link share v0 c0=1 c1=1 c2=1 c3=1 c4=1 c5=1 c6=1 c7=1 c8=1 c9=1
packets >/dev/null # warms up
judge packet-over-noqueue $(($(least packets) - before))
finish
