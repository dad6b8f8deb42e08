#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds the release before this one from the project's history, once, and prints where: make-previous.sh DIR
set -euo pipefail

root=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..")
# Sonde 0.1.0.
release=7624ce092b0ce9f36090f2009fb65de22cfcfe77
dir=$1

if [ "$(cat "$dir/release" 2>/dev/null)" != "$release" ]; then
  rm -rf "$dir"
  mkdir -p "$dir/source"
  git -C "$root" archive "$release" | tar -x -C "$dir/source"
  {
    meson setup "$dir/build" "$dir/source" --prefix=/usr --buildtype=debugoptimized -Dtests=disabled
    ninja -C "$dir/build"
  } >"$dir/log" 2>&1 || {
    echo "make-previous: cannot build $release; see $dir/log" >&2
    exit 1
  }
  echo "$release" >"$dir/release"
fi
readlink -f "$dir/build"
