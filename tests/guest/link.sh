#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: link
# description: a link's tree, queues and rules: who goes where, before and after each change; and packets are counted exactly
# minutes: 2
# kernels-long: link
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/link.sh
. /usr/lib/qlinux/tests/guest/lib/link.sh
wire

# ---- the tree
check up qlinux up link v0 --rate 50mbit
tree
check attach qlinux link queue attach v0 loose /web
check move qlinux link queue move v0 loose /tenants/a
check del-queue qlinux link queue del v0 loose
check reweight qlinux link class set v0 /web --weight 30

# ---- who goes where: in this order setsockopt, rule, cgroup, default
check rule-1 qlinux link rule add v0 /tenants/a --proto udp --dport 5000-5010
check rule-2 qlinux link rule add v0 backup --proto udp --to fd00::/8 --dscp ef
check rule-3 qlinux link rule add v0 /tenants/b --mark 0x10/0xf0 --at 1
equal rules "$(qlinux link rule show v0 | tr -s ' ')" " 1 mark 0x10/0xf0 -> /tenants/b
 2 proto udp dport 5000-5010 -> /tenants/a
 3 proto udp to fd00::/8 dscp ef -> backup"
gains() { # NAME QUEUE COUNT COMMAND...
	local was
	was=$(of "$2" enqueued)
	"${@:4}"
	equal "$1" $(($(of "$2" enqueued) - was)) "$3"
}
gains by-default /default 10 udp 10 100 9
gains by-port /tenants/a 10 udp 10 100 5005
gains by-mark /tenants/b 10 udp 10 100 5005 mark=0x1f
gains by-dscp backup 10 udp 10 100 9 six tos=184
gains by-port-six /tenants/a 10 udp 10 100 5000 six tos=184
fragmented() { udp 1 4000 5001; }
gains first-fragment-only /tenants/a 1 fragmented
sid=$(of /web sid)
gains by-socket /web 10 udp 10 100 5005 mark=0x1f sid="$sid"
export -f udp
linked() { qlinux run --link v0:/web -- bash -c 'udp 10 100 9'; }
gains by-run /web 10 linked
mkdir -p $CG/svc/inner
check cgroup qlinux link attach v0 backup --cgroup /svc
inside() { (echo "$BASHPID" >"$CG/$1/cgroup.procs" && udp 10 100 9); }
gains by-ancestor backup 10 inside svc/inner
check unit qlinux link attach v0 /web --unit inner
gains by-cgroup /web 10 inside svc/inner
check detach qlinux link detach v0 --cgroup /svc/inner
gains after-detach backup 10 inside svc/inner
refused users 1 'cgroups send packets to it' qlinux link queue del v0 backup
# The cgroup that `run` made goes, and does not hold the class.
rmdir $CG/link.v0.web 2>/dev/null || rmdir "$(find $CG -name 'link.v0.web' -type d | head -1)"
rmdir $CG/svc/inner $CG/svc

# Without privilege, only what was granted.
denied() { setpriv --reuid 12345 --clear-groups --inh-caps=-all --bounding-set=-all bash -c "udp 3 100 9 sid=$sid" 2>&1; }
like not-granted "$(denied)" 'PermissionError|Operation not permitted'
check grant qlinux link grant v0 /web --user 12345
gains granted /web 3 denied
check revoke qlinux link revoke v0 /web --user 12345
refused revoked 1 'was not granted' qlinux link revoke v0 /web --user 12345
like revoked-denied "$(denied)" 'PermissionError|Operation not permitted'
like wrong-queue "$(udp 1 100 9 sid=$((sid | 0xf000)) 2>&1)" 'No such file'
like other-link "$(udp 1 100 9 sid=$((0x7eff << 16 | 1)) 2>&1)" 'Protocol not available'
balanced places

# ---- a name of a queue that was removed does not name the next one
qlinux link queue add v0 passing --attach /tenants/a
old=$(of passing sid)
qlinux link queue del v0 passing
qlinux link queue add v0 next --attach /tenants/a
like stale-name "$(udp 1 100 9 sid="$old" 2>&1)" 'No such file'

# ---- overflow, edits and an end under load
check slow qlinux link set v0 --rate 32kbit
check narrow qlinux link queue set v0 backup --packets 20
udp 300 1000 9 six tos=184
check backlog test "$(of backup packets)" -ge 10
check refused-some test "$(of backup refused)" -ge 200
balanced overflow
qlinux link rule del v0 3
refused queue-busy 1 'packets wait in it' qlinux link queue del v0 backup
check moved-away qlinux link queue move v0 backup /web
check fast qlinux link set v0 --rate none
udp 5 100 9
balanced moved
check del-emptied qlinux link queue del v0 backup

# ---- a class whose packets are another's by now stays as it is; one that goes takes its grants
check busy-class qlinux link class add v0 /busy --leaf sfq
check busy-queue qlinux link queue add v0 guest --attach /busy
check busy-rule qlinux link rule add v0 guest --dport 7000 --at 1
check busy-grant qlinux link grant v0 /busy --user 12345
sid=$(of /busy sid)
check slow-again qlinux link set v0 --rate 8kbit
udp 2 1400 7000
check busy-rule-del qlinux link rule del v0 1
check busy-moved qlinux link queue move v0 guest /web
equal one-waits "$(of guest packets)" 1
refused busy-line 1 'packets wait in it' qlinux link class del v0 /busy
equal busy-own "$(of /busy sid)" "$sid"
equal busy-granted "$(look | json 'd["grants"]')" "[{'who': 'user 12345', 'queue': '/busy'}]"
check fast-again qlinux link set v0 --rate none
udp 5 100 9
check busy-del qlinux link class del v0 /busy
equal grants-gone "$(bpftool -j map dump pinned "$(find /sys/fs/bpf/qlinux/link -name grants)" | json 'd')" '[]'
balanced busy

check down qlinux down link v0
finish
