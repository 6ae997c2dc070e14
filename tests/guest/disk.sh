#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: disk
# description: disk time goes by class, wherever a request has its class from; orders, merging, flushes, several hardware queues
# cpus: 2
# turns: coarse
# timeout: 1800
# minutes: 3
# kernels-long: disk
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/testdisk.sh
. /usr/lib/qlinux/tests/guest/lib/testdisk.sh

readonly SET=$QUEUE/iosched QUEUES=/sys/kernel/debug/block/testdisk0/sched
readonly BE=2 MARK=$((1 << 9)) OWN=$((1 << 8))

hint() { # hint CLASS [CODE]: of an I/O priority
	echo $((MARK | $1 << 6 | ${2:-0}))
}

get() {
	cat "$SET/$1"
}

put() { # put NAME VALUE
	echo "$2" >"$SET/$1"
}

weights() { # weights INTERACTIVE THROUGHPUT REALTIME
	put weight_throughput 1
	put weight_interactive "$1"
	put weight_throughput "$2"
	put weight_realtime "$3"
}

served() {
	echo "$(get interactive_requests) $(get throughput_requests) $(get realtime_requests) $(get bypassed)"
}

since() { # since SERVED: how many of each class, and without one
	echo "$1 $(served)" | awk '{ print $5 - $1, $6 - $2, $7 - $3, $8 - $4 }'
}

few() { # few [in CGROUP] FIO-OPTION...: eight direct reads
	local in=()
	if [[ ${1:-} == in ]]; then
		in=(within "$2")
		shift 2
	fi
	"${in[@]}" fio --name=few --filename=/dev/testdisk0 --direct=1 --rw=randread --bs=4k --size=1g --io_size=32k --output-format=terse "$@" >/dev/null
}

cgroup() { # cgroup NAME [CLASS [WEIGHT]]
	mkdir -p "$CG/$1"
	[[ -z ${2:-} ]] || echo "$2" >"$CG/$1/io.cello.class"
	[[ -z ${3:-} ]] || echo "$3" >"$CG/$1/io.cello.weight"
}

within() { # within CGROUP COMMAND...
	local to=$1
	shift
	# shellcheck disable=SC2016 # expanded inside
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CG/$to" "$@"
}

# ---- on and off
modprobe testdisk
modprobe -r cello 2>/dev/null
check by-name scheduler cello
like autoloaded "$(lsmod)" 'cello '
like chosen "$(cat $QUEUE/scheduler)" '\[cello\]'
check no-throttling sh -c "! grep -qv '^0$' $QUEUE/wbt_lat_usec"
equal defaults "$(get round_us) $(get deadline_ms) $(get in_flight) $(get in_flight_us)" '100000 300 1 0'
equal default-weights "$(get weight_interactive) $(get weight_throughput) $(get weight_realtime)" '400 100 400'
check in-use sh -c '! rmmod cello 2>/dev/null'
echo '+io +memory' >$CG/cgroup.subtree_control

# ---- what is set: numbers in their ranges, else nothing changes
for wrong in round_us=0 round_us=999 round_us=10000001 round_us=x round_us=-1 in_flight=-1 in_flight=1025 in_flight_us=-1 in_flight_us=10000001 \
	deadline_ms=0 deadline_ms=49153 weight_realtime=10001 weight_realtime= weight_realtime=1,5; do
	before=$(get "${wrong%=*}")
	put "${wrong%=*}" "${wrong#*=}" 2>/dev/null && fail "refuses-$wrong" 'it was taken'
	equal "refuses-$wrong" "$(get "${wrong%=*}")" "$before"
done
put weight_interactive 0
put weight_throughput 0
put weight_realtime 0 2>/dev/null && fail weights-0 'it was taken'
equal weights-0 "$(get weight_realtime)" 400
weights 100 100 100

# ---- a request's class: its own, its cgroup's, its process's, none
cgroup plain
cgroup bulk throughput
mkdir -p $CG/bulk/below
echo '+io +memory' >$CG/bulk/cgroup.subtree_control
mkdir -p $CG/bulk/below
own=(--ioengine=libaio --cmdprio_percentage=100 "--cmdprio_class=$BE" --cmdprio=4)
uring=(--ioengine=io_uring --cmdprio_percentage=100 "--cmdprio_class=$BE" --cmdprio=4)
process=("--prioclass=$BE" --prio=4)
kinds() { # kinds NAME EXPECTED COMMAND...
	local name=$1 expected=$2 before
	shift 2
	before=$(served)
	"$@"
	equal "$name" "$(since "$before")" "$expected"
}
equal unclassified "$(get unclassified)" throughput
kinds unclassified '0 8 0 0' few
kinds none-is-unclassified '0 8 0 0' few in bulk/below "${own[@]}" "--cmdprio_hint=$(($(hint 3) | OWN))"
put unclassified interactive
kinds unclassified-changed '8 0 0 0' few
for wrong in sometimes '' 1; do
	put unclassified "$wrong" 2>/dev/null && fail "unclassified-'$wrong'" 'it was taken'
