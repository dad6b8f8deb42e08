#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds Sonde four ways and runs the test suites in each: tools/test.sh [--vm] [--fresh] [--release] [SUITE…]
#
#   plain     gcc                          every suite
#   sanitize  gcc, ASan and UBSan          the suites unit, fuzz and system; bus and systemd-ns with --release
#   clang     clang, as a second opinion   the suites unit and fuzz
#   aarch64   gcc, run by qemu             the unit and fuzz suites of base/, protocol/, shared-ring/, symbols/ and unwind/
#
# --vm adds the suite systemd-vm, in the plain build, to what is run otherwise. Its machine is made the first
# time, for which it needs the network.
# --fresh adds the suite fresh, on Debian 12; --release adds both, on Debian 13 and sid, too, the suite packages there,
# upgrades from the release before this one, which is built from the project's history, and with all repetitions and all
# programs the tests that have many.
#
# All of them treat warnings as errors. The last line is "N passed, N failed, N skipped", in test cases.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

all_suites=(style unit fuzz web bus system systemd-ns)
base=$(readlink -m "${SONDE_BUILD:-$root/build}")-test
more_suites=()
suites=()
releases=(bookworm)
with_previous=false
with_long=false
for suite; do
  case $suite in
    --vm) more_suites+=(systemd-vm) ;;
    --fresh) more_suites+=(fresh) ;;
    --release)
      more_suites+=(systemd-vm systemd-vm-long fresh packages)
      releases=(bookworm trixie sid)
      with_previous=true
      with_long=true
      ;;
    *)
      [[ " ${all_suites[*]} fresh packages " == *" $suite "* ]] ||
        die "no suite '$suite': there are ${all_suites[*]} fresh packages, and --vm for systemd-vm"
      suites+=("$suite")
      ;;
  esac
