#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of tests/fuzz/corpus/ring, from docs/protocol.md and not from the C code."""
import os
import struct
import sys

SIZE = 128 * 1024
ALL = 0xFFFFFFFF
NATIVE, SYSPROF, COMPACT, COMPACT_SYSPROF, SHORT = 0, 1, 2, 3, 6


def frame(kind, body=b'', length=None, pid=4242):
    body += b'\0' * (-(24 + len(body)) % 8)
    return struct.pack('<HhiqB7x', 24 + len(body) if length is None else length, -1, pid, 1001, kind) + body


def log(text=b'a line'):
    return frame(12, struct.pack('<HHI32s', 64, 0, 0, b'domain') + text + b'\0')


def mark():
    return frame(10, struct.pack('<q24s40s', 5, b'group', b'name') + b'message\0')


def sample(count=2):
    return frame(2, struct.pack('<HHiQQ', count, 0, 43, 0x401000, 0x402000))


def jitmap():
    return frame(7, struct.pack('<IQ', 1, 0xE << 60) + b'name\0')


def counters():
    define = struct.pack('<H6x32s32s52sIq', 1, b'c', b'n', b'd', 1, 7)
    return frame(8, define) + frame(9, struct.pack('<H6x8I8q', 1, *[1] * 8, *[9] * 8))


def clock(time, tid=43, zero=0):
    return struct.pack('<QiI', time << 3 | 4, tid, zero)


def stack(number, addrs, depth=None, kind=3):
    return struct.pack('<HHI', kind, len(addrs) if depth is None else depth, number) + struct.pack(f'<{len(addrs)}Q', *addrs)


def narrow(number, distances, shared=0, depth=None, filling=0):
    """a stack of int32_t in place of its own addresses"""
    words = struct.pack(f'<{len(distances)}i', *distances) + (struct.pack('<i', filling) if len(distances) % 2 else b'')
    return struct.pack('<HHI', 3 | 8 | shared << 4, shared + len(distances) if depth is None else depth, number) + words


def block(address, number=0, size=8, dt=5):
    return struct.pack('<QIIQ', address | 2, dt, number, size)


def free(address, dt=5, zero=0):
    return struct.pack('<QII', address | 1, dt, zero)


END = frame(255)
GOOD = log() + mark() + sample() + jitmap() + counters()


def seed(kind, turns, content, at=0):
    head = struct.pack('<BBI', kind, len(turns), at)
    return head + b''.join(struct.pack('<QI', tail, budget) for tail, budget in turns) + content


def seeds():
    whole = len(GOOD)
    yield 'native', seed(NATIVE, [(whole, ALL)], GOOD)
    yield 'sysprof', seed(SYSPROF, [(whole, ALL)], GOOD)
    yield 'budget', seed(NATIVE, [(whole, 1), (whole, 0), (whole, 200)], GOOD)
    yield 'end', seed(NATIVE, [(whole + 24, ALL), (whole + 24, ALL)], GOOD + END)
    yield 'end-continued', seed(NATIVE, [(whole + 24, ALL), (whole + 24, ALL)], GOOD + END[:20] + struct.pack('<I', 7))
    yield 'end-twice', seed(NATIVE, [(whole + 48, ALL)], GOOD + END + END)
    yield 'end-and-more', seed(NATIVE, [(whole + 24 + len(log()), ALL)], GOOD + END + log())
    yield 'end-sysprof', seed(SYSPROF, [(whole + 24, ALL)], GOOD + END)
    yield 'end-long', seed(NATIVE, [(32, ALL)], frame(255, b'\0' * 8))
    yield 'wrap', seed(NATIVE, [(SIZE - 64, ALL), (SIZE - 64 + 1024, ALL)], log(b'x' * 900), SIZE - 64)
    yield 'wrap-sysprof', seed(SYSPROF, [(SIZE - 64, ALL), (1024 - 64, ALL)], log(b'x' * 900), SIZE - 64)
    yield 'full', seed(NATIVE, [(SIZE, ALL)], b'')
    yield 'large', seed(NATIVE, [(65528, ALL)], log(b'x' * (65528 - 65)))
    for length in (0, 8, 29, 64, 65535, 65528):
        yield f'length-{length}', seed(NATIVE, [(144, ALL)], log() + frame(12, b'\0' * 48, length))
    for kind in (0, 3, 4, 16, 17, 254):
        yield f'type-{kind}', seed(NATIVE, [(128, ALL)], frame(kind, b'\0' * 104))
    yield 'pid', seed(NATIVE, [(32, ALL)], frame(12, b'\0' * 48, pid=1))
    yield 'count', seed(NATIVE, [(48, ALL)], sample(500))
    yield 'short', seed(NATIVE, [(16, ALL)], GOOD)
    yield 'unaligned', seed(NATIVE, [(29, ALL)], GOOD)
    yield 'backwards', seed(NATIVE, [(whole, 1), (whole - 8, ALL)], GOOD)
    yield 'backwards-sysprof', seed(SYSPROF, [(whole, 1), (8, ALL)], GOOD)
    yield 'outside', seed(NATIVE, [(SIZE + 8, ALL)], GOOD)
    yield 'outside-sysprof', seed(SYSPROF, [(0xFFFFFFF0, ALL)], GOOD)
    yield 'far', seed(NATIVE, [(2**64 - 8, ALL)], GOOD)


