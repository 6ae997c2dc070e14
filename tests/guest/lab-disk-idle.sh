#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-disk-idle
# description: a disk is busy while any class has requests, and a class of weight 1 beside 1,000 is served
# only: long
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --only turning --out /tmp/results disk-idle
