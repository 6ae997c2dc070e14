#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: top
# description: qlinux top tells entitled and received shares, latency and threads; as JSON, table and on a terminal
# cpus: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

# value PATH FIELD LINE: of that class in one line of JSON
value() {
	grep -o "{\"path\":\"$1\",\"part\":\"class\"[^}]*}" <<<"$3" | grep -o "\"$2\":[^,}]*" | cut -d: -f2
}
# within NAME FOUND LOW HIGH
within() {
	if awk -v found="$2" -v low="$3" -v high="$4" \
		'BEGIN { exit !(found ~ /^[0-9.e-]+$/ && low <= found + 0 && found + 0 <= high) }'; then
		pass "$1: $2"
	else
		fail "$1" "'$2' is not from $3 to $4"
	fi
}

refused not-up 1 'H-SFQ is not loaded; start it' qlinux top
check up qlinux up cpu
refused no-class 1 'class /none does not exist' qlinux top /none --batch -n 1
refused never 2 '--iterations' qlinux top -n 0
check add qlinux class add /one
check add-three qlinux class add /three --weight 300
check add-nap qlinux class add /nap --weight 4
check add-child qlinux class add /one/child
busy=()
for class in /one/child /three /three; do
	qlinux run $class -- sh -c 'while :; do :; done' &
	busy+=($!)
done
mkfifo /tmp/nothing
qlinux run /nap -- bash -c 'exec 3<>/tmp/nothing; while :; do read -rt 0.02 -u 3; done' &
busy+=($!)
sleep 1

json=$(qlinux top --json -n 2 -d 1)
equal two-lines "$(wc -l <<<"$json")" 2
last=$(tail -1 <<<"$json")
within entitled-one "$(value /one entitled_percent "$last")" 24.5 25.1
within entitled-three "$(value /three entitled_percent "$last")" 73.5 75.1
within received-one "$(value /one received_percent "$last")" 24 25.5
within received-three "$(value /three received_percent "$last")" 72 75.5
within received-child "$(value /one/child received_cpus "$last")" .24 .255
equal runnable-one "$(value /one runnable "$last")" 1
equal runnable-three "$(value /three runnable "$last")" 2
equal threads-three "$(value /three threads "$last")" 2
within wakeups "$(value /nap wakeups "$last")" 20 60
within latency-p50 "$(value /nap wakeup_p50_ns "$last")" 512 20e6
within latency-max "$(value /nap wakeup_max_ns "$last")" "$(value /nap wakeup_p99_ns "$last")" 40e6
equal latency-none "$(value /three wakeup_p99_ns "$last")" null
like fields "$last" '^\{"time":[0-9.]+,"interval_s":[01]\.[0-9]+,"cpus":1,"idle_cpus":[0-9.]+,"per_second":\{"quanta":[0-9.]+,'

table=$(qlinux top /one --batch -n 1 -d 0.5)
like table "$table" '/one +100 ts +1/1 +2[45]\.[0-9] % +2[45]\.[0-9] %'
like table-child "$table" '  child +100 ts +1/1 +2[45]\.[0-9] %'
if [[ $table == *three* ]]; then fail subtree "shows what is not below /one"; else pass subtree; fi
equal reader-gone "$(qlinux top --json -d 0.1 | head -1 | wc -l)" 1

# On a terminal of 80 by 24, then of 120 by 30, with keys, and ended by q.
mkfifo /tmp/keys
TERM=vt100 timeout 60 script -qefc 'tty >/tmp/tty; stty rows 24 cols 80; qlinux top -d 0.5; echo "status $?"; stty -a >/tmp/stty' \
	/tmp/typed </tmp/keys >/dev/null &
terminal=$!
exec 3>/tmp/keys
sleep 2
size=$(stat -c %s /tmp/typed)
sleep 2
idle=$(($(stat -c %s /tmp/typed) - size))
stty -F "$(cat /tmp/tty)" rows 30 cols 120
sleep 1
printf 's' >&3
sleep 0.5
printf '/' >&3
sleep 0.3
printf '/on\r' >&3
sleep 0.7
printf 'q' >&3
wait $terminal
exec 3>&-
text=$(sed 's/\x1b\[[0-9;?]*[a-zA-Z]/ /g' /tmp/typed | tr -s ' \n\r' ' ')
like terminal-heading "$text" 'CLASS WEIGHT LEAF RUN/THR ENTITLED RECEIVED WAKE P50 P99 MAX'
like terminal-class "$text" 'three 300 ts 2/2 7[45]\.[0-9] %'
like terminal-resized "$text" 'received, \| entitled'
like terminal-filter "$text" 'only /on'
like terminal-left "$text" 'status 0'
within terminal-bytes-of-four-refreshes "$idle" 4 4000
like terminal-restored "$(cat /tmp/stty)" '[^-]icanon.*[^-]echo '
check terminal-screen-restored grep -q $'\e''\[?1049l' /tmp/typed

kill "${busy[@]}"
wait
check rmdir qlinux class del /one/child /one /three /nap

# A thousand classes: what a refresh costs once their names are known.
seq -f "$CG/many%g" 0 999 | xargs mkdir
TIMEFORMAT='%U %S'
seconds() { # seconds REFRESHES: of CPU time
	{ time qlinux top --json -d 0.2 -n "$1" >/tmp/many; } 2>&1 | awk '{ print $1 + $2 }'
}
seconds 1 >/dev/null
cost=$(awk -v few="$(seconds 1)" -v many="$(seconds 5)" 'BEGIN { print (many - few) / 4 }')
equal many-shown "$(tail -1 /tmp/many | grep -o '"path":"/many[0-9]*"' | sort -u | wc -l)" 1000
within many-seconds-of-cpu-a-refresh "$cost" 0 .1
rmdir $CG/many*
check down qlinux down cpu
finish
