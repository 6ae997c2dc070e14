#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: autogroup
# description: sessions of one cgroup are one class, autogroup or not, and told apart again afterwards (docs/containers.md)
# only: long
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

# session NAME N: a session of N busy processes; the first one's process ID goes to a file.
session() {
	# shellcheck disable=SC2016
	setsid bash -c 'for ((i = 1; i < $2; i++)); do (while :; do :; done) & done
		echo $$ >/tmp/session-$1
		while :; do :; done' - "$1" "$2" 2>/dev/null &
	disown
	until [[ -s /tmp/session-$1 ]]; do sleep 0.05; done
}

# ratio: what the one of the first session gets, by what one of the three gets.
ratio() {
	local one three before after
	read -r one </tmp/session-one
	read -r three </tmp/session-three
	sleep 0.5
	before=$(cat "/proc/$one/stat" "/proc/$three/stat")
	sleep 6
	after=$(cat "/proc/$one/stat" "/proc/$three/stat")
	printf '%s\n%s\n' "$before" "$after" | awk '{ t[NR] = $14 + $15 } END { printf "%.3f\n", (t[3] - t[1]) / (t[4] - t[2]) }'
}

if ! echo 1 >/proc/sys/kernel/sched_autogroup_enabled; then
	echo "skipped: this kernel has no autogroup"
	finish
fi
session one 1
session three 3
stock=$(ratio)
check stock-tells-sessions-apart awk -v r="$stock" 'BEGIN { exit !(r > 2.7 && r < 3.3) }'
check up qlinux up cpu
ours=$(ratio)
check threads-of-one-class-share-equally awk -v r="$ours" 'BEGIN { exit !(r > 0.95 && r < 1.05) }'
check down qlinux down cpu
again=$(ratio)
check stock-again awk -v r="$again" 'BEGIN { exit !(r > 2.7 && r < 3.3) }'
echo "one session's thread by the other's: $stock, $ours, $again"
finish
