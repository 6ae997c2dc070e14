#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: fuzz
# description: forty seconds of random operations on the policies, under ASan and UBSan, finds nothing
# timeout: 600
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/../../core/fuzz/run" 40
