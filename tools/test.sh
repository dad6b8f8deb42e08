#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds Sonde three ways and runs the test suites in each: tools/test.sh [SUITE…]
#
#   plain     gcc                          every suite
#   sanitize  gcc, ASan and UBSan          every suite
#   clang     clang, as a second opinion   what needs neither root nor a bus
#
# All three treat warnings as errors. The last line is "N passed, N failed, N skipped", in test cases.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

all_suites=(style unit fuzz bus system)
base=$(readlink -m "${SONDE_BUILD:-$root/build}")-test
suites=("$@")
[ $# -gt 0 ] || suites=("${all_suites[@]}")
for suite in "${suites[@]}"; do
  [[ " ${all_suites[*]} " == *" $suite "* ]] || die "no suite '$suite': there are ${all_suites[*]}"
done
[ "$(id -u)" = 0 ] ||
  die "not root, which private buses and perf events need: run 'sudo $0' or 'meson test --suite unit' in a build tree"

"$tools/setup.sh" build test
mkdir -p "$base"
logs=()

# run_suites BUILD SUITE…: a failing suite does not keep the others from running.
run_suites() {
  local build=$1 suite
  shift
  for suite; do
    [[ " ${suites[*]} " == *" $suite "* ]] || continue
    rm -f "$base/$build/meson-logs/$suite.json"
    echo "test: $build: $suite"
    # Whether anything failed is for the count to say, which also shows why.
    meson test -C "$base/$build" --no-rebuild --suite "$suite" --logbase "$suite" --quiet \
      >"$base/$build-$suite.out" 2>&1 || :
    logs+=("$build:$suite:$base/$build/meson-logs/$suite.json")
  done
}

make_build() {
  local build=$1
  shift
  echo "test: building $build"
  configure "$base/$build" --werror -Dtests=enabled "$@"
  compile "$base/$build"
}

# A reader of captures that is not ours, for one test. Without it that test is skipped and says so.
sysprof=
if [[ " ${suites[*]} " == *" system "* ]]; then
  sysprof=$("$root/tests/lib/get-packages.sh" "$(dpkg --print-architecture)" "$base/libsysprof" libsysprof-4-dev) ||
    echo "test: no libsysprof"
fi

CC=gcc make_build plain -Dsysprof_capture_dir="$sysprof"
CC=gcc make_build sanitize -Db_sanitize=address,undefined -Db_lundef=false
CC=clang make_build clang

run_suites plain "${all_suites[@]}"
run_suites sanitize "${all_suites[@]}"
run_suites clang style unit fuzz

exec /usr/bin/python3 -B "$tools/count-tests.py" --may-skip system --figures system "${logs[@]}"
