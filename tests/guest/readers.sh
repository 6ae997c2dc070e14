#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: readers
# description: threads that wait for their turn, or their class's next period, do not hold up RCU grace periods meanwhile
# cpus: 2
# minutes: 1
# only: long
# prepare: qlinux up cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

# walk CLASS: a process that spends much of its time inside RCU read sections.
walk() {
	perl -e 'open F, ">", $ARGV[0]; print F $$; close F; while (1) { stat $0 }' "$CG/$1/cgroup.procs" &
	disown
}

# longest: of the waits for a grace period in 20 s, in ms.
longest() {
	python3 - <<-'END'
		import ctypes, time
		syscall, longest = ctypes.CDLL(None).syscall, 0
		end = time.monotonic() + 20
		while (start := time.monotonic()) < end:
		    if syscall(324, 1, 0, 0): # membarrier, MEMBARRIER_CMD_GLOBAL
		        raise SystemExit("no membarrier")
		    longest = max(longest, time.monotonic() - start)
		    time.sleep(0.01)
		print(round(longest * 1000))
	END
}

make_class held "1000 1000000"
walk held
walk held
in_ms=$(longest)
equal held-processes-run "$(wc -l <$CG/held/cgroup.procs)" 2
check "a-held-class-$in_ms-ms" test "$in_ms" -lt 300
use 5 held
check "gets-its-limit-${used[held]}" awk -v v="${used[held]}" 'BEGIN { exit !(v < 0.002) }'
gone held

make_class heavy
echo 10000 >$CG/heavy/cpu.weight
make_class light
echo 1 >$CG/light/cpu.weight
busy heavy 2
for _ in 1 2 3 4; do walk light; done
in_ms=$(longest)
equal light-processes-run "$(wc -l <$CG/light/cgroup.procs)" 4
check "a-light-class-$in_ms-ms" test "$in_ms" -lt 300
use 10 light
check "gets-its-share-${used[light]}" awk -v v="${used[light]}" 'BEGIN { exit !(v < 0.0006) }'
gone heavy light
check down qlinux down cpu
finish
