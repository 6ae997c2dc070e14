#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: fallbacks
# description: what stands in for something that an older kernel lacks is needed there: without it the scheduler is refused
# timeout: 3600
# only: long
#
# Each line of the list below takes one fallback out of a copy of the sources, builds that, and starts it on the newest
# kernel that needs the fallback. A kernel of vm/kernels.conf that cannot be had is left out, and said.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
here=$PWD failures=0
if [[ $(id -u) -ne 0 ]]; then
	echo 'skipped: the guest is built as root'
	echo 'ok fallbacks are tried as root only'
	exit 0
fi
copy=$here/target/fallbacks
export CARGO_TARGET_DIR=$copy/target
rm -rf "$copy/tree"
mkdir -p "$copy/tree"
git ls-files -z | cpio --quiet -0pdm "$copy/tree"

build() {
	(cd "$copy/tree" && cargo build --quiet --locked --package qlinux-cli) >"$copy/said" 2>&1
}

# starts KERNEL CPUS: the build schedules there, and can be asked.
starts() {
	# shellcheck disable=SC2016 # expanded in the guest
	QLINUX_STAGE=$copy/none vm/run --kernel "$1" --cpus "$2" --add "$CARGO_TARGET_DIR/debug/qlinux:/usr/bin/qlinux" \
		'mkdir /sys/fs/cgroup/a && qlinux up cpu && qlinux --json class show >/dev/null && qlinux --json status | grep -q "\"loans\":"' >"$copy/said" 2>&1
}

absent=''
has_kernel() { # has_kernel NAME
	[[ $absent != *" $1 "* ]] || return 1
	vm/build --quiet --kernel "$1" >"$copy/said" 2>&1 && return
	echo "skipped: kernel $1 ($(tail -n 1 "$copy/said"))"
	absent+=" $1 "
	return 1
}

sound=''
# without KERNEL CPUS FILE SED NAME
without() {
	local kernel=$1 cpus=$2 file=$3 edit=$4 name="$5 on $1"
	has_kernel "$kernel" || return 0
	if [[ $sound != *" $kernel-$cpus "* ]]; then
		if ! build || ! starts "$kernel" "$cpus"; then
			echo "not ok $name: the scheduler does not start as it is: $(tail -n 3 "$copy/said" | tr '\n' ' ')"
			failures=1
			return
		fi
		sound+=" $kernel-$cpus "
	fi
	sed -i -E "$edit" "$copy/tree/$file"
	if cmp -s "$file" "$copy/tree/$file"; then
		echo "not ok $name: the line that it takes out of $file is not there any more"
		failures=1
	elif ! build; then
		echo "not ok $name: it does not compile without: $(tail -n 3 "$copy/said" | tr '\n' ' ')"
		failures=1
	elif starts "$kernel" "$cpus"; then
		echo "not ok $name: it is not needed"
		failures=1
	else
		echo "ok $name"
	fi
	cp "$file" "$copy/tree/$file"
}

call() { # call KERNEL CPUS FUNCTION: as if every kernel had it
	without "$1" "$2" kernel/compat.h "s/HAS\($3\)/true/" "$3"
}

call 6.18 1 scx_bpf_dsq_peek
call 6.18 1 scx_bpf_task_set_slice
call 6.18 1 __scx_bpf_dsq_insert_vtime
without 6.18 1 kernel/compat.h 's/bpf_core_field_exists\(args->sched_idle\)/true/' sched_idle
without 6.18 1 crates/qlinux/src/operations.rs 's/kernel.part\(name, member\).is_none\(\)/false/' cgroup_set_idle
without 6.18 1 kernel/compat.h 's/_Pragma\("unroll"\)/_Pragma("nounroll")/' 'constant offsets into the context'
without 6.18 1 kernel/cpu/control.h 's/elem\(&cgroups, &id\)/elem(\&cgroups, \&c->cgroup_id)/' 'keys on the stack'
without 6.18 1 kernel/cpu/control.h '/bpf_rcu_read_(un)?lock/d' 'RCU section around an iterator'
without 6.18 4 kernel/cpu/others.h 's/^__noinline int outranks/static __always_inline int outranks/' 'comparison apart from the loop over CPUs'
without 6.16 1 kernel/compat.h 's/bpf_core_field_exists\(args->bw_period_us\)/true/' 'limits of a new class'
without 6.16 1 crates/qlinux/src/operations.rs 's/kernel.part\(name, member\).is_none\(\)/member != "cgroup_set_bandwidth" \&\& &/' cgroup_set_bandwidth
call 6.12-scx 2 bpf_res_spin_lock
call 6.12-scx 1 scx_bpf_now
call 6.12-scx 1 bpf_task_from_vpid
call 6.12-scx 1 scx_bpf_dsq_insert
call 6.12-scx 1 scx_bpf_dsq_move_to_local
call 6.12-scx 1 scx_bpf_dsq_move_vtime
without 6.12-scx 1 crates/qlinux/src/operations.rs 's/ours & known \| wanted/ours | wanted/' 'flags that the kernel knows'
exit $failures
