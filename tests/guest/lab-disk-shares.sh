#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-shares
# description: two classes of a disk have its time by their weights within 2 % over 20 rounds, on a turning disk and a flat one
# only: long
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --only 1:4 --out /tmp/results qlinux-9a
