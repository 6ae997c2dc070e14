#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-link-film
# description: a streamed film loses nothing and comes in time beside ten senders
# cpus: 1
# minutes: 1
set -euo pipefail

qlinux lab run --here --side qlinux --only 10 --out /tmp/results qlinux-8
