#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-waits
# description: programs that want more requests than there are tags, and wait for those: shares, turns among threads, and other schedulers, tags, classes and the end meanwhile
# cpus: 2
# turns: coarse
# minutes: 3
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh

readonly DEV=nullb0 QUEUE=/sys/block/nullb0/queue
echo +io >$CG/cgroup.subtree_control

# start CGROUP FIO-OPTION...
start() {
	# shellcheck disable=SC2016 # expanded inside
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CG/$1" fio --name=x --filename=/dev/$DEV --direct=1 --norandommap --rw=randread --bs=4k --size=4g --time_based --runtime=1000 "${@:2}" >/dev/null 2>&1 &
}

# Reads of each program.
reads() {
	local -a files
	mapfile -t files < <(seq -f "$CG/g%g/io.stat" "$programs")
	awk '{ for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) sum[FILENAME] += $i } END { for (i = 1; i < ARGC; i++) printf "%d ", sum[ARGV[i]] }' "${files[@]}"
}

# Whether each is served 20 times more before long. The slowest is 44 times a second.
goes_on() {
	local before
	before=$(reads)
	for _ in {1..12}; do
		sleep 0.5
		echo "$before $(reads)" | awk '{ for (i = 1; i <= NF / 2; i++) late += $(NF / 2 + i) < $i + 20; exit late > 0 }' && return
	done
	echo "reads, and six seconds later: $before; $(reads)"
	return 1
}

# Tasks that sleep where tags are waited for.
waiters() {
	cat /proc/[0-9]*/task/*/wchan 2>/dev/null | grep -aoE 'waited_there|wait_for_room|limit_depth' | wc -l
}

classes() {
	local n
	for ((n = 3; n <= programs; n++)); do echo "$1" >"$CG/g$n/io.cello.class"; done
}

# The least and the most that one had of what he is to have, in thousandths, in so many seconds.
shared() {
	local before
	before=$(reads)
	sleep "$1"
	echo "$before $(reads)" | awk '{
		n = NF / 2
		for (i = 1; i <= n; i++) sum += got[i] = $(n + i) - $i
		for (i = 1; i <= n; i++) {
			part = got[i] / sum / (i == 1 ? 3 / 15 : i == 2 ? 7 / 15 : 5 / 15 / (n - 2)) * 1000
			least = i == 1 || part < least ? part : least
			most = part > most ? part : most
		}
		for (i = 1; i <= n; i++) all = all " " got[i]
		printf "%d %d%s\n", least, most, all
	}'
}

# Whether all of these cgroups are empty before long; they are removed.
killed() {
	local cgroup
	for cgroup; do
		for _ in {1..100}; do
			rmdir "$cgroup" 2>/dev/null && continue 2
			sleep 0.1
		done
		echo "${cgroup##*/} has programs still: $(wc -l <"$cgroup/cgroup.procs")"
		return 1
	done
}

# Fourteen that want 1,792, eight at a time of 5 ms each.
measure() { # measure QUEUES
	local n least most all tags scheduler class queues=$1-queues programs=14
	modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=5000000 hw_queue_depth=$((8 / $1)) submit_queues="$1" gb=16
	mkdir -p $CG/g{1..14}
	under $DEV cello
	equal "$queues-tags" "$(<$QUEUE/iosched/tags)" $((512 * $1))
	classes throughput
	echo interactive >$CG/g1/io.cello.class
	echo realtime >$CG/g2/io.cello.class
	echo 300 >$QUEUE/iosched/weight_interactive
	echo 500 >$QUEUE/iosched/weight_throughput
	echo 700 >$QUEUE/iosched/weight_realtime
	for ((n = 1; n <= programs; n++)); do start g$n --ioengine=libaio --iodepth=128 --randseed=$n; done
	sleep 5
	check "$queues-some-wait" test "$(waiters)" -ge 4
	read -r least most all < <(shared "$(times 8 20)")
	echo "$queues: everybody had $least to $most thousandths of what he is to have: $all; $(waiters) wait"
	# The smallest have 360 reads in eight seconds. Where each queue has tags of its own shares are not exact.
	[[ $1 != 1 ]] || check "$queues-shared" test $((least >= 900 && most <= 1100)) = 1

	for scheduler in none cello; do
		under $DEV $scheduler
		check "$queues-goes-on-with-$scheduler" goes_on
	done
	for tags in 4 512; do
		echo "$tags" >$QUEUE/nr_requests
		check "$queues-goes-on-with-$tags-tags" goes_on
	done
	for class in interactive throughput; do
		classes $class
		check "$queues-goes-on-as-$class" goes_on
	done
	sleep 1
	check "$queues-some-wait-again" test "$(waiters)" -ge 4
	# Who waits ends when it is killed, and its cgroup is no more.
	programs=7
	for n in {8..14}; do echo 1 >$CG/g$n/cgroup.kill; done
	check "$queues-killed" killed $CG/g{8..14}
	check "$queues-others-go-on" goes_on
	quit
	for _ in $(times '' once); do threads; done
	rmdir $CG/g{1..7}
	under $DEV none
	check "$queues-nobody-waits" test "$(waiters)" = 0
	rmmod null_blk
}

# switches SECONDS: context switches for a hundred reads
switches() {
	local before after
	before=$(cat /proc/stat /sys/block/$DEV/stat)
	sleep "$1"
	after=$(cat /proc/stat /sys/block/$DEV/stat)
	printf '%s\n' "$before" "$after" | awk '$1 == "ctxt" { n = $2 - n } NF >= 11 && !/[a-z]/ { r = $1 - r } END { printf "%d", n * 100 / r }'
}

# Of 500 threads of one program nobody is served much more often than another, nor sleeps more often than stock.
threads() {
	local least most stock own
	mkdir -p $CG/threads
	under $DEV mq-deadline
	start threads --ioengine=psync --thread --numjobs=500
	sleep 4
	stock=$(switches 3)
	under $DEV cello
	sleep 1
	own=$(switches 3)
	echo "$queues: context switches for a hundred reads, mq-deadline $stock, cello $own"
	check "$queues-threads-switch" test $((own * 2 <= stock * 3 && own > 0)) = 1
	read -r least most < <(python3 -c '
import glob, time
tasks = glob.glob("/proc/[0-9]*/task/[0-9]*/comm")
tasks = [task[:-4] + "io" for task in tasks if open(task).read().strip() == "fio" and task.split("/")[2] != task.split("/")[4]]
def reads():
    return [int(next(line for line in open(task) if line.startswith("read_bytes")).split()[1]) // 4096 for task in tasks]
before = reads()
time.sleep(4)
had = sorted(after - before for before, after in zip(before, reads()))
# One of the threads measures, and reads nothing.
print(had[1], had[-1])')
	echo "$queues: each of 500 threads had $least to $most reads"
	check "$queues-threads-in-turn" test $((least >= 5 && most <= 2 * least)) = 1
	quit
	rmdir $CG/threads
}

for queues in $(times 1 '1 2'); do
	measure "$queues"
done
check unload rmmod cello
finish
