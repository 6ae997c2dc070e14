#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: link-refusals
# description: what a link takes and refuses: its settings, tree, queues and rules; one sentence, and nothing changed
# minutes: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/link.sh
. /usr/lib/qlinux/tests/guest/lib/link.sh
wire

# ---- before it is up
refused unknown-device 1 'nosuch0 does not exist' qlinux up link nosuch0
refused odd-device 1 'does not exist' qlinux up link 'a/b'
refused rate-zero 2 'rate' qlinux up link v0 --rate 0mbit
refused rate-odd 2 'rate' qlinux up link v0 --rate fast
refused overhead 2 'overhead 9999 is out of range' qlinux up link v0 --overhead 9999
refused not-up 1 'v0 is not scheduled by H-SFQ: start it with' qlinux link show v0
refused not-up-down 1 'v0 is not scheduled' qlinux down link v0
check stock-fq_codel tc qdisc add dev v0 root fq_codel limit 777
refused foreign 1 'v0 has the queueing discipline fq_codel: add --replace' qlinux up link v0
before=$(state)
check replace qlinux up link v0 --rate 100mbit --gso-max 8192 --replace
like gso "$(ip -d link show v0)" 'gso_max_size 8192'
like there "$(tc qdisc show dev v0)" '^qdisc hsfq'
check put-back qlinux down link v0
equal as-before "$(state)" "$before"
check no-fq_codel tc qdisc del dev v0 root

# ---- the tree
check up qlinux up link v0 --rate 50mbit
like gso-of-rate "$(ip -d link show v0)" 'gso_max_size 6250 gso_max_segs 4'
check gso-follows qlinux link set v0 --rate 8mbit
like gso-followed "$(ip -d link show v0)" 'gso_max_segs 1 '
check gso-unbounded qlinux link set v0 --rate none
like gso-as-before "$(ip -d link show v0)" 'gso_max_size 65536 gso_max_segs 65535'
check gso-chosen qlinux link set v0 --gso-max 9000
check gso-stays qlinux link set v0 --rate 50mbit
like gso-stayed "$(ip -d link show v0)" 'gso_max_size 9000 gso_max_segs 6'
refused up-twice 1 'v0 is scheduled by H-SFQ already' qlinux up link v0
equal default "$(look | json '[d["default"]] + [(r["name"], r["leaf"]) for r in d["rows"]]')" \
	"['/default', ('/', 'none'), ('/default', 'fifo')]"
tree
refused exists 1 'class /web of v0 exists already' qlinux link class add v0 /web
refused no-parent 1 'its parent /x does not exist' qlinux link class add v0 /x/y
refused below-leaf 1 'class /web of v0 holds queues' qlinux link class add v0 /web/y
refused weight-zero 2 'weight 0 is out of range' qlinux link class add v0 /y --weight 0
refused weight-large 2 'weight 10001 is out of range' qlinux link class set v0 /web --weight 10001
refused leaf 2 "leaf scheduler 'ts' of a link does not exist" qlinux link class add v0 /y --leaf ts
refused root-del 2 'the root class cannot be deleted' qlinux link class del v0 /
refused no-class 1 'class /y of v0 does not exist' qlinux link class del v0 /y
refused children 1 'it has the children /tenants/a, /tenants/b' qlinux link class del v0 /tenants
refused queues 1 'it has the queues backup' qlinux link class del v0 /tenants/a
refused in-use 1 'or it is the default: change that first' qlinux link class del v0 /default
refused queue-exists 1 'queue backup of v0 exists already' qlinux link queue add v0 backup
refused queue-name 2 'blanks' qlinux link queue add v0 'a b'
refused queue-none 1 'queue nosuch of v0 does not exist' qlinux link queue set v0 nosuch --packets 5
refused queue-limit 2 'limit in packets 0 is out of range' qlinux link queue set v0 backup --packets 0
refused queue-attached 1 'is attached already' qlinux link queue attach v0 backup /web
refused queue-own 1 "is its class's own" qlinux link queue move v0 /web /tenants/a
refused queue-to-inner 1 'holds classes, not queues' qlinux link queue move v0 backup /tenants
refused loose-moved 1 'is attached nowhere' qlinux link queue move v0 loose /web
refused nothing 2 'nothing to change' qlinux link set v0
refused set-rate 2 'rate' qlinux link set v0 --rate 0kbit
refused codel 2 'goal' qlinux link set v0 --codel 100ms/5ms
refused rule-family 2 'both be IPv4 or both IPv6' qlinux link rule add v0 /web --from 10.0.0.1 --to fd00::1
refused rule-port 2 'port' qlinux link rule add v0 /web --dport 0
refused rule-none 1 'v0 has no rule 9' qlinux link rule del v0 9
refused cgroup-none 1 'does not exist' qlinux link attach v0 /web --cgroup /nosuch
refused cgroup-detach 1 'has no queue of its own' qlinux link detach v0 --cgroup /
refused user 1 "user 'nosuch' does not exist" qlinux link grant v0 /web --user nosuch
refused run-usage 2 'name its PATH, too' qlinux run --link v0:/web --weight 5 -- true
refused run-queue 1 'class /nosuch of v0 does not exist' qlinux run --link v0:/nosuch -- true
check down qlinux down link v0
finish
