#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds libqlinux.so.1.0 with its customary links in OUTDIR: the Rust library,
# linked by the C compiler with the map of versioned symbols.
set -eu

if [ $# -ne 1 ]; then
	echo 'usage: capi/build.sh OUTDIR' >&2
	exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}

# The packages that `make` builds, so that nothing is compiled twice.
cargo build --release --locked --quiet --workspace --exclude xtask --manifest-path "$here/../Cargo.toml"
# Only what the map names stays; the rest of the archive is collected.
"${CC:-cc}" -shared -o "$out/libqlinux.so.1.0" \
	-Wl,-soname,libqlinux.so.1 -Wl,--version-script="$here/libqlinux.map" \
	-Wl,--no-undefined -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now -Wl,--strip-all \
	-Wl,--whole-archive "$target/release/libqlinux_capi.a" -Wl,--no-whole-archive \
	-lelf -lz -lgcc_s -lm -lpthread -ldl -lc
ln -sf libqlinux.so.1.0 "$out/libqlinux.so.1"
ln -sf libqlinux.so.1 "$out/libqlinux.so"
