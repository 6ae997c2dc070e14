#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: modules
# description: DKMS builds the disk scheduler for two minor versions of the kernel from what is installed
# timeout: 600
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
if [[ $(id -u) -ne 0 ]]; then
	echo 'skipped: a root of its own with kernel headers needs root'
	echo 'ok modules are built as root only'
	exit 0
fi
root=${QLINUX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qlinux}/headers
work=$(mktemp -d)
trap 'rm -rf "$work" "$root"/usr/src/qlinux-cello-* "$root"/var/lib/dkms/qlinux-cello' EXIT

cargo run --quiet --locked --package xtask -- install --prefix /usr --destdir "$work" >"$work/said" 2>&1 ||
	cat "$work/said"
source=$(echo "$work"/usr/src/qlinux-cello-*)
version=${source##*-}
cp -r "$source" "$root/usr/src/"
readarray -t releases < <(vm/headers --quiet guest 6.12)

inside() {
	vm/headers --inside "$@" >"$work/said" 2>&1 || {
		cat "$work/said"
		return 1
	}
}

built() { # built RELEASE
	local module
	inside dkms build -m qlinux-cello -v "$version" -k "$1" || {
		cat "$root/var/lib/dkms/qlinux-cello/$version/build/make.log"
		return 1
	}
	module=$(find "$root/var/lib/dkms/qlinux-cello/$version/$1" -name 'cello.ko*')
	inside modinfo -k "$1" "${module#"$root"}" &&
		grep -q '^alias: *cello-iosched$' "$work/said" && grep -q "^vermagic: *$1 " "$work/said"
}

inside dkms add -m qlinux-cello -v "$version"
for release in "${releases[@]}"; do
	if built "$release"; then
		echo "ok DKMS builds it for $release"
	else
		echo "not ok DKMS builds it for $release"
	fi
done

# Without the tool that tells the kernel's types it says so.
if PATH=$work/empty /bin/sh kernel/disk/private.sh /dev/null 2>"$work/said" || ! grep -q 'bpftool is missing' "$work/said"; then
	echo 'not ok without bpftool it says what to install'
else
	echo 'ok without bpftool it says what to install'
fi

# The types of the running kernel are those of no other.
types=$(make -s -f kernel/disk/Makefile --eval 'types: ; @echo $(CELLO_BTF)' types KERNEL_RELEASE=6.99.9)
if [[ $types != /lib/modules/6.99.9/build/vmlinux ]] || kernel/disk/private.sh "$types" 2>"$work/said" ||
	! grep -q "install that kernel's headers" "$work/said"; then
	echo "not ok for a kernel whose types are not there it ends with what to do: $types"
else
	echo 'ok for a kernel whose types are not there it ends with what to do'
fi

# On a machine of 32 bits the kernel has no division of 64 by 64 bits but its own functions: all go through CORE_DIV.
if gcc -m32 -O2 -ffreestanding -c -o "$work/core.o" -x c - <<'C' && ! nm -u "$work/core.o" | grep -v -e ' divided$' -e ' _GLOBAL_OFFSET_TABLE_$'; then
unsigned long long divided(unsigned long long n, unsigned long long d);
#define CORE_DIV(n, d) divided(n, d)
#define CORE_MOD(n, d) divided(n, d)
#include "core/disk/cello.h"
#include "core/disk/cello_room.h"
void *used[] = {cello_add, cello_next, cello_done, cello_grown, cello_merged, cello_return, cello_group_end, cello_room_for};
C
	echo 'ok it can be built for 32 bits'
else
	echo 'not ok it can be built for 32 bits'
fi

# DKMS leaves kernels alone that the module is not for.
for release in 6.1.0-40-amd64:no 6.11.10:no 6.12.57+deb13-amd64:yes 6.18-amd64:yes 7.0.0-0.rc1.fc44.x86_64:yes 10.2.1:yes; do
	# shellcheck disable=SC1091,SC2034,SC2154 # of DKMS
	for_it=$(kernelver=${release%:*} && . kernel/disk/dkms.conf && [[ ${release%:*} =~ $BUILD_EXCLUSIVE_KERNEL ]] && echo yes || echo no)
	[[ $for_it == "${release#*:}" ]] && echo "ok ${release%:*}" || echo "not ok ${release%:*}: $for_it"
done
