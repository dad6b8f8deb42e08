#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of tests/fuzz/corpus/trie, from docs/tracing.md and not from the C code."""
import struct

import corpus_files

TURN = 128 * 1024 // 4
LINE, SLAB, SLABS_AT = 64, 16384, 16384
NODES, TIMINGS, OCTAVES, FRAMES, SLOW = 1, 2, 3, 4, 5


def word(offset, value, size=4):
    """A word of 4 or 8 bytes at an offset into the region."""
    return b''.join(struct.pack('<II', offset // 4 + i, value >> 32 * i & 0xFFFFFFFF) for i in range(size // 4))


def turn(nodes=63):
    return struct.pack('<II', TURN, nodes)


def slab(i, kind, used, slot=0):
    at = SLABS_AT + i * SLAB
    return word(at + 4, slot) + word(at + 8, used) + word(at, kind)


def entry(i, n, size):
    return SLABS_AT + i * SLAB + LINE + n * size


def node_number(i, n):
    return entry(i, n, 32) // 32


def node(i, n, function, calls, parent, timing=0):
    at = entry(i, n, 32)
    return word(at, function, 8) + word(at + 8, calls, 8) + word(at + 16, parent) + word(at + 20, timing)


def timing(i, n, timed, octaves, total=1000, mine=100):
    at = entry(i, n, 192)
    return (b''.join(word(at + 8 * k, value, 8) for k, value in enumerate((timed, total, mine, 0, 3, 900)))
            + b''.join(word(at + 48 + 4 * k, line) for k, line in octaves.items()))


def octave(i, n, buckets):
    return b''.join(word(entry(i, n, 64) + 4 * k, value) for k, value in buckets.items())


def line(i, n, size):
    return entry(i, n, size) // LINE


ROOT, A, B = (node_number(0, n) for n in range(3))
T0, T1 = (line(1, n, 192) for n in range(2))
O0, O1 = (line(2, n, 64) for n in range(2))
HEADER = word(128, 1) + word(132, 4)
SLOT = word(4096, 1) + word(4100, 1) + word(4104, 42) + word(4108, ROOT) + word(4116, line(3, 2, 64)) + word(4120, 5, 8)
STACK = slab(3, FRAMES, 0) + b''.join(word(entry(3, n, 64) + 48, number) for n, number in enumerate((ROOT, A, B)))
TIMES = slab(1, TIMINGS, 2) + slab(2, OCTAVES, 2)
TIMED = TIMES + timing(1, 0, 3, {0: O0}) + octave(2, 0, {5: 3}) + timing(1, 1, 2, {7: O1}) + octave(2, 1, {1: 2})
THREE = node(0, 0, 0, 0, 0) + node(0, 1, 0x401000, 2, ROOT, T0) + node(0, 2, 0x402000, 3, A, T1 | 1 << 31)
GOOD = HEADER + SLOT + TIMED + THREE + STACK + slab(0, NODES, 3)


def slow(n, number):
    at = entry(3, n, 32)
    return word(at, 1000 + n, 8) + word(at + 8, 500, 8) + word(at + 16, number)


RING = slab(3, SLOW, 2) + slow(0, A) + slow(1, B)


def refused(name, change, later=False):
    """The change before the reader knows the region, or behind its first turn."""
    return {name: GOOD + (turn() if later else b'') + change + turn() + turn()}


def main():
    seeds = {
        'empty': b'',
        'nothing-yet': turn(),
        'three-nodes': GOOD + turn() + turn(),
        'node-by-node': GOOD + turn(0) * 6,
        'growth': GOOD + turn() + word(entry(0, 1, 32) + 8, 9, 8) + word(entry(1, 0, 192), 5, 8)
        + octave(2, 0, {5: 1}) + turn(),
        'slabs-too-many': GOOD + word(132, 0xFFFFFFFF) + turn(),
        'slots-too-many': GOOD + word(128, 0xFFFFFFFF) + turn(),
        'head-not-yet': GOOD + word(132, 5) + turn(),
        'stack-in-nodes': GOOD + word(4116, line(0, 1, 64)) + turn(),
        'stack-outside': GOOD + word(4116, 0xFFFFFFFF) + turn(),
        'stack-in-a-circle': GOOD + word(SLABS_AT + 3 * SLAB + 12, (SLABS_AT + 3 * SLAB) // LINE) + turn() * 2,
        'slow-calls': GOOD + RING + turn() * 2,
        'slow-calls-replaced': GOOD + RING + turn() + slab(3, SLOW, 2000) + turn(),
        'slow-calls-all-there-are': GOOD + RING + turn() + slab(3, SLOW, 0xFFFFFFFF) + turn() + slab(3, SLOW, 3) + turn(),
        'slow-call-of-no-path': GOOD + RING + slow(0, 3) + turn() * 2,
        'slow-call-of-another-slot': GOOD + RING + slab(3, SLOW, 2, slot=1) + turn() * 2,
        'a-thread-that-ended': GOOD + word(4096, 2) + turn() * 2,
    }
    seeds |= refused('kind', word(SLABS_AT, 6))
    seeds |= refused('kind-changes', word(SLABS_AT + SLAB, OCTAVES), True)
    seeds |= refused('slot', word(SLABS_AT + 4, 8))
    seeds |= refused('slot-of-another', word(SLABS_AT + SLAB + 4, 1))
    seeds |= refused('used-too-much', word(SLABS_AT + 8, 511))
    seeds |= refused('used-less', word(SLABS_AT + 8, 1), True)
    seeds |= refused('parent-itself', word(entry(0, 1, 32) + 16, A))
    seeds |= refused('parent-behind', word(entry(0, 1, 32) + 16, B))
    seeds |= refused('parent-in-the-header', word(entry(0, 1, 32) + 16, 3))
    seeds |= refused('parent-is-a-head', word(entry(0, 1, 32) + 16, ROOT - 1))
    seeds |= refused('function-of-a-root', word(entry(0, 1, 32), 1))
    seeds |= refused('root-with-a-function', word(entry(0, 0, 32), 0x401000))
    seeds |= refused('timing-in-the-header', word(entry(0, 1, 32) + 20, 1))
    seeds |= refused('timing-unaligned', word(entry(0, 1, 32) + 20, T0 + 1))
    seeds |= refused('timing-not-yet', word(entry(0, 1, 32) + 20, line(1, 2, 192)))
    seeds |= refused('timing-in-octaves', word(entry(0, 1, 32) + 20, O0))
    seeds |= refused('timing-beyond', word(entry(0, 1, 32) + 20, 0x7FFFFFFF))
    seeds |= refused('timing-gone', word(entry(0, 1, 32) + 20, 0), True)
    seeds |= refused('timing-of-two', word(entry(0, 1, 32) + 20, T1))
    seeds |= refused('octave-in-the-header', word(entry(1, 0, 192) + 48, 7))
    seeds |= refused('octave-of-two', word(entry(1, 0, 192) + 48, O1))
    seeds |= refused('octave-gone', word(entry(1, 0, 192) + 48, 0) + word(entry(1, 0, 192), 9, 8), True)
    seeds |= refused('calls-shrink', word(entry(0, 1, 32) + 8, 1, 8), True)
    seeds |= refused('timed-shrinks', word(entry(1, 0, 192), 1, 8), True)
    seeds |= refused('total-shrinks', word(entry(1, 0, 192), 9, 8) + word(entry(1, 0, 192) + 8, 1, 8), True)
    seeds |= refused('slabs-shrink', word(132, 1), True)
    seeds |= refused('account-shrinks', word(4120, 1, 8), True)
    corpus_files.write('trie', seeds)


main()
