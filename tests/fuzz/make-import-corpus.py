#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the target import: make-import-corpus.py [CORPUS]"""

import gzip

import corpus_files

HEAD = b'prog 10/11 [001]  1.000000005:    1001001 cpu-clock:ppp: \n'
FRAME = b'\t          401000 main (/usr/bin/prog)\n'


def number(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(tag, value):
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    return number(tag << 3 | 2) + number(len(value)) + value


def packed(*values):
    return b''.join(map(number, values))


def profile(samples=None, types=((1, 2),), texts=(b'', b'samples', b'count', b'main', b'/bin/prog', b'pid', b'comm'), more=b''):
    if samples is None:
        samples = [field(1, packed(1)) + field(2, packed(3)) + field(3, field(1, 5) + field(3, 42)) + field(3, field(1, 6) + field(2, 4))]
    return (b''.join(field(1, field(1, kind) + field(2, unit)) for kind, unit in types) + b''.join(field(2, sample) for sample in samples)
            + field(3, field(1, 1) + field(5, 4)) + field(4, field(1, 1) + field(2, 1) + field(4, field(1, 1)))
            + field(5, field(1, 1) + field(2, 3)) + b''.join(field(6, text) for text in texts) + more)


def heap(*values):
    kinds = (b'alloc_objects', b'count', b'alloc_space', b'bytes', b'inuse_objects', b'inuse_space')
    return profile([field(1, packed(1)) + field(2, packed(*values))], ((7, 8), (9, 10), (11, 8), (12, 10)),
                   (b'', b'samples', b'count', b'main', b'/bin/prog', b'pid', b'comm', *kinds))


def perf():
    good = b'# comment\nprog 10/10 0.5: PERF_RECORD_COMM exec: prog:10/10\n' + HEAD + b'\tffffffff81000000 k+0x1 ([kernel.kallsyms])\n' + FRAME + b'\n'
    return {
        'good': good, 'two': good + good, 'flat': b'a b 1/1 2.5: cycles:  401000 f(int) (x) (/lib/a b.so)\n',
        'fork': b'p 1/1 1.0: PERF_RECORD_FORK(2:2):(1:1)\n' + good, 'mmap': b'p 1/1 1.0: PERF_RECORD_MMAP2 1/1: [0x1(0x2)]: r-xp /x\n' + good,
        'empty': b'', 'no-sample': b'# nothing\n', 'no-head': b'what is this\n', 'no-address': HEAD + b'\tmain (x)\n',
        'no-module': HEAD + b'\t401000 main\n', 'no-function': HEAD + b'\t401000 (x)\n', 'zero': good + b'\0' + FRAME,
        'long': HEAD + b'\t401000 ' + b'x' * 66000 + b' (x)\n', 'large-pid': HEAD.replace(b'10/11', b'99999999999/1') + FRAME,
        'large-time': HEAD.replace(b'  1.000', b'  99999999999999.000') + FRAME, 'bad-comm': b'p 1/1 1.0: PERF_RECORD_COMM: x\n',
        'deep': HEAD + FRAME * 1100, 'cut': HEAD + FRAME[:20],
    }


def pprof():
    good = profile()
    return {
        'good': good, 'gzip': gzip.compress(good, mtime=0), 'heap': heap(3, 100, 1, 40), 'heap-none': heap(0, 0, 0, 0),
        'time': profile(types=((3, 7),), texts=(b'', b'samples', b'count', b'cpu', b'/x', b'pid', b'comm', b'nanoseconds'), more=field(12, 1) + field(10, 9)),
        'gzip-broken': gzip.compress(good, mtime=0)[:-12], 'gzip-no': b'\x1f\x8b\x08', 'cut-number': good + b'\x80', 'cut': good[:20],
        'wide-number': b'\x0a\x02\x08\x01' + field(12, 0)[:1] + b'\xff' * 10, 'group': b'\x0b', 'no-number': b'\x00\x00', 'longer': b'\x0a\x7f\x01',
        'no-parts': number(1 << 3) + b'\x01', 'no-id': good + field(4, b''), 'no-id-function': good + field(5, b''), 'many-types': field(1, b'') * 65,
        'many-lines': good + field(4, field(1, 9) + field(4, field(1, 1)) * 65), 'no-type': profile(types=((3, 3),)),
        'values': profile([field(2, packed(1, 2))]), 'values-more': profile([field(2, packed(*[1] * 65))]),
        'no-location': profile([field(1, packed(7)) + field(2, packed(1))]), 'no-function': good + field(4, field(1, 1) + field(4, field(1, 7))),
        'no-lines': good + field(4, field(1, 1) + field(2, 1)), 'no-value': profile([field(1, packed(1)) + field(2, packed(0))]),
        'many': profile([field(1, packed(1)) + field(2, packed(1 << 20))]), 'fixed': good + number(20 << 3 | 1) + bytes(8) + number(20 << 3 | 5) + bytes(4),
        'below': profile([field(1, packed(1)) + field(2, packed((1 << 64) - 1))]),
        'deep': profile([field(1, packed(*[1] * 1100)) + field(2, packed(1))]), 'empty': b'',
    }


if __name__ == '__main__':
    corpus_files.write('import', {f'perf-{name}': b'\0' + data for name, data in perf().items()}
                       | {f'pprof-{name}': b'\1' + data for name, data in pprof().items()})
