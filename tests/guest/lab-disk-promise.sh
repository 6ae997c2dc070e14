#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-promise
# description: real-time requests to a disk that were promised to be in time are in time
# cpus: 1
# minutes: 2
# only: long
set -euo pipefail

qlinux lab run --here --only ms --out /tmp/results disk-promise
