#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Says which lines were run: coverage-table.py ROOT MIN_PERCENT [SOURCE…] <COUNTS

COUNTS is of llvm-cov export -format=lcov. Without a SOURCE, a line for each of tests/fuzz/decoders.txt, and the exit
status is 1 if one is below MIN_PERCENT; else the lines of each SOURCE that were not run."""
import os
import sys


def read_counts(lines, root):
    """source → {line: how often}. Source: geninfo(1), "TRACEFILE FORMAT"."""
    counts = {}
    for line in lines:
        key, _, value = line.strip().partition(':')
        if key == 'SF':
            # Compilers keep the path from the build tree.
            source = counts.setdefault(os.path.relpath(os.path.realpath(value), root), {})
        elif key == 'DA':
            number, times = value.split(',')[:2]
            source[int(number)] = int(times)
    return counts


def read_decoders(path):
    """(target, source) of each source."""
    with open(path, encoding='utf-8') as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith('#')]
    return [(words[0], source) for words in lines for source in words[1:]]


def print_table(counts, decoders, min_percent):
    is_enough = True
    for target, source in decoders:
        lines = counts[source].values()
        n_run = sum(times > 0 for times in lines)
        percent = 100 * n_run / len(lines)
        is_enough = is_enough and percent >= min_percent
        print(f'{target:11} {source:40} {n_run:4} of {len(lines):4} lines {percent:6.1f} %'
              + f'  below {min_percent} %' * (percent < min_percent))
    return is_enough


def print_missed(counts, root, source):
    with open(os.path.join(root, source), encoding='utf-8') as file:
        for number, text in enumerate(file, 1):
            if counts[source].get(number) == 0:
                print(f'{source}:{number}: {text.rstrip()}')


def main(root, min_percent, *sources):
    root = os.path.realpath(root)
    counts = read_counts(sys.stdin, root)
    for source in sources:
        print_missed(counts, root, source)
    if sources:
        return 0
    return 0 if print_table(counts, read_decoders(os.path.join(root, 'tests/fuzz/decoders.txt')), int(min_percent)) else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
