#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the target heap: make-heap-corpus.py [CORPUS]"""
import importlib
import struct

import corpus_files

frames = importlib.import_module('make-corpus')
report = importlib.import_module('make-report-corpus')

MIN, MAX = -2**63, 2**63 - 1


def allocation(address, size, time, tid=42, pid=42, addresses=(0x401010, 0x402010)):
    body = struct.pack('<QqiHH', address, size, tid, len(addresses), 0)
    return frames.frame(14, body + struct.pack('<%dQ' % len(addresses), *addresses), pid=pid, time=time)


def free(address, time, tid=42, pid=42):
    return allocation(address, 0, time, tid, pid, ())


def fork(child, time, pid=42):
    return frames.frame(5, struct.pack('<i', child), pid=pid, time=time)


def leave(pid, time):
    return frames.frame(6, pid=pid, time=time)


def vdso(address, time):
    return frames.frame(3, struct.pack('<4Q', address, address + 0x1000, 0, 0) + b'[vdso]\0', pid=42, time=time)


def captures():
    setting = [report.process(42, b'x --fast'), report.mapping(42, 0x400000, 0x403000, b'/bin/x'),
               report.jit([(report.JIT + 1, b'one'), (report.JIT + 2, b'[depth limit]')])]
    sampled = report.metadata(b'sonde', b'[sonde]\nmemory=sampled\nmemory-interval=4096\n')
    usual = [allocation(0x10, 100, 2000), allocation(0x20, 50, 2100, 43), free(0x10, 2200, 43), free(0x20, 2300, 43),
             allocation(0x10, 5, 2400, addresses=[report.JIT + 1, report.JIT + 2])]
    stories = {
        'usual': usual,
        'disorder': [free(0x10, 3000, 43), allocation(0x10, 9, 4000, 43), allocation(0x10, 8, 2000), free(0x10, 5000)],
        'unknown-free': [free(0x10, 2000), free(0x10, 2000)],
        'twice': [allocation(0x10, 9, 2000), allocation(0x10, 8, 2000)],
        'address-zero': [allocation(0, 9, 2000), free(0, 2500), allocation(2**64 - 1, 9, 3000)],
        'largest': [allocation(address, MAX, 2000 + address) for address in range(5)] + [free(1, 3000)],
        'times': [allocation(1, 9, MIN), allocation(2, 9, MAX), free(1, MAX), free(2, MIN)],
        'no-stack': [allocation(0x10, 9, 2000, addresses=[])],
        'markers': [allocation(0x10, 9, 2000, addresses=[report.KERNEL, 5, report.USER, 6])],
        'forked': [allocation(0x10, 9, 2000), fork(44, 2100), free(0x10, 2200, 44, 44), allocation(0x30, 7, 2300, 44, 44),
                   leave(44, 2400), free(0x10, 2500)],
        'forked-itself': [allocation(0x10, 9, 2000), fork(42, 2100), fork(42, 2100, 44), free(0x10, 2200)],
        'forked-often': [allocation(0x10, 9, 2000), *[fork(44, 2100 + i) for i in range(20)], free(0x10, 2200, 44, 44)],
        'left': [allocation(0x10, 9, 2000), leave(42, 2100), allocation(0x10, 9, 2200), leave(42, 2300), leave(42, 2300)],
        'executed': [vdso(0x7000000, 1900), allocation(0x10, 9, 2000), report.process(42, b'y'), vdso(0x8000000, 2100),
                     allocation(0x10, 9, 2200)],
        'negative-ids': [allocation(0x10, 9, 2000, -1, -1), fork(-1, 2100), fork(-2, 2100, -1), free(0x10, 2200, -1, -2)],
        'deep': [allocation(0x10, 9, 2000, addresses=[0x401000 + i % 7 for i in range(500)])],
        'temporary': [part for i in range(50) for part in (allocation(0x10, i + 1, 2000 + i * 10), free(0x10, 2005 + i * 10))],
    }
    seeds = {name: report.capture(setting + parts) for name, parts in stories.items()}
    seeds |= {f'sampled-{name}': report.capture([sampled, *setting, *stories[name]])
              for name in ('usual', 'largest', 'forked')}
    for name, interval in {'zero': b'0', 'largest': b'18446744073709551615', 'text': b'x'}.items():
        text = b'[sonde]\nmemory=sampled\nmemory-interval=' + interval + b'\n'
        seeds[f'interval-{name}'] = report.capture([report.metadata(b'sonde', text), *setting, *usual])
    seeds['lost'] = report.capture(setting + usual, 0, stream_lost=9, stream_events_lost=9, events_lost_ring=2**63 - 1)
    seeds['broken'] = seeds['usual'][:-30]
    return seeds | {'empty': b'', 'header': frames.header()}


corpus_files.write('heap', captures())
# As heaptrack's log, by fuzz-export.c.
HEAPTRACK = 8
corpus_files.write('export', {f'heap-{name}': bytes([HEAPTRACK]) + seed for name, seed in captures().items()})
