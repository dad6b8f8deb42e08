#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Fetches what others wrote that reads what we write, once, and prints where: get-judges.sh DIR
# npm's packages are those of tests/judges/package-lock.json, as it names them; browsers are not among them: the
# tests use Debian's chromium. Debian's are unpacked, not installed.
set -euo pipefail

lib=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
judges=$lib/../judges
dir=$1

if ! cmp -s "$judges/package-lock.json" "$dir/installed-lock.json"; then
  mkdir -p "$dir"
  cp "$judges/package.json" "$judges/package-lock.json" "$dir/"
  (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1) || {
    echo "get-judges: npm ci failed; see $dir/npm.log" >&2
    exit 1
  }
  cp "$judges/package-lock.json" "$dir/installed-lock.json"
fi
# Go's pprof, and FlameGraph's flamegraph.pl; their cases are skipped without them.
"$lib/get-packages.sh" "$(dpkg --print-architecture)" "$dir/debian" golang-1.19-go libdevel-nytprof-perl >/dev/null ||
  echo "get-judges: no Go, no FlameGraph" >&2
readlink -f "$dir"
