#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-bounds-4
# description: the bound of SFQ(D) is not violated in 100,000 traced quanta of fifty classes on 4 processors
# cpus: 4
# minutes: 4
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --seed 3 --out /tmp/results bounds-4
