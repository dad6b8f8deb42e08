# SPDX-License-Identifier: LGPL-2.1-or-later
"""What heaptrack records of programs, and reads in files of its format."""

import collections
import glob
import os
import re
import subprocess

from system import DEADLINE_S, check

COSTS = ('allocations', 'temporary', 'leaked', 'peak')  # bytes of the last two


def run(*command, **options):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace', timeout=DEADLINE_S,
                            check=False, **options)
    check(result.returncode == 0, f'{command[0]}: exit status {result.returncode}\n{result.stdout[-400:]}{result.stderr[-400:]}')
    return result.stdout


def record(path, *command, **options):
    """The file that heaptrack makes."""
    run('heaptrack', '-o', path, *command, **options)
    data = glob.glob(f'{glob.escape(path)}.*')
    check(len(data) == 1, f'heaptrack left {data}')
    return data[0]


def read_stacks(path, cost):
    """{functions with their files, outermost first: what they cost}; leaks of which heaptrack would not speak are among them."""
    out = f'{path}-{cost}.txt'
    run('heaptrack_print', '--disable-builtin-suppressions', '-f', path, '-F', out, '--flamegraph-cost-type', cost)
    stacks = collections.Counter()
    with open(out, encoding='utf-8') as file:
        for line in file:
            stack, number = line.rstrip('\n').rsplit(' ', 1)
            stacks[tuple(stack.split(';')[:-1])] += int(number)
    os.unlink(out)
    return stacks


def read_sums(path):
    """What it prints: exact are its counts, and the sums of its stacks."""
    text = run('heaptrack_print', '-f', path)
    printed = [int(re.search(rf'^{name}: (\d+)', text, re.M)[1]) for name in ('calls to allocation functions', 'temporary memory allocations')]
    sums = {cost: sum(read_stacks(path, cost).values()) for cost in COSTS}
    check(printed == [sums['allocations'], sums['temporary']], f'{path}: {printed}, and in its stacks {sums}')
    return sums
