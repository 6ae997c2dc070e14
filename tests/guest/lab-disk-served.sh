#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-served
# description: a disk that is divided 1:4 serves nearly as many requests as under mq-deadline, and more than under BFQ
# cpus: 1
# minutes: 2
# only: long
set -euo pipefail

qlinux lab run --here --only 1:4 --out /tmp/results qlinux-9b
