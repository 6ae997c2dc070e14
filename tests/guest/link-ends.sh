#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: link-ends
# description: a link's ends leave nothing behind, and what waited is counted
# minutes: 2
#
# Down under load, replaced by somebody, its interface or its network
# namespace gone; what waited is dropped and counted, and nothing is left behind.
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/link.sh
. /usr/lib/qlinux/tests/guest/lib/link.sh
wire
state() {
	tc qdisc show
	ls -R /sys/fs/bpf/qlinux/link 2>/dev/null
}
check up qlinux up link v0

# ---- down and up again under load; somebody replaces it; the interface goes
check slow-again qlinux link set v0 --rate 1mbit
udp 300 1000 9
ip link set v0 down
equal nothing-queued "$(look | json 'd["packets"]')" 0
balanced down
ip link set v0 up
udp 300 1000 9
check anew qlinux up link v0 --replace --rate 1mbit
equal anew-empty "$(of /default enqueued)" 0
udp 300 1000 9
tc qdisc replace dev v0 root pfifo
like replaced "$(qlinux status)" 'LINK v0 H-SFQ was replaced'
refused replaced-show 1 'not scheduled by H-SFQ any more' qlinux link show v0
like replaced-down "$(qlinux down link v0)" 'not scheduled by H-SFQ any more'
like theirs-stays "$(tc qdisc show dev v0)" '^qdisc pfifo'
tc qdisc del dev v0 root
check up-3 qlinux up link v0 --rate 1mbit
udp 300 1000 9
ip link del v0
like gone "$(qlinux status)" 'LINK v0 the interface has gone'
like gone-counted "$(qlinux status)" ', 0 queued'
equal gone-account "$(qlinux status --json | json '[c["enqueued"] - c["sent"] - c["refused"] - c["dropped"] for c in [d["links"][0]["counts"]]][0] - d["links"][0]["packets"]')" 0
like gone-down "$(qlinux down link v0)" 'has gone'
equal nothing-left "$(find /sys/fs/bpf -mindepth 1)" ''

# ---- in a network namespace, which ends; another interface of the same name
ip netns add other
ip -n other link add v0 type dummy
ip -n other link set v0 up
check other-up nsenter --net=/run/netns/other qlinux up link v0 --rate 1mbit
like elsewhere "$(qlinux status)" 'LINK v0 \(another network namespace\) H-SFQ schedules'
ip netns del other
sleep 1
like elsewhere-gone "$(qlinux status)" 'interface has gone'
wire
check sweeps qlinux up link v0
equal swept "$(qlinux status --json | json 'len(d["links"])')" 1
ip link add d1 type dummy
ip link set d1 up
check second qlinux up link d1 --rate 5mbit
check second-class qlinux link class add d1 /web
equal apart "$(look | json 'len(d["rows"])')" 2
check share qlinux link share d1 web=3 video=5 rest=2 --rate 20mbit --replace
equal shared "$(qlinux link show d1 --interval 0.01 --json | json '[d["default"], d["rate_bits"]] + [(r["name"], r["weight"]) for r in d["rows"]]')" \
	"['/rest', 20000000.0, ('/', None), ('/web', 3), ('/video', 5), ('/rest', 2)]"
refused share-twice 2 'named twice' qlinux link share d1 web=3 web=4
# A tree that packets wait for from the first on; what is wrong with one is found before it is made.
refused share-name 2 'blanks' qlinux link share d1 'a b=3' rest=1 --replace
equal share-stays "$(qlinux link show d1 --interval 0.01 --json | json '[r["name"] for r in d["rows"]]')" "['/', '/web', '/video', '/rest']"
(while :; do udp 100 1000 9; done) &
load=$!
sleep 0.2
check share-busy qlinux link share v0 web=3 rest=2 --rate 1mbit --leaf fq --replace
equal share-rest "$(look | json '[d["default"]] + [(r["name"], r["leaf"]) for r in d["rows"]]')" "['/rest', ('/', 'none'), ('/web', 'fq'), ('/rest', 'fq')]"
check share-default qlinux link share v0 default=3 web=1 --rate 8kbit --leaf sfq --replace
equal share-leaf "$(look | json '[d["default"]] + [(r["name"], r["leaf"]) for r in d["rows"]]')" "['/default', ('/', 'none'), ('/default', 'sfq'), ('/web', 'sfq')]"
kill $load
wait $load 2>/dev/null

# ---- another rate counts at once, also for the packet that is on its way at the old one
for _ in {1..50}; do
	[[ $(look | json 'd["packets"]') == 0 ]] || break
	udp 5 1000 9
done
check faster qlinux link set v0 --rate 100mbit
sleep 0.1
equal drained-at-once "$(look | json 'd["packets"]')" 0

# ---- several changes of which one is refused: none is done
before=$(settings)
refused set-half 2 'overhead 2000 is out of range' qlinux link set v0 --default /web --overhead 2000
refused set-half-2 1 'does not exist' qlinux link set v0 --rate 5mbit --default /nosuch
equal set-none "$(settings)" "$before"

# ---- the command that replaced a link was killed: the one that is there counts
gso() {
	ip -d link show v0 | grep -o 'gso_max_size [0-9]* gso_max_segs [0-9]*'
}
check down-busy qlinux down link v0
tc qdisc add dev v0 root handle 8: fq_codel limit 777
before=$(gso)
check bounded qlinux up link v0 --replace --rate 8mbit
pins=$(ls -d /sys/fs/bpf/qlinux/link/*-"$(cat /sys/class/net/v0/ifindex)")
aside() {
	mv "$pins" "$pins-replaced"
}
aside
check put-right qlinux up link v0 --replace --rate 9mbit
aside
mkdir "$pins"
check put-right-down qlinux down link v0
like theirs-again "$(tc qdisc show dev v0)" 'fq_codel 8: root.* limit 777p'
equal gso-again "$(gso)" "$before"
# Somebody else's in our place: it stays, and packets are as large as before.
check bounded-again qlinux up link v0 --replace --rate 8mbit
tc qdisc replace dev v0 root pfifo
check clear qlinux down link v0
equal gso-theirs "$(gso)" "$before"
tc qdisc del dev v0 root
check bounded-3 qlinux up link v0 --rate 8mbit
tc qdisc del dev v0 root
check deleted qlinux up link v0
equal gso-unbounded "$(gso)" "$before"
check down-2 qlinux down link d1
check down qlinux down link v0
equal nothing-remains "$(find /sys/fs/bpf -mindepth 1)" ''
finish
