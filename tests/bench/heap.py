#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What heap events cost a program, beside heaptrack: heap.py HEAP_LOAD MEMORY_READER LIBRARY

A pair of malloc() and free() 20 calls deep, in the program's own CPU time; what it waits for a reader is not in it. Where
each event is recorded: medians of runs that take turns. Where hardly one is, a pair costs a few ns, and a busy machine
twice as many in one run as in the next: the least of 100,000 pairs in a row, of many runs that take turns."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

N_REPEATS = 5
N_CHEAP_REPEATS = 20
N_PAIRS = 1_000_000
N_MANY_PAIRS = 5_000_000
DEPTH = 18  # of calls inside the thread's first function, below main() and libc's
WAIT_US = 10_000_000
INTERVAL_BYTES = 512 * 1024
# What the program allocates beside its pairs: standard output, and a thread each.
MAX_OTHER_EVENTS = 8

LOAD, READER, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:4])


def read_numbers(text):
    return {name: float(value) for name, value in re.findall(r'\b(\w+)=([\d.]+)', text)}


def run(*command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f'{" ".join(command)}: exit status {result.returncode}\n{result.stdout}{result.stderr}')
    return read_numbers(result.stdout) | read_numbers(result.stderr)


def load(n_pairs=N_PAIRS, n_threads=1):
    return LOAD, str(n_pairs), str(DEPTH), str(n_threads)


def read(*options, **arguments):
    return run(READER, f'--library={LIBRARY}', '--counts', *options, '--', *load(**arguments))


def run_below_heaptrack():
    with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder:
        return run('heaptrack', '-o', f'{folder}/heaptrack', *load())


def check_account(numbers, is_complete):
    """What arrived and what the library counted as lost is what the program made."""
    others = numbers['frames'] + numbers['lost'] - numbers['events']
    if not 0 <= others <= MAX_OTHER_EVENTS or (is_complete and numbers['lost'] > 0):
        sys.exit(f'{numbers["frames"]:.0f} frames and {numbers["lost"]:.0f} lost of {numbers["events"]:.0f} events')


def measure(kinds, n_repeats, key, judge):
    """What each kind says of a pair, in runs that take turns."""
    runs = {name: [] for name in kinds}
    for _ in range(n_repeats):
        for name, run_kind in kinds.items():
            runs[name].append(run_kind()[key])
    for name, values in runs.items():
        print(f'{name}: {judge(values):.1f} ns a pair ({min(values):.1f} to {max(values):.1f})')
    return {name: judge(values) for name, values in runs.items()}


def main():
    dear = {
        'bare': lambda: run(*load()),
        'all': lambda: read(f'--wait={WAIT_US}'),
        'two threads': lambda: read(f'--wait={WAIT_US}', n_pairs=N_PAIRS // 2, n_threads=2),
    }
    cheap = {
        'bare, at best': lambda: run(*load()),
        'sampled, at best': lambda: read(f'--interval={INTERVAL_BYTES}'),
        'paused, at best': lambda: read('--paused'),
    }
    if shutil.which('heaptrack'):
        dear['heaptrack'] = run_below_heaptrack
    pair_ns = measure(dear, N_REPEATS, 'pair_ns', statistics.median)
    bare_ns, sampled_ns, paused_ns = measure(cheap, N_CHEAP_REPEATS, 'best_ns', min).values()

    many = read(f'--wait={WAIT_US}', n_pairs=N_MANY_PAIRS)
    check_account(many, True)
    dropped = read(n_pairs=N_MANY_PAIRS)
    check_account(dropped, False)
    print(f'{many["events"]:.0f} events: waited {many["blocked"]:.0f} times, {many["lost"]:.0f} lost; '
          f'dropping, {dropped["frames"]:.0f} arrived and {dropped["lost"]:.0f} lost')

    added_ns = {name: value - pair_ns['bare'] for name, value in pair_ns.items()}
    cost = f'{added_ns["all"] / added_ns["heaptrack"]:.3f}' if 'heaptrack' in added_ns else 'no-heaptrack'
    print(f'bench heap cost_x={cost} sampled_ns={sampled_ns - bare_ns:.1f} sampled_x={sampled_ns / bare_ns:.2f} '
          f'idle_ns={paused_ns - bare_ns:.1f} idle_x={paused_ns / bare_ns:.2f} lost={many["lost"]:.0f} '
          f'all_ns={added_ns["all"]:.1f} threads_x={pair_ns["two threads"] / pair_ns["all"]:.2f}')


if __name__ == '__main__':
    main()
