#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs what tests/web/package-lock.json names, as it names it, and prints where: get-playwright.sh DIR
# Browsers are not among it: the tests use Debian's chromium.
set -euo pipefail

web=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../web
dir=$1

if ! cmp -s "$web/package-lock.json" "$dir/installed-lock.json"; then
  mkdir -p "$dir"
  cp "$web/package.json" "$web/package-lock.json" "$dir/"
  (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1) || {
    echo "get-playwright: npm ci failed; see $dir/npm.log" >&2
    exit 1
  }
  cp "$web/package-lock.json" "$dir/installed-lock.json"
fi
readlink -f "$dir"
