#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-link-web
# description: two web servers hold their throughput beside ten senders and ten busy programs, with classes of CPU and link
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --only 10 --out /tmp/results qlinux-12
