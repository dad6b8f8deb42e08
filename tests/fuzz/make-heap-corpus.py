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


def leb(*values):
    out = bytearray()
    for value in values:
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out)


def fold(value):
    return value * 2 if value >= 0 else -2 * value - 1


def stored(data):
    """A zstd frame that has the data as they are."""
    return struct.pack('<IBI', 0xFD2FB528, 0xA0, len(data)) + struct.pack('<I', 1 | len(data) << 3)[:3] + data


def dense():
    """32,768 blocks of a stack 1,200 deep, in a zstd block that repeats a byte; and what fills it up, of 7 bytes."""
    columns = [leb(fold(0x401010)), bytes(2400), leb(fold(1200), 9), leb(42, 42), leb(3)]
    sizes = [len(column) for column in columns]
    sizes[-1] += 1 << 15
    begin = struct.pack('<IIIIqQ6I', 1, 0, 0, 1000, 2000, 0, *sizes, 0) + b''.join(columns)
    packed = struct.pack('<IBI', 0xFD2FB528, 0xA0, len(begin) + (1 << 15)) + struct.pack('<I', len(begin) << 3)[:3] + begin
    packed += struct.pack('<I', 1 << 15 << 3 | 3)[:3] + b'\0'
    packed += struct.pack('<II', 0x184D2A54, 7) + bytes(7)
    data = struct.pack('<IIII', 0x184D2A53, 8, 1 << 15, len(packed)) + packed
    return [frames.chunk(len(data), data, 0, b'sonde/heap.v1.zst')]


def segment(events, n_events, times=(), sequence=0, epoch=0, n_before=0, tick=1000, version=1, lie=0, stolen=0, label=None,
            pcs=(0x401010, 0x1000), nodes=(0, 0, 0, 1), sizes=(4, 100, 1, 50, 1, 7), threads=(42, 42, 42, 43)):
    """Of the log, in FILE_CHUNK frames; @lie is added to the bytes of the last column, @stolen are missing at the end."""
    columns = [leb(*[fold(pc) for pc in pcs]), leb(*nodes), leb(*sizes), leb(*threads), leb(*events),
               leb(*[fold(value) if i % 2 else value for i, value in enumerate(times)])]
    lengths = [len(column) for column in columns]
    lengths[-1] += lie
    plain = struct.pack('<IIIIqQ6I', version, epoch, sequence, tick, 2000, n_before, *lengths) + b''.join(columns)
    data = stored(plain[:len(plain) - stolen])
    if label is None:
        label = struct.pack('<IIII', 0x184D2A53, 8, n_events, len(data))
    return [frames.chunk(len(piece), piece, 0, b'sonde/heap.v1.zst') for piece in (label + data[:100], data[100:]) if piece]


def logs():
    """Kinds of numbers: 0 block, 1 free by age, 2 free by distance, 3 thread, 7 replaced, 11 unknown."""
    thread, other, block, free_newest = 3, 19, 0, 5
    usual = [thread, block, 4, free_newest, other, 2 << 2, fold(-1) << 2 | 2, (0x30 << 2 | 2) << 2 | 3]
    return {
        'usual': segment(usual, 6, (2, 5, 1, -3)),
        'epochs': segment(usual, 6) + segment([thread, 0, 1 << 2 | 1], 2, epoch=1, n_before=3),
        'goes-on': segment(usual, 6) + segment([thread, 0, 12], 2, sequence=1, n_before=3, pcs=(5,), nodes=(1, 2), sizes=(6, 9), threads=()),
        'missing': segment(usual, 6) + segment([thread, 0], 1, sequence=2),
        'replaced': segment([thread, 0, (1 << 2 | 1) << 2 | 3, 4, free_newest], 3),
        'version': segment(usual, 6, version=2), 'tick': segment(usual, 6, tick=2**31), 'blocks': segment(usual, 6, n_before=2**57),
        'longer': segment(usual, 6, lie=1), 'shorter': segment(usual, 6, (1, 1), lie=-1), 'cut': segment(usual, 6, stolen=9),
        'fewer': segment(usual, 9), 'more': segment(usual, 2), 'no-thread': segment([0], 1), 'which-thread': segment([99 << 4 | 3, 0], 1),
        'which-size': segment([thread, 99 << 2], 1), 'which-block': segment([thread, 0, 9 << 2 | 1], 2), 'age-zero': segment([thread, 0, 1], 2),
        'which-near': segment([thread, 0, 9 << 2 | 2], 2), 'which-replaced': segment([thread, (9 << 2 | 1) << 2 | 3, 0], 1),
        'which-kind': segment([thread, 15], 1), 'times': segment(usual, 6, (1, 2**62, 1, 2**62, 1, 2**62)), 'half-time': segment(usual, 6, (1,)),
        'which-pc': segment(usual, 6, nodes=(0, 9)), 'which-caller': segment(usual, 6, nodes=(9, 0)), 'which-node': segment(usual, 6, sizes=(9, 1)),
        'which-later-node': segment(usual, 6, sizes=(18, 1)), 'size-zero': segment(usual, 6, sizes=(2, 0)), 'size-largest': segment(usual, 6, sizes=(2, MAX, 0, MAX, 0, MAX)),
        'size-larger': segment(usual, 6, sizes=(2, 2**63)), 'pid': segment(usual, 6, threads=(2**31, 1)), 'long': segment([thread, 2**70], 1),
        'deep': segment([thread, 0], 1, nodes=[0] * 3000, sizes=(3000, 9)),
        'packed': segment(usual, 6, label=struct.pack('<IIII', 0x184D2A53, 8, 6, 5)),
        'unpackable': segment(usual, 6, label=struct.pack('<IIII', 0x184D2A53, 8, 6, 100)),
        'label': segment(usual, 6, label=struct.pack('<IIII', 0x184D2A53, 9, 6, 100)),
        'promise': segment(usual, 6, label=struct.pack('<IIII', 0x184D2A53, 8, 2**20, 100)),
        'dense': dense(), 'too-dense': segment(usual, 2**18),
        'unfinished': segment(usual, 6)[:1], 'unbegun': segment(usual, 6)[1:],
    }


