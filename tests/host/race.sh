#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: race
# description: processors that schedule at the same time, under ThreadSanitizer: no race, every account exact
# timeout: 1200
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/../../core/fuzz/run-race" "$([[ ${1:-} == long ]] && echo 600 || echo 20)"
