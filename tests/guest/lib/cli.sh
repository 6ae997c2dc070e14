# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What the tests of the command line share.  One line "ok NAME" or "not ok
# NAME" a test; finish() gives the exit status.

failures=0
# The long run of all tests says so to its scripts.
[[ ${1:-} == long ]] && readonly LONG=yes || readonly LONG=''
# On a further kernel the usual run has done the rest on the newest.
# shellcheck disable=SC2034 # for scripts
[[ ${1:-} == brief ]] && readonly BRIEF=yes || readonly BRIEF=''
readonly CG=/sys/fs/cgroup

# times USUAL LONG: how often something is done, in the usual run and in the long one
times() {
	if [[ -n $LONG ]]; then echo "$2"; else echo "$1"; fi
}

pass() {
	echo "ok $1"
}

fail() {
	echo "not ok $1: ${*:2}"
	failures=$((failures + 1))
}

finish() {
	exit $((failures > 0))
}

# check NAME COMMAND...: it must succeed.
check() {
	local name=$1 output
	shift
	if output=$("$@" 2>&1); then pass "$name"; else fail "$name" "status $?: $output"; fi
}

# equal NAME FOUND EXPECTED
equal() {
	if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1" "'$2' instead of '$3'"; fi
}

# like NAME FOUND REGEX
like() {
	if [[ $2 =~ $3 ]]; then pass "$1"; else fail "$1" "'$2' is not like '$3'"; fi
}

# Everything a refused command must leave as it was.
state() {
	cat /sys/kernel/sched_ext/state
	ls /sys/fs/bpf/qlinux/cpu 2>/dev/null
	# Of the root, which has none of the others, there is the last.
	grep -rs '' $CG --include=cgroup.type --include=cpu.weight --include=cgroup.subtree_control | LC_ALL=C sort
	# Not what a class is entitled to: that depends on who is runnable at this moment.
	qlinux class show 2>/dev/null | awk '{ print $1, $2, $3 }'
}

# refused NAME STATUS REGEX COMMAND...: it must fail with that status, say one
# sentence like REGEX, and change nothing.
refused() {
	local name=$1 status=$2 like=$3 before after said found=0
	shift 3
	before=$(state)
	said=$("$@" 2>&1 >/dev/null) || found=$?
	after=$(state)
	if [[ $found != "$status" ]]; then
		fail "$name" "status $found instead of $status: $said"
	elif [[ $(wc -l <<<"$said") != 1 || ! $said =~ $like ]]; then
		fail "$name" "said '$said'"
	elif [[ $before != "$after" ]]; then
		fail "$name" "changed something: $(diff <(echo "$before") <(echo "$after"))"
	else
		pass "$name"
	fi
}
