#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: vm
# description: vm/run passes output and status on, repeats exactly on each kernel, and reports what goes wrong in the guest
# timeout: 900
set -uo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An empty stage: this is about the guest alone.
export QLINUX_STAGE=$work/none

check() { # check NAME COMMAND...
	local name=$1
	shift
	if "$@"; then
		echo "ok $name"
	else
		echo "not ok $name"
	fi
}

guest() { # guest NAME ARG...: runs vm/run, keeps its output as NAME.out, NAME.err, NAME.status
	local name=$1
	shift
	"$top/vm/run" "$@" >"$work/$name.out" 2>"$work/$name.err"
	echo $? >"$work/$name.status"
}

status_is() { [[ $(<"$work/$1.status") -eq $2 ]]; }
says() { grep -q -e "$2" "$work/$1"; }
guests() { pgrep -cf "qemu-system-x86_64.*${work##*/}" || true; }

# --- one boot for output, status, files and arguments
cat >"$work/pass.sh" <<'GUEST'
#!/bin/bash
seq 300000
echo "arguments: $*" >&2
echo "file: $(cat /etc/added)" >&2
mkdir -p /out/sub && echo from-guest >/out/sub/file
cat /sys/fs/cgroup/cgroup.controllers >/dev/null && mountpoint -q /sys/fs/bpf && [[ $(id -u) -eq 0 ]] || exit 9
exit 42
GUEST
echo from-host >"$work/added"
guest pass --out "$work/out" --add "$work/added:/etc/added" "$work/pass.sh" one 'two three'
check 'exit status passes through' status_is pass 42
check 'two megabytes of output pass unaltered' cmp -s "$work/pass.out" <(seq 300000)
check 'arguments reach the script, error output comes back' says pass.err 'arguments: one two three'
check 'an added file is in the guest' says pass.err 'file: from-host'
check '/out comes back' grep -q from-guest "$work/out/sub/file"

before=$SECONDS
guest first true
check 'a start takes at most 15 s' test $((SECONDS - before)) -le 15

# --- several processors are equally fast: a busy loop bound to each does as much
cat >"$work/rounds.sh" <<'GUEST'
#!/bin/bash
loops=()
for ((cpu = 0; cpu < $(nproc); cpu++)); do
	taskset -c $cpu bash -c "trap 'echo \$i; exit' TERM; while :; do ((++i)); done" &
	loops+=($!)
done
sleep 4
kill "${loops[@]}"
wait
GUEST
guest rounds --cpus 4 "$work/rounds.sh"
mapfile -t rounds < <(sort -n "$work/rounds.out")
check "of four processors the slowest does $((100 * ${rounds[0]:-0} / ${rounds[-1]:-1})) % of the fastest" \
	test "${#rounds[@]}" -eq 4 -a $((100 * ${rounds[0]:-0})) -ge $((85 * ${rounds[-1]:-1}))

# --- two guests at once, each with several processors, must not differ in anything
cat >"$work/repeat.sh" <<'GUEST'
#!/bin/bash
hackbench -g 2 -l 20
cat /proc/uptime /proc/schedstat /proc/interrupts /proc/sys/kernel/random/uuid
uname -r
nproc >&2
GUEST
guest first --cpus 4 --log "$work/first.log" "$work/repeat.sh" &
guest second --cpus 4 --log "$work/second.log" "$work/repeat.sh"
wait
check 'two guests run at once' status_is first 0
check 'four processors on request' says first.err '^4$'
check 'a run repeats exactly, with four processors' cmp "$work/first.out" "$work/second.out"
check 'the kernel log repeats exactly' cmp "$work/first.log" "$work/second.log"

