#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Unpacks the capture library of Debian's libsysprof-4-dev into a cache directory, without installing
# it (it would bring GTK's development files). Prints the directory for -Dsysprof_capture_dir=.
set -eu

fail() {
  echo "get-libsysprof.sh: $1" >&2
  exit 1
}

[ $# -eq 1 ] || fail 'usage: get-libsysprof.sh CACHE-DIRECTORY'
mkdir -p "$1"
cache=$(cd "$1" && pwd)

if [ ! -e "$cache/complete" ]; then
  command -v apt-get >/dev/null || fail 'apt-get is needed to fetch libsysprof-4-dev'
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  # apt drops to its own user for downloads, and warns when that one may not write here.
  (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root download libsysprof-4-dev >apt.log 2>&1) ||
    fail "cannot download libsysprof-4-dev (no network, or no package lists): $(tail -n 1 "$scratch/apt.log")"
  dpkg-deb -x "$scratch"/libsysprof-4-dev_*.deb "$cache" || fail 'the package cannot be unpacked'
  touch "$cache/complete"
fi

echo "$cache"
