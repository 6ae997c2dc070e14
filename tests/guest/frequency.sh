#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: frequency
# description: the kernel is told how fast each processor has to be, which asks for all of it otherwise
# only: long
# cpus: 2
# kernels-long: cpu
#
# No processor of the guest changes its frequency, so what is checked is what the governor would be told.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

taskset -pc 0 $$ >/dev/null # looking is work, too
readonly tracing=/sys/kernel/tracing
echo 'p:told scx_bpf_cpuperf_set cpu=%di:u32 need=%si:u32' >$tracing/kprobe_events
echo 1 >$tracing/events/kprobes/told/enable

told() { # told CPU: what was told of it last, of 1024
	awk -v cpu="cpu=$1" '$0 ~ cpu " " { sub(/.*need=/, ""); need = $1 } END { print need + 0 }' $tracing/trace
}
busy() { # from now on CPU 1 has no rest
	taskset -c 1 sh -c 'while :; do :; done' >/dev/null 2>&1 &
	load=$!
}
idle() { # nor anything to do
	kill "$load"
	wait "$load" 2>/dev/null
}
count() { grep -c need= $tracing/trace; }

check up qlinux up cpu
sleep 1
equal "no governor here asks the scheduler: it is told nothing" "$(count)" 0
check down qlinux down cpu

check "up by load" qlinux up cpu --frequency load
busy
sleep 1
need=$(told 1)
check "busy: $need" test "$need" -ge 900
idle
for _ in {1..40}; do
	need=$(told 1)
	((need <= 64)) && break
	sleep 0.5
done
check "at rest: $need" test "$need" -le 64
taskset -c 1 qlinux-work sleeper --run 1ms --period 20ms --counter /tmp/sleeper >/dev/null 2>&1 &
load=$!
sleep 2
need=$(told 1)
check "a twentieth of the time: $need" test "$need" -le 250
idle
busy
sleep 1
: >$tracing/trace
sleep 1
least=$(awk '/cpu=1 / { sub(/.*need=/, ""); if (least == "" || $1 < least) least = $1 } END { print least + 0 }' $tracing/trace)
check "a steady load stays where it is: at least $least" test "$least" -ge 950
idle
check "down again" qlinux down cpu

check "up at full speed" qlinux up cpu --frequency full
: >$tracing/trace
sleep 1
equal "full: told nothing" "$(count)" 0
check "down at last" qlinux down cpu
finish
