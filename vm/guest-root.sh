# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck disable=SC2154 # here, cache, apt and tmp, folders, are set by vm/build, which sources this
#
# The root that the guests of all kernels share: a Debian with the programs of packages.list as a squashfs,
# uncompressed, since the guest maps it as memory and reading then costs nothing. What belongs to
# one kernel is not in it, but in that kernel's initrd (guest-kernel.sh).

readonly -a ROOT_RECIPE=(guest-root.sh mirror.sh packages.list)

root_key() {
	(cd "$here" && sha256sum "${ROOT_RECIPE[@]}") | sha256sum | cut -c1-16
}

# Programs that look into the kernel come from the suite of the newest one, VERSION.
install_programs() { # install_programs VERSION
	local name suite include=''
	while read -r name suite; do
		if [[ $suite == backports ]]; then
			name=$(matching_version "$name" "$1")
		fi
		include+=${include:+,}$name
	done < <(list packages.list)
	mmdebstrap --quiet --mode=root --variant=apt --format=directory \
		--aptopt='APT::Install-Recommends "false"' --aptopt='APT::Sandbox::User "root"' \
		--dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--include="$include" "$SUITE" "$tmp/root" "$apt/sources.list" >"$tmp/root.log" 2>&1 || {
		cp "$tmp/root.log" "$apt/root.log"
		refuse "the root of the guest could not be made, see $apt/root.log: check the network and /etc/apt, then run it again"
	}
}

# One stream of about 1.5 Mbit/s whose content keeps the encoder at that rate:
# moving test pattern, a fractal zoom and cellular automata, each a quarter.
make_clip() {
	local out=/usr/share/qlinux/clip.mpg
	mkdir -p "$tmp/root/usr/share/qlinux"
	chroot "$tmp/root" ffmpeg -loglevel error -nostdin \
		-f lavfi -i testsrc2=size=176x144:rate=25 \
		-f lavfi -i mandelbrot=size=176x144:rate=25:end_scale=0.002 \
		-f lavfi -i life=size=176x144:rate=25:seed=7:ratio=0.3:mold=10:life_color=yellow:death_color=red:mold_color=blue \
		-f lavfi -i cellauto=size=176x144:rate=25:seed=11 \
		-filter_complex '[0]format=yuv420p[a];[1]format=yuv420p[b];[2]format=yuv420p[c];[3]format=yuv420p[d];[a][b]hstack[t];[c][d]hstack[u];[t][u]vstack' \
		-t 60 -c:v mpeg1video -b:v 1500k -minrate 1500k -maxrate 1500k -bufsize 600k -g 12 -bf 2 \
		-threads 1 -fflags +bitexact -flags:v +bitexact -f mpeg1video "$out" >"$tmp/clip.log" 2>&1 ||
		refuse "the film of the guest could not be made: $(tail -n 1 "$tmp/clip.log")"
}

pack_root() { # pack_root FILE
	cat >"$tmp/exclude" <<'LIST'
usr/share/doc/*
usr/share/info/*
usr/share/locale/*
usr/share/man/*
usr/lib/x86_64-linux-gnu/libLLVM*
usr/lib/x86_64-linux-gnu/libgallium*
usr/lib/x86_64-linux-gnu/dri
usr/lib/udev
var/cache/*
var/lib/apt/lists/*
LIST
	mkdir -p "$tmp"/root/{out,.run,boot,usr/lib/modules}
	mksquashfs "$tmp/root" "$1" -noappend -no-progress -quiet -no-xattrs -wildcards \
		-ef "$tmp/exclude" -noI -noD -noF -noX -all-time 0 -mkfs-time 0 >/dev/null
	# Persistent memory is mapped in such units.
	truncate -s %128M "$1"
}

# Prints the folder of the root, made now if it is not there.
shared_root() {
	local folder part=$tmp/root-image
	folder=$cache/guest/root-$(root_key)
	if [[ ! -f $folder/packages.json ]]; then
		# Asked for alone, an old kernel may come before the newest one.
		progress 'installing the programs of the guest (about a minute)'
		install_programs "$(package_version "$(newest_release)")"
		progress 'making the film (half a minute)'
		make_clip
		progress 'packing the root'
		mkdir "$part"
		pack_root "$part/root.img"
		# shellcheck disable=SC2016 # dpkg-query expands these
		dpkg-query --admindir="$tmp/root/var/lib/dpkg" -W -f '    "${Package}": "${Version}",\n' | sed '$ s/,$//' >"$part/packages.json"
		mv -T "$part" "$folder"
		rm -rf "$tmp/root"
	fi
	echo "$folder"
}
