#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-disk
# description: qlinux up disk, disk set, class, run, show and down disk do what they say, and refuse the rest
# cpus: 1
# mem: 2G
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/disk.sh
. /usr/lib/qlinux/tests/guest/lib/disk.sh

nobody() {
	setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
}

# counted NAME CLASS COMMAND...: twenty requests by COMMAND... dd count as that class's
counted() {
	local name=$1 class=$2 before after counter=${2}_requests
	shift 2
	[[ $class == none ]] && counter=bypassed
	before=$(attribute "$counter")
	reads 20 "$@"
	after=$(attribute "$counter")
	# A disk without a class on it is read by nobody else.
	equal "$name" $((after - before)) 20
}

# thread_priority PID: class and level of its I/O priority. ionice shows the hint as part of the
# level, and no level of class idle.
thread_priority() {
	local class level
	IFS=: read -r class level < <(ionice -p "$1")
	[[ -z $level ]] || level=" $((${level##* } & 7))"
	echo "$class$level"
}

json() {
	qlinux --json "$@" 2>/dev/null | tr -d ' \n'
}

# ---- before the module ----------------------------------------------------

like check-there "$(qlinux check)" 'yes +module cello'
file=$(find "/usr/lib/modules/$(uname -r)" -name 'cello.ko*')
mv "$file" /tmp/kept.ko
depmod
modprobe testdisk count=2 depth=32 || fail testdisk "there is no testdisk"
modprobe brd rd_nr=1
mkdir $CG/a $CG/a/b
# To see them enabled.
echo '-io -memory' >$CG/cgroup.subtree_control
like check-missing "$(qlinux check)" 'NO +module cello'
refuses up-missing 1 'no I/O scheduler cello, because its module is not built for that kernel: .*dkms' qlinux up disk $DEV
refuses class-missing 1 'no I/O scheduler cello, because its module is not built' qlinux disk class /a none
echo nonsense >"$file"
depmod 2>/dev/null
refuses up-odd-module 1 'no I/O scheduler cello, because .*cello.ko.* (was not loaded|was built for another kernel)' qlinux up disk $DEV
mv /tmp/kept.ko "$file"
depmod
equal status-none "$(qlinux status | grep -c DISK)" 0
like show-none "$(qlinux disk show)" 'schedules no disk here'
said=$(qlinux disk run realtime -- echo ran 2>&1)
like run-before "$said" 'no disk is scheduled by Cello.*ran'
like class-loads "$(qlinux disk class /a throughput 2>&1; cat $CG/a/io.cello.class)" 'no effect yet.*throughput'
equal class-controllers "$(grep -ow -e io -e memory $CG/cgroup.subtree_control | tr '\n' ' ')" 'io memory '
check class-unset qlinux disk class /a none
check unload modprobe -r cello
equal json-error "$(qlinux --json disk show $DEV 2>&1)" "{\"error\":{\"message\":\"$DEV is not scheduled by Cello: start it with \`qlinux up disk $DEV\`\",\"errno\":3}}"
refuses show-down 1 "$DEV is not scheduled by Cello: start it" qlinux disk show $DEV
refuses set-down 1 "$DEV is not scheduled by Cello: start it" qlinux disk set $DEV --round 50ms
refuses down-down 1 "$DEV is not scheduled by Cello: start it" qlinux down disk $DEV

# ---- devices --------------------------------------------------------------

for dev in nowhere sda99 '' . .. ../block/$DEV /dev/nowhere; do
	refuses "up-no-device-'$dev'" 1 'disk .* does not exist: `lsblk`' qlinux up disk "$dev"
done
refuses up-no-block 1 '/dev/null is not a disk' qlinux up disk /dev/null
refuses up-no-disk 1 '/tmp is not a disk' qlinux up disk /tmp
refuses up-bio 1 'ram0 has no I/O scheduler, because it serves requests as they come' qlinux up disk ram0
for command in "up disk $DEV" "down disk $DEV" "disk set $DEV --round 1s" 'disk class /a realtime'; do
	# shellcheck disable=SC2086 # words
	refuses "unprivileged: $command" 1 'not permitted: run the command as root' nobody qlinux $command
done

# ---- wrong words ----------------------------------------------------------

for round in 0 0ms 999us 10.1s 100 -1s x ''; do
	refuses "round-'$round'" 2 "round '.*' is not valid: give a time from 1ms to 10s" qlinux up disk $DEV --round="$round"
