#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-link-cost
# description: a sender on a link is hardly slower eight levels deep than one
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --only depth --out /tmp/results qlinux-13b
