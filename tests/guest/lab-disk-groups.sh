#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-groups
# description: cgroups of a class have its part of the disk by their weights, also beside one with 512 requests
# only: long
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --only 512 --out /tmp/results disk-groups