done
for weight in -1 10001 1.5 x ''; do
	refuses "weight-'$weight'" 2 'weight .* give a whole number from 0 to 10000' qlinux up disk $DEV --interactive="$weight"
	refuses "set-weight-'$weight'" 2 'weight .* give a whole number from 0 to 10000' qlinux disk set $DEV --weight "realtime=$weight"
done
refuses weights-zero 2 'weights cannot all be 0' qlinux up disk $DEV --interactive 0 --throughput 0 --realtime 0
refuses weight-twice 2 'named twice' qlinux disk set $DEV --weight realtime=1 --realtime 2
refuses weight-of-none 2 'class none has neither weight' qlinux disk set $DEV --weight none=1
for flight in 0 1025 -1 x; do
	refuses "in-flight-$flight" 2 'give a whole number from 1 to 1024' qlinux up disk $DEV --in-flight=$flight
done
for time in 0s 999ns 10.1s 40 -1ms x; do
	refuses "in-flight-time-$time" 2 'give a time from 1us to 10s' qlinux disk set $DEV --in-flight-time=$time
done
for deadline in 0ms 999us 49.153s 40 -1ms x; do
	refuses "deadline-$deadline" 2 'deadline .* give a time from 1ms to 49.152s' qlinux up disk $DEV --deadline=$deadline
	refuses "run-deadline-$deadline" 2 'deadline .* give a time from 1ms to 49.152s' qlinux disk run realtime --deadline=$deadline -- true
done
refuses unclassified 2 "disk class 'fast' does not exist" qlinux up disk $DEV --unclassified fast
refuses set-nothing 2 'nothing to change was named' qlinux disk set $DEV
refuses run-class 2 "disk class 'fast' does not exist" qlinux disk run fast -- true
refuses class-class 2 "disk class 'fast' does not exist" qlinux disk class $$ fast
refuses class-deadline 2 'a deadline is for requests of class realtime' qlinux disk class $$ interactive --deadline 5ms
refuses class-pid-weight 2 'a weight is of a cgroup' qlinux disk class $$ realtime --weight 5
refuses class-path-deadline 2 'a deadline is of a process' qlinux disk class /a realtime --deadline 5ms
for whom in 0 -1 x 4711x ''; do
	refuses "class-'$whom'" 2 'neither a cgroup nor a process' qlinux disk class "$whom" realtime
done
refuses class-no-process 1 'process 99999999 does not exist' qlinux disk class 99999999 realtime
refuses class-root 2 'root class cannot have a disk class' qlinux disk class / realtime

# ---- up, status, set ------------------------------------------------------

# The files of cgroups come with the module, which the kernel loads now.
no_files() {
	disk_state | grep -v io.cello
}
before=$(no_files)
echo 250 >$SYS/iosched/read_expire
tuned=$(no_files)
mkdir $CG/said
echo 'default 250' >$CG/said/io.weight
check up qlinux up disk /dev/$DEV --interactive 200 --deadline 40ms --unclassified none
equal up-scheduler "$(scheduler)" cello
for ((i = 0; i < 20; i++)); do
	[[ $(cat $CG/said/io.cello.weight) != 250 ]] || break
	sleep 0.1
done
equal up-weight-of-cgroup "$(cat $CG/said/io.cello.weight)" 250
rmdir $CG/said
equal up-unclassified "$(attribute unclassified)" none
equal up-weights "$(attribute weight_interactive) $(attribute weight_throughput) $(attribute deadline_ms)" '200 100 40'
equal up-requests "$(cat $SYS/nr_requests)" 128
refuses up-twice 1 "$DEV is scheduled by Cello already" qlinux up disk $DEV
like status "$(qlinux status)" "DISK $DEV Cello schedules since .*rounds of 100ms, interactive 200, throughput 100, realtime 400"
like status-json "$(json status)" "\"disks\":\[\{\"device\":\"$DEV\",\"state\":\"up\",.*\"before\":\"mq-deadline\".*\"round_us\":100000"
like show "$(qlinux disk show)" "$DEV: rounds of 100ms, 1 request at a time, deadline 40ms"
check set qlinux disk set $DEV --round 50ms --weight interactive=0 throughput=0 --in-flight 4 --in-flight-time 3ms
equal set-attributes "$(attribute round_us) $(attribute weight_interactive) $(attribute weight_throughput)" '50000 0 0'
equal set-in-flight "$(attribute in_flight) $(attribute in_flight_us)" '4 3000'
like show-in-flight "$(qlinux disk show)" ', 4 requests or 3ms at a time, '
refuses set-zero 1 "weights of $DEV cannot all be 0" qlinux disk set $DEV --realtime 0 --round 1s
check set-swap qlinux disk set $DEV --realtime 0 --throughput 7
equal set-swapped "$(attribute weight_throughput) $(attribute weight_realtime)" '7 0'
check set-back qlinux disk set $DEV --weight interactive=100 throughput=100 realtime=100 --in-flight 1 --in-flight-time auto --unclassified throughput
equal set-back "$(attribute in_flight_us) $(attribute unclassified)" '0 throughput'
check set-none qlinux disk set $DEV --unclassified none

