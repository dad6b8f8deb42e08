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

# configure DIR ARG…: sets up or reconfigures the build tree DIR.
configure() {
  local dir=$1
  shift
  if [ -f "$dir/meson-private/coredata.dat" ]; then
    [ $# -eq 0 ] || meson configure "$dir" "$@" >/dev/null
  else
    meson setup "$dir" "$root" "$@" >"$dir.log" 2>&1 || {
      cat "$dir.log" >&2
      die "cannot configure $dir"
    }
    rm -f "$dir.log"
  fi
}

# compile DIR: builds it; says nothing unless that fails.
compile() {
  local log
  log=$(mktemp)
  if ! meson compile -C "$1" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "the build in $1 failed"
  fi
  rm -f "$log"
}
