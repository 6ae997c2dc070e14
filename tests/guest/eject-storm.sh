#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: eject-storm
# description: ejections under a fork storm: no task lost, no complaint of the kernel
# only: long
# cpus: 2
# minutes: 3
# allow-ejection: yes
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

# Tasks that must all be alive at the end and have got on in between.
mkdir /tmp/beat
for i in 1 2 3 4 5 6 7 8; do
	(while :; do echo . >>/tmp/beat/$i; sleep 0.05; done) &
	beats+=($!)
done
nice -n 10 stress-ng --quiet --fork 2 --fork-max 4 --timeout 900 &
storm=$!
rounds=$(times 2 50)
up=0 reasons=0
for i in $(seq "$rounds"); do
	nice -n -20 qlinux up cpu --json >/dev/null && up=$((up + 1))
	sleep 0.05
	if ((i % 2)); then
		echo S >/proc/sysrq-trigger # the kernel's own way to be rid of a scheduler
		for _ in $(seq 100); do
			[[ $(</sys/kernel/sched_ext/state) == disabled ]] && break
			sleep 0.02
		done
		[[ $(qlinux status) == *'ended by the kernel'*'disabled by sysrq'* ]] && reasons=$((reasons + 1))
	else
		qlinux down cpu >/dev/null
	fi
done
equal starts $up "$rounds"
equal reasons-told $reasons $(((rounds + 1) / 2))
qlinux down cpu >/dev/null 2>&1
equal stock-again "$(</sys/kernel/sched_ext/state)" disabled
wc -l /tmp/beat/* | grep -v total >/tmp/before
sleep 2
wc -l /tmp/beat/* | grep -v total >/tmp/after
alive=0
for pid in "${beats[@]}"; do
	kill -0 "$pid" && alive=$((alive + 1))
done
equal alive $alive 8
equal beating "$(paste /tmp/before /tmp/after | awk '$3 > $1' | wc -l)" 8
kill "${beats[@]}" $storm
wait 2>/dev/null
finish