def sums_segment(n_events=3, sequence=0, epoch=0, version=1, whole=1, scale=1, padding=0, counts=(2, 1, 0, 0, 0), peak=2, live=(50, 1), lie=0,
                 label=None, pcs=(0x401010, 0x1000), nodes=(0, 0, 1, 1), stacks=((1, 42, 2, 0), (1, 42, 1, 5)),
                 values=((0, 0, 1, 100, 1, 100, 1, 0, 0, 100, 1, 0, 0, 100, 1), (1, 0, 2, 50, 1, *[0] * 8, 50, 1))):
    """Of the sums, in FILE_CHUNK frames; of stacks the first and the last number may be below 0, of values the first."""
    columns = [leb(*[fold(pc) for pc in pcs]), leb(*nodes), leb(*[part for row in stacks for part in (fold(row[0]), row[1], row[2], fold(row[3]))]),
               leb(*[part for row in values for part in (fold(row[0]), *row[1:])])]
    lengths = [len(column) for column in columns]
    lengths[-1] += lie
    plain = struct.pack('<6Iq5QQqqQ8Q4I', version, epoch, sequence, whole, scale, padding, 3000, *counts, peak, 2500, 2500, 150, *live, 150, 2,
                        0, 0, 0, 0, *lengths) + b''.join(columns)
    data = stored(plain)
    if label is None:
        label = struct.pack('<IIII', 0x184D2A53, 8, n_events, len(data))
    return [frames.chunk(len(piece), piece, 0, b'sonde/heap-sums.v1.zst') for piece in (label + data[:100], data[100:]) if piece]


def sums():
    over = (0, 1, 2, 100, 1, 100, 1, *[0] * 8)
    more = sums_segment(1, 1, counts=(3, 1, 0, 0, 0), pcs=(), nodes=(), stacks=(), values=((1, 0, 3, 80, 2, *[0] * 8, 80, 2),))
    return {
        'usual': sums_segment(), 'goes-on': sums_segment() + more, 'missing': more, 'again': sums_segment() + sums_segment(0, epoch=1),
        'over': sums_segment(values=(over,)), 'version': sums_segment(version=2), 'whole': sums_segment(whole=2), 'scale-zero': sums_segment(scale=0),
        'scale': sums_segment(scale=1024), 'scale-largest': sums_segment(scale=2**21), 'padding': sums_segment(padding=1),
        'fewer': sums_segment(9), 'more': sums_segment() + sums_segment(2, 1, counts=(9, 9, 9, 9, 9)), 'counts': sums_segment(counts=[2**64 - 1] * 5),
        'longer': sums_segment(lie=1), 'shorter': sums_segment(lie=-1), 'live': sums_segment(live=(2**64 - 1, 2**64 - 1)), 'peak': sums_segment(peak=7),
        'which-pc': sums_segment(nodes=(0, 9)), 'which-caller': sums_segment(nodes=(9, 0)), 'which-node': sums_segment(stacks=((1, 42, 9, 0),)),
        'pid': sums_segment(stacks=((1, 2**31, 1, 0), (1, 42, 1, 0))), 'same-id': sums_segment(stacks=((1, 42, 1, 0), (0, 43, 1, 0))),
        'times': sums_segment(stacks=((1, 42, 1, MIN), (1, 42, 1, MAX))), 'which-stack': sums_segment(values=((9, *[0] * 14),)),
        'before-first': sums_segment(values=((-1, *[0] * 14),)), 'flags': sums_segment(values=((0, 2, *[0] * 13),)),
        'largest': sums_segment(values=((0, 0, 2**64 - 1, *[2**64 - 1] * 12), (1, 1, *[2**64 - 1] * 13))),
        'freed-more': sums_segment(values=((0, 0, 0, 1, 1, 9, 9, *[0] * 8),)), 'half': sums_segment(values=((0, 0, 1, 5),)),
        'deep': sums_segment(nodes=[part for i in range(1500) for part in (i, 0)], stacks=((1, 42, 1500, 0), (1, 42, 3, 0))),
        'packed': sums_segment(label=struct.pack('<IIII', 0x184D2A53, 8, 6, 5)), 'label': sums_segment(label=struct.pack('<IIII', 0x184D2A53, 9, 6, 100)),
        'promise': sums_segment(label=struct.pack('<IIII', 0x184D2A53, 8, 2**32 - 1, 100)), 'unbegun': sums_segment()[1:],
        'unfinished': sums_segment()[:1],
    }


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
    seeds |= {f'log-{name}': report.capture(setting + parts) for name, parts in logs().items()}
    seeds |= {f'sums-{name}': report.capture(setting + parts) for name, parts in sums().items()}
    seeds['log-forked'] = report.capture(setting + [fork(44, 2500)] + segment([3, 0, 19, 5], 2, threads=(42, 42, 44, 44)))
    seeds['broken'] = seeds['usual'][:-30]
    return seeds | {'empty': b'', 'header': frames.header()}


corpus_files.write('heap', captures())
# As heaptrack's log, by fuzz-export.c.
HEAPTRACK = 8
corpus_files.write('export', {f'heap-{name}': bytes([HEAPTRACK]) + seed for name, seed in captures().items()})