done
put unclassified none
equal unclassified-none "$(get unclassified)" none
kinds none '0 0 0 8' few
kinds process '8 0 0 0' few "${process[@]}" "--priohint=$(hint 0)"
kinds process-realtime '0 0 8 0' few "${process[@]}" "--priohint=$(hint 2)"
kinds process-none '0 0 0 8' few "${process[@]}" "--priohint=$(hint 3)"
kinds another-hint '0 0 0 8' few "${process[@]}" --priohint=1
kinds cgroup '0 8 0 0' few in bulk/below
kinds cgroup-before-process '0 8 0 0' few in bulk/below "${process[@]}" "--priohint=$(hint 0)"
kinds own-before-cgroup '0 0 8 0' few in bulk/below "${own[@]}" "--cmdprio_hint=$(($(hint 2) | OWN))"
kinds own-none '0 0 0 8' few in bulk/below "${own[@]}" "--cmdprio_hint=$(($(hint 3) | OWN))"
kinds io_uring '8 0 0 0' few "${uring[@]}" "--cmdprio_hint=$(($(hint 0) | OWN))"
kinds run '8 0 0 0' qlinux disk run interactive -- sh -c "dd if=/dev/testdisk0 of=/dev/null bs=4k count=8 iflag=direct status=none"
echo none >$CG/bulk/io.cello.class
kinds cgroup-none '0 0 0 8' few in bulk/below
echo throughput >$CG/bulk/io.cello.class
echo sometimes >$CG/bulk/io.cello.class 2>/dev/null && fail unknown-class 'it was taken'
equal unknown-class "$(cat $CG/bulk/io.cello.class)" throughput
for wrong in 0 10001 x; do
	echo $wrong >$CG/bulk/io.cello.weight 2>/dev/null && fail "weight-$wrong" 'it was taken'
	equal "weight-$wrong" "$(cat $CG/bulk/io.cello.weight)" 100
done

# ---- weights that are said elsewhere: by systemd, by Docker; the last one said, where io.cello.weight has none
weighs() { # weighs NAME WEIGHT: soon, of the cgroup and of its requests at the disk
	local i
	for ((i = 0; i < 20; i++)); do
		[[ $(cat $CG/bulk/below/io.cello.weight) != "$2" ]] || break
		sleep 0.1
	done
	equal "$1" "$(cat $CG/bulk/below/io.cello.weight) $(awk -v id="$(stat -c %i $CG/bulk/below)" '$1 == id { print $3; exit }' $QUEUES/groups)" "$2 $2"
}
equal followed "$(cat /sys/module/cello/parameters/weights_followed)" Y
echo 'default 300' >$CG/bulk/below/io.weight
weighs io.weight 300
echo 250 >$CG/bulk/below/io.bfq.weight
weighs io.bfq.weight 250
# BFQ goes, and comes back.
check no-bfq modprobe -r bfq
modprobe bfq
echo 60 >$CG/bulk/below/io.bfq.weight
weighs io.bfq.weight-again 60
echo 1001 >$CG/bulk/below/io.bfq.weight 2>/dev/null && fail io.bfq.weight-1001 'it was taken'
weighs io.bfq.weight-refused 60
echo 'default 10001' >$CG/bulk/below/io.weight 2>/dev/null && fail io.weight-10001 'it was taken'
echo "$(cat /sys/block/testdisk0/dev) 70" >$CG/bulk/below/io.weight 2>/dev/null
echo 40 >$CG/bulk/below/io.cello.weight
weighs own-weight 40
echo 500 >$CG/bulk/below/io.weight
weighs own-weight-stays 40
echo default >$CG/bulk/below/io.cello.weight
weighs own-weight-gone 500
echo 'default 100' >$CG/bulk/below/io.weight
weighs io.weight-100 100
# Delegation of a cgroup does not delegate the disk.
chown nobody $CG/plain/io.cello.class
setpriv --reuid=65534 --clear-groups sh -c "echo realtime >$CG/plain/io.cello.class" 2>/dev/null
equal delegated "$(cat $CG/plain/io.cello.class)" none

