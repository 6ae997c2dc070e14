#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-stream
# description: four films read from a disk miss no deadline beside twenty readers, as they do under mq-deadline
# cpus: 1
# minutes: 3
# only: long
set -euo pipefail

qlinux lab run --here --only 20 --out /tmp/results qlinux-10
