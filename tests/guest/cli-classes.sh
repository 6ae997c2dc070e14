#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-classes
# description: classes are created, changed, shown, entered and deleted; threads move; commands run
# cpus: 1
# cpus-long: 2
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

like status-down "$(qlinux status)" 'not loaded'
check up qlinux up cpu
like status-up "$(qlinux status)" 'H-SFQ schedules since 20'
like status-json "$(qlinux status --json | tr -d ' \n')" '"state":"up".*"interface":[0-9]+'
equal kernel "$(cat /sys/kernel/sched_ext/root/ops)" hsfq

check add qlinux class add /a --weight 200 --leaf rr
equal weight "$(cat $CG/a/cpu.weight)" 200
like shown "$(qlinux class show /a)" '/a +200 +rr'
check set qlinux class set /a --weight 300 --leaf fifo
like shown-again "$(qlinux class show /a)" '/a +300 +fifo'
echo 400 >$CG/a/cpu.weight
like foreign-weight "$(qlinux class show /a)" '/a +400 +fifo'
check parents qlinux class add -p /p/q/r -w 50
like tree "$(qlinux class show /p | tr '\n' ';')" '/p .*└─ q .*   └─ r +50'
like json "$(qlinux class show /p/q/r --json | tr -d ' \n')" '"path":"/p/q/r","weight":50.*"leaf":"ts"'

# A whole process, and this shell.
sleep 1000 &
sleeper=$!
check move qlinux class move /a $sleeper
equal moved "$(cat /proc/$sleeper/cgroup)" 0::/a
check move-root qlinux class move / $sleeper
equal moved-root "$(cat /proc/$sleeper/cgroup)" 0::/
joined=$(bash -c 'qlinux class join /a && cat /proc/self/cgroup')
equal joined "$joined" 0::/a

# Weights of threads.
check thread-move qlinux class move /a $sleeper
check thread-weight qlinux class set /a --thread $sleeper --weight 700
check thread-nice qlinux class set /a --thread $sleeper --weight nice
kill $sleeper
wait

# Threaded classes: two threads of one process in two of them.
check threaded-parent qlinux class add /t
perf bench sched messaging -t -g 1 -l 2000000 >/dev/null 2>&1 &
messenger=$!
sleep 0.5
check threaded-move qlinux class move /t $messenger
check threaded-add qlinux class add /t/one --threaded --weight 10
check threaded-add-2 qlinux class add /t/two --threaded --weight 20
mapfile -t tids < <(cat $CG/t/cgroup.threads)
check thread-one qlinux class move /t/one --thread "${tids[1]}" "${tids[2]}"
check thread-two qlinux class move /t/two --thread "${tids[3]}"
equal in-one "$(wc -l <$CG/t/one/cgroup.threads)" 2
equal in-two "$(wc -l <$CG/t/two/cgroup.threads)" 1
like threaded-shown "$(qlinux class show /t)" 'one \(threaded\) +10'
check threads-back qlinux class move /t $messenger
equal threads-home "$(cat $CG/t/one/cgroup.threads $CG/t/two/cgroup.threads | wc -l)" 0
kill $messenger
wait
check threaded-del qlinux class del /t/one /t/two /t

# run: the command's status, its class, and what becomes of it.
qlinux run /r --weight 70 -- sh -c 'exit 7'
equal run-status $? 7
equal run-class "$(qlinux run /r -- cat /proc/self/cgroup)" 0::/r
equal run-weight "$(cat $CG/r/cpu.weight)" 70
qlinux run /s --weight 70 --rm -- sh -c 'test "$(cat /proc/self/cgroup)" = 0::/s && exit 9'
equal rm-status $? 9
equal rm-gone "$(ls -d $CG/s 2>/dev/null)" ''
qlinux run /s --rm -- sh -c 'kill -9 $$'
equal rm-signal $? 137
equal rm-gone-again "$(ls -d $CG/s 2>/dev/null)" ''
qlinux run /r --rm -- true
equal rm-keeps-what-was "$(ls -d $CG/r)" $CG/r
equal run-pipe "$(echo through | qlinux run /r -- cat)" through

# What a class is entitled to, and gets.
qlinux run /busy/../busy -- true 2>/dev/null
equal no-dots $? 2
qlinux run /busy -- sh -c 'while :; do :; done' &
spinner=$!
sleep 0.3
like interval "$(qlinux class show /busy --interval 1)" 'RECEIVED.*/busy +100 +ts +[0-9.]+ % +(9[5-9]|10[0-5])\.[0-9] %'
kill $spinner
wait
check del qlinux class del /a /p/q/r /p/q /p /r /busy
equal empty "$(find $CG -mindepth 1 -type d | wc -l)" 0

# A program that does not start leaves its class's queue of a link as it was, where the kernel can have links.
if grep -q bpf_qdisc /proc/kallsyms; then
	ip link add d0 type dummy
	ip link set d0 up
	check link qlinux link share d0 web=1 rest=1 --rate 10mbit
	check prog qlinux class add /prog
	check attach qlinux link attach d0 /web --cgroup /prog
	refused run-none 1 'did not start' qlinux run /prog --link d0:/rest -- nosuchprogram
	refused run-half 1 '/nosuch of d0 does not exist' qlinux run /prog --link d0:/rest --link d0:/nosuch -- true
	like run-as-before "$(qlinux link show d0 --interval 0.01)" '/prog -> /web'
	check run-there qlinux run /prog --link d0:/rest -- true
	like run-stays "$(qlinux link show d0 --interval 0.01)" '/prog -> /rest'
	check del-prog qlinux class del /prog
	check link-down qlinux down link d0
	ip link del d0
else
	echo "skipped: this kernel has no queueing disciplines in BPF"
fi

like replace "$(qlinux up cpu --replace)" 'H-SFQ schedules'
check pages qlinux generate man /tmp/man
like pages-there "$(ls /tmp/man)" 'qlinux-class-add.1'
like completions "$(qlinux generate completions bash)" 'qlinux'
check down qlinux down cpu
like after "$(qlinux status)" 'not loaded'
equal pins "$(ls /sys/fs/bpf)" ''
finish
