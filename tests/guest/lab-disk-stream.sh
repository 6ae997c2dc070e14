#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-stream
# description: four films read from a disk miss no deadline beside twenty readers
# only: long
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --only 20 --out /tmp/results qlinux-10
