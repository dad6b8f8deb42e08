#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libsonde-tracer in a program for another processor: test-tracer-emulated.py SOURCE SYSROOT LIBRARY LOAD

LOAD is tests/bench/trace-load.c, built with -finstrument-functions, and run by qemu's user emulation. What it counted is
read out of its region, node by node."""

import importlib
import os
import struct
import subprocess
import sys

source, sysroot, library, load = sys.argv[1:]
sys.path.insert(0, os.path.join(source, 'tests/lib'))
Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('Tap', 'check'))
region = importlib.import_module('trie_region')

N_CALLS = 30000
NODES, SLOT_AT = 1, 4096
SLOT_SUMS = 'calls lost_budget lost_depth lost_interrupted resynced unmatched'.split()


def run(form, mode):
    fd = region.make_region(mode)
    subprocess.run(['qemu-aarch64', '-cpu', 'max,pauth-impdef=on', '-L', sysroot, '-E', f'LD_PRELOAD={library}', load, form, str(N_CALLS)],
                   env=dict(os.environ) | {'SONDE_TRACE_FD': str(fd)}, pass_fds=(fd,), stdout=subprocess.DEVNULL, check=True)
    return fd


def read_nodes(fd):
    """{number: (parent, function, calls)}"""
    nodes = {}
    slabs_at = struct.unpack('<I', os.pread(fd, 4, 20))[0] * 64
    for i in range(region.count_slabs(fd)):
        at = slabs_at + i * region.SLAB
        kind, _, n_used = struct.unpack('<III', os.pread(fd, 12, at))
        for j in range(n_used if kind == NODES else 0):
            node_at = at + 64 + 32 * j
            function, calls, parent = struct.unpack('<QQI', os.pread(fd, 20, node_at))
            nodes[node_at // 32] = (parent, function, calls)
    return nodes


def depth(nodes, number):
    return 0 if number == 0 else 1 + depth(nodes, nodes[number][0])


def test_counts(form, mode):
    fd = run(form, mode)
    sums = dict(zip(SLOT_SUMS, struct.unpack('<6Q', os.pread(fd, 48, SLOT_AT + 24))))
    nodes = read_nodes(fd)
    paths = sorted((depth(nodes, number), calls) for number, (_, function, calls) in nodes.items() if function > 1)
    os.close(fd)
    check(sums['calls'] == sum(calls for _, calls in paths) >= N_CALLS, (sums, sum(calls for _, calls in paths)))
    check(not any(sums[name] for name in SLOT_SUMS[1:]), sums)
    if form == 'flat':
        check(paths == [(2, N_CALLS // 3), (3, N_CALLS // 3), (3, N_CALLS // 3)], paths)
    elif form == 'wide':
        check(paths[0] == (2, 1) and len(paths) == 201 and {number for number, _ in paths[1:]} == {3}, paths)
    else:
        check(max(number for number, _ in paths) == 21, paths)


def main():
    cases = [(form, mode) for form in ('flat', 'deep', 'wide') for mode in ('count', 'auto', 'exact')]
    tap = Tap(len(cases))
    for form, mode in cases:
        with tap.case(f'each call has its path: {form}, {mode}'):
            test_counts(form, mode)
    tap.finish()


main()
