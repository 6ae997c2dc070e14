#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: verifier
# description: no program of the scheduler costs the verifier over a fifth more than recorded
# cpus: 1
set -u
# shellcheck source-path=SCRIPTDIR source=lib/verifier.sh
. /usr/lib/qlinux/tests/guest/lib/verifier.sh

judge_programs verified-instructions
finish
