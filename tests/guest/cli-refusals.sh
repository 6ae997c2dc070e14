#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: cli-refusals
# description: what the command line refuses: one sentence, the right status, nothing changed
# cpus: 1
# minutes: 3
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

nobody() {
	setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
}

not_loaded='H-SFQ is not loaded; start it with `qlinux up cpu`'
refused unloaded-add 1 "$not_loaded" qlinux class add /a
refused unloaded-run 1 "$not_loaded" qlinux run /a -- true
refused unloaded-down 1 "$not_loaded" qlinux down cpu
refused unloaded-trace 1 "$not_loaded" qlinux trace
refused unloaded-unprivileged 1 'not permitted: run the command as root' nobody qlinux up cpu
mkdir $CG/bare
refused unloaded-set 1 "$not_loaded" qlinux class set /bare -w 5
refused unloaded-move 1 "$not_loaded" qlinux class move /bare $$
check unloaded-show qlinux class show /
check unloaded-del qlinux class del /bare
equal unloaded-deleted "$(ls -d $CG/bare 2>/dev/null)" ''

# What would stop it is said before anything is tried.
echo 0 >/proc/sys/net/core/bpf_jit_enable 2>/dev/null
if [[ $(cat /proc/sys/net/core/bpf_jit_enable) == 0 ]]; then
	refused no-compiler 1 'because net.core.bpf_jit_enable is 0: .*sysctl -w' qlinux up cpu
	echo 1 >/proc/sys/net/core/bpf_jit_enable
fi
refused contained 1 'a user namespace of its own, from which no BPF program is loaded: run qlinux on the host' unshare --user --map-root-user qlinux up cpu
refused bare-root 1 'neither CAP_SYS_ADMIN nor CAP_BPF' setpriv --bounding-set -all --inh-caps -all qlinux up cpu

# The guest has it where Debian has the kernel's source.
if command -v scx_flatcg >/dev/null; then
	scx_flatcg >/dev/null 2>&1 &
	other=$!
	until [[ $(cat /sys/kernel/sched_ext/state) == enabled ]]; do sleep 0.05; done
	refused other-scheduler 1 "another sched_ext scheduler, 'flatcg', is running .*: stop it first" qlinux up cpu
	kill -INT $other
	wait $other
	until [[ $(cat /sys/kernel/sched_ext/state) == disabled ]]; do sleep 0.05; done
fi

check up qlinux up cpu
refused up-twice 1 'is loaded already; replace it' qlinux up cpu
check add qlinux class add /a --weight 200 --leaf rr
check add-parents qlinux class add --parents /a/b/c
sleep 1000 &
sleeper=$!
check move qlinux class move /a/b/c $sleeper

# Wrong words: status 2.
for weight in 0 10001 -1 x 1.5 ''; do
	refused "weight-'$weight'" 2 'weight .*: give a whole number from 1 to 10000' qlinux class add /x --weight "$weight"
	refused "set-weight-'$weight'" 2 'weight .*: give a whole number from 1 to 10000' qlinux class set /a --weight "$weight"
	refused "run-weight-'$weight'" 2 'weight .*: give a whole number from 1 to 10000' qlinux run /x --weight "$weight" -- true
done
refused leaf-unknown 2 "leaf scheduler 'lottery' does not exist: choose one of ts, sfq" qlinux class add /x --leaf lottery
refused set-leaf-unknown 2 "leaf scheduler 'lottery' does not exist" qlinux class set /a --leaf lottery
for path in a ../a /a/../b /./a '' "/x"$'\n'"y"; do
	refused "path-'${path//$'\n'/?}'" 2 "class path '.*' is not valid" qlinux class add "$path"
done
refused root-weight 2 'root class cannot have a weight' qlinux class set / --weight 5
refused root-del 2 'root class cannot be deleted' qlinux class del /
refused no-command 2 'unrecognized subcommand' qlinux frobnicate
refused no-option 2 "unexpected argument '--frob'" qlinux class add /x --frob
refused set-nothing 2 'nothing to change was named' qlinux class set /a
refused set-nice 2 'weight nice is for single threads' qlinux class set /a --weight nice
refused move-zero 2 'no process or thread' qlinux class move /a 0
refused trace-size 2 'size' qlinux up cpu --replace --trace 4T

# What the state forbids: status 1.
refused add-again 1 'class /a exists already' qlinux class add /a
refused add-orphan 1 'its parent /x does not exist' qlinux class add /x/y
refused add-in-busy 1 'cannot be divided because process [0-9]* belong' qlinux class add /a/b/c/d
refused add-in-busy-parents 1 'cannot be divided because process [0-9]* belong' qlinux class add -p /a/b/c/d/e/f
refused set-none 1 'class /x does not exist' qlinux class set /x --weight 5
refused show-none 1 'class /x does not exist' qlinux class show /x
refused del-none 1 'class /x does not exist' qlinux class del /x
refused del-children 1 'has the children /a/b' qlinux class del /a
refused del-threads 1 "process $sleeper still belong" qlinux class del /a/b/c
refused del-all-or-none 1 "process $sleeper still belong" qlinux class del /a/b/c /a/b /a
refused move-none 1 'process 99999999 does not exist' qlinux class move /a/b/c 99999999
refused move-to-none 1 'class /x does not exist' qlinux class move /x $sleeper
refused move-to-inner 1 'divides its CPU among the classes below' qlinux class move /a $sleeper
check empty-child qlinux class add /e/f -p
refused move-over-empty 1 'divides its CPU among the classes below' qlinux class move /e $sleeper
check empty-del qlinux class del /e /e/f
refused move-all-or-none 1 'process 99999999 does not exist' qlinux class move /a/b/c $$ 99999999
equal move-undone "$(cat /proc/$$/cgroup)" 0::/
refused move-kthread 1 'kernel thread' qlinux class move /a/b/c 2
refused thread-foreign 1 'moves only among threaded classes' qlinux class move /a/b/c --thread $$
refused thread-elsewhere 1 "thread $sleeper belongs to class /a/b/c, not to /a" qlinux class set /a --thread $sleeper --weight 5
refused thread-none 1 'thread 99999999 does not exist' qlinux class set /a --thread 99999999 --weight 5
refused run-no-command 1 "command '/nowhere/x' did not start" qlinux run /x --weight 7 -- /nowhere/x
refused run-no-command-rm 1 "command '/nowhere/x' did not start" qlinux run /x --rm -- /nowhere/x
refused run-in-old 1 "command '/nowhere/x' did not start" qlinux run /a/b/c --weight 7 --leaf fifo -- /nowhere/x
refused trace-without 1 'keeps no trace' qlinux trace
for words in 'class add /x' 'class del /a/b/c' 'class set /a --weight 5' "class move /a/b/c $$" 'down cpu' 'run /x -- true'; do
	# shellcheck disable=SC2086 # words
	refused "unprivileged: $words" 1 'not permitted: run the command as root' nobody qlinux $words
done

said=$(qlinux --json class del /x 2>&1)
equal json-error "$said" '{"error":{"message":"class /x does not exist: create it with `qlinux class add /x`","errno":2}}'

kill $sleeper
wait
check del qlinux class del /a /a/b /a/b/c
check down qlinux down cpu

# The last: it cannot be taken back before the next boot.
mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security
if echo confidentiality >/sys/kernel/security/lockdown; then
	refused lockdown 1 'lockdown is in the mode confidentiality, .*: boot without the kernel parameter' qlinux up cpu
	refused lockdown-link 1 'lockdown is in the mode confidentiality, .*: boot without the kernel parameter' qlinux up link lo
fi
finish
