#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-shares
# description: every busy class is within 0.5 % of its ideal share over 10 s, for flat, nested and random trees
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

# Another tree than the one in docs/results, on QLinux alone: stock is for comparison.
qlinux lab run --here --side qlinux --seed 7 --out /tmp/results shares
