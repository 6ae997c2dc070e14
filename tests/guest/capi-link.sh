#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: capi-link
# description: a C program makes every call of table 2, on interfaces of its own
# cpus: 1
# kernels-long: link
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

program=/usr/lib/qlinux/tests/capi/table2
if [[ ! -x $program ]]; then
	fail capi-link "$program is missing: build it with tests/capi/build.sh"
	finish
fi
# Nothing but the test's own packets: no IPv6, no ARP.
ip link add v0 type veth peer name v1
for dev in v0 v1; do
	sysctl -qw net.ipv6.conf.$dev.disable_ipv6=1
	ip link set $dev up
done
ip addr add 10.9.0.1/24 dev v0
ip neigh add 10.9.0.2 lladdr "$(cat /sys/class/net/v1/address)" dev v0
before=$(tc qdisc show dev v0)

"$program" v0 v1 || failures=1
equal back "$(tc qdisc show dev v0)" "$before"
check up qlinux up link v0
setpriv --reuid=nobody --regid=nogroup --clear-groups "$program" v0 v1 unprivileged || failures=1
check down qlinux down link v0
ip link del v0
finish
