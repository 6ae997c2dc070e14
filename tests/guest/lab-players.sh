#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-players
# description: two players of weight 5 and 10, and weights that change, are followed within an SFQ leaf
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --out /tmp/results osdi96-10 osdi96-11
