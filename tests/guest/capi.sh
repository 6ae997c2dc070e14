#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: capi
# description: a C program makes every call of table 1, with and without scheduler and privilege
# cpus: 1
# kernels-long: cpu
set -u
# shellcheck source-path=SCRIPTDIR source=lib/cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

program=/usr/lib/qlinux/tests/capi/table1
if [[ ! -x $program ]]; then
	fail capi "$program is missing: build it with tests/capi/build.sh"
	finish
fi
classes() {
	find $CG -type d | LC_ALL=C sort
}
before=$(classes)

"$program" unloaded || failures=1
check up qlinux up cpu
"$program" || failures=1
setpriv --reuid=nobody --regid=nogroup --clear-groups "$program" unprivileged || failures=1
equal classes "$(classes)" "$before"
check down qlinux down cpu
finish