# ---- deadlines: the request's, the class's
before=$(get realtime_requests)
put deadline_ms 700
few "${process[@]}" "--priohint=$(hint 2)"
few "${own[@]}" "--cmdprio_hint=$(($(hint 2 9) | OWN))" # (4 << 2) / 4 ms
equal deadlines "$(tail -n 16 $QUEUES/realtime | awk '{ print ($4 - $1) / 1e6 }' | sort -n | uniq -c | xargs)" '8 4 8 700'
equal noted "$(($(get realtime_requests) - before))" 16

# ---- of an arm's tags what nobody waits for has 32
most_waiting() { # most_waiting COMMAND...: while it runs
	local most=0 now
	"$@" >/dev/null &
	while now=$(get throughput_waiting) && [[ -d /proc/$! ]]; do
		((now <= most)) || most=$now
	done
	wait
	echo "$most"
}
cgroup bulk/behind
background=$(</proc/sys/vm/dirty_background_ratio)
echo 1 >/proc/sys/vm/dirty_background_bytes
exec {device}<>/dev/testdisk0 # who closes it last waits for what was written
waiting=$(most_waiting within bulk/behind bash -c "fio --name=much --filename=/dev/testdisk0 --invalidate=0 --size=400m --io_size=2m --rw=randwrite --bs=8k; sleep 0.5")
check written-back test "$waiting" -gt 8 -a "$waiting" -le 32
waiting=$(most_waiting within bulk/behind fio --name=much --filename=/dev/testdisk0 --size=400m --io_size=1m --rw=randread --bs=8k --direct=1 --ioengine=libaio --iodepth=64)
check waited-for test "$waiting" -gt 56
echo "$background" >/proc/sys/vm/dirty_background_ratio
exec {device}>&-

# ---- buffered writes belong to the cgroup, though a kernel thread sends them
mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 /dev/testdisk0 2g
mount /dev/testdisk0 /mnt
before=$(served)
within bulk/below dd if=/dev/zero of=/mnt/file bs=64k count=64 status=none
sync -f /mnt
like writeback "$(since "$before")" '^0 [1-9]'
# Of a journal, which the kernel writes for all: it has no class, and many wait for it.
put unclassified throughput
before=$(served)
within bulk/below dd if=/dev/zero of=/mnt/file bs=64k count=4 conv=notrunc,fsync status=none
like journal "$(since "$before")" '^[1-9]'
put unclassified none
like in-io.stat "$(cat $CG/bulk/below/io.stat)" 'cello.throughput_us=[1-9]'

# ---- no readahead for real-time programs
readahead() { # readahead CLASS: sectors read for 512 KiB of the file
	echo 3 >/proc/sys/vm/drop_caches
	forget
	qlinux disk run "$1" -- dd if=/mnt/file of=/dev/null bs=64k count=8 status=none
	record | awk '$3 == "r" && $5 > 16 { n += $5 } END { print n }'
}
equal readahead-realtime "$(readahead realtime)" 1024
check readahead-others test "$(readahead interactive)" -gt 1024
# It does not stay with the open file, and not where another scheduler is.
shared() { # shared: sectors read by an interactive program through a file that a real-time one has read
	echo 3 >/proc/sys/vm/drop_caches
	exec {file}</mnt/file
	qlinux disk run realtime -- dd of=/dev/null bs=64k count=4 status=none <&"$file"
	forget
	qlinux disk run interactive -- dd of=/dev/null bs=64k count=4 status=none <&"$file"
	exec {file}<&-
	record | awk '$3 == "r" && $5 > 16 { n += $5 } END { print n }'
}
check readahead-restored test "$(shared)" -gt 512
scheduler mq-deadline
check readahead-elsewhere test "$(readahead realtime)" -gt 1024
scheduler cello
equal readahead-again "$(readahead realtime)" 1024

# ---- merging: neighbours that come together leave together
forget
fio --name=neighbours --filename=/mnt/new --size=1m --rw=write --bs=4k --ioengine=libaio --iodepth=64 --iodepth_batch=64 --direct=1 \
	"${process[@]}" "--priohint=$(hint 1)" --output-format=terse >/dev/null
check merged test "$(record | awk '$3 == "w" && $5 >= 256' | wc -l)" -ge 1

