# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck disable=SC2154,SC2034 # here, cache, apt and tmp, folders, are set by vm/build, which sources this
#
# Kernels that no package holds: NAME is MINOR-scx, built from Debian's linux-source-MINOR with all that
# kernel-NAME.config adds to a tiny configuration, or MINOR-debug, with all that its own adds to that of MINOR-scx.
# What was built is kept, so it takes its quarter of an hour (MINOR-debug: half an hour) once.

readonly SOURCE_TOOLS=bc,bison,cpio,flex,gcc,kmod,libc6-dev,libelf-dev,make,pahole,perl,python3,rsync,xz-utils,zlib1g-dev

from_source() { # from_source NAME
	[[ $1 == *-scx || $1 == *-debug ]]
}

# Files of this folder, each of which adds to the one before.
source_configs() { # source_configs NAME
	echo "kernel-${1%-*}-scx.config"
	[[ $1 == *-scx ]] || echo "kernel-$1.config"
}

# What is kept of a kernel is named by its configuration; a newer source on the mirror is no reason to build anew.
source_kept() { # source_kept NAME
	echo "$cache/guest/packages/$1-$(cd "$here" && source_configs "$1" | xargs cat | sha256sum | cut -c1-16)"
}

source_may_be_had() { # source_may_be_had NAME
	[[ -f $here/kernel-$1.config ]] || return 1
	[[ -f $(source_kept "$1")/release ]] || { $online && has_package "linux-source-${1%-*}"; }
}

unpack_source() { # unpack_source MINOR TO
	download "$tmp/source" "linux-source-$1"
	mkdir "$2"
	dpkg-deb --fsys-tarfile "$tmp"/source/*.deb | tar -xOf - --wildcards '*/linux-source-*.tar.xz' | xz -dc |
		tar -C "$2" -x --strip-components=1
	dpkg-deb -f "$tmp"/source/*.deb Version >"$tmp/source/version"
	rm "$tmp"/source/*.deb
}

# In a root of its own with the compiler of the suite, in a mount namespace, so that nothing stays mounted.
compile_source() { # compile_source ROOT CONFIG...
	# shellcheck disable=SC2016 # expanded inside
	unshare --mount --propagation private bash -c '
		mount -t proc proc "$1/proc"
		exec chroot "$1" nice -n 10 sh -ec "
			cd /src
			make -s tinyconfig ${*:2}
			make -s -j\$(nproc) KCFLAGS=-w bzImage modules
			make -s modules_install INSTALL_MOD_PATH=/out/usr
			make -s run-command KBUILD_RUN_COMMAND=\"scripts/package/install-extmod-build /out/build\""' - "$@" >"$tmp/source.log" 2>&1 || {
		cp "$tmp/source.log" "$apt/source.log"
		refuse "the kernel cannot be built from its source, see $apt/source.log: correct vm/kernel-*.config"
	}
}

make_from_source() { # make_from_source NAME KEPT
	local minor=${1%-*} root=$tmp/source-root
	local -a configs
	mapfile -t configs < <(source_configs "$1")
	progress "fetching the source of $minor and what builds it (two minutes)"
	mmdebstrap --quiet --mode=root --variant=apt --format=directory \
		--aptopt='APT::Install-Recommends "false"' --aptopt='APT::Sandbox::User "root"' \
		--dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		"--include=$SOURCE_TOOLS" "$SUITE" "$root" "$apt/sources.list" >"$apt/source.log" 2>&1 ||
		refuse "the root that builds kernels could not be made, see $apt/source.log: check the network and /etc/apt, then run it again"
	unpack_source "$minor" "$root/src"
	cp "${configs[@]/#/$here/}" "$root/src/kernel/configs/"
	progress "building kernel $1 (a quarter of an hour of one processor, half an hour for one that checks itself)"
	compile_source "$root" "${configs[@]}"
	keep_built "$root" "$2" "$tmp/source/version"
	rm -rf "$root"
}

# keep_built ROOT KEPT VERSION-FILE: what was built, laid out as a package would.
keep_built() {
	local root=$1 part=$tmp/built release
	release=$(ls "$root/out/usr/lib/modules")
	mkdir -p "$part/boot" "$part/usr"
	cp "$root/src/arch/x86/boot/bzImage" "$part/boot/vmlinuz-$release"
	cp "$root/src/.config" "$part/boot/config-$release"
	mv "$root/out/usr/lib" "$part/usr/"
	rm -f "$part/usr/lib/modules/$release"/{build,source}
	# What modules for it are built with; its types are those of the kernel.
	mv "$root/out/build" "$part/build"
	objcopy --strip-debug "$root/src/vmlinux" "$part/build/vmlinux"
	cp "$3" "$part/version"
	echo "$release" >"$part/release"
	rm -rf "$2"
	mkdir -p "${2%/*}"
	mv -T "$part" "$2"
}

build_from_source() { # build_from_source NAME
	local kept
	kept=$(source_kept "$1")
	[[ -f $kept/release ]] || make_from_source "$1" "$kept"
	release=$(<"$kept/release")
	version=$(<"$kept/version")
	mkdir -p "$tmp/kernel/usr"
	cp -r "$kept/boot" "$tmp/kernel/"
	cp -r "$kept/usr/lib" "$tmp/kernel/usr/"
	ln -s "$kept/build/vmlinux" "$tmp/kernel/vmlinux"
}
