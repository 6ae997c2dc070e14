#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: link-restore
# description: the queueing disciplines, classes and filters that a link had are back afterwards
# minutes: 3
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

readonly DEV=v0

# What tc tells of the device, without counters and flows.
told() {
	local holder
	tc qdisc show dev $DEV | sed -E 's/ (refcnt|direct_packets_stat) [0-9]+//g'
	tc class show dev $DEV | grep -vE '^class (cake|fq_codel|sfq) ' | sort
	for holder in $(tc qdisc show dev $DEV | awk '$3 != "0:" { print $3 }') \
		$(tc class show dev $DEV | awk '$2 == "htb" || $2 == "hfsc" { print $3 }'); do
		tc chain show dev $DEV parent "$holder"
		tc filter show dev $DEV parent "$holder" 2>/dev/null
	done
}

fresh() {
	ip link del $DEV 2>/dev/null
	ip link add $DEV numtxqueues 4 numrxqueues 4 type veth peer v1 numtxqueues 4 numrxqueues 4
	ip addr add 10.9.0.1/24 dev $DEV
	ip link set v1 up
	ip link set $DEV up
}

# t LINE: the rest of a `tc` command for the device, with DEV where it goes.
t() {
	# shellcheck disable=SC2048,SC2086 # words
	tc ${*//DEV/dev $DEV}
}

# back NAME: reads `tc` commands, and sees to it that what they made comes back.
back() {
	local name=$1 line before after output
	fresh
	while read -r line; do
		if [[ -n $line ]] && ! output=$(t "$line" 2>&1); then
			fail "$name" "tc $line: $output"
			return
		fi
	done
	ping -q -c 2 -i 0.01 -W 1 -I $DEV 10.9.0.2 >/dev/null 2>&1
	before=$(told)
	if ! output=$(qlinux up link $DEV --replace 2>&1); then
		fail "$name" "up: $output"
	elif [[ $(told) == "$before" ]]; then
		fail "$name" 'the link was not taken'
	elif ! output=$(qlinux down link $DEV 2>&1); then
		fail "$name" "down: $output"
	else
		after=$(told)
		if [[ $before == "$after" ]]; then
			pass "$name"
		else
			fail "$name" "$(diff <(echo "$before") <(echo "$after"))"
		fi
	fi
}

# seldom NAME: the same, in the long run only, as starting a link takes a while.
seldom() {
	[[ -z $LONG ]] || back "$1"
}

# not_taken NAME REGEX: reads `tc` commands; what they made must be refused and stay.
not_taken() {
	local name=$1 regex=$2 line before output
	fresh
	while read -r line; do
		if [[ -n $line ]] && ! output=$(t "$line" 2>&1); then
			fail "$name" "tc $line: $output"
			return
		fi
	done
	before=$(told)
	if output=$(qlinux up link $DEV --replace 2>&1); then
		fail "$name" 'was taken'
	elif [[ ! $output =~ $regex ]]; then
		fail "$name" "said '$output'"
	else
		equal "$name" "$(told)" "$before"
	fi
}

modprobe -a veth sch_htb sch_fq_codel sch_fq sch_hfsc sch_drr sch_qfq sch_cake sch_sfq sch_tbf sch_prio \
	sch_multiq sch_ets sch_codel sch_pie sch_fq_pie sch_hhf sch_red sch_netem sch_ingress \
	cls_u32 cls_fw cls_flower cls_matchall cls_cgroup cls_basic cls_flow cls_route cls_bpf \
	act_gact act_mirred act_skbedit act_vlan act_police em_meta em_u32 em_cmp

# The kernel's own, of one queue and of several.
back default </dev/null

# One kind after the other; usually each eleventh.
row=0
while read -r name line; do
	((row++ % $(times 11 1) == 0)) || continue
	back "$name" <<<"qdisc add DEV root $line"
done <<'TEXT'
pfifo handle 5: pfifo limit 77
bfifo handle 5: bfifo limit 77777
pfifo-head-drop handle 5: pfifo_head_drop limit 9
pfifo-fast handle 5: pfifo_fast
noqueue handle 5: noqueue
fq-codel handle 5: fq_codel
fq-codel-set handle 5: fq_codel limit 999 flows 64 target 3ms interval 70ms quantum 300 ce_threshold 1ms noecn memory_limit 1Mb drop_batch 7
fq handle 5: fq
fq-set handle 5: fq limit 500 flow_limit 20 buckets 64 quantum 3000 initial_quantum 9000 maxrate 10mbit ce_threshold 2ms low_rate_threshold 100kbit refill_delay 50ms orphan_mask 255 timer_slack 30us horizon 5s horizon_cap
fq-no-pacing handle 5: fq nopacing
cake handle 5: cake
cake-set handle 5: cake bandwidth 17mbit diffserv4 nat wash ack-filter overhead 38 mpu 64 atm rtt 33ms split-gso dual-srchost memlimit 2mb fwmark 0xf ingress
cake-besteffort handle 5: cake besteffort flowblind unlimited raw no-split-gso
sfq handle 5: sfq
sfq-set handle 5: sfq perturb 7 limit 300 divisor 512 depth 40 flows 64 quantum 3000 headdrop
sfq-red handle 5: sfq limit 3000 flows 64 redflowlimit 100000 min 8000 max 60000 probability 0.20 ecn headdrop
tbf handle 5: tbf rate 3mbit burst 5000 latency 40ms
tbf-odd handle 5: tbf rate 9876543bit burst 1514 limit 10001
tbf-fast handle 5: tbf rate 100gbit burst 9mb limit 10mb
tbf-peak handle 5: tbf rate 3mbit burst 20kb latency 40ms peakrate 7mbit mtu 1540 overhead 24 mpu 64
tbf-atm handle 5: tbf rate 3mbit burst 20kb latency 40ms linklayer atm overhead 12
codel handle 5: codel limit 77 target 11ms interval 120ms ecn ce_threshold 3ms
pie handle 5: pie limit 77 target 13ms tupdate 20ms alpha 3 beta 21 ecn bytemode
fq-pie handle 5: fq_pie limit 2000 flows 128 target 13ms tupdate 20ms alpha 3 beta 21 quantum 900 memory_limit 1Mb ecn_prob 20 ecn
hhf handle 5: hhf limit 500 quantum 2000 hh_limit 99 reset_timeout 30ms admit_bytes 9999 evict_timeout 500ms non_hh_weight 3
multiq handle 5: multiq
ets handle 5: ets bands 6 strict 2 quanta 3000 2000 1000 500 priomap 5 4 3 2 1 0 5 4 3 2 1 0 5 4 3 2
stab handle 5: stab overhead 24 linklayer ethernet htb default 1
TEXT

back no-handle <<'TEXT'
qdisc add DEV root prio
qdisc add DEV parent 8001:1 sfq
TEXT

seldom tbf-child <<'TEXT'
qdisc add DEV root handle 5: tbf rate 3mbit burst 5000 latency 40ms
qdisc add DEV parent 5:1 handle 50: fq_codel target 3ms
TEXT

seldom prio <<'TEXT'
qdisc add DEV root handle 1: prio bands 4 priomap 3 2 1 0 3 2 1 0 3 2 1 0 3 2 1 0
qdisc add DEV parent 1:1 handle 10: sfq perturb 10
qdisc add DEV parent 1:2 handle 20: prio bands 2 priomap 0 0 0 1 1 1 1 1 1 1 1 1 1 1 1 1
qdisc add DEV parent 20:1 handle 21: bfifo limit 9000
qdisc add DEV parent 1:4 handle 40: tbf rate 1mbit burst 3000 limit 9000
filter add DEV parent 1: protocol ip prio 7 u32 match ip dport 80 0xffff flowid 1:3
filter add DEV parent 20: protocol all prio 1 handle 5 fw flowid 20:2
TEXT

htb='qdisc add DEV root handle 1: htb default 30 r2q 7 direct_qlen 55
class add DEV parent 1: classid 1:1 htb rate 90mbit ceil 90mbit burst 15k cburst 20k
class add DEV parent 1:1 classid 1:10 htb rate 10mbit ceil 90mbit prio 1
class add DEV parent 1:1 classid 1:2 htb rate 50mbit ceil 80mbit mpu 64 overhead 18
class add DEV parent 1:2 classid 1:20 htb rate 20mbit quantum 3000
class add DEV parent 1:2 classid 1:21 htb rate 20gbit ceil 50gbit prio 3
class add DEV parent 1:1 classid 1:30 htb rate 1mbit linklayer atm
class add DEV parent 1: classid 1:ffff htb rate 8kbit
qdisc add DEV parent 1:10 handle 10: fq_codel
qdisc add DEV parent 1:20 handle 20: fq_codel limit 100 target 7ms
qdisc add DEV parent 1:30 handle 30: htb default 1
class add DEV parent 30: classid 30:1 htb rate 5mbit'

seldom htb <<<"$htb"

back htb-u32 <<<"$htb
filter add DEV parent 1: protocol ip prio 1 u32 match ip dst 10.1.0.0/16 match ip protocol 6 0xff flowid 1:10
filter add DEV parent 1: protocol ip prio 1 u32 match ip dst 10.2.0.0/16 flowid 1:20
filter add DEV parent 1: protocol ipv6 prio 2 u32 match ip6 dport 22 0xffff flowid 1:21
filter add DEV parent 1:2 protocol ip prio 9 u32 match mark 7 0xff flowid 1:20
filter add DEV parent 1: prio 5 protocol ip u32
filter add DEV parent 1: protocol ip prio 5 handle 2: u32 divisor 256
filter add DEV parent 1: protocol ip prio 5 handle 3: u32 divisor 16
filter add DEV parent 1: protocol ip prio 5 u32 ht 2:7b: match ip src 192.168.0.123 flowid 1:10
filter add DEV parent 1: protocol ip prio 5 u32 ht 2:7b: match ip src 192.168.1.123 flowid 1:20
filter add DEV parent 1: protocol ip prio 5 u32 ht 3:2: match u8 1 0xff at nexthdr+3 flowid 1:20
filter add DEV parent 1: protocol ip prio 5 u32 ht 800:: match ip src 192.168.0.0/16 hashkey mask 0x000000ff at 12 link 2:
filter add DEV parent 1: protocol ip prio 5 u32 match ip src 172.16.0.0/12 hashkey mask 0x000000ff at 12 link 2:
filter add DEV parent 1: protocol ip prio 5 u32 ht 2:9: match ip protocol 1 0xff offset at 0 mask 0f00 shift 6 link 3:
filter add DEV parent 30: protocol all prio 49152 u32 match u32 0 0 flowid 30:1 action drop
filter add DEV parent 30: protocol all prio 3 u32 match u32 0 0 flowid 30:1 action skbedit mark 5 pipe action mirred egress redirect dev lo"

# Numbers that the kernel would not choose now.
seldom htb-u32-gap <<<"$htb
filter add DEV parent 1: protocol ip prio 4 u32 match ip dst 10.1.0.0/16 flowid 1:10
filter add DEV parent 1: protocol ip prio 3 u32 match ip dst 10.1.0.0/16 flowid 1:10
filter add DEV parent 1: protocol ip prio 2 u32 match ip dst 10.1.0.0/16 flowid 1:10
filter add DEV parent 1: protocol ip prio 2 handle 5: u32 divisor 1"

back htb-filters <<<"$htb
filter add DEV parent 1: protocol ip prio 1 handle 0x6 fw flowid 1:10
filter add DEV parent 1: protocol ip prio 1 handle 0x106 fw flowid 1:20
filter add DEV parent 1: protocol ip prio 2 handle 0x6/0xff fw classid 1:20
filter add DEV parent 1: protocol ip prio 3 flower ip_proto tcp dst_port 80 flowid 1:10
filter add DEV parent 1: protocol ip prio 3 flower ip_proto tcp dst_port 80-90 src_ip 10.0.0.0/8 flowid 1:20 action pass
filter add DEV parent 1: protocol ip prio 3 handle 77 flower skip_hw dst_mac 02:00:00:00:00:01 ip_tos 0x8/0xfc classid 1:20
filter add DEV parent 1: protocol 802.1q prio 4 flower vlan_id 7 vlan_prio 3 vlan_ethtype ipv6 classid 1:20
filter add DEV parent 1: protocol 802.1q prio 4 flower vlan_id 8 classid 1:20
filter add DEV parent 1: protocol 802.1ad prio 14 flower vlan_prio 2 vlan_ethtype ipv4 src_ip 10.0.0.1 classid 1:20
filter add DEV parent 1: protocol ipv6 prio 15 flower ip_proto icmpv6 type 128 code 0 classid 1:20
filter add DEV parent 1: protocol ipv6 prio 15 flower dst_ip fe80::/64 ip_proto udp src_port 53 ip_ttl 64 classid 1:20
filter add DEV parent 1: protocol ip prio 16 flower ip_proto tcp tcp_flags 0x2/0x12 ip_flags frag/firstfrag classid 1:20
filter add DEV parent 1: protocol ip prio 16 flower ip_proto sctp dst_port 9 classid 1:20
filter add DEV parent 1: protocol ip prio 16 flower ip_proto icmp type 8 classid 1:20
filter add DEV parent 1: protocol arp prio 17 flower arp_op request arp_tip 10.0.0.0/8 arp_sha 02:00:00:00:00:01/ff:ff:00:00:00:00 classid 1:20
filter add DEV parent 1: protocol all prio 18 flower src_mac 02:00:00:00:00:01 indev lo classid 1:20
filter add DEV parent 1: protocol ip prio 5 matchall classid 1:21
filter add DEV parent 1: protocol ip prio 6 handle 1: cgroup
filter add DEV parent 1: protocol ip prio 7 basic match meta(priority eq 5) and not cmp(u8 at 0 layer 1 eq 0x40) flowid 1:10
filter add DEV parent 1: protocol ip prio 7 basic match u32(u32 0x01020304 0xffffffff at 12) flowid 1:20
filter add DEV parent 1: protocol ip prio 8 handle 1 flow hash keys src,dst divisor 16 baseclass 1:10 perturb 9
filter add DEV parent 1: protocol ip prio 9 handle 2 flow map key mark and 0xff addend 3 baseclass 1:10
filter add DEV parent 1: protocol ip prio 10 route from 3 to 2 classid 1:10
filter add DEV parent 1: protocol ip prio 11 chain 3 flower dst_ip 10.0.0.1 classid 1:10
filter add DEV parent 1: protocol ip prio 12 flower dst_ip 10.0.0.2 action goto chain 3
filter add DEV parent 1: protocol ip prio 13 matchall action vlan push id 5 pipe action gact drop random determ pass 3
filter add DEV parent 10: protocol ip prio 8 handle 1 flow hash keys dst divisor 1024"

seldom chains <<<"$htb
chain add DEV parent 1: chain 7
chain add DEV parent 1: chain 8 proto ip flower dst_ip 0.0.0.0/24
filter add DEV parent 1: protocol ip prio 1 chain 8 flower dst_ip 10.0.0.0/24 classid 1:10"

back hfsc <<'TEXT'
qdisc add DEV root handle 1: hfsc default 20
class add DEV parent 1: classid 1:1 hfsc sc rate 90mbit ul rate 90mbit
class add DEV parent 1:1 classid 1:100 hfsc sc umax 1500b dmax 10ms rate 3mbit
class add DEV parent 1:1 classid 1:20 hfsc ls m1 7mbit d 33ms m2 1234567bit ul rate 80mbit
class add DEV parent 1:1 classid 1:5 hfsc ls rate 3mbit
class add DEV parent 1:5 classid 1:3 hfsc rt m1 999kbit d 5ms m2 100kbit ls rate 3gbit
qdisc add DEV parent 1:20 handle 20: fq_codel
qdisc add DEV parent 1:3 handle 3: pfifo limit 3
filter add DEV parent 1: protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:100
filter add DEV parent 1:5 protocol ip prio 1 matchall flowid 1:3
TEXT

seldom drr <<'TEXT'
qdisc add DEV root handle 1: drr
class add DEV parent 1: classid 1:1 drr quantum 600
class add DEV parent 1: classid 1:2 drr
qdisc add DEV parent 1:1 handle 10: fq_codel
filter add DEV parent 1: protocol ip prio 1 handle 1: cgroup
filter add DEV parent 1: protocol all prio 2 matchall classid 1:2
TEXT

seldom qfq <<'TEXT'
qdisc add DEV root handle 1: qfq
class add DEV parent 1: classid 1:1 qfq weight 10 maxpkt 2000
class add DEV parent 1: classid 1:2 qfq weight 30
qdisc add DEV parent 1:1 handle 10: fq_codel
filter add DEV parent 1: protocol all prio 2 matchall classid 1:2
TEXT

seldom multiq <<'TEXT'
qdisc add DEV root handle 1: multiq
qdisc add DEV parent 1:2 handle 20: sfq
TEXT

seldom ets <<'TEXT'
qdisc add DEV root handle 1: ets bands 4 strict 1 quanta 1000 1500 2000
qdisc add DEV parent 1:3 handle 30: fq_codel
filter add DEV parent 1: protocol all prio 2 matchall classid 1:2
TEXT

back mq <<'TEXT'
qdisc replace DEV root handle 100: mq
qdisc replace DEV parent 100:1 handle 101: fq_codel target 4ms
qdisc replace DEV parent 100:2 handle 102: fq_codel
qdisc replace DEV parent 100:4 handle 104: htb default 1
class add DEV parent 104: classid 104:1 htb rate 5mbit
TEXT

# Another's at the ingress is left alone, also while the root is replaced.
back clsact <<'TEXT'
qdisc add DEV clsact
filter add DEV ingress protocol ip prio 1 matchall action drop
filter add DEV egress protocol ip prio 1 matchall action pass
qdisc add DEV root handle 1: prio
TEXT
like clsact-stays "$(tc filter show dev $DEV ingress)" 'action order 1'

not_taken red 'queueing discipline red of v0 cannot be put back later, because' \
	<<<'qdisc add DEV root red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 bandwidth 10mbit'
not_taken netem 'netem of v0 cannot' <<<'qdisc add DEV root netem delay 5ms'
not_taken size-table 'table of sizes' \
	<<<'qdisc add DEV root stab overhead 24 linklayer atm mpu 64 fq_codel'
not_taken child 'red of v0 cannot' <<'TEXT'
qdisc add DEV root handle 1: prio
qdisc add DEV parent 1:2 red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 bandwidth 10mbit
TEXT
not_taken police 'action police' <<'TEXT'
qdisc add DEV root handle 1: prio
filter add DEV parent 1: protocol ip prio 1 matchall action police rate 1mbit burst 10k
TEXT
not_taken double-tag 'nested headers' <<'TEXT'
qdisc add DEV root handle 1: prio
filter add DEV parent 1: protocol 802.1ad prio 1 flower vlan_ethtype 802.1q cvlan_id 5 classid 1:1
TEXT
# The kernel cannot list this one.
not_taken fw-alone 'cannot list its filters' <<'TEXT'
qdisc add DEV root handle 1: prio
filter add DEV parent 1: protocol ip prio 1 fw
TEXT
echo '1,6 0 0 1' >/run/bytecode
for n in {1..2400}; do
	echo "filter add dev $DEV parent 1: protocol ip prio $((n % 2 + 1)) u32 match ip dst 10.0.$((n / 250)).$((n % 250)) flowid 1:1"
done >/run/many
not_taken large 'takes [0-9]+ bytes and 262144 are kept' <<'TEXT'
qdisc add DEV root handle 1: prio
-batch /run/many
TEXT
not_taken bpf 'bpf filter' <<'TEXT'
qdisc add DEV root handle 1: prio
filter add DEV parent 1: protocol ip prio 1 bpf bytecode-file /run/bytecode classid 1:1
TEXT

ip link del $DEV
finish