# ---- classes of processes -------------------------------------------------

counted none none env
for class in interactive throughput realtime none; do
	counted "run-$class" $class qlinux disk run $class --
done
counted run-inherited throughput qlinux disk run throughput -- sh -c '"$@"' sh
counted run-unprivileged interactive qlinux disk run interactive -- env
qlinux disk run realtime --deadline 20ms -- dd if=/dev/$DEV of=/dev/null bs=4k count=1 skip=9999 iflag=direct status=none
last=$(tail -n 1 /sys/kernel/debug/block/$DEV/sched/realtime)
# arrived sector sectors deadline ...
# shellcheck disable=SC2086 # words
set -- $last
equal run-deadline $((${4:-0} - ${1:-0})) 20000000
equal run-status "$(qlinux disk run realtime -- sh -c 'exit 7'; echo $?)" 7
refuses run-no-command 1 "command '/nowhere/x' did not start" qlinux disk run realtime -- /nowhere/x

sleep 1000 &
sleeper=$!
equal class-none "$(qlinux disk class $sleeper)" "process $sleeper: none"
check class-pid qlinux disk class $sleeper realtime --deadline 100ms
equal class-of-pid "$(qlinux disk class $sleeper)" "process $sleeper: realtime, deadline 96ms"
equal class-json "$(json disk class $sleeper)" "{\"process\":$sleeper,\"class\":\"realtime\",\"deadline_ns\":96000000,\"effective\":\"realtime\",\"from\":null}"
equal class-ionice "$(thread_priority $sleeper)" 'best-effort 4'
check class-pid-none qlinux disk class $sleeper none
equal class-ionice-none "$(ionice -p $sleeper | grep -o none)" none
refuses class-foreign 1 "class of process $sleeper cannot be changed because it belongs to another user" nobody qlinux disk class $sleeper realtime
kill $sleeper

for policy in 'ionice -c 1 -n 2:realtime 2' 'ionice -c 3:idle' 'chrt -i 0:idle' 'nice -n 10:best-effort 6'; do
	# shellcheck disable=SC2086 # words
	nice -n 0 ${policy%%:*} sleep 1000 &
	sleeper=$!
	sleep 0.1
	check "class: ${policy%%:*}" qlinux disk class $sleeper throughput
	equal "kept: ${policy%%:*}" "$(thread_priority $sleeper)" "${policy#*:}"
	equal "read: ${policy%%:*}" "$(qlinux disk class $sleeper)" "process $sleeper: throughput"
	kill $sleeper
done
setpriv --reuid=nobody --regid=nogroup --clear-groups sleep 1000 &
sleeper=$!
sleep 0.1
check class-own nobody qlinux disk class $sleeper interactive
ionice -c 1 -p $sleeper
refuses class-real-time-priority 1 "because its I/O priority is a real-time one" nobody qlinux disk class $sleeper realtime
kill $sleeper

# ---- classes of cgroups ---------------------------------------------------