# ---- a flush leaves when all that was written before it has been served
cat >/tmp/flush.py <<'PYTHON'
import os, sys
file = os.open("/mnt/log", os.O_RDWR | os.O_CREAT)
for i in range(20):
    os.pwrite(file, os.urandom(65536), i * 65536)
    os.fdatasync(file)
PYTHON
forget
within bulk/below python3 /tmp/flush.py
check flushes test "$(record | grep -c ' f ')" -ge 20
equal flush-order "$(record | awk '$3 == "f" && n == 0 { early++ } { n = $3 == "f" ? 0 : n + 1 } END { print early + 0 }')" 0
check fstrim fstrim /mnt
umount /mnt
check file-system fsck.ext4 -fn /dev/testdisk0
if [[ -n $BRIEF ]]; then
	scheduler none
	check unload rmmod cello
	finish
fi

# ---- shares of the disk's time, and groups of a class
cgroup a interactive
cgroup b throughput
cgroup c throughput 300
readers() { # readers CGROUP N SEED
	within "$1" fio --name="$1" --filename=/dev/testdisk0 --direct=1 --rw=randread --bs=4k --numjobs="$2" --thread --time_based \
		--runtime=1000 --randseed="$3" --output-format=terse >/dev/null 2>&1 &
}
quit() { # quit CGROUP...: its readers end
	local name
	for name; do
		pkill -f -- "--name=$name "
		while [[ -n $(cat "$CG/$name/cgroup.procs") ]]; do sleep 0.05; done
	done
}
times_us() {
	echo "$(get interactive_time_us) $(get throughput_time_us) $(awk -v id="$(stat -c %i $CG/c)" '$1 == id && $2 == "throughput" { us = $5 } END { print us + 0 }' $QUEUES/groups)"
}
shares() { # shares SECONDS: of the first class, and of the group c in the second
	local before
	before=$(times_us)
	sleep "$1"
	echo "$before $(times_us)" | awk '{ a = $4 - $1; b = $5 - $2; printf "%.3f %.3f\n", a / (a + b), ($6 - $3) / b }'
}
close() { # close NAME FOUND EXPECTED BY
	if awk -v f="$2" -v e="$3" -v by="$4" 'BEGIN { exit !(f - e <= by && e - f <= by) }'; then
		pass "$1"
	else
		fail "$1" "$2 instead of $3"
	fi
}
readers a 6 1
readers b 6 2
readers c 6 3
sleep 3
for weights in 1:1 $(times '' '1:2 1:4') 4:1; do
	weights "${weights%:*}00" "${weights#*:}00" 0
	sleep 1
	read -r first group < <(shares 10)
	ideal=$(awk -F: '{ print $1 / ($1 + $2) }' <<<"$weights")
	close "share-$weights" "$first" "$ideal" 0.02
	close "group-beside-$weights" "$group" 0.75 0.03
done
echo 100 >$CG/c/io.cello.weight
sleep 1
read -r first group < <(shares 10)
close group-changed "$group" 0.5 0.03
# Who has very many requests does not take the tags of others.
quit c
within b fio --name=b-many --filename=/dev/testdisk0 --direct=1 --rw=randread --bs=4k --ioengine=libaio --iodepth=512 --time_based \
	--runtime=1000 --randseed=9 --output-format=terse >/dev/null 2>&1 &
sleep 3
for weights in $(times '' 1:1) 4:1; do
	weights "${weights%:*}00" "${weights#*:}00" 0
	sleep 1
	read -r first _ < <(shares 10)
	ideal=$(awk -F: '{ print $1 / ($1 + $2) }' <<<"$weights")
	close "beside-many-$weights" "$first" "$ideal" 0.02
done
pkill -f -- --name=b-many
# What a class leaves goes to the other; when it comes back it has its share at once.
quit a
busy=$(fault busy_ns)
sleep 5
check work-conserving test "$(($(fault busy_ns) - busy))" -gt 4950000000
quit b

# ---- several hardware queues, one order
scheduler none
pull
modprobe -r testdisk
modprobe testdisk queues=4 depth=16 model=flat
scheduler cello
weights 100 300 0
readers a 12 1
readers b 12 2
sleep 1
read -r first _ < <(shares "$(times 3 10)")
close several-queues "$first" 0.25 0.02
quit a b
check verify verified --rw=randrw --bsrange=4k-64k --size=16m --numjobs=2 --offset_increment=32m
scheduler none
check unload rmmod cello
check files-gone test ! -e $CG/a/io.cello.class
finish
