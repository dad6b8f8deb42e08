#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Unpacks Debian source packages into a directory, once, and prints its path:
#   get-sources.sh DIRECTORY PACKAGE…
#
# Of bookworm, whatever the machine is: then what is built of them is the same everywhere. apt works with lists and a
# source list of its own; each package is in DIRECTORY/PACKAGE.
set -eu

fail() {
  echo "get-sources.sh: $1" >&2
  exit 1
}

[ $# -ge 2 ] || fail 'usage: get-sources.sh DIRECTORY PACKAGE…'
mkdir -p "$1"
directory=$(cd "$1" && pwd)
shift

if [ "$(cat "$directory/.complete" 2>/dev/null)" != "$*" ]; then
  command -v apt-get >/dev/null || fail 'apt-get is needed to fetch sources'
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
  : >"$scratch/status"
  echo 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main' \
    >"$scratch/sources.list"

  apt() {
    apt-get -q -o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=/dev/null \
      -o Dir::State::lists="$scratch/lists" -o Dir::State::status="$scratch/status" \
      -o Dir::Cache="$scratch/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root \
      "$@" >>"$scratch/apt.log" 2>&1
  }
  apt update || :
  for package in "$@"; do
    rm -rf "${directory:?}/$package" "$scratch/source"
    mkdir "$scratch/source"
    (cd "$scratch/source" && apt source "$package") ||
      fail "cannot fetch the source of $package (no network, or no mirror that has it): $(
        grep '^[EW]:' "$scratch/apt.log" | tail -n 1)"
    mv "$scratch/source"/*/ "$directory/$package"
  done
  echo "$*" >"$directory/.complete"
fi

echo "$directory"
