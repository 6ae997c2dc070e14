#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-inversion
# description: a heavy thread waits for a light one's lock a tenth as long as without lending, or less
# cpus: 1
# minutes: 2
# only: long
set -euo pipefail

qlinux lab run --here --out /tmp/results inversion
