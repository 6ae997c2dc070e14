#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-bounds
# description: no bound of SFQ is violated in 100,000 traced quanta of fifty classes
# only: long
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --seed 3 --out /tmp/results bounds
