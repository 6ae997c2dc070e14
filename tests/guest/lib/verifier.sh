# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# What the scheduler's programs cost the verifier, beside a record; QLINUX_RECORD=1 prints a new one.

# shellcheck source-path=SCRIPTDIR source=cli.sh
. /usr/lib/qlinux/tests/guest/lib/cli.sh

# judge_programs RECORD
judge_programs() {
	local record=/usr/lib/qlinux/tests/guest/lib/$1 found name now was
	check up qlinux up cpu
	found=$(qlinux status --json | awk -F'"' '/"name"/ { name = $4 } /"verified_instructions"/ { gsub(/[^0-9]/, ""); print name, $0 }')
	check down qlinux down cpu
	if [[ -n ${QLINUX_RECORD:-} ]]; then
		echo "# Instructions the verifier walked through, kernel $(uname -r), $(nproc) processors"
		echo "$found"
		exit 0
	fi
	equal programs "$(awk '{ print $1 }' <<<"$found")" "$(grep -v '^#' "$record" | awk '{ print $1 }')"
	while read -r name now; do
		was=$(awk -v name="$name" '$1 == name { print $2 }' "$record")
		if ((now * 5 <= ${was:-0} * 6)); then
			pass "$name: $now instructions, recorded $was"
		else
			fail "$name" "$now instructions, recorded ${was:-none}: simplify it, or record anew with QLINUX_RECORD=1 and say why"
		fi
	done <<<"$found"
}
