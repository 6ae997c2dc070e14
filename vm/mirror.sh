# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck disable=SC2154 # apt, a folder, is set by whoever sources this
#
# The Debian mirror that this machine's own apt is configured for.
readonly SUITE=trixie

refuse() {
	printf '%s: %s\n' "${0##*/vm/}" "$1" >&2
	exit 1
}

# Lines "URI KIND" of the official archives, KIND being main or security.
configured_archives() {
	# shellcheck disable=SC2016 # apt-get expands these, not the shell
	apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(LABEL)|$(RELEASE)|$(REPO_URI)' 'Created-By: Packages' |
		awk -F'|' '$1 == "Debian" && $2 == "main" && $5 ~ /^(https?|mirror|file|tor)/ {
			if ($3 == "Debian-Security") print $5, "security"
			else if ($4 !~ /-/) print $5, "main"
		}' | awk '!seen[$0]++'
}

keyring() {
	local named
	named=$(grep -rhoiE 'signed-by[:=][[:space:]]*/[^] ]+' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
		sed -nE 's/^[^/]*(\/.*debian.*)/\1/p' | sed -n 1p || true)
	for file in "$named" /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
		if [[ -n $file && -r $file ]]; then
			echo "$file"
			return
		fi
	done
	refuse 'the keyring of the Debian archive is missing: apt-get install debian-archive-keyring'
}

write_sources() { # write_sources FILE
	local archives main security key
	archives=$(configured_archives)
	main=$(awk '$2 == "main" { print $1; exit }' <<<"$archives")
	security=$(awk '$2 == "security" { print $1; exit }' <<<"$archives")
	[[ -n $main ]] || refuse "no Debian mirror in this machine's apt sources: add one and run apt-get update"
	key=$(keyring)
	{
		echo "deb [signed-by=$key] $main $SUITE main"
		echo "deb [signed-by=$key] $main $SUITE-updates main"
		[[ -z $security ]] || echo "deb [signed-by=$key] $security $SUITE-security main"
		echo "deb [signed-by=$key] $main $SUITE-backports main"
	} >"$1"
}

# An apt of its own, so that the machine's lists and settings stay as they are.
prepare_apt() {
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/trusted"
	write_sources "$apt/sources.list"
	cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$apt";
Dir::Cache::archives "$apt/archives";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
CONF
	export APT_CONFIG=$apt/apt.conf
	apt-get -qq update >"$apt/update.log" 2>&1 || {
		refuse "the Debian mirror cannot be read for $SUITE, see $apt/update.log: check the network and /etc/apt, then run it again"
	}
}
