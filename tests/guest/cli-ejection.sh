#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-ejection
# description: the kernel ends the scheduler; the reason is kept and shown, and the next start works
# cpus: 1
# allow-ejection: yes
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

ended='ended by the kernel at 20.*SysRq|ended by the kernel at 20.*sysrq'
check up qlinux up cpu
check add qlinux class add /a
qlinux top --json -d 0.2 >/tmp/top 2>/tmp/top-end &
watching=$!
sleep 0.5
echo S >/proc/sysrq-trigger
for ((i = 0; i < 100; i++)); do
	[[ $(cat /sys/kernel/sched_ext/state) == disabled ]] && break
	sleep 0.05
done
like status "$(qlinux status)" "$ended"
wait $watching
equal top-ended $? 1
like top-says "$(cat /tmp/top-end)" 'H-SFQ was ended by the kernel \(.*sysrq.*\); start it again|ended by the kernel \(.*SysRq.*\)'
like status-json "$(qlinux status --json | tr -d '\n')" '"state": "ejected".*"kind": 67'
refused add-after 1 'H-SFQ was ended by the kernel \(.*\); start it again' qlinux class add /x
like show-after "$(qlinux class show)" 'not loaded'
like up-again "$(qlinux up cpu)" "$ended"
like status-again "$(qlinux status)" 'H-SFQ schedules'
like still-there "$(qlinux class show /a)" '/a +100 +ts'

echo S >/proc/sysrq-trigger
sleep 1
like down-after "$(qlinux down cpu)" "$ended"
like status-after "$(qlinux status)" 'not loaded'
refused down-again 1 'not loaded' qlinux down cpu
check del qlinux class del /a

# From 7.3 on sched_ext has a reserve of its own, for which there is no room beside this thread.
sleep 1000 &
greedy=$!
check deadline chrt -d --sched-runtime 940000000 --sched-period 1000000000 --sched-deadline 1000000000 -p 0 $greedy
refused no-room 1 "threads of SCHED_DEADLINE .sleep $greedy. hold so much .* end some, or let them reserve less" qlinux up cpu
kill $greedy
wait
check up-with-room qlinux up cpu
check down-at-last qlinux down cpu
finish
