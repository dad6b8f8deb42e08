#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Which lines of the readers of foreign bytes the corpora and the unit tests reach: tools/coverage.sh [FILE…]
#
# Builds with clang's counters, runs the suites fuzz and unit, and prints a line for each source that
# tests/fuzz/decoders.txt names. Below 90 % of its lines in one of them the exit status is 1. With FILEs, paths from the
# root of the checkout, it shows the lines of these that were not reached instead.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

min_percent=90
base=$(readlink -m "${SONDE_BUILD:-$root/build}")-coverage
build=$base/build
counters='-fprofile-instr-generate -fcoverage-mapping'

"$tools/setup.sh" build test
# What the build runs of its own programs counts for nothing.
export LLVM_PROFILE_FILE=/dev/null
echo "coverage: configuring $build"
CC=clang configure "$build" --buildtype=debug -Dtests=enabled -Dc_args="$counters" -Dc_link_args="$counters"

rm -rf "$base/counts"
mkdir -p "$base/counts"
echo "coverage: building and running the suites fuzz and unit"
# Builds what they need and no more: a program without a C library cannot count its lines. Left out is the test of the
# memory collector, which finds the allocations of the counters among those that it expects.
mapfile -t tests < <(meson test -C "$build" --list --suite fuzz --suite unit | sed -n 's|.* / ||p' | grep -vx memory)
LLVM_PROFILE_FILE="$base/counts/%8m.profraw" quietly "the tests" \
  meson test -C "$build" --suite fuzz --suite unit "${tests[@]}"
llvm-profdata merge -o "$base/counts.profdata" "$base"/counts/*.profraw

mapfile -t programs < <(find "$build/tests/fuzz" "$build/tests/unit" -maxdepth 1 -type f -perm -u+x -printf '-object\n%p\n')
programs+=(-object "$build/client/sondectl") # which tests of the suite unit run
llvm-cov export -format=lcov "${programs[@]:1}" -instr-profile="$base/counts.profdata" 2>/dev/null |
  /usr/bin/python3 -B "$tools/coverage-table.py" "$root" "$min_percent" "$@"
