# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# Busy classes, and how much of a CPU each gets.

# shellcheck source-path=SCRIPTDIR source=cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

busy() { # busy CLASS [N]: that many busy threads
	local i
	for ((i = 0; i < ${2:-1}; i++)); do
		sh -c "echo \$\$ >$CG/$1/cgroup.procs && while :; do :; done" 2>/dev/null &
		disown
	done
}

make_class() { # make_class PATH [cpu.max [burst]]
	mkdir -p "$CG/$1"
	[[ $1 != */* ]] || echo +cpu >"$CG/${1%/*}/cgroup.subtree_control"
	[[ -z ${2:-} ]] || echo "$2" >"$CG/$1/cpu.max"
	[[ -z ${3:-} ]] || echo "$3" >"$CG/$1/cpu.max.burst"
}

# One that busy() has started may come into its class only after the others were ended.
gone() { # ends all that runs in the classes, deepest first, and removes them
	local c
	for c in "$@"; do
		until rmdir "$CG/$c" 2>/dev/null; do
			echo 1 >"$CG/$c/cgroup.kill"
			sleep 0.02
		done
	done
}

# use SECONDS CLASS...: sets used[CLASS] to the part of one CPU that it had.
# Nothing is forked between a clock and a counter, for that takes its time.
# shellcheck disable=SC2034
declare -A used
use() {
	local seconds=$1 c
	local -A from before to after
	shift
	sleep 0.5
	for c in "$@"; do
		read -r _ before[$c] <"$CG/$c/cpu.stat"
		from[$c]=${EPOCHREALTIME/./}
	done
	sleep "$seconds"
	for c in "$@"; do
		read -r _ after[$c] <"$CG/$c/cpu.stat"
		to[$c]=${EPOCHREALTIME/./}
	done
	for c in "$@"; do
		# shellcheck disable=SC2034
		used[$c]=$(awk -v u=$((after[$c] - before[$c])) -v t=$((to[$c] - from[$c])) 'BEGIN { printf "%.4f", u / t }')
	done
}

# of CLASS ALL...: its part of what use() found that all of these had
of() {
	local c all=''
	for c in "${@:2}"; do all+=" ${used[$c]}"; done
	awk -v mine="${used[$1]}" -v all="$all" 'BEGIN { n = split(all, a); for (i = 1; i <= n; i++) sum += a[i]; printf "%.5f", mine / sum }'
}

near() { # near NAME VALUE IDEAL [PERCENT]: within 2 %
	echo "$1: $2, ideal $3"
	check "$1" awk -v v="$2" -v i="$3" -v p="${4:-2}" 'BEGIN { exit !(v > i * (1 - p / 100) && v < i * (1 + p / 100)) }'
}

nested() { # nested N: /a beside /b of four times its weight, in that /x and /y at 3:5, with N busy threads each
	local class
	for class in a b b/x b/y; do make_class $class; done
	echo 400 >$CG/b/cpu.weight
	echo 300 >$CG/b/x/cpu.weight
	echo 500 >$CG/b/y/cpu.weight
	for class in a b/x b/y; do busy $class "$1"; done
}

near_nested() { # near_nested CPUS PERCENT [SECONDS]: all of them are divided so
	use "${3:-10}" a b/x b/y
	near nested-a "$(of a a b/x b/y)" 0.2 "$2"
	near nested-b-x "$(of b/x a b/x b/y)" 0.3 "$2"
	near nested-b-y "$(of b/y a b/x b/y)" 0.5 "$2"
	near all "$(awk -v a="${used[a]}" -v x="${used[b/x]}" -v y="${used[b/y]}" 'BEGIN { print a + x + y }')" "$1" 2
}
