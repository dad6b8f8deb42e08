#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the targets report and export: make-report-corpus.py [CORPUS]"""
import importlib
import struct

import corpus_files

frames = importlib.import_module('make-corpus')

KERNEL, USER = 2**64 - 128, 2**64 - 512
JIT = 0xE << 60
LEDGER = ['produced', 'recorded', 'lost-kernel', 'lost-ring', 'lost-queue', 'events-produced', 'events-recorded',
          'events-lost-ring', 'events-refused', 'stream-recorded', 'stream-resent', 'stream-delivered', 'stream-lost',
          'stream-filtered', 'stream-samples', 'stream-samples-lost', 'stream-samples-filtered', 'stream-samples-before',
          'stream-events', 'stream-events-lost', 'stream-events-filtered', 'stream-events-before']


def process(pid, text):
    return frames.frame(4, text + b'\0', pid=pid)


def mapping(pid, start, end, path, inode=5, offset=0):
    return frames.frame(3, struct.pack('<4Q', start, end, offset, inode) + path + b'\0', pid=pid)


def sample(pid, addresses, time=2000):
    body = struct.pack('<HHi%dQ' % len(addresses), len(addresses), 0, pid, *addresses)
    return frames.frame(2, body, pid=pid, time=time)


def jit(names):
    body = b''.join(struct.pack('<Q', address) + name + b'\0' for address, name in names)
    return frames.frame(7, struct.pack('<I', len(names)) + body, pid=-1)


def definitions(names, category=b'Sonde', first=1, kind=0):
    body = struct.pack('<HHI', len(names), 0, 0)
    for i, name in enumerate(names):
        body += frames.text(category, 32) + frames.text(name.encode(), 32) + bytes(52)
        body += struct.pack('<Iq', first + i | kind << 24, 0)
    return frames.frame(8, body, pid=-1)


def values(pairs):
    groups = [pairs[i:i + 8] for i in range(0, len(pairs), 8)]
    body = struct.pack('<HHI', len(groups), 0, 0)
    for group in groups:
        group = group + [(0, 0)] * (8 - len(group))
        body += struct.pack('<8I8q', *[number for number, _ in group], *[value for _, value in group])
    return frames.frame(9, body, pid=-1)


def closing(n_frames, n_samples, **changes):
    counts = dict.fromkeys(LEDGER, 0)
    counts |= {'produced': n_samples, 'recorded': n_samples, 'stream-recorded': n_frames, 'stream-delivered': n_frames,
               'stream-samples': n_samples}
    counts |= {name.replace('_', '-'): value for name, value in changes.items()}
    return values([(1 + i, counts[name]) for i, name in enumerate(LEDGER)])


def symbols(records, strings, end=True):
    at = 32 * (len(records) + end)
    body = b''
    for begin, last, pid, name, tag in records:
        body += struct.pack('<QQIIII', begin, last, pid, at + name, at + tag if tag else 0, 0)
    return body + bytes(32 * end) + strings


def chunks(data, path=b'__symbols__', size=200, last=True):
    pieces = [data[i:i + size] for i in range(0, len(data), size)]
    return b''.join(frames.chunk(len(piece), piece, int(last and i == len(pieces) - 1), path)
                    for i, piece in enumerate(pieces))


def metadata(identifier, text):
    return frames.frame(11, frames.text(identifier, 40) + text + b'\0', pid=-1)


def number(value):
    out = b''
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def calls_file(records, begin=1000, end=2000, version=1, mode=2, ended=True):
    """records: (kind, numbers) or (kind, bytes), as docs/protocol.md, "Calls", has them"""
    data = b'SNDCALLS' + b''.join(number(value) for value in (version, 10**9, mode, 64, begin, end))
    for kind, body in [*records, *([(9, None)] if ended else [])]:
        body = number(len(data)) if body is None else body if isinstance(body, bytes) else b''.join(number(value) for value in body)
        data += number(kind) + number(len(body)) + body
    return data


