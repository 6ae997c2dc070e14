#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Prints what an I/O scheduler must know of the kernel it is built for and no installed header tells:
# the types of block/elevator.h, blk-mq.h and blk-cgroup.h, from the kernel's own type information.
#
#   private.sh VMLINUX        a kernel with BTF: /usr/src/linux-headers-*/vmlinux, /sys/kernel/btf/vmlinux
set -eu

btf=$1
command -v bpftool >/dev/null || {
	echo 'cello: bpftool is missing, it tells the types of the kernel: apt-get install bpftool' >&2
	exit 1
}
[ -r "$btf" ] || {
	echo "cello: $btf is not there, it has the types of the kernel: install that kernel's headers, or build where it runs" >&2
	exit 1
}
bpftool btf dump file "$btf" format c | awk '
	# In this order: each needs only those before it, and public ones.
	BEGIN {
		n = split("enum:elv_merge typedef:blk_insert_t struct:blk_mq_alloc_data struct:blk_mq_debugfs_attr " \
			"struct:elevator_mq_ops struct:elv_fs_entry struct:elevator_type struct:elevator_queue " \
			"struct:blkcg struct:blkg_iostat struct:blkg_iostat_set struct:blkcg_gq struct:blkcg_policy_data " \
			"struct:blkg_policy_data typedef:blkcg_pol_alloc_cpd_fn typedef:blkcg_pol_init_cpd_fn " \
			"typedef:blkcg_pol_free_cpd_fn typedef:blkcg_pol_bind_cpd_fn typedef:blkcg_pol_alloc_pd_fn " \
			"typedef:blkcg_pol_init_pd_fn typedef:blkcg_pol_online_pd_fn typedef:blkcg_pol_offline_pd_fn " \
			"typedef:blkcg_pol_free_pd_fn typedef:blkcg_pol_reset_pd_stats_fn typedef:blkcg_pol_stat_pd_fn " \
			"struct:blkcg_policy struct:blk_flush_queue", wanted, " ")
		for (i = 1; i <= n; i++)
			is_wanted[wanted[i]] = 1
	}
	!inside && /^(struct|enum) [a-z_]+ \{$/ && (($1 ":" $2) in is_wanted) { inside = $1 ":" $2 }
	inside {
		text[inside] = text[inside] $0 "\n"
		if (/^\}/)
			inside = ""
		next
	}
	/^typedef .*;$/ {
		name = $0
		sub(/\(.*|;.*/, "", name)
		sub(/.*[ *]/, "", name)
		if (("typedef:" name) in is_wanted)
			text["typedef:" name] = $0 "\n"
	}
	END {
		print "/* Made by private.sh. */"
		for (i = 1; i <= n; i++) {
			split(wanted[i], part, ":")
			if (part[1] == "struct")
				print "struct " part[2] ";"
		}
		for (i = 1; i <= n; i++)
			if (wanted[i] in text)
				print "\n" text[wanted[i]]
		# What changed between the kernels this was built for.
		ops = text["struct:elevator_mq_ops"]
		if (ops ~ /init_sched\)\(struct request_queue \*, struct elevator_queue \*\)/)
			print "#define INIT_SCHED_HAS_QUEUE 1"
		if (ops ~ /depth_updated\)\(struct request_queue \*\)/)
			print "#define DEPTH_UPDATED_HAS_QUEUE 1"
		if (text["struct:elevator_mq_ops"] == "" || text["struct:blkcg_policy"] == "") {
			print "cello: this kernel tells no types of its block layer: it was built without CONFIG_DEBUG_INFO_BTF" >"/dev/stderr"
			exit 1
		}
	}'
