#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-film
# description: a film from a disk over a link loses nothing and is in time beside ten readers and ten senders
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --only 10 --out /tmp/results qlinux-11
