#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# name: secure-boot
# description: under Secure Boot the disk scheduler is refused until its owner has enrolled the key of DKMS, the others need none
# timeout: 7200
# only: long
#
# All of it as on a Debian machine: DKMS makes a key and signs with it; firmware with Microsoft's keys starts Debian's shim,
# GRUB and kernel; `mokutil --import` asks for the key, and MokManager, at whose screens keys are pressed here, enrols it.
# Kernels and modules have their signatures here, and time is real. SHOW=1 prints the console.
set -uo pipefail

skip() {
	printf 'skipped: %s\nok Secure Boot is tried where there are the means\n' "$1"
	exit 0
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
[[ $(id -u) -eq 0 ]] || skip 'a root of its own with kernel headers needs root'
# A mount table of its own, which takes all that is mounted with it.
if [[ -z ${OWN_MOUNTS:-} ]]; then
	unshare --mount --propagation private true 2>/dev/null || skip 'file systems cannot be mounted here'
	OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"
fi
here=$PWD/vm cache=${QLINUX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qlinux}
apt=$cache/apt
# shellcheck source=vm/mirror.sh
. "$here/mirror.sh"
# shellcheck source=vm/guest-kernel.sh
. "$here/guest-kernel.sh"
readonly NEEDED=(ovmf shim-signed shim-helpers-amd64-signed grub-efi-amd64-signed openssl mokutil libefivar1t64 libkeyutils1)
readonly PROGRAMS=(/bin/bash /bin/dmesg /bin/cat /bin/mount /bin/sleep /sbin/modprobe /usr/bin/mokutil /usr/local/bin/qlinux)
readonly PASSWORD=12345678 DOWN=$'\e[B' ENTER=$'\r'
qemu=''
work=$(mktemp -d)
root=$work/root
# shellcheck disable=SC2317 # the trap below calls it
cleanup() {
	[[ -z $qemu ]] || kill "$qemu" 2>/dev/null
	umount -Rl "$work" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP
mount -t tmpfs tmpfs "$work" || skip 'file systems cannot be mounted here'
mkdir "$work"/{packages,above,shelf,root}

# --- a Debian with headers, and over it the packages that such a machine has besides

kept=$cache/guest/packages/secure-boot
if [[ ! -d $kept ]]; then
	(prepare_apt && download "$kept.part" "${NEEDED[@]}") 2>"$work/said" || skip "$(tail -n 1 "$work/said")"
	mv "$kept.part" "$kept"
fi
readarray -t releases < <(vm/headers --quiet guest 6.12)  # 6.12 comes with its kernel, that of the guest was kept
[[ ${#releases[@]} -gt 0 ]] || skip 'the mirror has no headers of kernels'
unpack "$work/packages" "$kept"
name=$(sed -n 's/.*"name": "\(.*\)".*/\1/p' "$cache/guest/current/manifest.json")
for package in "$cache/guest/packages/$name"/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -C "$work/packages" -x --wildcards './usr/lib/modules/*/vmlinuz' \
		'./usr/lib/modules/*/'{null_blk,configfs,efivarfs,sch_bpf}'*.ko*' 2>/dev/null
done
mount -t overlay overlay -o "lowerdir=$work/packages:$cache/headers,upperdir=$work/above,workdir=$work/shelf" "$root" ||
	skip 'folders cannot be laid over one another here (overlayfs)'
mount -t proc proc "$root/proc"

check() { # check NAME COMMAND...
	if "${@:2}" >"$work/said" 2>&1; then
		echo "ok $1"
	else
		echo "not ok $1"
		tail -n 30 "$work/said"
		return 1
	fi
}

inside() { chroot "$root" "$@"; }

# What the machine starts.
prepare() { # prepare RELEASE
	rm -rf "$work"/{initrd,esp}
	mkdir -p "$work"/initrd/{dev,proc,run,sys,root} "$work"/esp/EFI/{BOOT,debian}
	{
		printf '%s\n' "${PROGRAMS[@]}" /var/lib/dkms/mok.pub
		inside ldd "${PROGRAMS[@]}" | grep -oE '/[^ :]+'
		for module in efivarfs null_blk sch_bpf cello; do
			inside modprobe -S "$1" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" { print $2 }'
		done
		inside find "/lib/modules/$1/" -maxdepth 1 -name 'modules.*'
	} | sort -u | sed 's:^/::' | (cd "$root" && cpio --quiet -pdmL "$work/initrd" 2>/dev/null)
	cp "$work/init" "$work/initrd/"
	(cd "$work/initrd" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/esp/initrd"
	cp "$(find "$root/boot/vmlinuz-$1" "$root/usr/lib/modules/$1/vmlinuz" 2>/dev/null | sed -n 1p)" "$work/esp/vmlinuz"
	for file in shim/shimx64:BOOTX64 shim/mmx64:mmx64 grub/x86_64-efi-signed/grubx64:grubx64; do
		cp "$root/usr/lib/${file%:*}.efi.signed" "$work/esp/EFI/BOOT/${file#*:}.efi"
	done
	printf '%s\n' 'linux /vmlinuz console=ttyS0 loglevel=4 panic=-1' 'initrd /initrd' boot >"$work/esp/EFI/debian/grub.cfg"
	cp "$root/usr/share/OVMF/OVMF_VARS_4M.ms.fd" "$work/variables"
}

cat >"$work/init" <<'GUEST'
#!/bin/bash
export PATH=/usr/local/bin:/usr/bin:/bin:/sbin
for where in proc:/proc sysfs:/sys devtmpfs:/dev securityfs:/sys/kernel/security debugfs:/sys/kernel/debug cgroup2:/sys/fs/cgroup; do
	mount -t "${where%:*}" none "${where#*:}"
done
modprobe -a efivarfs null_blk
mount -t efivarfs none /sys/firmware/efi/efivars
run() { # shows a line, what it says, and its status
	echo "+ $1"
	eval "$1" 2>&1
	echo "= $?"
}
dmesg | while read -r line; do
	[[ $line != *'locked down'* && $line != *'Loaded X.509'* ]] || echo "$line"
done
run 'qlinux check'
run 'qlinux up disk nullb0'
run 'modprobe cello'
run 'echo cello >/sys/block/nullb0/queue/scheduler'
run 'cat /sys/block/nullb0/queue/scheduler /sys/kernel/debug/block/nullb0/sched/groups'
if [[ -d /sys/module/cello ]]; then
	echo 'the guest is done'
	echo o >/proc/sysrq-trigger
else
	[[ ! -d /sys/kernel/sched_ext ]] || run 'qlinux up cpu && qlinux up link lo --rate 10mbit && qlinux status'
	run 'printf "12345678\n12345678\n" | mokutil --import /var/lib/dkms/mok.pub'
	sleep 1
	echo 'the guest starts again'
	echo b >/proc/sysrq-trigger
fi
sleep 1000
GUEST
chmod +x "$work/init"

# --- the machine, and who sits at it

await() { # await TEXT: false if the machine has ended before, or shows nothing of the kind for ten minutes
	local until=$((SECONDS + 600))
	until grep -aq -e "$1" "$work/console"; do
		kill -0 "$qemu" 2>/dev/null && ((SECONDS < until)) || return 1
		sleep 0.5
	done
}

press() { # press TEXT KEYS: when the screen shows TEXT
	await "$1" && sleep 1 && printf %s "$2" >&5
}

enrol() {
	press 'Press any key to perform MOK' ' ' && press 'Enroll MOK' "$DOWN$ENTER" && press 'View key 0' "$DOWN$ENTER" &&
		press 'Enroll the key' "$DOWN$ENTER" && press 'Password' "$PASSWORD$ENTER" && press 'Reboot' "$ENTER"
}

# said PART LINE TEXT: what LINE said in that part, or its status, has TEXT
said() {
	awk -v line="+ $2" '$0 == line { on = 1; next } on { print } /^= / { on = 0 }' "$work/$1" | tee /dev/stderr | grep -q -e "$3"
}

try() { # try RELEASE
	rm -f "$work"/{keys,console}
	mkfifo "$work/keys"
	setpriv --pdeathsig TERM timeout 3000 qemu-system-x86_64 -machine q35,smm=on -accel tcg -cpu max,-la57 -m 1G \
		-display none -nodefaults -no-user-config -serial stdio -global driver=cfi.pflash01,property=secure,value=on \
		-drive "if=pflash,unit=0,format=raw,readonly=on,file=$root/usr/share/OVMF/OVMF_CODE_4M.secboot.fd" \
		-drive "if=pflash,unit=1,format=raw,file=$work/variables" \
		-drive "if=none,id=esp,format=raw,file=fat:rw:$work/esp" -device ahci,id=bus -device ide-hd,drive=esp,bus=bus.0 \
		<"$work/keys" >"$work/console" 2>"$work/complaints" &
	qemu=$!
	exec 5>"$work/keys"
	check "MokManager enrols the key of DKMS ($1)" enrol || cat "$work/complaints"
	await 'the guest is done'
	kill "$qemu" 2>/dev/null
	tr -d '\r' <"$work/console" >"$work/lines"
	[[ -z ${SHOW:-} ]] || cat -v "$work/lines"
	sed '/^the guest starts again$/q' "$work/lines" >"$work/before"
	sed '1,/^the guest starts again$/d' "$work/lines" >"$work/after"
	check "the kernel is locked down before ($1)" grep 'locked down from EFI Secure Boot' "$work/before"
	check "check names the key ($1)" said before 'qlinux check' 'mokutil --import /var/lib/dkms/mok.pub'
	check "the module is refused ($1)" said before 'modprobe cello' 'Key was rejected by service'
	check "up disk says why, and what to do ($1)" said before 'qlinux up disk nullb0' '(Secure Boot).*mokutil --import'
	! grep -q '^+ qlinux up cpu' "$work/before" ||
		check "CPU and links need no key ($1)" said before 'qlinux up cpu && qlinux up link lo --rate 10mbit && qlinux status' '^= 0'
	check "the kernel is locked down after ($1)" grep 'locked down from EFI Secure Boot' "$work/after"
	check "the kernel knows the key then ($1)" grep "Loaded X.509 cert 'DKMS module signing key" "$work/after"
	check "check knows it then ($1)" said after 'qlinux check' 'the key of dkms is enrolled'
	check "up disk works then ($1)" said after 'qlinux up disk nullb0' '^= 0'
	check "the scheduler can be chosen and looked into ($1)" said after 'cat /sys/block/nullb0/queue/scheduler /sys/kernel/debug/block/nullb0/sched/groups' '^= 0'
}

cargo run --quiet --locked --package xtask -- install --destdir "$root" >"$work/said" 2>&1 || cat "$work/said"
source=/$(cd "$root" && echo usr/local/src/qlinux-cello-*)
inside dkms add "$source" >/dev/null
for release in "${releases[@]}"; do
	inside depmod "$release"
	check "DKMS builds the module ($release)" inside dkms install "qlinux-cello/${source##*-}" -k "$release" &&
		check "DKMS signs it with a key that it made ($release)" inside sh -c "modinfo -k $release cello | grep '^signer: *DKMS module signing key$'" &&
		prepare "$release" && try "$release"
done
