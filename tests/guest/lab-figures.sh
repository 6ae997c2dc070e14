#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: lab-figures
# description: weights 1:4 and 2:6:1, work conservation and equal threads as in the papers' figures
# cpus: 1
# minutes: 2
set -euo pipefail

qlinux lab run --here --side qlinux --out /tmp/results qlinux-5a qlinux-5b qlinux-5c osdi96-5 osdi96-8a
for name in qlinux-5a qlinux-5b qlinux-5c osdi96-5 osdi96-8a; do
	for file in data.csv figure.svg manifest.json; do
		[[ -s /tmp/results/$name/$file ]] || {
			echo "$name left no $file"
			exit 1
		}
	done
done