def calls_captures(setting):
    paths = [(1, (1, 0, 0)), (1, (2, 1, 0x401000)), (1, (3, 2, 0x402000)), (1, (4, 3, 0x401000)), (1, (5, 0, 1))]
    times = (3, (3, 2, 720, 10, 5, 20, 700, 2, 20, 1, 86, 1))
    account = (4, (7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 90, 30, 1, 5))
    usual = [*paths, (2, (2, 1)), (2, (3, 6)), times]

    def one(*files):
        return capture(setting + [chunks(data, b'sonde/calls/42-7/%d' % (1 + i)) for i, data in enumerate(files)])

    good = [*usual, account, (6, (42, 4)), (5, (0x401000, 1500, 9)), (7, (3, 3, 0, 0)), (77, b'xyz')]
    wrong = {
        'path-order': (1, (9, 1, 2)), 'path-caller': (1, (6, 6, 2)), 'path-nobodys': (1, (6, 0, 2)), 'path-other': (1, (3, 1, 0x402000)),
        'path-short': (1, (6,)), 'calls-of-none': (2, (9, 1)), 'calls-short': (2, ()), 'times-of-none': (3, (9, 1, 1, 0, 0, 1, 1, 0)),
        'times-short': (3, (3, 1)), 'buckets-many': (3, (3, 1, 1, 0, 0, 1, 1, 561)), 'bucket-beyond': (3, (3, 1, 1, 0, 0, 1, 1, 1, 560, 1)),
        'bucket-twice': (3, (3, 1, 1, 0, 0, 1, 1, 2, 5, 1, 0, 1)), 'account-short': (4, (1, 2)), 'uncounted-short': (5, (1,)),
        'uncounted-late': (5, (1, 2**63)), 'words-of-none': (6, (1, 9)), 'told-short': (7, ()), 'end-wrong': (9, (1,)),
    }
    seeds = {
        'whole': one(calls_file(good)),
        'differences': one(calls_file(usual), calls_file([(2, (3, 6)), times, (3, (3, 1, 9, 0, 0, 9, 9, 1, 9, 1))], 2000, 3000)),
        'sum-so-far': one(calls_file(usual), calls_file(usual, 1000, 3000)),
        'gap': one(calls_file(usual), calls_file([(2, (3, 6))], 2500, 3000)),
        'exact': one(calls_file(usual, mode=3)),
        'account-off': one(calls_file([*usual, (4, (9, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5))])),
        'account-more': one(calls_file([*usual, (4, (7, 7, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5))])),
        'refused': one(calls_file([*usual, (8, b'a \x1b[2J \xff')])),
        'unended': one(calls_file(usual, ended=False)),
        'behind-its-end': one(calls_file(usual) + b'\x02\x02\x03\x01'),
        'record-open': one(calls_file(usual, ended=False) + b'\x02\x7f'),
        'magic': one(b'SNDCALLZ' + calls_file(usual)[8:]), 'short': one(b'SND'), 'version': one(calls_file(usual, version=2)),
        'header': one(calls_file(usual, 2000, 1000)), 'mode': one(calls_file(usual, mode=4)),
        'two-clocks': capture(setting + [chunks(calls_file(usual), b'sonde/calls/42-7/1'), chunks(
            calls_file(usual).replace(number(10**9), number(10**8)), b'sonde/calls/43-8/1')]),
        'no-clock': one(calls_file(usual).replace(number(10**9), b'\x80\x80\x80\x80\x00')),
        'names': capture([chunks(calls_file(usual), name) for name in (b'sonde/calls/42-7', b'sonde/calls/x-7/1', b'sonde/calls/4-5-6/1',
                                                                       b'sonde/calls/-1-2/1', b'sonde/calls/')]),
        'deep': one(calls_file([(1, (1, 0, 0))] + [(1, (2 + i, 1 + i, 0x401000 + i % 3)) for i in range(9000)])),
        'many-open': capture([chunks(calls_file(usual), b'sonde/calls/42-7/%d' % i, last=False) for i in range(300)]),
    }
    seeds |= {f'bad-{name}': one(calls_file([*usual, record])) for name, record in wrong.items()}
    return {f'calls-{name}': data for name, data in seeds.items()}


def waits_file(records, version=1, begin=5, end=900, ended=True):
    """records: (kind, numbers), as docs/protocol.md, "Waits", has them"""
    data = b'SNDWAITS' + b''.join(number(value) for value in (version, 1100, begin, end))
    for kind, body in [*records, *([(3, None)] if ended else [])]:
        body = number(len(data)) if body is None else b''.join(number(value) for value in body)
        data += number(kind) + number(len(body)) + body
    return data


