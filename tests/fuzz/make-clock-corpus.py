#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the target thread-clock: make-clock-corpus.py [CORPUS]"""
import struct

import corpus_files

SWITCH, FORK, EXIT, COMM, LOST, SAMPLE = range(6)
OUT, PREEMPTED, OF_CPU, FIRST = 1, 2, 4, 8  # FIRST: the process's first thread
EXEC = 1


def take(kind, tid=4, flags=0, pid=1, after=100, cpu=0, late=False):
    turn = struct.pack('<BHBBB', late << 7, after, kind, (cpu + 1) << 4 | flags, pid)
    return turn if flags & FIRST else turn + bytes([tid + 1])


def look(tid=4, on=0, delay=0, slices=0, state=None, pid=1, after=100, behind=False):
    flags = pid | 32 | behind << 6
    if state is not None:  # which letter depends on the other flags
        flags |= 16
    return struct.pack('<BHBBQQB', 4, after, flags, tid - 1, on, delay, slices)


def miss(tid=4, pid=1, after=100):
    return struct.pack('<BHB', 6 | pid << 4, after, tid)


def other(bits, after=100):
    return struct.pack('<BH', 7 | bits, after)


ON, OUT_OF = take(SWITCH), take(SWITCH, flags=OUT)
LIFE = take(FORK) + ON + OUT_OF + ON + take(SWITCH, flags=OUT | PREEMPTED) + ON
INTERRUPT, LOSE_END, FORGET = other(16), other(32), other(0)

corpus_files.write('thread-clock', {
    'life': LIFE + take(EXIT),
    'blocked-to-its-end': take(FORK) + ON + OUT_OF + take(EXIT) + take(EXIT),
    'begins-on': ON + OUT_OF, 'begins-off': OUT_OF + ON,
    'late': LIFE + take(SWITCH, flags=OUT, after=10, late=True) + ON,
    'same-again': take(FORK) + ON + ON + OUT_OF + OUT_OF,
    'forked-again': take(FORK) + ON + take(FORK) + ON,
    'looks': LIFE + look(on=300, delay=200, slices=3) + OUT_OF + look(on=400, delay=900, slices=3) + ON,
    'look-begins': look(state='S') + ON + look(on=500, slices=1),
    'look-less': LIFE + look(on=300, delay=200, slices=3) + look(),
    'look-at-other': LIFE + look(pid=2, on=1, slices=1),
    'look-behind': LIFE + OUT_OF + look(slices=3) + look(on=9000, delay=9000, slices=3, behind=True),
    'lost': LIFE + take(LOST, flags=5) + OUT_OF + ON,
    'lost-and-off': LIFE + OUT_OF + look(slices=3) + take(LOST) + look(slices=3) + ON,
    'lost-at-the-end': LIFE + LOSE_END, 'interrupted': LIFE + INTERRUPT + OUT_OF,
    'exec': take(FORK, flags=FIRST) + take(FORK) + ON + take(EXIT, flags=FIRST) + take(COMM, flags=FIRST | EXEC) + OUT_OF,
    'exec-by-switch': take(FORK, flags=FIRST) + take(FORK) + take(EXIT, flags=FIRST) + take(SWITCH, flags=FIRST),
    'exec-of-none': take(COMM, flags=FIRST | EXEC) + take(EXIT, flags=FIRST) + take(COMM, flags=FIRST | EXEC),
    'rename': take(COMM), 'sample': take(SAMPLE), 'missed': LIFE + miss() + miss(),
    'idle': take(SWITCH, tid=0, pid=0), 'of-cpu': take(SWITCH, flags=OF_CPU) + take(EXIT) + take(SWITCH, flags=OF_CPU | OUT),
    'storm': b''.join(take(FORK, tid=i % 15) + take(SWITCH, tid=i % 15) + take(EXIT, tid=i % 15) for i in range(40)) + FORGET,
    'crowd': b''.join(take(FORK, tid=i) for i in range(15)) + take(EXIT, tid=3) + take(FORK, tid=14) + ON,
})
