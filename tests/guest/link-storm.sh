#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: link-storm
# description: random changes of a link under load: each is done or refused as it should be, no packet is lost from the account
# cpus: 2
# turns: coarse
# minutes: 2
#
# link-storm.sh [EDITS [SEED]]
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/link.sh
. /usr/lib/qlinux/tests/guest/lib/link.sh
wire
mkdir -p $CG/storm/{a/b,c}
tc qdisc add dev v0 root handle 8: fq_codel limit 777

state() {
	tc qdisc show
	find /sys/fs/bpf -mindepth 1
	bpftool prog show | grep -c '^[0-9]'
	bpftool map show | grep -c '^[0-9]'
	find $CG -type d
}
before=$(state)

# ---- packets of others: two connections and a stream, each in a cgroup of its own; the
# storm goes on while they send
nsenter --net=/run/netns/far nice -n 19 qlinux-work sink --counter /tmp/sink --tcp 6000 --udp 6001 &
pids=($!)
until nsenter --net=/run/netns/far ss -ltn | grep -q ':6000 '; do sleep 0.05; done
background() { # CGROUP WORK...
	(
		echo "$BASHPID" >"$CG/$1/cgroup.procs"
		exec nice -n 19 qlinux-work "${@:2}" --counter "/tmp/${1//\//-}"
	) &
	pids+=($!)
}
background storm/a/b tcp-inf --to 10.0.0.2:6000
background storm/c tcp-inf --to 10.0.0.2:6000
background storm/a net-inf --to 10.0.0.2:6001 --size 1000 --period 1ms

# ---- the storm
edits=${1:-40}
[[ -z $LONG ]] || edits=10000
check up qlinux up link v0 --replace --rate 20mbit
/usr/lib/qlinux/tests/bin/link-storm v0 "$edits" "${2:-1}" || failures=1
kill "${pids[@]}"
wait
# Connections go on repeating what was not answered when their programs are gone.
ip -4 addr flush dev v0
sleep 1

# ---- what is left of it
equal drained "$(look | json 'd["packets"]')" 0
balanced end
# The kernel's own account of the link's last tree: sent, dropped, queued.
ours=$(look | json '[(d["counts"]["sent_bytes"], d["counts"]["refused"] + d["counts"]["dropped"], d["packets"], 0)]')
kernels=$(tc -s -j qdisc show dev v0 | json '[(q["bytes"], q["drops"], q["qlen"], q["backlog"]) for q in d if q.get("root")]')
equal kernel-account "$kernels" "$ours"
check down qlinux down link v0
sleep 1
equal as-before "$(state)" "$before"
finish
