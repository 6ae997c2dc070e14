# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck disable=SC2154,SC2034 # here, cache, apt and tmp, folders, are set by vm/build, which sources this
#
# One kernel of the guest: vmlinuz, the initrd with all that belongs to it (init, modules, configuration,
# manifest, peer scheduler), which lies over the root in the guest, and links to the shared root.

kernel_key() { # kernel_key NAME
	local -a recipe=(guest-kernel.sh init.c modules.list)
	# shellcheck disable=SC2046,SC2207 # several words
	! from_source "$1" || recipe+=(kernel-source.sh $(source_configs "$1"))
	{
		root_key
		(cd "$here" && sha256sum "${recipe[@]}")
	} | sha256sum | cut -c1-16
}

# --- its files, from the mirror or kept from when the mirror had them

# Releases (uname -r) on offer, oldest first: those with modules, without which the root cannot be mounted.
offered_releases() {
	$online || return 0
	apt-cache pkgnames | sed -nE 's/^linux-(modules|image)-([0-9]+\.[0-9]+[^ ]*-amd64)$/\1 \2/p' | awk '
		{ split($2, part, /[.+-]/) }
		# From 6.19 on modules are a package of their own.
		$1 == "modules" || part[1] < 6 || (part[1] == 6 && part[2] < 19) { print $2 }' |
		{ grep -v -e -cloud- || true; } | sort -uV
}

# Of a minor version, or of one for real time: MINOR-rt.
releases_of() { # releases_of NAME
	offered_releases | awk -v minor="${1%-rt}" -v "rt=$([[ $1 == *-rt ]] && echo 1)" '
		index($0, minor) == 1 && substr($0, length(minor) + 1) ~ /^[.+-]/ && !rt == !index($0, "-rt-")'
}

# The newest release on offer; nothing where there is none.
newest_of() { # newest_of NAME
	releases_of "$1" | tail -n 1
}

# The newest release on offer of those that kernels.conf has for everything, else the newest of all.
newest_release() {
	local name release chosen=''
	for name in $(kernels newest); do
		release=$(newest_of "$name")
		[[ -z $release ]] || chosen=$(printf '%s\n' "$chosen" "$release" | sort -V | tail -n 1)
	done
	echo "${chosen:-$(offered_releases | { grep -v -e -rt- || true; } | tail -n 1)}"
}

# Of a package that others merely name apt-cache shows nothing.
has_package() {
	[[ -n $(apt-cache show --no-all-versions "$1" 2>/dev/null) ]]
}

package_version() { # package_version RELEASE
	local version
	version=$({ apt-cache show --no-all-versions "linux-modules-$1" 2>/dev/null || true; } | sed -n 's/^Version: //p')
	# Older kernels have no package of that name: their modules come with the image.
	echo "${version:-$(apt-cache show --no-all-versions "linux-image-$1" | sed -n 's/^Version: //p')}"
}

