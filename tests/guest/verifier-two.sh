#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: verifier-two
# description: nor does any in the form for several processors
# cpus: 2
# turns: coarse
set -u
# shellcheck source-path=SCRIPTDIR source=lib/verifier.sh
. /usr/lib/qlinux/tests/guest/lib/verifier.sh

judge_programs verified-instructions-two
finish
