#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: domains-eight
# description: eight CPUs in two domains are divided as if there were one
# cpus: 8
# prepare: qlinux up cpu --domains 2
# minutes: 5
# only: long
exec /usr/lib/qlinux/tests/guest/eight-cpus.sh
