#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk-parallel
# description: disks that serve many requests at once are used as well as under mq-deadline, and shared; who asks for one thing after the other has its share, there and on an arm
# cpus: 2
# timeout: 1200
# minutes: 4
# kernels-long: disk
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh
# shellcheck source-path=SCRIPTDIR source=lib/peers.sh
. /usr/lib/qlinux/tests/guest/lib/peers.sh

echo '+io' >$CG/cgroup.subtree_control
mkdir -p $CG/a $CG/b

# reader DEV CGROUP NAME FIO-OPTION...: one that reads at random until it is killed
reader() {
	local dev=$1 cgroup=$2 name=$3
	shift 3
	# shellcheck disable=SC2016 # expanded inside
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CG/$cgroup" fio --name="$name" --filename="/dev/$dev" --direct=1 --rw=randread --bs=4k \
		--size=8g --ioengine=libaio --time_based --runtime=1000 --output-format=terse "$@" >/dev/null 2>&1 &
}

set_of() { # set_of DEV NAME VALUE
	echo "$3" >/sys/block/"$1"/queue/iosched/"$2"
}

got() { # got DEV: requests and time in us of both classes
	cat /sys/block/"$1"/queue/iosched/{interactive,throughput}_{requests,time_us} | xargs
}

# shared NAME BEFORE AFTER WHICH IDEAL BY: the first one's share, of requests (1) or of time (2), is within BY of the ideal
shared() {
	local found
	found=$(echo "$2 $3" | awk -v w="$4" '{ a = $(4 + w) - $w; b = $(6 + w) - $(2 + w); print a / (a + b) }')
	if awk -v f="$found" -v i="$5" -v by="$6" 'BEGIN { exit !(f <= i * (1 + by) && f >= i * (1 - by)) }'; then
		pass "$1"
	else
		fail "$1" "$found instead of $5"
	fi
}

# used DEV NAME SECONDS: two classes by 1:3 are served 95 % of mq-deadline's requests and 3 % about their shares, in that time
used() {
	local dev=$1 name=$2 long=$3 peer before after own
	under "$dev" mq-deadline
	reader "$dev" a one --iodepth=64 --randseed=1
	reader "$dev" b two --iodepth=64 --randseed=2
	sleep 2
	peer=$(($(rate "$dev" "$(times 3 6)") * 2 / $(times 3 6)))
	quit
	under "$dev" cello
	set_of "$dev" weight_realtime 0
	set_of "$dev" weight_interactive 100
	set_of "$dev" weight_throughput 300
	echo interactive >$CG/a/io.cello.class
	echo throughput >$CG/b/io.cello.class
	reader "$dev" a one --iodepth=64 --randseed=1
	reader "$dev" b two --iodepth=64 --randseed=2
	sleep "$(times 3 6)"
	before=$(got "$dev")
	own=$(rate "$dev" "$long")
	own=$((own * 2 / long))
	after=$(got "$dev")
	quit
	echo "$name: cello $own, mq-deadline $peer, $(cat /sys/block/"$dev"/queue/iosched/in_flight_now) at a time, $(cat /sys/block/"$dev"/queue/iosched/lanes) lanes"
	check "$name-used" test $((own * 100)) -ge $((peer * 95))
	shared "$name-shared" "$before" "$after" 1 0.25 0.03
}

for us in 5000 $(times '' 1000); do
	modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=$((us * 1000)) hw_queue_depth=32 submit_queues=1 gb=16
	used nullb0 "null_blk-$us-us" "$(times 4 12)"
	rmmod null_blk
done

# Three programs ask for less than the disk could serve, for want of processors: these are not sent for more often
# than under mq-deadline, and as much is served. Each program has its processor: as they come to share them
# mq-deadline serves 6 % more now and then.
for _ in $(times '' once); do
	modprobe testdisk model=parallel depth=64
	mkdir -p $CG/c
	for name in mq-deadline cello; do
		under testdisk0 $name
		for cgroup in a b c; do
			echo none >$CG/$cgroup/io.cello.class
			reader testdisk0 $cgroup three --iodepth=32 --bs=128k --randseed="$(printf %d "'$cgroup")" \
				--cpus_allowed=$(($(printf %d "'$cgroup") % 2))
		done
		sleep 2
		switched=$(awk '/^ctxt/ { print $2 }' /proc/stat)
		before=$(awk '{ print $1 }' /sys/block/testdisk0/stat)
		own=$(rate testdisk0 6)
		served=$(($(awk '{ print $1 }' /sys/block/testdisk0/stat) - before))
		switched=$((($(awk '/^ctxt/ { print $2 }' /proc/stat) - switched) * 1000 / served))
		quit
		echo "short-of-processors: $name serves $own, $switched switches each thousand"
		[[ $name == cello ]] || peer=$own peer_switched=$switched
	done
	check short-used test $((own * 100)) -ge $((peer * 95))
	check short-switched test $((switched * 4)) -le $((peer_switched * 5))
	scheduler none
	rmmod testdisk
done

# requests_of CGROUP...: at nullb0, of all of them
requests_of() {
	local cgroup
	for cgroup; do cat "$CG/$cgroup/io.stat"; done | tr ' ' '\n' | awk -F= '$1 == "cello.requests" { n += $2 } END { print n + 0 }'
}

