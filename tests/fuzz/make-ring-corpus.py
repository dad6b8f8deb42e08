#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of tests/fuzz/corpus/ring, from docs/protocol.md and not from the C code."""
import os
import struct
import sys

SIZE = 128 * 1024
ALL = 0xFFFFFFFF
NATIVE, SYSPROF = 0, 1


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


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), 'corpus', 'ring')
    os.makedirs(folder, exist_ok=True)
    for name, data in seeds():
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(data)


main()
