#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the picture of README.md, the page of a flame graph in a browser without a window: tools/screenshot.sh [CAPTURE]
# CAPTURE is by default that of tools/demo.sh.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

build=$(readlink -m "${SONDE_BUILD:-$root/build}")
capture=${1:-$build/demo.syscap}
picture=$root/docs/images/flame-graph.png
max_bytes=$((150 * 1024))

command -v chromium >/dev/null || die "no chromium: run tools/setup.sh test"
[ -f "$capture" ] || die "no $capture: run tools/demo.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The name of the capture is the title of the page.
page=$folder/$(basename "$capture" .syscap).html
"$build/client/sondectl" flamegraph "$capture" -o "$page"
# root's chromium has no sandbox of its own. The budget lets scripts end before the picture is taken.
quietly "chromium" chromium --headless --no-sandbox --user-data-dir="$folder/profile" --hide-scrollbars \
  --window-size=1200,680 --virtual-time-budget=10000 --screenshot="$folder/picture.png" "file://$page"
[ -s "$folder/picture.png" ] || die "chromium made no picture of $page"
size=$(stat -c %s "$folder/picture.png")
[ "$size" -le $max_bytes ] || die "the picture has $size bytes, more than $max_bytes"
mkdir -p "$(dirname "$picture")"
install -m 644 "$folder/picture.png" "$picture"
echo "screenshot: $picture, $size bytes"
