#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-wake-4
# description: a class that wakes every 2 ms beside busy ones is served as soon as under the stock kernel, processors: 4
# cpus: 4
# minutes: 2
# only: long
set -euo pipefail

qlinux lab run --here --out /tmp/results wake-4
