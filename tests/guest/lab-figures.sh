#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-figures
# description: weights 1:4 and 2:6:1, work conservation and equal threads as in the papers' figures
# cpus: 1
# minutes: 2
set -euo pipefail

experiments='qlinux-5b osdi96-8a'
[[ ${1:-} != long ]] || experiments+=' qlinux-5a qlinux-5c osdi96-5'
# shellcheck disable=SC2086 # words
qlinux lab run --here --side qlinux --out /tmp/results $experiments
for name in $experiments; do
	for file in data.csv figure.svg manifest.json; do
		[[ -s /tmp/results/$name/$file ]] || {
			echo "$name left no $file"
			exit 1
		}
	done
done
