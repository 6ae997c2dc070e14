#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Compiles table1.c as a user of an installed libqlinux would, by pkg-config.
# LIBDIR holds libqlinux.so, OUT is the program to make.
set -eu

if [ $# -ne 2 ]; then
	echo 'usage: tests/capi/build.sh LIBDIR OUT' >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
mkdir -p "$prefix/lib/pkgconfig"
cp -P "$1"/libqlinux.so* "$prefix/lib/"
cp -r "$here/../../capi/include" "$prefix/"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|0|" "$here/../../capi/qlinux.pc.in" >"$prefix/lib/pkgconfig/qlinux.pc"
flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs qlinux)
mkdir -p "$(dirname "$2")"
# shellcheck disable=SC2086 # flags are words
"${CC:-cc}" -std=gnu11 -O1 -Wall -Wextra -Werror "$here/table1.c" -o "$2" $flags -pthread
