#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-link-shares
# description: classes of a link with weights 1:4 are within 1 % of their shares over 5 s, UDP and TCP, and the link of its rate
# only: long
# cpus: 1
# minutes: 1
set -euo pipefail

experiments='link-shares'
[[ ${1:-} != long ]] || experiments+=' qlinux-7a'
# shellcheck disable=SC2086 # words
qlinux lab run --here --side qlinux --only 1:4 --out /tmp/results $experiments
