#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-shares
# description: disks of 1, 8 and 64 requests at a time and an arm, three classes by 3:5:7 with nested groups: everybody's share of the disk's time, also where they want more requests than there are tags, or are many
# only: long
# cpus: 1
# minutes: 10
# Arguments: US MANY of a disk, and how many requests each group has (all of them; 64 and 128)
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh
modprobe sd_mod
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

# Groups, and the part of the disk that each is to have.
groups=(i t/a t/b/x t/b/y r)
parts=(3/15 5/15/4 5/15/4 5/15/2 7/15)
echo +io >$CG/cgroup.subtree_control
mkdir -p $CG/i $CG/r $CG/t
echo +io >$CG/t/cgroup.subtree_control
mkdir -p $CG/t/a $CG/t/b
echo +io >$CG/t/b/cgroup.subtree_control
mkdir -p $CG/t/b/x $CG/t/b/y $CG/many
echo +io >$CG/many/cgroup.subtree_control
mkdir -p $CG/many/{1..12}

readers() { # readers DEV FIO-OPTION...: one in each group
	local dev=$1 n
	shift
	for n in "${!groups[@]}"; do
		# shellcheck disable=SC2016 # expanded inside
		bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CG/${groups[n]}" fio --name=x --filename="/dev/$dev" --direct=1 --ioengine=libaio --norandommap \
			--iodepth="$depth" --offset=$((n % 5 * 3))g --size=2g --time_based --runtime=1000 --randseed="$n" "$@" >/dev/null 2>&1 &
	done
	sleep "$settle"
}
times_of() { # times_of DEV: of the disk's time, by group
	local n
	for n in "${!groups[@]}"; do
		awk -v id="$(stat -c %i "$CG/${groups[n]}")" '$1 == id { us += $5 } END { print us + 0 }' /sys/kernel/debug/block/"$1"/sched/groups
	done | xargs
}
cell() { # cell NAME DEV FIO-OPTION...
	local name=$1 dev=$2 own peer before after
	shift 2
	under "$dev" mq-deadline
	readers "$dev" "$@"
	peer=$(($(rate "$dev" $((long / 3)) 2) * 2 / (long / 3)))
	quit
	under "$dev" cello
	echo 300 >/sys/block/"$dev"/queue/iosched/weight_interactive
	echo 500 >/sys/block/"$dev"/queue/iosched/weight_throughput
	echo 700 >/sys/block/"$dev"/queue/iosched/weight_realtime
	echo interactive >$CG/i/io.cello.class
	echo throughput >$CG/t/io.cello.class
	echo throughput >$CG/many/io.cello.class
	echo realtime >$CG/r/io.cello.class
	echo 300 >$CG/t/b/io.cello.weight
	echo 200 >$CG/t/b/y/io.cello.weight
	readers "$dev" "$@"
	before=$(times_of "$dev")
	own=$(($(rate "$dev" "$long" 2) * 2 / long))
	after=$(times_of "$dev")
	echo "$name: cello $own, mq-deadline $peer, $(<"/sys/block/$dev/queue/iosched/in_flight_now") at a time, $(<"/sys/block/$dev/queue/iosched/lanes") lanes"
	quit
	shares=$(echo "$before $after ${parts[*]}" | python3 -c '
words = input().split()
n = len(words) // 3
got = [int(after) - int(before) for before, after in zip(words[:n], words[n:])]
worst = 0
for us, part in zip(got, words[2 * n:]):
    first, *rest = part.split("/")
    part = int(first)
    for divisor in rest:
        part /= int(divisor)
    error = us / max(1, sum(got)) / part - 1
    worst = max(worst, abs(error))
    print("%.2f %% of %.2f (%+.1f %%)" % (us * 100 / max(1, sum(got)), part * 100, error * 100), end="; ")
print("worst", "%.1f" % (worst * 100))')
	echo "$name: $shares"
	check "$name-used" test $((own * 100)) -ge $((peer * 95))
	check "$name-shared" awk -v worst="${shares##* }" -v most="$most" 'BEGIN { exit !(worst != "" && worst <= most) }'
}
# So slow that the guest's processor is not what is short.
measure() { # measure US MANY
	local kind dev name n
	local groups=("${groups[@]}") parts=("${parts[@]}")
	for kind in null_blk scsi_debug; do
		dev=$(device $kind "$1" "$2")
		name=$kind-$2-of-$1-us-$depth
		cell "$name-random" "$dev" --rw=randread --bs=4k
		# Those that are merged while they wait may be fewer than its share is at a time, and
		# scsi_debug's take as long however large they are.
		[[ $kind != null_blk || $depth -lt 128 ]] || cell "$name-sequential" "$dev" --rw=read --bs=128k
		if [[ $kind == scsi_debug && $depth -ge 128 ]]; then
			groups=(i many/{1..12} r)
			parts=(3/15)
			for ((n = 0; n < 12; n++)); do parts+=(5/15/12); done
			parts+=(7/15)
			# So many programs take some seconds until all are there.
			settle=5 cell "$name-many" "$dev" --rw=randread --bs=4k
		fi
		under "$dev" none
		rmmod $kind
	done
}
# A round is 100 ms: over so many that what is left of one does not matter.
for depth in ${3:-64 128}; do
	settle=2 long=6 most=3
	if (($#)); then
		measure "$1" "$2"
	else
		measure 1000 1
		measure 5000 8
		measure 15000 64
		modprobe testdisk model=turning
		# There who waits for a tag keeps the number that he was told, which the smallest feel.
		long=20 most=$((depth < 128 ? 3 : 6))
		cell "arm-$depth" testdisk0 --rw=randread --bs=4k
		under testdisk0 none
		rmmod testdisk
	fi
done
finish