def waits_captures(setting):
    thread = (42, 43, 6, 0, 100, 40, 30, 20, 9, 1, 5, 7, 2)
    others = (2, (3, 2, 10, 10, 0, 0, 0, 0, 0))
    usual = [(1, thread), (1, (42, 44, 6, 1, *thread[4:])), (1, (50, 50, 6, 1, *thread[4:])), others]

    def one(*files):
        return capture(setting + [chunks(data, b'sonde/waits/%d' % (1 + i)) for i, data in enumerate(files)])

    wrong = {
        'pid': (1, (0, *thread[1:])), 'tid': (1, (42, 2**31, *thread[2:])), 'begin': (1, (42, 43, 2**63, *thread[3:])),
        'ended': (1, (42, 43, 6, 2, *thread[4:])), 'sum': (1, (42, 43, 6, 0, 101, *thread[5:])),
        'huge': (1, (42, 43, 6, 0, 2**61, 2**61, 0, 0, 0, 0, 0, 7, 2)), 'unsplit': (1, (*thread[:10], 21, 7, 2)),
        'short': (1, thread[:-1]), 'shorter': (1, thread[:7]), 'younger': (1, (42, 43, 6, 0, 9, 9, 0, 0, 0, 0, 0, 7, 2)),
        'others': (2, (3, 2, 11, 10, 0, 0, 0, 0, 0)), 'others-short': (2, (3,)),
    }
    seeds = {
        'whole': one(waits_file(usual)),
        'again': one(waits_file(usual), waits_file([(1, (42, 43, 6, 1, 110, 110, 0, 0, 0, 0, 0, 8, 2)), (7, (1, 2, 3))])),
        'unended': one(waits_file(usual, ended=False)),
        'record-open': one(waits_file(usual, ended=False) + b'\x01\x7f'),
        'length': one(waits_file(usual, ended=False) + b'\x03\x01\x05'),
        'magic': one(b'SNDWAITZ' + waits_file(usual)[8:]), 'version': one(waits_file(usual, version=2)),
        'header': one(waits_file(usual, begin=901)), 'header-short': one(waits_file([], ended=False)[:10]),
        'two-mixed': capture(setting + [chunks(waits_file(usual), b'sonde/waits/1', last=False), chunks(waits_file(usual), b'sonde/waits/2')]),
    }
    seeds |= {f'bad-{name}': one(waits_file([*usual, record])) for name, record in wrong.items()}
    return {f'waits-{name}': data for name, data in seeds.items()}


def capture(parts, n_samples=0, **changes):
    parts = [metadata(b'sonde', b'[sonde]\nversion=1\nevent=cpu-clock\n'), *parts, definitions(LEDGER)]
    return frames.header() + b''.join(parts) + closing(len(parts) + 1, n_samples, **changes)