unpack() { # unpack DIR FOLDER-OF-DEBS
	local package
	for package in "$2"/*.deb; do
		dpkg-deb -x "$package" "$1"
	done
}

download() { # download FOLDER PACKAGE...
	mkdir -p "$1"
	(cd "$1" && apt-get -qq download "${@:2}" >"$apt/download.log" 2>&1) ||
		refuse "${*:2} cannot be fetched ($(tail -n 1 "$apt/download.log")): check the network and /etc/apt, then run it again"
}

# The packages of a kernel into KEPT, where they outlive the mirror's.
keep_packages() { # keep_packages RELEASE KEPT
	local release=$1 kept=$2 name
	local -a wanted=()
	[[ ! -f $kept/release || $(<"$kept/release") != "$release" ]] || return 0
	progress "fetching kernel $release"
	for name in linux-binary linux-binary-unsigned linux-image; do
		if has_package "$name-$release"; then
			wanted+=("$name-$release")
			break
		fi
	done
	for name in linux-modules linux-base; do
		! has_package "$name-$release" || wanted+=("$name-$release")
	done
	download "$tmp/packages" "${wanted[@]}"
	package_version "$release" >"$tmp/packages/version"
	echo "$release" >"$tmp/packages/release"
	rm -rf "$kept"
	mkdir -p "${kept%/*}"
	mv "$tmp/packages" "$kept"
}

# Lays a kernel's files out in $tmp/kernel and sets release and version.
fetch_kernel() { # fetch_kernel NAME
	local kept=$cache/guest/packages/$1
	if from_source "$1"; then
		build_from_source "$1"
		return
	fi
	release=$(newest_of "$1")
	if [[ -n $release ]]; then
		keep_packages "$release" "$kept"
	else
		progress "the mirror offers no kernel $1: taking the packages that were kept"
	fi
	release=$(<"$kept/release")
	version=$(<"$kept/version")
	mkdir -p "$tmp/kernel"
	unpack "$tmp/kernel" "$kept"
	[[ -d $tmp/kernel/usr/lib/modules ]] || mv "$tmp/kernel/lib" "$tmp/kernel/usr/"
}

# The kernel inside a bzImage, whose header says where its payload lies; QEMU
# starts an ELF kernel directly.  Any other packing is left to unpack itself.
unpack_vmlinuz() { # unpack_vmlinuz FROM TO
	local setup offset length unpacker
	number() { od -An -t "u$2" -j "$1" -N "$2" "$3" | tr -d ' '; }
	setup=$(number 497 1 "$1")
	offset=$(number 584 4 "$1")
	length=$(number 588 4 "$1")
	tail -c "+$(((setup + 1) * 512 + offset + 1))" "$1" | head -c "$((length - 4))" >"$tmp/payload" || true
	for unpacker in zstd xz; do
		if $unpacker -qdc "$tmp/payload" >"$2" 2>/dev/null && [[ $(head -c 4 "$2" | tail -c 3) == ELF ]]; then
			return
		fi
	done
	cp "$1" "$2"
}

# --- what lies over the root

# What runs with the root's own libraries, on this machine: its bpftool and libbpf are newer.
unpack_tools() { # unpack_tools ROOT
	[[ ! -d $tmp/tools ]] || return 0
	unsquashfs -q -n -f -d "$tmp/tools" "$1/root.img" bin sbin lib lib64 usr/lib64 usr/sbin/bpftool usr/bin/kmod \
		usr/sbin/depmod usr/sbin/modprobe 'usr/lib/x86_64-linux-gnu/l*.so*' >/dev/null
}

guest_bpftool() {
	chroot "$tmp/tools" /usr/sbin/bpftool "$@"
}

# Modules are stored unpacked and without signature: checking one costs the
# guest a third of a virtual second.
install_modules() { # install_modules RELEASE
	local from=$tmp/kernel/usr/lib/modules/$1 all=$tmp/tools/all to=$tmp/initrd/kernel/usr/lib/modules/$1 pattern file
	mkdir -p "$to" "$all/usr/lib/modules"
	ln -s usr/lib "$all/lib"
	cp -r "$from" "$all/usr/lib/modules/"
	chroot "$tmp/tools" depmod -b /all "$1"
	list modules.list | sed 's/^early //' | while read -r pattern; do
		# shellcheck disable=SC2086 # a pattern
		(cd "$from/kernel" 2>/dev/null && printf '%s\n' ${pattern}*)
	done | sed -nE 's/.*\/([^/]+)\.ko(\.[a-z]+)?$/\1/p' >"$tmp/module.names"
	xargs -r chroot "$tmp/tools" modprobe -d /all -S "$1" -a --show-depends <"$tmp/module.names" 2>/dev/null |
		awk '$1 == "insmod" { print $2 }' | sort -u >"$tmp/module.files" || true
	while read -r file; do
		file=kernel/${file#*/kernel/}
		mkdir -p "$to/${file%/*}"
		case $file in
		*.xz) xz -dc "$from/$file" >"$to/${file%.xz}" ;;
		*.zst) zstd -qdc "$from/$file" >"$to/${file%.zst}" ;;
		*) cp "$from/$file" "$to/$file" ;;
		esac
	done <"$tmp/module.files"
	find "$to" -name '*.ko' -exec strip -g {} +
	cp "$from"/modules.{order,builtin,builtin.modinfo} "$to/"
	rm -rf "$all/usr/lib/modules/$1"
	cp -r "$to" "$all/usr/lib/modules/"
	chroot "$tmp/tools" depmod -b /all "$1"
	cp "$all/usr/lib/modules/$1"/modules.* "$to/"
}

