#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds Sonde, profiles the small C++ program demo.cc for five seconds, prints where its time went and draws it for the browser.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

build=$(readlink -m "${SONDE_BUILD:-$root/build}")
capture=${1:-$build/demo.syscap}
page=${capture%.syscap}.html
sondectl=$build/client/sondectl
seconds=5

"$tools/setup.sh" build demo
echo "demo: building in $build"
mkdir -p "$build" 2>/dev/null || die "cannot write $build: run as root, or set SONDE_BUILD to another folder"
configure "$build"
compile "$build"
# As programs are built while one works on them: no frame pointers, no profiling options.
quietly "compiling tools/demo.cc" g++ -Og -g -o "$build/demo" "$tools/demo.cc"

echo "demo: profiling $build/demo for $seconds s"
rm -f "$capture"
"$sondectl" record --embedded -o "$capture" -- "$build/demo" "$seconds" || die "the recording failed"
"$sondectl" verify "$capture" >/dev/null || die "the capture does not add up: $sondectl verify $capture"

tree=$("$sondectl" report --percent-limit 5 "$capture")
echo
echo "$tree"
echo
for function in 'Parser::parse_sum' 'quick_sort<' 'escape_time<double>' 'Node::insert' 'place_queens'; do
  grep -qF "$function" <<<"$tree" || die "the call tree lacks $function"
done
"$sondectl" flamegraph "$capture" -o "$page" || die "the flame graph failed"

cat <<TEXT
demo: what next?
  xdg-open $page
      the same as a flame graph, in the browser
  $sondectl report --flat $capture
      functions by their own share; --callers FUNCTION says who calls one
  $sondectl record -- PROGRAM ARGUMENT...
      your own program
  $sondectl top
      the whole machine, live
TEXT