def records():
    here, stacks = 0x555000001230, stack(1, (0x401000, 0x402000)) + stack(2, (0x401000,))
    good = clock(1000) + stacks + block(here, 2) + log() + block(here + 16, 1) + free(here) + clock(2000, 44) + free(here + 16)
    cases = {
        'whole': good,
        'anew': good + stack(1, (0x403000,)) + block(here, 1),
        'forgotten': good + stack(1, (0x403000,)) + block(here, 2),
        'end': good + END,
        'no-clock': block(here),
        'clock-back': good + clock(1999),
        'clock-zero': clock(1, zero=1),
        'time-over': clock(2**61 - 1) + block(here, dt=2**32 - 1),
        'free-zero': clock(1) + free(here, zero=1),
        'address-0': clock(1) + free(0),
        'address-end': clock(1) + block(1 << 56),
        'address-last': clock(1) + block(2**64 - 8),
        'size-0': clock(1) + block(here, size=0),
        'size-2-63': clock(1) + block(here, size=1 << 63),
        'undefined': clock(1) + block(here, 1),
        'undefined-far': good + block(here, 2**32 - 1),
        'number-0': stack(0, (1,)),
        'number-gap': stacks + stack(4, (1,)),
        'number-twice': stacks + stack(2, (1,)),
        'depth-0': stack(1, ()),
        'depth-much': stack(1, (1,) * 1025),
        'depth-most': clock(1) + stack(1, (1,) * 1024) + block(here, 1),
        'depth-past-end': stack(1, (1, 2), 3),
        'narrow': clock(1) + narrow(1, (16, -8, 0x401000)) + block(here, 1),
        'narrow-filled': narrow(1, (1,), filling=1),
        'narrow-past-end': narrow(1, (1, 2), depth=5),
        'shared': good + stack(3, (0x403000,), 2, 3 | 1 << 4) + narrow(4, (-1, 5, 7), 2) + narrow(5, (), 4) + block(here, 4) + block(here, 5),
        'shared-first': stack(1, (1,), 2, 3 | 1 << 4),
        'shared-forgotten': stacks + stack(1, (1,), 2, 3 | 1 << 4),
        'shared-more-than-it-has': stacks + stack(3, (), 1, 3 | 2 << 4),
        'shared-more-than-before': stacks + narrow(3, (1,), 2),
        'shared-most': stacks + stack(3, (), 1, 0xFFF3),
        'shared-many': clock(1) + stack(1, (1,) * 1024) + b''.join(narrow(i + 2, (), 1024) for i in range(300)),
        'short-clock': clock(1)[:8],
        'short-block': clock(1) + block(here)[:16],
        'short-free': clock(1) + free(here)[:8],
    }
    for kind in (5, 6, 7):
        cases[f'kind-{kind}'] = clock(1) + struct.pack('<3Q', here | kind, 0, 0)
    for name, content in cases.items():
        yield f'record-{name}', seed(COMPACT, [(len(content), ALL)], content)
    yield 'record-not-offered', seed(NATIVE, [(len(good), ALL)], good)
    yield 'record-sysprof', seed(COMPACT_SYSPROF, [(len(good), ALL)], good)
    yield 'record-budget', seed(COMPACT, [(len(good), 1), (len(good), 60), (len(good), 0), (len(good), ALL)], good)
    yield 'record-wrap', seed(COMPACT, [(SIZE - 64, ALL), (SIZE - 64 + len(good), ALL)], good, SIZE - 64)
    anew = good + stack(1, (0x403000,)) + block(here, 1) + log() + block(here + 8, 1)
    yield 'short-anew', seed(SHORT, [(len(anew), ALL)], anew)
    yield 'short-undefined', seed(SHORT, [(len(good) + 24, ALL)], good + block(here, 3))
    yield 'short-budget', seed(SHORT, [(len(good), 1), (len(good), 60), (len(good), 0), (len(good), ALL)], good)
    yield 'short-wrap', seed(SHORT, [(SIZE - 64, ALL), (SIZE - 64 + len(good), ALL)], good, SIZE - 64)
    many = b''.join(stack(i + 1, (i,)) for i in range(4097))
    yield 'record-many', seed(COMPACT, [(len(many), ALL)], many)


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), 'corpus', 'ring')
    os.makedirs(folder, exist_ok=True)
    for name, data in (*seeds(), *records()):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(data)


main()