# Links to the modules that mount the root, named in the order to load. Those that are built in need none.
choose_early_modules() { # choose_early_modules RELEASE
	local number=10 name file
	mkdir -p "$tmp/initrd/modules"
	list modules.list | sed -n 's/^early //p' | while read -r name; do
		chroot "$tmp/tools" modprobe -d /all -S "$1" --show-depends "$(basename "$name" .ko)"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$tmp/early"
	while read -r file; do
		ln -s "/kernel/usr/lib/modules/${file#*/modules/}" "$tmp/initrd/modules/$number-${file##*/}"
		number=$((number + 1))
	done <"$tmp/early"
	rm -rf "$tmp/tools/all"
}

newest_clang() {
	"$(printf '%s\n' /usr/bin/clang-[0-9]* | grep -E -e '-[0-9]+$' | sort -V | tail -n 1)" "$@"
}

# linux-bpf-dev when it was built from the same source and configuration, else the kernel's own type information.
make_vmlinux_h() { # make_vmlinux_h VERSION TO
	local offered=''
	! $online || [[ -f $tmp/kernel/vmlinux ]] || offered=$(apt-cache madison linux-bpf-dev)
	if grep -qF " $1 " <<<"$offered"; then
		download "$tmp/bpf-dev" "linux-bpf-dev=$1"
		unpack "$tmp/bpf-dev" "$tmp/bpf-dev"
		# With its own time: programs are compiled anew when it changes.
		cp -p "$(find "$tmp/bpf-dev" -name vmlinux.h | sed -n 1p)" "$2"
		return
	fi
	local elf=$tmp/image/vmlinuz
	[[ ! -f $tmp/kernel/vmlinux ]] || elf=$tmp/kernel/vmlinux
	objcopy --dump-section .BTF="$tmp/tools/btf" "$elf" /dev/null
	guest_bpftool btf dump file /btf format c >"$2"
	rm "$tmp/tools/btf"
}

# The sources in linux-source, of which only what the peer is made from is unpacked.
fetch_peer_source() { # fetch_peer_source PACKAGE
	download "$tmp/peer/debs" "$1" libbpf-dev
	dpkg-deb --fsys-tarfile "$tmp"/peer/debs/linux-source-*.deb | tar -xOf - --wildcards '*/linux-source-*.tar.xz' | xz -dc |
		tar -C "$tmp/peer" -x --strip-components=1 --wildcards '*/tools/sched_ext' '*/tools/include' '*/arch/x86/include/uapi/asm'
	dpkg-deb -x "$tmp"/peer/debs/libbpf-dev_*.deb "$tmp/peer"
}

# scx_flatcg, the scheduler for cgroups that comes with the kernel: what the lab compares with. Compiled
# as its Makefile does, with the guest's own bpftool and libbpf, which are newer than this machine's.
compile_peer() {
	local name=scx_flatcg from=tools/sched_ext tools=$tmp/tools
	cd "$tmp/peer" &&
		newest_clang -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -fms-extensions -Wno-microsoft-anon-tag \
			-Wno-compare-distinct-pointer-types "-ffile-prefix-map=$tmp=." -I$from/include -I$from/include/bpf-compat \
			-I. -Iusr/include -Itools/include/uapi -c $from/$name.bpf.c -o "$tools/peer.bpf.o" &&
		guest_bpftool gen object /peer.o /peer.bpf.o &&
		guest_bpftool gen skeleton /peer.o name $name >$name.bpf.skel.h &&
		mkdir -p "$tmp/initrd/kernel/usr/bin" &&
		gcc -O2 -I$from/include -I. -Iusr/include -Itools/include/uapi -Itools/include -o "$tmp/initrd/kernel/usr/bin/$name" \
			$from/$name.c "$tools/usr/lib/x86_64-linux-gnu/libbpf.so.1" -Wl,--allow-shlib-undefined
}

