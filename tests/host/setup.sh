#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: setup
# description: set-up needs no network the second time and refuses in one sentence; installing goes where it is told
# timeout: 300
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { # check NAME COMMAND...
	local name=$1
	shift
	if "$@"; then
		echo "ok $name"
	else
		echo "not ok $name"
		cat "$work/said" 2>/dev/null
	fi
}

# refused TEXT COMMAND...: fails, saying one sentence with TEXT in it
refused() {
	local text=$1
	shift
	! "$@" >"$work/said" 2>&1 && [[ $(wc -l <"$work/said") -eq 1 ]] && grep -q -- "$text" "$work/said"
}

make >"$work/said"
check 'a bare make prints the targets' grep -q 'make demo' "$work/said"

# A network of its own has no way out; a mount table of its own can be changed.
if unshare -mn true 2>/dev/null; then
	check 'a second set-up needs no network' unshare -n ./bootstrap

	printf 'ID=other\nVERSION_ID=1\nPRETTY_NAME="Other 1"\n' >"$work/os-release"
	check 'an unknown distribution is refused' refused 'this is Other 1' \
		unshare -m sh -c "mount --bind '$work/os-release' /etc/os-release && exec ./bootstrap"

	mkdir "$work/small"
	check 'too little disk space is refused' refused 'make room' \
		unshare -m sh -c "mount -t tmpfs -o size=40M none '$work/small' && QLINUX_CACHE='$work/small/cache' exec ./bootstrap"
	check 'a refusal leaves nothing behind' test ! -e "$work/small/cache"

	mkdir "$work/cache"
	check 'a missing network is refused' refused 'check the network' \
		env QLINUX_CACHE="$work/cache" unshare -n vm/build --quiet
	check 'a failed build leaves no image behind' test ! -e "$work/cache/guest/current"
fi

if [[ $(id -u) -eq 0 ]]; then
	check 'building the image without root is refused' refused 'as root' \
		setpriv --reuid=65534 --regid=65534 --clear-groups env QLINUX_CACHE="$work/none" vm/build --quiet
fi

cargo run --quiet --locked --package xtask -- install --prefix /opt/q --destdir "$work/root" >"$work/said" 2>&1
for file in bin/qlinux lib/libqlinux.so include/qlinux.h share/man/man1/qlinux.1 share/man/man3/hsfq_mknod.3 \
	share/bash-completion/completions/qlinux; do
	check "install puts $file below prefix and destdir" test -e "$work/root/opt/q/$file"
done
check 'pkg-config knows the prefix' grep -qx 'prefix=/opt/q' "$work/root/opt/q/lib/pkgconfig/qlinux.pc"
