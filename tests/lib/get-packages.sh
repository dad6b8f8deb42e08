#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Unpacks Debian packages of any architecture into a directory, once, and prints its path:
#   get-packages.sh ARCHITECTURE DIRECTORY PACKAGE…
#
# Nothing is installed, and the machine's own package lists and architectures stay as they are: apt
# works with lists of its own, from the mirrors that the machine uses.
set -eu

fail() {
  echo "get-packages.sh: $1" >&2
  exit 1
}

[ $# -ge 3 ] || fail 'usage: get-packages.sh ARCHITECTURE DIRECTORY PACKAGE…'
architecture=$1
directory=$2
shift 2
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
wanted="$architecture $*"

if [ "$(cat "$directory/.complete" 2>/dev/null)" != "$wanted" ]; then
  command -v apt-get >/dev/null || fail 'apt-get is needed to fetch packages'
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
  : >"$scratch/status"

  apt() {
    apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
      -o Dir::State::lists="$scratch/lists" -o Dir::State::status="$scratch/status" \
      -o Dir::Cache="$scratch/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root \
      "$@" >>"$scratch/apt.log" 2>&1
  }
  # A mirror of somebody else's that fails does not matter, if Debian's has the packages.
  apt update || :
  (cd "$scratch" && apt download "$@") ||
    fail "cannot download $architecture packages (no network, or no mirror that has them): $(
      grep '^[EW]:' "$scratch/apt.log" | tail -n 1)"
  for package in "$scratch"/*.deb; do
    dpkg-deb -x "$package" "$directory" || fail "${package##*/} cannot be unpacked"
  done
  echo "$wanted" >"$directory/.complete"
fi

echo "$directory"
