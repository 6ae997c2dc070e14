#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-wake-2
# description: a class that wakes every 2 ms beside busy ones is served as soon as under the stock kernel, processors: 2
# cpus: 2
# minutes: 2
# only: long
set -euo pipefail

qlinux lab run --here --out /tmp/results wake-2