# --- a prepared machine: its runs must not differ either, and see what was done
mkdir -p "$work/build/etc"
echo from-build >"$work/build/etc/build"
cat >"$work/prepared.sh" <<'GUEST'
#!/bin/bash
cat /tmp/prepared /etc/build /etc/added
hackbench -g 1 -l 20
cat /proc/uptime /proc/schedstat
GUEST
prepared() { # prepared NAME LINE ARG...
	QLINUX_STAGE=$work/build guest "$1" --prepare "$2" --log "$work/$1.log" --add "$work/added:/etc/added" "${@:3}" "$work/prepared.sh"
}
line='echo $((6 * 7)) >/tmp/prepared; sleep 0.1; echo unseen'
prepared third "$line" &
prepared fourth "$line"
wait
check 'a prepared machine has what the line left, the build and added files' \
	cmp -s <(head -n 3 "$work/third.out") <(printf '42\nfrom-build\nfrom-host\n')
check 'a prepared run repeats exactly' cmp "$work/third.out" "$work/fourth.out"
check 'its kernel log repeats exactly' cmp "$work/third.log" "$work/fourth.log"
echo from-another >"$work/build/etc/build"
prepared fifth "$line"
check 'another build is prepared anew' says fifth.out from-another
prepared sixth 'echo because; exit 7'
check 'a line that fails is the status of the run' status_is sixth 7
check 'and is named' says sixth.err 'preparing the machine failed: echo because'
check 'and what it said is passed on' says sixth.out '^because$'
# Booted afresh, since kernel parameters ask for it.
prepared seventh "$line" --append quiet
check 'a machine that cannot be saved is prepared all the same' says seventh.out '^42$'

# --- the other kernels that are there; that they repeat exactly as well in the long run
images=${QLINUX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qlinux}/guest
for image in "$images"/[0-9]*.[0-9]*; do
	kernel=${image##*/}
	[[ -f $image/manifest.json ]] || continue
	if [[ ${1:-} == long ]]; then
		guest one --kernel "$kernel" --log "$work/one.log" "$work/repeat.sh" &
		QLINUX_KERNEL=$kernel guest two --log "$work/two.log" "$work/repeat.sh"
		wait
		check "a run repeats exactly on $kernel" cmp "$work/one.out" "$work/two.out"
		check "the kernel log repeats exactly on $kernel" cmp "$work/one.log" "$work/two.log"
	fi
	QLINUX_KERNEL=$kernel guest release 'uname -r; modprobe veth; ip link add v0 type veth && echo "a link"'
	kind=${kernel#"${kernel%%-*}"} # -scx, -debug, -rt or nothing
	check "it is kernel $kernel" says release.out "^${kernel%%-*}[.].*$kind"
	check "modules of $kernel are found" says release.out 'a link'
done
guest none --kernel 1.2 true
check 'a kernel that nobody has is told in a sentence' says none.err 'no kernel 1.2'
guest wrong --kernel newest true
check 'a word that is no kernel is wrong usage' status_is wrong 2

# --- what goes wrong
guest crash 'echo before; sleep 0.1; echo c >/proc/sysrq-trigger'
check 'a crash of the kernel fails the run' status_is crash 98
check 'a crash shows the kernel log' says crash.err 'sysrq triggered crash'
check 'output before a crash is not lost' says crash.out before

guest warn 'echo "<4>WARNING: CPU: 0 a test of the log" >/dev/kmsg'
check 'a warning of the kernel fails the run' status_is warn 98
guest warns 'for ((i = 0; i < 2000; i++)); do echo "<4>WARNING: CPU: 0 a test of the log, which says so again and again: $i" >/dev/kmsg; done'
check 'so do many' status_is warns 98
check 'of which some are shown' test "$(wc -l <"$work/warns.err")" -lt 60

guest hang --timeout 6 'echo started; while :; do :; done'
check 'a hanging script ends at its timeout' status_is hang 124
check 'a timeout shows the end of the kernel log' says hang.err 'Run /sbin/init\|ACPI\|nmem\|end of its kernel log'

TMPDIR=$work "$top/vm/run" 'while :; do :; done' >/dev/null 2>&1 &
pid=$!
sleep 2
kill -TERM "$pid"
wait "$pid"
sleep 0.5
check 'an interrupted run leaves no guest behind' test "$(guests)" -eq 0

guest usage --cpus none true
check 'wrong usage is told in a sentence' says usage.err 'give a number'
check 'wrong usage exits with 2' status_is usage 2