done
[ ${#suites[@]} -gt 0 ] || suites=("${all_suites[@]}")
suites+=("${more_suites[@]}")
[ "$(id -u)" = 0 ] ||
  die "not root, which private buses and perf events need: run 'sudo $0' or 'meson test --suite unit' in a build tree"

"$tools/setup.sh" build test
mkdir -p "$base"
logs=()

# has_suite SUITE…: is one of them to be run?
has_suite() {
  local suite
  for suite; do
    [[ " ${suites[*]} " != *" $suite "* ]] || return 0
  done
  return 1
}

# run_suites BUILD SUITE…: a failing suite does not keep the others from running. Programs of these suites wait for most
# of their time: twice as many as there are processors run at once.
run_suites() {
  local build=$1 suite began_s
  shift
  for suite; do
    has_suite "$suite" || continue
    rm -f "$base/$build/meson-logs/$suite.json"
    began_s=$SECONDS
    printf 'test: %s: %s' "$build" "$suite"
    # Whether anything failed is for the count to say, which also shows why.
    meson test -C "$base/$build" --no-rebuild --suite "$suite" --logbase "$suite" --quiet \
      --num-processes $((2 * $(nproc))) >"$base/$build-$suite.out" 2>&1 || :
    echo ", $((SECONDS - began_s)) s"
    logs+=("$build:$suite:$base/$build/meson-logs/$suite.json")
  done
}

# run_long_tests BUILD TEST…: each 1,000 times, where otherwise it is some.
run_long_tests() {
  local build=$1
  shift
  rm -f "$base/$build/meson-logs/long.json"
  echo "test: $build: all repetitions"
  SONDE_TEST_LONG=1 meson test -C "$base/$build" --no-rebuild --timeout-multiplier=4 --logbase long --quiet "$@" \
    >"$base/$build-long.out" 2>&1 || :
  logs+=("$build:long:$base/$build/meson-logs/long.json")
}

make_build() {
  local build=$1
  shift
  echo "test: building $build"
  # Below /usr is where the suite systemd-ns installs it, in a throw-away copy of the root.
  configure "$base/$build" --werror --prefix=/usr -Dtests=enabled "$@"
  compile "$base/$build"
}

get_packages=$root/tests/lib/get-packages.sh
architecture=$(dpkg --print-architecture)

# What programs for Debian's arm64 are linked with and find when they run.
aarch64_packages=(libc6 libgcc-s1 libstdc++6 libglib2.0-0 libglib2.0-dev libpcre2-8-0 libpcre2-dev
  libelf1 libelf-dev libdw1 libdw-dev zlib1g zlib1g-dev libbz2-1.0 liblzma5 liblzma-dev
  libiberty-dev)

# An aarch64 machine has tested it all in its other builds.
with_aarch64=false
if [ "$architecture" != arm64 ] && has_suite unit fuzz; then
  with_aarch64=true
  sysroot=$("$get_packages" arm64 "$base/aarch64-sysroot" "${aarch64_packages[@]}") || exit 1
  printf "[constants]\nsysroot = '%s'\n" "$sysroot" >"$base/aarch64-sysroot.ini"
fi

# Readers of captures that are not ours. Without them their cases are skipped and say so.
sysprof=
if has_suite system systemd-ns; then
  sysprof=$("$get_packages" "$architecture" "$base/libsysprof" libsysprof-4-dev sysprof \
    libsysprof-4 libjson-glib-1.0-0 libunwind8) || echo "test: no libsysprof"
fi

# Readers of exports, and what drives the browser.
judges=
if has_suite web system; then
  judges=$("$root/tests/lib/get-judges.sh" "$base/judges") || ! has_suite web || exit 1
fi

# Programs of others, which a test builds and traces.
sources=
if has_suite system && [ "$architecture" = amd64 ]; then
  sources=$("$root/tests/lib/get-sources.sh" "$base/sources" lua5.4 libzstd sqlite3 ninja-build) || echo "test: no sources"
fi

# Interpreters of newer releases.
releases_dir=
if has_suite system && [ "$architecture" = amd64 ]; then
  releases_dir=$base/releases
  for packages in 'trixie python3.13' 'sid python3.14'; do
    read -r release python <<<"$packages"
    "$root/tests/lib/get-release.sh" "$release" "$releases_dir/$release" "$python" php8.4-cli ruby3.3 >/dev/null ||
      echo "test: no interpreters of $release"
  done
fi

# A machine that cannot be made is a failure: who asks for it wants it tested.
machine=
if has_suite systemd-vm; then
  "$tools/setup.sh" vm
  echo "test: the virtual machine"
  machine=$("$root/tests/lib/make-machine.sh" "$base/machine") || exit 1
fi

fresh=
if has_suite fresh packages; then
  "$tools/setup.sh" fresh
  fresh=$base/fresh
  for release in "${releases[@]}"; do
    echo "test: a fresh $release"
    "$root/tests/lib/make-root.sh" "$release" "$fresh/$release" >/dev/null || exit 1
  done
fi

previous=
if "$with_previous" && has_suite systemd-ns; then
  echo "test: the release before this one"
  previous=$("$root/tests/lib/make-previous.sh" "$base/previous") || exit 1
fi

CC=gcc make_build plain -Dsysprof=true -Dsysprof_capture_dir="$sysprof" -Dvm_machine="$machine" -Djudges_dir="$judges" \
  -Dsources_dir="$sources" -Dreleases_dir="$releases_dir" \
  -Dfresh_dir="$fresh" -Dfresh_releases="$(IFS=, && echo "${releases[*]}")" \
  -Dprevious_build="$previous"
# It is built in two thirds of the time then, and runs hardly longer.
CC=gcc make_build sanitize -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false
# Its warnings and what it makes of the code do not need the optimiser, on which it spends half of its time.
CC=clang make_build clang -Doptimization=0
if "$with_aarch64"; then
  make_build aarch64 --cross-file "$base/aarch64-sysroot.ini" --cross-file "$root/tests/lib/aarch64.ini" \
    -Ddaemon=disabled -Dclient=disabled
fi

run_suites plain "${all_suites[@]}" systemd-vm systemd-vm-long fresh packages
long_tests=()
! has_suite bus || long_tests+=(joins crowds)
! has_suite unit || long_tests+=(walk-program)
! has_suite system || long_tests+=(call-programs corpus interpreters runtimes walks)
if "$with_long" && [ ${#long_tests[@]} -gt 0 ]; then
  ! has_suite system || "$tools/setup.sh" corpus
  run_long_tests plain "${long_tests[@]}"
fi
run_suites sanitize unit fuzz system
if "$with_long"; then
  run_suites sanitize bus systemd-ns
fi
run_suites clang unit fuzz
if "$with_aarch64"; then
  run_suites aarch64 unit fuzz
fi

# Continuous integration has terminals, namespaces and control groups; a chroot need not.
may_skip=(--may-skip system)
[ -n "${CI:-}" ] || may_skip+=(--may-skip style --may-skip unit)

exec /usr/bin/python3 -B "$tools/count-tests.py" "${may_skip[@]}" --figures system --figures systemd-ns --figures systemd-vm --figures fresh \
  "${logs[@]}"
