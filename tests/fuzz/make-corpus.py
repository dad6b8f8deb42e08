#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of tests/fuzz/corpus/frame, from docs/protocol.md and not from the C code."""
import os
import struct
import sys

NAMES = ['timestamp', 'sample', 'map', 'process', 'fork', 'exit', 'jitmap', 'ctrdef', 'ctrset',
         'mark', 'metadata', 'log', 'file-chunk', 'allocation', 'overlay']


def header(magic=0xFDCA975E, version=1, little=1):
    return struct.pack('<IBBH64sqq168x', magic, version, little, 0, b'2026-01-01T00:00:00Z', 1000, 0)


def frame(kind, body=b'', length=None, cpu=0, pid=42, time=1001):
    body += b'\0' * (-(24 + len(body)) % 8)
    if length is None:
        length = 24 + len(body)
    return struct.pack('<HhiqB7x', length, cpu, pid, time, kind) + body


def text(value, size):
    return value.ljust(size, b'\0')


def sample(count, addresses):
    return frame(2, struct.pack('<HHi', count, 0, 43) + struct.pack('<%dQ' % len(addresses), *addresses))


def counter(kind=0):
    return text(b'Sonde', 32) + text(b'produced', 32) + text(b'samples', 52) + struct.pack('<Iq', 1 | kind << 24, 7)


def group():
    return struct.pack('<8I8q', 1, 2, 0, 0, 0, 0, 0, 0, 8, 9, 0, 0, 0, 0, 0, 0)


def jitmap(count, names):
    return frame(7, struct.pack('<I', count) + b''.join(struct.pack('<Q', 0xE << 60) + n for n in names))


def allocation(size, count):
    return frame(14, struct.pack('<QqiHHQQ', 0x5000, size, 43, count, 0, 0x401000, 0x402000))


def chunk(length, data, last=1, path=b'/proc/cpuinfo'):
    return frame(13, struct.pack('<HH', last, length) + text(path, 256) + data)


def overlay(src_len, dst_len):
    return frame(15, struct.pack('<IHH', 1, src_len, dst_len) + b'/lower\0/\0')


def good():
    """One frame of each type, in the order of the numbers."""
    return [
        frame(1),
        sample(3, [2**64 - 512, 0x401000, 0x402000]),
        frame(3, struct.pack('<4Q', 0x400000, 0x403000, 0x1000, 99) + b'/bin/x\0@0badc0de\0'),
        frame(4, b'x --fast\nline\xc3\0'),
        frame(5, struct.pack('<i', 44)),
        frame(6),
        jitmap(2, [b'[kernel]\0', b'a\nb\xff\0']),
        frame(8, struct.pack('<HHI', 1, 0, 0) + counter()),
        frame(9, struct.pack('<HHI', 1, 0, 0) + group()),
        frame(10, struct.pack('<q', 5) + text(b'group', 24) + text(b'name', 40) + b'message\0'),
        frame(11, text(b'sonde', 40) + b'[sonde]\nversion=1\n\0'),
        frame(12, struct.pack('<HHI', 16, 0, 0) + text(b'sonde', 32) + b'Lost 3 samples\0'),
        chunk(15, b'Hardware\t: BCM\n'),
        allocation(64, 2),
        overlay(6, 1),
    ]


def foreign():
    """What other writers do and we do not."""
    return {
        'metadata-rubbish': frame(11, text(b'local-profiler', 40) + b'[profiler]\n\0' + b'\xff' * 12),
        'mark-rubbish': frame(10, struct.pack('<q', 5) + text(b'group', 24) + text(b'name', 40) + b'm\0' + b'\xff' * 6),
        'log-rubbish': frame(12, struct.pack('<HHI', 16, 0, 0) + text(b'sonde', 32) + b'm\0' + b'\xff' * 6),
        'trace': frame(16, struct.pack('<HHiQ', 1, 1, 43, 0x401000)),
        'dbus-message': frame(17, struct.pack('<HH', 1, 4) + b'l\1\0\1'),
    }


def bad():
    """Frames that a reader refuses, each for one reason."""
    return {
        'length-0': frame(6, length=0),
        'length-23': frame(6, length=23),
        'length-29': frame(6, length=29),
        'length-65535': frame(6, length=65535),
        'length-65528': frame(6, length=65528),
        'length-below-type': frame(2),
        'type-0': frame(0),
        'type-18': frame(18, b'\0' * 8),
        'trace-length-below-type': frame(16),
        'metadata-open': frame(11, text(b'sonde', 40) + b'x' * 16),
        'mark-open': frame(10, struct.pack('<q', 5) + text(b'group', 24) + text(b'name', 40) + b'x' * 16),
        'log-open': frame(12, struct.pack('<HHI', 16, 0, 0) + text(b'sonde', 32) + b'x' * 16),
        'type-255': frame(255),
        'sample-count': sample(65535, [1, 2, 3]),
        'map-range': frame(3, struct.pack('<4Q', 2, 1, 0, 0) + b'x\0'),
        'map-path-open': frame(3, struct.pack('<4Q', 1, 2, 0, 0) + b'x' * 16),
        'process-open': frame(4, b'x' * 16),
        'process-empty': frame(4),
        'jitmap-count': jitmap(0xFFFFFFFF, [b'x\0']),
        'jitmap-open': jitmap(1, [b'x' * 12]),
        'jitmap-cut-address': jitmap(2, [b'xxx\0', b'']),
        'ctrdef-count-times-32': frame(8, struct.pack('<HHI', 4, 0, 0) + counter()),
        'ctrdef-type': frame(8, struct.pack('<HHI', 1, 0, 0) + counter(kind=2)),
        'ctrset-count': frame(9, struct.pack('<HHI', 700, 0, 0) + group()),
        'mark-group-open': frame(10, struct.pack('<q', 5) + b'g' * 64 + b'm\0'),
        'metadata-id-open': frame(11, b'i' * 40 + b'm\0'),
        'log-domain-open': frame(12, struct.pack('<HHI', 16, 0, 0) + b'd' * 32 + b'm\0'),
        'chunk-length': chunk(65535, b'data'),
        'chunk-path-open': chunk(4, b'data', path=b'p' * 256),
        'allocation-count': allocation(64, 3),
        'allocation-size': allocation(-1, 2),
        'overlay-lengths': overlay(65535, 65535),
        'overlay-open': overlay(5, 1),
    }


def main(folder):
    os.makedirs(folder, exist_ok=True)

    def write(name, data):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(data)

    frames = good()
    whole = header() + b''.join(frames)
    write('whole', whole)
    write('cut-in-header', whole[:-12])
    write('cut-in-body', header() + frames[1][:-8])
    write('only-header', header())
    write('short-header', header()[:255])
    write('empty', b'')
    write('foreign-magic', header(magic=0x464C457F))
    write('foreign-version', header(version=2))
    write('foreign-byte-order', header(little=0))
    for name, data in zip(NAMES, frames):
        write('frame-' + name, data)
    for name, data in foreign().items():
        write('frame-' + name, data)
    write('whole-foreign', header() + b''.join(foreign().values()))
    for name, data in bad().items():
        write('bad-' + name, header() + frames[0] + data + frames[5])
        write('bad-frame-' + name, data)


if __name__ == '__main__':
    main(sys.argv[1])