refuses class-no-cgroup 1 'cgroup /x does not exist' qlinux disk class /x throughput
check class-path qlinux disk class /a throughput --weight 300
equal class-files "$(cat $CG/a/io.cello.class $CG/a/io.cello.weight | tr '\n' ' ')" 'throughput 300 '
equal class-of-path "$(qlinux disk class /a)" '/a: throughput, weight 300'
equal class-of-child "$(qlinux disk class /a/b)" '/a/b: throughput, as /a above it, weight 100'
in_b() {
	sh -c "echo 0 >$CG/a/b/cgroup.procs; exec \"\$@\"" sh "$@"
}
counted cgroup throughput in_b
counted cgroup-before-process throughput in_b qlinux disk run interactive -- 2>/dev/null
said=$(in_b qlinux disk run interactive -- true 2>&1)
like cgroup-advice "$said" 'cgroup /a is throughput, which comes before the class of a process'
check class-child qlinux disk class /a/b realtime
counted cgroup-child realtime in_b
check class-child-none qlinux disk class /a/b none
counted cgroup-child-none throughput in_b
# What is written back by the kernel is its cgroup's.
mkfs.ext4 -qF /dev/$DEV 256m
mkdir -p /mnt/t
mount /dev/$DEV /mnt/t
written=$(attribute throughput_requests)
in_b dd if=/dev/zero of=/mnt/t/file bs=1M count=8 status=none
sync
written=$(($(attribute throughput_requests) - written))
if ((written > 0)); then pass writeback; else fail writeback "no request of class throughput"; fi
umount /mnt/t
refuses class-weight 2 'weight .* give a whole number from 1 to 10000' qlinux disk class /a throughput --weight 0
sleep 1000 &
sleeper=$!
mkdir -p $CG/busy/below
echo $sleeper >$CG/busy/cgroup.procs
refuses class-busy 1 "cgroup /busy cannot give those below it the io controller because process $sleeper belong" qlinux disk class /busy/below throughput
kill $sleeper
mkdir -p $CG/t/x
echo threaded >$CG/t/x/cgroup.type
refuses class-threaded 1 'is threaded, or has threaded cgroups' qlinux disk class /t/x throughput
show=$(qlinux disk show $DEV)
like show-cgroups "$show" '/a +throughput +300'
like show-interval "$(qlinux disk show $DEV --interval 0.2)" 'in 0.2 s'
like show-json-weights "$(json disk show $DEV)" "\"weights\":\{\"interactive\":100,\"throughput\":[0-9]*,\"realtime\":[0-9]*\}"
like show-json "$(json disk show $DEV)" "\"classes\":\[\{\"class\":\"interactive\",\"weight\":100,\"entitled\":0.33"

# ---- down -----------------------------------------------------------------

wait
rmdir $CG/busy/below $CG/busy $CG/t/x $CG/t
check class-end qlinux disk class /a none --weight 100
echo '-io -memory' >$CG/a/cgroup.subtree_control
like down "$(qlinux down disk $DEV)" "$DEV has its scheduler of before, mq-deadline"
equal down-as-before "$(no_files)" "$tuned"
echo 500 >$SYS/iosched/read_expire
equal down-all "$(no_files)" "$before"

# Killed anywhere on its way, it leaves nothing that the next command does not clear.
reached=0
for ((i = 1; i <= $(times 12 250); i++)); do
	# In the foreground, or it kills itself too and does not wait for what it killed.
	{ timeout --foreground -s KILL "$(printf 0.%04d $(((i % 2 ? 7 : 60) * i % 1000)))" qlinux up disk $DEV --arm yes; } >/dev/null 2>&1
	if [[ $(scheduler) == cello ]]; then
		reached=$((reached + 1))
	else
		qlinux up disk $DEV >/dev/null || fail "killed-up-$i" "see above"
	fi
	qlinux down disk $DEV >/dev/null || fail "killed-down-$i" "see above"
done
equal killed "$(no_files)" "$before"
if ((reached > 0 && reached < i - 1)); then pass killed-midway; else fail killed-midway "$reached of $((i - 1)) times"; fi

# Without an arm it has more of them at a time, and keeps more requests for that.
check up-wide qlinux up disk $DEV --arm no
equal up-wide-requests "$(cat $SYS/nr_requests)" 512
check down-wide qlinux down disk $DEV
equal down-wide-as-before "$(no_files)" "$before"

# Somebody else has a hand in it.
check up-again qlinux up disk $DEV
echo none >$SYS/scheduler
like status-replaced "$(qlinux status)" "DISK $DEV somebody has replaced Cello"
like down-replaced "$(qlinux down disk $DEV)" 'not scheduled by Cello any more, but by none'
echo cello >$SYS/scheduler
like status-by-hand "$(qlinux status)" "DISK $DEV Cello schedules"$'\n'
like down-by-hand "$(qlinux down disk $DEV)" "kernel's usual scheduler, mq-deadline"
check up-other qlinux up disk testdisk1
echo 1 >/sys/kernel/debug/testdisk/testdisk1/remove
for ((i = 0; i < 100; i++)); do
	[[ -e /sys/block/testdisk1 ]] || break
	sleep 0.1
done
like status-gone "$(qlinux status)" 'DISK testdisk1 the disk has gone'
like down-gone "$(json down disk testdisk1)" '"was":"gone"'
refuses down-gone-again 1 'testdisk1 does not exist' qlinux down disk testdisk1
equal down-cleared "$(ls /run/qlinux/disk)" ''
finish
