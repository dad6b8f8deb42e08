# SPDX-License-Identifier: LGPL-2.1-or-later
# Shared by the scripts of this folder; to be sourced. Sets $tools and $root (the checkout).
# shellcheck shell=bash

tools=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$tools")

# Another python3 or meson may come first in a developer's PATH; Debian's is what was installed.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH LC_ALL=C.UTF-8

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# quietly WHAT COMMAND…: shows the end of the command's output only if it fails, which ends the script.
quietly() {
  local what=$1 log
  shift
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    rm -f "$log"
    die "$what failed"
  fi
  rm -f "$log"
}

# configure DIR ARG…: sets up the build tree DIR, or changes its options.
configure() {
  local dir=$1
  shift
  if [ ! -f "$dir/meson-private/coredata.dat" ]; then
    quietly "configuring $dir" meson setup "$dir" "$root" "$@"
  elif [ $# -gt 0 ]; then
    # Not `meson configure`: that does not know options that are newer than the tree.
    quietly "configuring $dir" meson setup --reconfigure "$dir" "$root" "$@"
  fi
}

# compile DIR [TARGET…]: builds it, or these of it.
compile() {
  quietly "the build in $1" meson compile -C "$@"
}
