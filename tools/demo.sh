#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds Sonde, profiles a Python program for five seconds, prints where its time went and draws it for the browser.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

build=$(readlink -m "${SONDE_BUILD:-$root/build}")
capture=${1:-$build/demo.syscap}
seconds=5

"$tools/setup.sh" build demo
echo "demo: building in $build"
mkdir -p "$build" 2>/dev/null || die "cannot write $build: run as root, or set SONDE_BUILD to another folder"
configure "$build"
compile "$build"

# Two hot spots with names of their own: byte code (_PyEval_EvalFrameDefault) and adler32, a function
# that libz exports.
workload=$build/demo-workload.py
cat >"$workload" <<'PYTHON'
import time
import zlib


def collatz(start):
    steps = 0
    while start != 1:
        start = start * 3 + 1 if start & 1 else start >> 1
        steps += 1
    return steps


def checksums(block, rounds):
    value = 1
    for _ in range(rounds):
        value = zlib.adler32(block, value)
    return value


def main():
    block = bytes(range(256)) * 4096
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for start in range(1, 400):
            collatz(start)
        checksums(block, 4)


main()
PYTHON

sondectl=$build/client/sondectl
echo "demo: profiling /usr/bin/python3 for $seconds s"
rm -f "$capture"
"$sondectl" record --embedded --sonded="$build/daemon/control/sonded" \
  --worker="$build/daemon/capture/sonde-capture" -d "$seconds" -o "$capture" -- /usr/bin/python3 "$workload" ||
  die "the recording failed"
"$sondectl" verify "$capture" >/dev/null || die "the capture does not add up: $sondectl verify $capture"

tree=$("$sondectl" report "$capture")
echo
echo "$tree"
echo
for function in __libc_start_main _PyEval_EvalFrameDefault adler32; do
  grep -q "$function" <<<"$tree" || die "the call tree lacks $function"
done
page=${capture%.syscap}.html
"$sondectl" flamegraph "$capture" -o "$page" || die "the flame graph failed"
echo "demo: the capture is $capture"
echo "demo: a flame graph for the browser is $page"
echo "demo: see also '$sondectl report --flat $capture'; Sysprof opens it too"
