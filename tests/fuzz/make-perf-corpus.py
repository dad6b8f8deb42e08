#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the targets perf-record and perf-ring: make-perf-corpus.py [CORPUS]"""
import struct

import corpus_files
import perf_records as perf


def record_input(data, sample_type=perf.ALL):
    return struct.pack('<QQ', sample_type, perf.REGS) + data


def records():
    seeds = {name: record_input(data) for name, data in perf.good().items()}
    seeds |= {'bad-' + name: record_input(data) for name, data in perf.bad().items()}
    few = perf.TID | perf.TIME | perf.ID | perf.STREAM_ID
    seeds['few-fields'] = record_input(perf.record(perf.COMM, struct.pack('<II', 1, 1) + perf.text(b'x')
                                                   + perf.trailer(sample_type=few)), few)
    seeds['sample-few-fields'] = record_input(perf.record(perf.SAMPLE, perf.trailer(sample_type=few)), few)
    seeds['sample-few-fields-short'] = record_input(perf.record(perf.SAMPLE, bytes(16)), few)
    seeds['sample-short-stream'] = record_input(perf.record(perf.SAMPLE, bytes(24)), few)
    seeds['no-time'] = record_input(perf.record(perf.COMM, struct.pack('<II', 1, 1) + perf.text(b'x')), 0)
    seeds['high-cpu'] = record_input(perf.record(perf.SAMPLE, struct.pack('<II', 40000, 0)), perf.CPU)
    for name, identifier, size, length in (('walk', 1002, 20, None), ('walk-beyond', 1001, 21, None),
                                           ('walk-far', 2001, 2**32 - 1, None), ('walk-of-no-event', 1000, 20, None),
                                           ('walk-short', 1002, 20, 40), ('walk-without-size', 1002, 20, 48)):
        body = struct.pack('<QQIIQIII', identifier, 0x401000, 1, 1, 5, 0, 0, size) + bytes(20)
        seeds[name] = record_input(perf.record(perf.SAMPLE, body if length is None else body[:length - 8]))
    seeds['unknown-sample-type'] = record_input(perf.good()['sample'], 2**63)
    return seeds


WRITE, MOVE, SET, LOOK = 0, 4, 8, 12
WAITS, DRAINS = 0x40, 0x80


def ring_input(turns, n_rings=1, size=4, start=0):
    """size: log2 of 64 bytes"""
    return bytes([n_rings - 1]) + struct.pack('<BQ', size, start) * n_rings + b''.join(turns)


def put(data, ring=0, flags=0):
    return struct.pack('<BH', WRITE | ring | flags, len(data)) + data


def at(time, n=0, size=None):
    return perf.record(perf.SAMPLE, struct.pack('<q', time) + bytes(8 * n), size=size)


def rings():
    full = b''.join(at(i) for i in range(64))
    return {
        'one': ring_input([put(at(1)), put(at(2), flags=DRAINS)]),
        'merged': ring_input([put(at(5) + at(9)), put(at(3) + at(7), 1), put(at(1), 2, DRAINS)], 3),
        'late': ring_input([put(at(5), flags=DRAINS), put(at(2), 1, DRAINS)], 2),
        'wraps': ring_input([put(at(1, 1), flags=DRAINS) + b'\x8f'] * 8, size=0),
        'counters-wrap': ring_input([put(at(1, 1), flags=DRAINS)] * 4, start=2**64 - 16),
        'full': ring_input([put(full)]),
        'waits': ring_input([put(at(1), flags=WAITS | DRAINS), put(at(2), flags=WAITS), b'\x5f']),
        'young': ring_input([put(at(2**40)), b'\x1f\x1f']),
        'no-time': ring_input([put(perf.record(perf.SAMPLE, b''))]),
        'size-0': ring_input([put(at(1, size=0))]),
        'size-unaligned': ring_input([put(at(1, size=12))]),
        'size-past-head': ring_input([put(at(1, size=4096))]),
        'head-unaligned': ring_input([put(at(1)), struct.pack('<Bh', MOVE, 4), put(at(1)), b'\x8f']),
        'head-behind': ring_input([put(at(1)), struct.pack('<Bh', MOVE, -32), put(at(1))]),
        'head-beyond': ring_input([struct.pack('<BQ', SET, 2**63)]),
        # a head between two words, then one that is a whole record behind it
        'head-unaligned-twice': ring_input([struct.pack('<Bh', MOVE | DRAINS, 4), struct.pack('<Bh', MOVE, 16), b'\x0f']),
    }


corpus_files.write('perf-record', records())
corpus_files.write('perf-ring', rings())
