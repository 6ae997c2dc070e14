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
check down-2 qlinux down link d1
check down qlinux down link v0
equal nothing-remains "$(find /sys/fs/bpf -mindepth 1)" ''
finish
