#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Unpacks packages of a Debian release and what they need into a directory, once, and prints its path:
#   get-release.sh RELEASE DIRECTORY PACKAGE…
#
# Programs of it run by chroot: nothing is installed, and no script of a package runs. apt works with lists and a source
# list of its own.
set -eu

fail() {
  echo "get-release.sh: $1" >&2
  exit 1
}

[ $# -ge 3 ] || fail 'usage: get-release.sh RELEASE DIRECTORY PACKAGE…'
release=$1
directory=$2
shift 2
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
wanted="$release $*"

if [ "$(cat "$directory/.complete" 2>/dev/null)" != "$wanted" ]; then
  command -v apt-get >/dev/null || fail 'apt-get is needed to fetch packages'
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
  : >"$scratch/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" \
    >"$scratch/sources.list"

  apt() {
    apt-get -q -o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=/dev/null \
      -o Dir::State::lists="$scratch/lists" -o Dir::State::status="$scratch/status" \
      -o Dir::Cache="$scratch/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root \
      "$@" >>"$scratch/apt.log" 2>&1
  }
  apt update || :
  apt install --download-only --no-install-recommends -y "$@" ||
    fail "cannot download packages of $release (no network, or no mirror that has them): $(
      grep '^[EW]:' "$scratch/apt.log" | tail -n 1)"
  for package in "$scratch"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$directory" || fail "${package##*/} cannot be unpacked"
  done
  mkdir -p "$directory/tmp" "$directory/proc" "$directory/dev"
  for folder in bin lib lib64 sbin; do
    [ -e "$directory/$folder" ] || ln -s "usr/$folder" "$directory/$folder"
  done
  echo "$wanted" >"$directory/.complete"
fi

echo "$directory"
