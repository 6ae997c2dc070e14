#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-trace
# description: the trace has a line for every quantum, with classes by path, and ends with the scheduler
# cpus: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

check up qlinux up cpu --trace 4M
like status "$(qlinux status)" 'with a trace'
for class in a:100 b:300; do
	check "add-${class%:*}" qlinux class add "/${class%:*}" --weight "${class#*:}"
	qlinux run "/${class%:*}" -- sh -c 'while :; do :; done' &
done
sleep 0.5
# What is in the buffer from before is not of interest.
check drain qlinux trace --duration 0.1 --output /dev/null
check trace qlinux trace --duration 2 --output /tmp/t.csv
equal header "$(head -1 /tmp/t.csv)" 'time_ns,kind,cpu,tid,class,node,leaf,length_ns,start_tag,weight'
equal columns "$(awk -F, 'NF != 10' /tmp/t.csv | wc -l)" 0
ratio=$(awk -F, '$2 == "quantum" && ($5 == "/a" || $5 == "/b") { s[$5] += $8 } END { printf "%.2f", s["/b"] / s["/a"] }' /tmp/t.csv)
like ratio "$ratio" '^(2\.9[0-9]|3\.0[0-9]|3\.10)$'
equal fields-that-say-nothing "$(awk -F, '$2 == "run" || $2 == "sleep" { print $4, $8, $9 }' /tmp/t.csv | sort -u)" '0 0 0'
check increasing awk -F, 'NR > 2 && $1 < last { exit 1 } { last = $1 }' /tmp/t.csv
equal named "$(awk -F, 'NR > 1 && $5 !~ /^\//' /tmp/t.csv | wc -l)" 0

qlinux trace --output /tmp/u.csv &
reader=$!
sleep 0.3
refused second-reader 1 'another program reads the trace' qlinux trace --output /dev/null
check set qlinux class set /a --weight 77
sleep 0.2
kill $reader
wait $reader
equal reader-status $? 0
equal weight-record "$(awk -F, '$2 == "weight" { print $5, $10 }' /tmp/u.csv)" '/a 77'
like json "$(qlinux trace --json --duration 0.1 | head -1)" '"time_ns":[0-9]+,"kind":"'

qlinux trace --output /tmp/v.csv &
reader=$!
sleep 0.3
check down qlinux down cpu
wait $reader
equal ends-with-scheduler $? 0
kill %1 %2 2>/dev/null
wait 2>/dev/null
check del qlinux class del /a /b
finish