# However many children a cgroup has, they have what it has.
modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=5000000 hw_queue_depth=32 submit_queues=1 gb=16
under nullb0 cello
mkdir -p $CG/p $CG/q
echo '+io' >$CG/p/cgroup.subtree_control
for many in $(times 8 '1 8 64'); do
	children=()
	for ((i = 0; i < many; i++)); do
		mkdir -p $CG/p/$i
		children+=("p/$i")
		reader nullb0 p/$i one --iodepth=$((64 / many)) --randseed=$i
	done
	reader nullb0 q two --iodepth=64 --randseed=99
	sleep "$(times 3 6)"
	before="$(requests_of "${children[@]}") 0 $(requests_of q) 0"
	sleep "$(times 3 6)"
	after="$(requests_of "${children[@]}") 0 $(requests_of q) 0"
	quit
	shared "$many-children" "$before" "$after" 1 0.5 0.015
done
under nullb0 none
rmmod null_blk

# Where the processor is what is short, which takes long to simulate.
for _ in $(times '' once); do
	modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=100000 hw_queue_depth=64 submit_queues=1 gb=16
	declare -A served=()
	for name in mq-deadline bfq cello; do
		under nullb0 $name
		reader nullb0 a one --iodepth=64 --randseed=1
		sleep 2
		served[$name]=$(rate nullb0 1)
		quit
	done
	rmmod null_blk
	echo "short of processor: cello ${served[cello]}, mq-deadline ${served[mq-deadline]}, bfq ${served[bfq]}"
	check dear test $((served[cello] * 100)) -ge $((served[mq-deadline] * 90))
done

# The test disk, whose channels are chosen by place. What it took is what the simulations have.
modprobe testdisk model=card depth=128
scheduler none
for _ in $(times '' once); do
	load --rw=randrw --bsrange=4k-64k --size=1g --io_size=48m --iodepth=1
	check replayed replayed card
	# Time is what is divided, and requests that meet others at their channel take longer: in one
	# second the share of requests varies by 7 %.
	used testdisk0 channels 24
done

# one_at_a_time NAME PERCENT SECONDS FIO-OPTION...: by 1:4 in that time, and in all at least so much of what BFQ with such weights serves
one_at_a_time() {
	local name=$1 least=$2 long=$3 before after own peer
	shift 3
	under testdisk0 bfq
	echo 100 >$CG/a/io.bfq.weight
	echo 400 >$CG/b/io.bfq.weight
	reader testdisk0 a one --iodepth=1 --randseed=1 "$@"
	reader testdisk0 b two --iodepth=1 --randseed=2 --offset=40g "$@"
	sleep 2
	peer=$(rate testdisk0 4)
	quit
	under testdisk0 cello
	set_of testdisk0 weight_realtime 0
	set_of testdisk0 weight_interactive 100
	set_of testdisk0 weight_throughput 400
	echo interactive >$CG/a/io.cello.class
	echo throughput >$CG/b/io.cello.class
	reader testdisk0 a one --iodepth=1 --randseed=1 "$@"
	reader testdisk0 b two --iodepth=1 --randseed=2 --offset=40g "$@"
	sleep 2
	before=$(got testdisk0)
	own=$(rate testdisk0 "$long")
	after=$(got testdisk0)
	own=$((own * 4 / long))
	quit
	echo "$name: cello $own, bfq $peer"
	check "$name-total" test $((own * 100)) -ge $((peer * least))
	shared "$name-shared" "$before" "$after" 2 0.2 0.05
}
one_at_a_time parallel-random 100 4
for _ in $(times '' once); do
	one_at_a_time parallel-sequential 100 4 --rw=read
done
scheduler none
pull
modprobe -r testdisk
modprobe testdisk model=turning
# An arm goes to and fro once a round more often than under BFQ, whose turns are longer. A guest of a
# busy machine is late now and then, which costs a part of a round: over many rounds it does not matter.
for _ in $(times '' once); do
	one_at_a_time arm-random 90 16
	one_at_a_time arm-sequential 85 40 --rw=read
done

# Three classes by 3:5:7, whose deadlines leave room for the arm's way.
for _ in $(times '' once); do
	readers_of_three() {
		reader testdisk0 a one --iodepth=6 --randseed=1
		reader testdisk0 b two --iodepth=6 --randseed=2
		reader testdisk0 c three --iodepth=6 --randseed=3
		sleep 2
	}
	mkdir -p $CG/c
	under testdisk0 mq-deadline
	readers_of_three
	peer=$(rate testdisk0 30)
	quit
	under testdisk0 cello
	set_of testdisk0 weight_interactive 300
	set_of testdisk0 weight_throughput 500
	set_of testdisk0 weight_realtime 700
	set_of testdisk0 deadline_ms 500
	echo interactive >$CG/a/io.cello.class
	echo throughput >$CG/b/io.cello.class
	echo realtime >$CG/c/io.cello.class
	readers_of_three
	own=$(rate testdisk0 30)
	echo "3:5:7 on an arm: cello $own, mq-deadline $peer; late: $(cat $QUEUE/iosched/realtime_late)"
	quit
	check three-classes test $((own * 100)) -ge $((peer * 95))
done

# ---- nobody is above the classes: a program in none, with 128 requests, beside one with deadlines
scheduler cello
echo none >$CG/a/io.cello.class
echo realtime >$CG/b/io.cello.class
set_of testdisk0 weight_realtime 300
set_of testdisk0 deadline_ms 150
reader testdisk0 a one --iodepth=128 --randseed=1
sleep 1
reader testdisk0 b two --iodepth=1 --randseed=2 --thinktime=100ms
sleep 5
quit
check realtime-served test "$(cat $IOSCHED/realtime_requests)" -ge 30
equal realtime-late "$(cat $IOSCHED/realtime_late) $(cat $IOSCHED/realtime_broken)" '0 0'
check unclassified-served test "$(cat $IOSCHED/throughput_requests)" -ge 200
scheduler none
check unload rmmod cello
finish
