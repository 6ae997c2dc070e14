#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-kernels
# description: what this kernel lacks is told by check and status, refused where it is asked for, and shown as not held
# kernels: cpu cpu-load refused
# kernels-long: rt
# minutes: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly TYPES=/sys/kernel/btf/vmlinux

# has NAME: the kernel's types name it, which are read as mere text.
has() {
	grep -qzxF "$1" $TYPES
}

checked=$(qlinux --json check)

# lacks NAME: QLinux says that the kernel lacks it.
lacks() {
	[[ $checked == *"\"name\": \"$1\""* ]]
}

# agree NAME IN-TYPES
agree() {
	if has "$2"; then
		if lacks "$1"; then fail "told-$1" "the types have $2"; else pass "told-$1"; fi
	else
		check "told-$1" lacks "$1"
	fi
}

agree scx_bpf_dsq_insert scx_bpf_dsq_insert
agree scx_bpf_now scx_bpf_now
agree bpf_task_from_vpid bpf_task_from_vpid
agree bpf_res_spin_lock bpf_res_spin_lock
agree cgroup_set_bandwidth cgroup_set_bandwidth
agree scx_bpf_dsq_peek scx_bpf_dsq_peek
agree cgroup_set_idle cgroup_set_idle
agree bpf_qdisc bpf_qdisc_skb_drop
if has cgroup_set_idle; then agree sched_idle sched_idle; fi

# The function has a third argument where it lost its tag.
if qlinux check | grep -q 'fault of pahole'; then
	bpftool btf dump file $TYPES format raw >/tmp/types
	kick=$(grep -m 1 "FUNC 'scx_bpf_kick_cpu'" /tmp/types | sed 's/.*type_id=\([0-9]*\).*/\1/')
	check faulty-types grep -q "^\[$kick\] FUNC_PROTO .*vlen=3" /tmp/types
	refused faulty 1 'lost the bpf_kfunc tag of scx_bpf_kick_cpu .a fault of pahole' qlinux up cpu
	qlinux check >/dev/null
	equal faulty-check $? 1
	finish
fi

echo +cpu >$CG/cgroup.subtree_control
# A start has room for many classes at once, which PREEMPT_RT does not give by itself.
mkdir $CG/many{1..60} $CG/old
echo '20000 100000' >$CG/old/cpu.max
echo 1 >$CG/old/cpu.idle
said=$(qlinux up cpu 2>&1 >/dev/null) || fail up "$said"
rmdir $CG/many*
check add qlinux class add /new
shown=$(qlinux class show /old)
status=$(qlinux status)
why=''
has cgroup_set_bandwidth || why='boot kernel 6.17'
[[ $(uname -v) != *PREEMPT_RT* ]] || why='PREEMPT_RT refuses BPF timers; boot a kernel without'
if [[ -z $why ]]; then
	check set-max qlinux class set /new --max 30%
	like limit-held "$shown" ' 20 %  '
	[[ $said != *limit* ]] || fail warned-of-limits "$said"
else
	like limit-warning "$said" 'the limit of 1 class \(/old\) is not held while H-SFQ is up.*'"$why"
	like limit-shown "$shown" '20 % \(not held\)'
	like limit-status "$status" 'limits of classes \(cpu.max\) do not (hold )?while H-SFQ is up.*'"${why##*; }"
	for words in 'set /new' 'add /newer'; do
		# shellcheck disable=SC2086 # words
		refused "max: $words" 1 "cannot be held to --max by H-SFQ: .*${why##*; }" qlinux class $words --max 30%
	done
	refused max-run 1 'cannot be held to --max' qlinux run /newest --max 30% -- true
	refused burst 1 'cannot be held to --burst' qlinux class set /new --burst 5ms
	check max-none qlinux class set /new --max none
	equal json-limit "$(qlinux --json class show /old | grep -c '"max_held": false')" 1
fi
if has cgroup_set_idle; then
	check set-idle qlinux class set /new --idle on
	like idle-held "$shown" ' idle  '
else
	like idle-warning "$said" 'the idleness of 1 class \(/old\) is not held while H-SFQ is up.*boot kernel 6.19'
	like idle-shown "$shown" 'idle \(not held\)'
	like idle-status "$status" 'idle classes \(cpu.idle\) share by their weight.*6.19'
	refused idle 1 'cannot be held to --idle by H-SFQ: this kernel has no .*6.19 or newer' qlinux class set /new --idle on
	check idle-off qlinux class set /new --idle off
fi
check down qlinux down cpu
if [[ -n $why ]]; then
	# The stock scheduler holds it.
	equal stock-holds "$(qlinux --json class show /old | grep -c '"max_held": true')" 1
fi
finish
