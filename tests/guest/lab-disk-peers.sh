#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-peers
# description: Cello beside none, mq-deadline, Kyber and BFQ: as many requests served, half of the response, films in time
# cpus: 2
# minutes: 12
# only: long
set -euo pipefail

qlinux lab run --here --only 1:4 --out /tmp/results qlinux-9b
qlinux lab run --here --out /tmp/results disk-latency
qlinux lab run --here --only 20 --out /tmp/results qlinux-10
