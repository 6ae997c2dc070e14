#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: capi-disk
# description: a C program makes every call of table 3, another makes random ones against a model
# cpus: 1
# cpus-long: 2
# timeout: 3600
# kernels-long: disk
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh
# shellcheck source-path=SCRIPTDIR source=lib/disk.sh
. /usr/lib/qlinux/tests/guest/lib/disk.sh

programs=/usr/lib/qlinux/tests/capi
if [[ ! -x $programs/table3 ]]; then
	fail capi-disk "$programs/table3 is missing: build it with tests/capi/build.sh"
	finish
fi
modprobe testdisk count=2 model=flat
before=$(disk_state)

"$programs/table3" $DEV || failures=1
equal back "$(disk_state)" "$before"
check up qlinux up disk $DEV
setpriv --reuid=nobody --regid=nogroup --clear-groups "$programs/table3" $DEV unprivileged || failures=1
check down qlinux down disk $DEV
"$programs/random-disk" $DEV testdisk1 "$(times 1000 10000)" 1 || failures=1
equal back-again "$(disk_state)" "$before"
finish
