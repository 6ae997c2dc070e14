#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-latency
# description: interactive requests of a disk are answered soon beside a writer as fast as possible, and no real-time one is late
# cpus: 2
# minutes: 2
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --out /tmp/results disk-latency
