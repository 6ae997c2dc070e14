#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-latency
# description: an interactive thread beside busy ones is woken as soon as under the stock kernel
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --out /tmp/results latency
