#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-cyclictest
# description: beside 100 busy threads cyclictest in its own class sees shorter latencies than under the stock kernel
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --out /tmp/results cyclictest
