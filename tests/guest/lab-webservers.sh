#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-webservers
# description: two web servers serve in proportion to the weights of their classes
# cpus: 1
# minutes: 1
# only: long
set -euo pipefail

qlinux lab run --here --side qlinux --out /tmp/results qlinux-6b
