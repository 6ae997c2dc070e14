#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Compiles every program here as a user of an installed libqlinux would, by
# pkg-config. LIBDIR holds libqlinux.so, the programs go to OUTDIR.
set -eu

if [ $# -ne 2 ]; then
	echo 'usage: tests/capi/build.sh LIBDIR OUTDIR' >&2
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
mkdir -p "$2"
for source in "$here"/*.c; do
	# shellcheck disable=SC2086 # flags are words
	"${CC:-cc}" -std=gnu11 -O1 -Wall -Wextra -Werror "$source" -o "$2/$(basename "$source" .c)" $flags -pthread
done
