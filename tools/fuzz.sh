#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Fuzzes what reads foreign bytes: tools/fuzz.sh MINUTES [TARGET…]
#
# Builds with clang, libFuzzer, ASan and UBSan, and runs each target (tests/fuzz/meson.build; all of them by default)
# for MINUTES, as many at a time as there are processors, at the lowest priority. What libFuzzer finds out about a
# target's branches is kept beside the build and used the next time; tests/fuzz/corpus is not touched. Then all of it is
# replayed once more to look for leaks. Prints a line for each target; an input that breaks one is kept, and its path
# printed, and the exit status is 1.
set -euo pipefail

# shellcheck source=tools/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

minutes=${1:-}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || die "usage: tools/fuzz.sh MINUTES [TARGET…]"
shift

mapfile -t all < <(cd "$root/tests/fuzz" && printf '%s\n' fuzz-*.c | sed 's/^fuzz-//; s/\.c$//' | grep -vx main)
targets=("$@")
[ $# -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || die "no target '$target': there are ${all[*]}"
done

base=$(readlink -m "${SONDE_BUILD:-$root/build}")-fuzz
build=$base/build
"$tools/setup.sh" build test
echo "fuzz: building $build"
CC=clang configure "$build" --werror -Dtests=enabled -Dfuzz=enabled -Db_sanitize=address,undefined -Db_lundef=false
compile "$build" "${targets[@]/#/fuzz-}" "${targets[@]/#/libfuzz-}"

# In-process looks for leaks stop the world after each input whose calls of malloc() and free() differ in number, as
# GLib's do; the replay at the end looks once.
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 G_DEBUG=fatal-criticals
asan=quarantine_size_mb=64:abort_on_error=1

# fuzz TARGET: what it says goes to its log. Exits with libFuzzer's status. At the lowest priority an input may
# wait for minutes: only what hangs is a finding.
fuzz() {
  local target=$1
  local grown=$base/corpus/$target findings=$base/findings/$target
  mkdir -p "$grown" "$findings"
  ASAN_OPTIONS=$asan:detect_leaks=0 setpriv --pdeathsig TERM nice -n 19 "$build/tests/fuzz/libfuzz-$target" \
    -max_total_time=$((minutes * 60)) -max_len=65536 -timeout=300 -rss_limit_mb=2048 -detect_leaks=0 -print_final_stats=1 \
    -artifact_prefix="$findings/" "$grown" "$root/tests/fuzz/corpus/$target" >"$base/$target.log" 2>&1 || return
  ASAN_OPTIONS=$asan:detect_leaks=1 setpriv --pdeathsig TERM nice -n 19 "$build/tests/fuzz/fuzz-$target" "$grown" \
    >"$base/$target-leaks.log" 2>&1
}

# edges TARGET: reached edges of the target's code. executions TARGET: inputs run.
edges() {
  sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$base/$1.log" | tail -n 1
}
executions() {
  sed -n 's/^stat::number_of_executed_units: *//p' "$base/$1.log"
}

report() {
  local target=$1 status=$2 log=$base/$1.log
  if [ "$status" = 0 ]; then
    printf '%-11s %4d min %12s executions %6s edges  no finding\n' "$target" "$minutes" "$(executions "$target")" "$(edges "$target")"
    return
  fi
  printf '%-11s FOUND something: ' "$target"
  [ ! -f "$base/$target-leaks.log" ] || log=$base/$target-leaks.log
  grep -m1 -E 'SUMMARY|ERROR|runtime error|CRITICAL' "$log" || tail -n 1 "$log"
  sed -n 's/.*Test unit written to /            input: /p' "$base/$target.log"
  echo "            log: $log"
}

mkdir -p "$base"
rm -f "$base"/*.log
# Who ends this script ends what it has started.
trap 'kill $(jobs -p) 2>/dev/null || :' EXIT
# A target for each processor; the next one begins when one of them ends.
n_running=0
for target in "${targets[@]}"; do
  if [ "$n_running" -ge "$(nproc)" ]; then
    wait -n || :
    n_running=$((n_running - 1))
  fi
  (
    status=0
    fuzz "$target" || status=$?
    echo "$status" >"$base/$target.status"
    report "$target" "$status"
  ) &
  n_running=$((n_running + 1))
done
wait

for target in "${targets[@]}"; do
  [ "$(cat "$base/$target.status")" = 0 ] || exit 1
done
