#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the smallest Debian of a release, once, and prints where: make-root.sh RELEASE DIRECTORY
#
#   root       what `debootstrap --variant=minbase` installs, and how apt gets at more of it
#   archives   packages that were downloaded, so that they are downloaded once
#
# All of it comes from the mirror that this machine uses; a complete directory needs no network.
set -euo pipefail

fail() {
  echo "make-root.sh: $1" >&2
  exit 1
}

[ $# -eq 2 ] || fail 'usage: make-root.sh RELEASE DIRECTORY'
[ "$(id -u)" = 0 ] || fail 'needs root'
release=$1
mkdir -p "$2/archives/partial"
directory=$(readlink -f "$2")
recipe="$release $(sha256sum "$0" | cut -c 1-64)"

if [ "$(cat "$directory/.complete" 2>/dev/null)" != "$recipe" ]; then
  rm -rf "$directory"/{.complete,root}
  log=$directory/make-root.log
  new=$directory/root
  # None: debootstrap knows Debian's own.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | head -n 1)
  debootstrap --variant=minbase --cache-dir="$directory/archives" "$release" "$new" ${mirror:+"$mirror"} >"$log" 2>&1 ||
    fail "debootstrap: $(tail -n 5 "$log") (more of it is in $log)"
  # How this machine reaches the mirror, and what it makes of the mirror's dates.
  apt-config dump | grep -E '^Acquire::(Check-|ftp|http|https)' >"$new/etc/apt/apt.conf.d/80sonde-tests" || :
  echo "$recipe" >"$directory/.complete"
fi
echo "$directory"
