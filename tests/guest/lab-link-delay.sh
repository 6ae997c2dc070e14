#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-link-delay
# description: a class gives and gets its bandwidth within 10 ms, and a sparse flow waits no longer than under CAKE and fq_codel
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --only 4:1 --out /tmp/results link-wake
qlinux lab run --here --only UDP --out /tmp/results link-sparse