# The guest is useful without: a kernel may have no source on offer, or another kind of peer.
make_peer() { # make_peer NAME VERSION
	local minor=${1%%-*} log=$apt/peer-$1.log
	peer=none
	if ! grep -q '^CONFIG_SCHED_CLASS_EXT=y' "$tmp/image/config"; then
		progress "kernel $1 has no sched_ext, so it goes without scx_flatcg"
		return
	fi
	if ! $online || ! has_package "linux-source-$minor"; then
		progress "the mirror has no source of $minor, so it goes without scx_flatcg: the lab will leave that out"
		return
	fi
	progress 'compiling the peer scheduler (half a minute)'
	mkdir "$tmp/peer"
	peer=$(matching_version "linux-source-$minor" "$2")
	fetch_peer_source "$peer"
	make_vmlinux_h "$2" "$tmp/peer/vmlinux.h"
	(compile_peer) >"$log" 2>&1 || {
		rm -f "$tmp/initrd/kernel/usr/bin/scx_flatcg"
		printf 'guest: scx_flatcg of %s cannot be compiled, see %s: the lab will leave it out\n' "$peer" "$log" >&2
		peer=none
	}
	rm -rf "$tmp"/tools/peer.*
}

# --- the image

write_manifest() { # write_manifest NAME ROOT
	{
		printf '{\n  "name": "%s",\n  "kernel": "%s",\n  "kernel_package": "%s",\n  "suite": "%s",\n' "$1" "$release" "$version" "$SUITE"
		printf '  "recipe": "%s",\n  "scx_flatcg": "%s",\n  "clang": "%s",\n  "qemu": "%s",\n  "packages": {\n' \
			"$(kernel_key "$1")" "$peer" \
			"$(newest_clang --version 2>/dev/null | sed -n 1p)" \
			"$(qemu-system-x86_64 --version | sed -n 1p)"
		cat "$2/packages.json"
		printf '  }\n}\n'
	} >"$tmp/image/manifest.json"
	mkdir -p "$tmp/initrd/kernel/etc"
	cp "$tmp/image/manifest.json" "$tmp/initrd/kernel/etc/qlinux-guest"
}

pack_initrd() {
	mkdir -p "$tmp"/initrd/{dev,proc,sys}
	gcc -O2 -Wall -Wextra -static -o "$tmp/initrd/init" "$here/init.c"
	chmod -R u=rwX,go=rX "$tmp/initrd"
	(cd "$tmp/initrd" && find . -exec touch -hd @0 {} + && find . -print0 | LC_ALL=C sort -z |
		cpio --null -o -H newc -R 0:0 --reproducible --quiet) >"$tmp/image/initrd"
}

make_kernel() { # make_kernel NAME FOLDER
	local release='' version='' peer root
	fetch_kernel "$1"
	root=$(shared_root)
	unpack_tools "$root"
	progress "making the image of kernel $release"
	mkdir -p "$tmp/image" "$tmp/initrd/kernel/boot"
	ln -s "../${root##*/}/root.img" "$tmp/image/root.img"
	unpack_vmlinuz "$(find "$tmp/kernel" -name 'vmlinuz*' -type f | sed -n 1p)" "$tmp/image/vmlinuz"
	cp "$tmp/kernel/usr/lib/modules/$release/config" "$tmp/image/config" 2>/dev/null ||
		cp "$tmp/kernel/boot/config-$release" "$tmp/image/config"
	cp "$tmp/image/config" "$tmp/initrd/kernel/boot/config-$release"
	install_modules "$release"
	choose_early_modules "$release"
	make_peer "$1" "$version"
	! is_newest "$1" || make_vmlinux_h "$version" "$tmp/image/vmlinux.h"
	write_manifest "$1" "$root"
	pack_initrd
	rm -rf "$2"
	mv -T "$tmp/image" "$2"
	rm -rf "$tmp"/{kernel,initrd,peer,bpf-dev}
}
