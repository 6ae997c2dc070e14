#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-film
# description: beside ten busy programs the player holds at least 98 % of its unloaded frame rate
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --out /tmp/results qlinux-6a
