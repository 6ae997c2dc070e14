# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What the tests of links share: a link v0 (10.0.0.1, fd00::1) to the network namespace
# far (10.0.0.2, fd00::2), and the account of packets.

modprobe -a veth sch_htb sch_fq_codel

# pair [DEV]: a new interface and its far end
pair() {
	ip link add "${1:-v0}" type veth peer name far0 netns far
}

wire() {
	ip netns add far 2>/dev/null
	ip link set lo up
	pair v0
	# Packets of nobody's would be counted with the others.
	echo 0 >/proc/sys/net/ipv6/conf/v0/router_solicitations
	ip addr add 10.0.0.1/24 dev v0
	ip addr add fd00::1/64 dev v0 nodad
	ip link set v0 up
	ip -n far addr add 10.0.0.2/24 dev far0
	ip -n far addr add fd00::2/64 dev far0 nodad
	ip -n far link set far0 up
	ip neigh replace 10.0.0.2 lladdr "$(ip -n far -br link show far0 | awk '{ print $3 }')" dev v0
	ip neigh replace fd00::2 lladdr "$(ip -n far -br link show far0 | awk '{ print $3 }')" dev v0
	# Else the far end asks before it answers, and the reply is a packet more.
	ip -n far neigh replace 10.0.0.1 lladdr "$(cat /sys/class/net/v0/address)" dev far0
	ip -n far neigh replace fd00::1 lladdr "$(cat /sys/class/net/v0/address)" dev far0
	sleep 5 # the kernel looks for others with its own address, and tells of its groups twice
}

# udp COUNT BYTES PORT [OPTION...]: datagrams as fast as the socket takes them
udp() {
	python3 - "$@" <<-'EOF'
		import socket, sys
		count, size, port, options = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
		six = "six" in options
		s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
		for option in options:
		    name, _, value = option.partition("=")
		    if name == "mark": s.setsockopt(socket.SOL_SOCKET, 36, int(value, 0))
		    if name == "tos": s.setsockopt(socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP, 67 if six else 1, int(value))
		    if name == "sport": s.bind(("", int(value)))
		    if name == "sid": s.setsockopt(0x5153, 1, int(value).to_bytes(4, sys.byteorder))
		data = bytes(size)
		for _ in range(count):
		    try: s.sendto(data, ("fd00::2" if six else "10.0.0.2", port))
		    except OSError: pass
	EOF
}

# json EXPRESSION: a Python expression of the JSON object d on standard input
json() {
	python3 -c 'import json, sys
d = json.load(sys.stdin)
print(eval(sys.argv[1], {"d": d, "json": json}))' "$1"
}

# look: the link v0 in JSON
look() {
	qlinux link show v0 --interval 0.01 --json
}

# of QUEUE FIELD: of `link show`, a number of a class's or queue's row
of() {
	look | json "[r['counts'].get('$2', r.get('$2')) for r in d['rows'] if r['name'] == '$1'][0]"
}

# balanced NAME: enqueued = sent + refused + dropped + queued, of the link and of each queue
balanced() {
	local left='lambda c, queued: c["enqueued"] - c["sent"] - c["refused"] - c["dropped"] - queued'
	equal "$1-balanced" "$(look | json "[($left)(d['counts'], d['packets'])] + [($left)(r['counts'], r['packets']) for r in d['rows'] if r['queue']]" | tr -d '0, ')" '[]'
}

# settings: all of the link v0 that can be set, without what changes by itself
settings() {
	look | sed -E '/"(interval_s|entitled(_bits)?|received_bits|packets|bytes|(enqueued|sent|refused|dropped)(_bytes)?|delay_[a-z0-9_]*)":/d'
}

# state: everything a refused command must leave as it was
state() {
	tc qdisc show
	ip -d link show v0 | grep -o 'gso_max_size [0-9]* gso_max_segs [0-9]*'
	ls -R /sys/fs/bpf/qlinux/link 2>/dev/null
	settings 2>/dev/null
}

# tree: of the link v0 that is up, with a queue at /tenants/a and one that is attached nowhere
tree() {
	check web qlinux link class add v0 /web --weight 3
	check tenants qlinux link class add v0 /tenants --leaf none --weight 5
	check tenant-a qlinux link class add v0 /tenants/a --leaf sfq
	check tenant-b qlinux link class add v0 /tenants/b --leaf fq --weight 200
	check queue qlinux link queue add v0 backup --weight 7 --packets 50 --bytes 100K --attach /tenants/a
	check loose qlinux link queue add v0 loose
}
