#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs the Debian packages that building, testing or the demo need: tools/setup.sh [build] [test] [demo]
set -euo pipefail

tools=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

die() {
  echo "setup: $*" >&2
  exit 1
}

release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

# The packages of the sections named in "$@" on this release, one a line.
packages() {
  awk -v wanted=" $* " -v release="$release" '
    /^#/ || /^$/ { next }
    /^\[/ { section = substr($0, 2, length($0) - 2); next }
    index(wanted, " " section " ") && (NF == 1 || $2 == release) { print $1 }
  ' "$tools/packages.txt" | sort -u
}

# Those of stdin that are not installed. What an installed package provides (npm by other people's nodejs) is.
missing() {
  local package provided
  provided=" $(dpkg-query -W -f '${db:Status-Status} ${Provides}\n' | sed -n 's/^installed //p' | tr -s ',\n' ' ')"
  while read -r package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      [[ $provided == *" $package "* ]] || echo "$package"
  done
}

[ $# -gt 0 ] || set -- build test demo
for section; do
  grep -q "^\[$section\]$" "$tools/packages.txt" || die "no section '$section' in tools/packages.txt"
done
command -v dpkg-query apt-get >/dev/null ||
  die "this is no Debian: install the equivalents of tools/packages.txt by hand"

mapfile -t wanted < <(packages "$@" | missing)
[ ${#wanted[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] ||
  die "not root and packages are missing: run 'sudo apt-get install --no-install-recommends ${wanted[*]}'"
echo "setup: installing ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  apt-get install -y -q --no-install-recommends "${wanted[@]}" >"$log" 2>&1
}
# The package lists may be absent (a fresh container) or stale.
install || { apt-get update -q >"$log" 2>&1 && install; } ||
  die "apt-get failed ($(grep -m1 '^E:' "$log" || tail -n1 "$log")): check the network and /etc/apt/sources.list, then run this again"
