#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: eight-cpus
# description: eight CPUs in two sockets are divided by weight at every level, and everything goes on that does on four
# cpus: 8
# prepare: qlinux up cpu
# minutes: 5
# only: long
set -u
# shellcheck source-path=SCRIPTDIR source=lib/limits.sh
. /usr/lib/qlinux/tests/guest/lib/limits.sh

equal sockets "$(sort -u /sys/devices/system/cpu/cpu*/topology/physical_package_id | xargs)" '0 1'
nested 8
near_nested 8 1

# Three threads cannot use more than three CPUs: what is left of their share is the others'.
gone b/y
make_class b/y
echo 10000 >$CG/b/y/cpu.weight
busy b/y 3
use 10 a b/x b/y
near few-a "$(of a a b/x b/y)" 0.2 1
near few-b-x "$(of b/x a b/x b/y)" 0.425 1
near few-b-y "$(of b/y a b/x b/y)" 0.375 1
for class in b/x b/y b a; do gone $class; done

# Whoever cannot be had at some moment, for its CPU is in the middle of a switch, is not behind for it.
make_class light
make_class heavy
echo 1 >$CG/light/cpu.weight
for class in light heavy; do busy $class 8; done
use 10 light heavy
near light "$(of light light heavy)" 0.0099010 1
for class in light heavy; do gone $class; done

check everything-else /usr/lib/qlinux/tests/guest/several-cpus.sh
finish