def captures():
    table = symbols([(0x401000, 0x4010ff, 42, 0, 5), (0x402000, 0x4020ff, 42, 9, 0)], b'main\0bin\0_Z3addv\0')
    hostile = b'\x1b[2J\xff\xfe\n\xe2\x80\xae"\\'
    mounts = (b'1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:1 /home/x /app rw shared:1 - ext4 /dev/sda1 rw\n'
              b'3 1 0:50 / /bin rw,relatime - overlay overlay rw,lowerdir=/a\\134:b:/c\\040d:,upperdir=/e,workdir=/f,lowerdir+=/g\n')
    setting = [process(42, b'x --fast'), mapping(42, 0x400000, 0x403000, b'/bin/x'),
               jit([(JIT + 1, b'[kernel]'), (JIT + 2, b'[stack truncated]')])]
    usual = [*setting, sample(42, [JIT + 1, USER, 0x401010, 0x402010]), sample(42, [USER, 0x401010, 0x900000, JIT + 2], 3000)]
    seeds = {
        'usual': capture(usual + [chunks(table)], 2),
        'no-symbols': capture(usual, 2),
        'nothing': capture([]),
        'unclosed': frames.header() + b''.join(usual),
        'broken': capture(usual, 2)[:-40] + b'\0' * 24,
        'ledger-off': capture(usual, 3, lost_ring=1, stream_lost=5),
        'ledger-negative': capture(usual, 2, produced=-1, stream_delivered=-2**63),
        'ledger-huge': capture(usual, 2, produced=2**63 - 1, recorded=2**63 - 1, lost_kernel=2**63 - 1),
        'defined-twice': capture(usual + [definitions(LEDGER, first=100), definitions(['x'], b'Other', 1)], 2),
        'counter-undefined': frames.header() + values([(9, 9)]),
        'counter-float': capture([definitions(['cpu'], b'CPU', 50, 1), values([(50, 2**63 - 1)])]),
        'hostile-names': capture([process(42, hostile), mapping(42, 0x400000, 0x403000, hostile), jit([(JIT + 3, hostile)]),
                                  metadata(b'x\x1b', hostile), sample(42, [0x401000, JIT + 3]),
                                  frames.frame(10, struct.pack('<q', 5) + frames.text(hostile, 24) + frames.text(hostile, 40) + hostile + b'\0'),
                                  frames.frame(12, struct.pack('<HHI', 16, 0, 0) + frames.text(hostile, 32) + hostile + b'\0')], 1),
        'jit-missing': capture([process(42, b'x'), sample(42, [JIT + 9])], 1),
        'kernel-addresses': capture(setting + [sample(42, [KERNEL, 0xffffffff81000010, USER, 0x401000])], 1),
        'forked': capture(setting + [frames.frame(5, struct.pack('<i', 44)), sample(44, [0x401000]),
                                     mapping(44, 0x400000, 0x401800, b'/bin/y', 6), sample(44, [0x401000, 0x402000])], 2),
        'executed': capture(setting + [sample(42, [0x401000]), frames.frame(6), process(42, b'other'), sample(42, [0x401000])], 2),
        'forked-itself': capture(setting + [frames.frame(5, struct.pack('<i', 42)), sample(42, [0x401000])], 1),
        'empty-sample': capture(setting + [sample(42, [])], 1),
        'markers-only': capture(setting + [sample(42, [USER, KERNEL])], 1),
        'deep': capture(setting + [sample(42, [0x401000 + i % 7 for i in range(1000)])], 1),
        'recursion': capture(setting + [sample(42, [0x401000] * 100)], 1),
        'many-processes': capture([sample(pid, [0x401000 * pid]) for pid in range(1, 40)], 39),
        'backwards': capture(setting + [sample(42, [0x401000], -2**63), sample(42, [0x401000], 2**63 - 1)], 2),
        'symbols-unended': capture(usual + [chunks(symbols([(1, 2, 42, 0, 0)], b'main\0', end=False), last=False)], 2),
        'symbols-open': capture(usual + [chunks(symbols([(0x401000, 0x4010ff, 42, 0, 0)], b'main'))], 2),
        'symbols-outside': capture(usual + [chunks(symbols([(0x401000, 0x4010ff, 42, 2**20, 2**20)], b'main\0'))], 2),
        'symbols-twice': capture(usual + [chunks(table), chunks(table)], 2),
        'symbols-short': capture(usual + [chunks(b'abc')], 2),
        'symbols-around': capture(usual + [chunks(symbols([(2, 1, 42, 0, 0)], b'main\0'))], 2),
        'build-ids': capture([process(42, b'x'), mapping(42, 0x400000, 0x403000, b'/bin/x'), mapping(42, 0x400000, 0x403000, b'/bin/x\0@ab01'),
                              sample(42, [0x401000]), mapping(42, 0x400000, 0x403000, b'/bin/x\0@ab02'), sample(42, [0x401000]),
                              mapping(42, 0x400000, 0x403000, b'/bin/y\0@../../x'), sample(42, [0x401000])], 3),
        'mountinfo': capture([chunks(mounts, b'/proc/42/mountinfo', 40), *setting, sample(42, [0x401000]),
                              process(43, b'y'), mapping(43, 0x400000, 0x403000, b'/app/y'), sample(43, [0x401000])], 2),
        'mountinfo-broken': capture([chunks(mounts[:-30] + b'\\777 \\ \xff - - -\n - \n\0x', b'/proc/42/mountinfo'),
                                     chunks(b'', b'/proc/42/mountinfo'), chunks(mounts, b'/proc/0/mountinfo'),
                                     chunks(mounts, b'/proc/42/mountinfo', last=False), *setting, sample(42, [0x401000])], 1),
        'own-file': capture([process(42, b'x'), mapping(42, 0x400000, 0x403000, b'/proc/self/fd/0', 1), sample(42, [0x401000])], 1),
    }
    seeds |= calls_captures(setting)
    seeds |= waits_captures(setting)
    seeds |= {f'frame-{name}': frames.header() + data for name, data in zip(frames.NAMES, frames.good())}
    return seeds | {'empty': b'', 'foreign': b'\x7fELF' + bytes(300), 'header': frames.header()}


# fuzz-export.c: formats, and units in the upper half of the byte.
N_FORMATS, N_UNITS = 13, 3
EXPORTED = ('usual', 'hostile-names', 'backwards', 'counter-float', 'empty-sample', 'recursion', 'executed', 'broken', 'frame-allocation',
            'frame-mark', 'frame-ctrset', 'empty')


def exports():
    seeds = captures()
    return {f'{name}-{which}': bytes([which | which % N_UNITS << 4]) + seeds[name] for name in EXPORTED for which in range(N_FORMATS)}


if __name__ == '__main__':
    corpus_files.write('report', captures())
    corpus_files.write('export', exports())
