# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that exhaust who unwinds through them with no care, x86-64's: each with code to be sampled."""

import collections
import gzip
import lzma
import os
import random
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from fake_elf import TEXT, cfi, elf  # noqa: E402

# dec %rdi; jne back; ret
CODE = bytes([0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3])
PAGE = 4096
GIB = 1 << 30
PIECE = 16 << 20       # bytes of zeros that are compressed; the rest is the same again
SHF_COMPRESSED = 0x800
PT_LOAD, PT_GNU_EH_FRAME = 1, 0x6474e550

# Bytes of the file, where its code is, and the size to which it is cut while it runs, or 0.
Bomb = collections.namedtuple('Bomb', 'data offset cut', defaults=(TEXT, 0))


def with_code(data, offset=TEXT):
    data = data.ljust(offset + len(CODE), b'\0')
    return data[:offset] + CODE + data[offset + len(CODE):]


def with_rules(program):
    return Bomb(with_code(elf(cfi([program]) + b'\0' * 4)))


def expression_of_cfa(*operations):
    return bytes([0x0f, len(operations), *operations])


def frames_without_end():
    """A CFA that does not move, a return address that is this function again: as the first one mapped."""
    cfa = bytes([0x0f, 9, 0x0e]) + struct.pack('<Q', 0x7ffe00001000)
    return with_rules(cfa + bytes([0x16, 16, 9, 0x0e]) + struct.pack('<Q', BASE + TEXT + 1))


def zlib_of_zeros(n_bytes):
    """Each piece ends with a full flush, so that none needs the one before."""
    piece = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = piece.compress(bytes(PIECE)) + piece.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    adler = n_bytes % 65521 << 16 | 1
    return b'\x78\xda' + data * (n_bytes // PIECE) + end + struct.pack('>I', adler)


def gzip_of_zeros(n_bytes):
    return gzip.compress(bytes(PIECE)) * (n_bytes // PIECE)


def xz_number(value):
    data = b''
    while value >= 0x80:
        data += bytes([value & 0x7f | 0x80])
        value >>= 7
    return data + bytes([value])


def xz_of_zeros(n_bytes):
    """One stream whose blocks are all the same."""
    one = lzma.compress(bytes(PIECE), check=lzma.CHECK_NONE, preset=0)
    index_bytes = (struct.unpack_from('<I', one, len(one) - 8)[0] + 1) * 4
    block = one[12:-12 - index_bytes]
    record = one[-12 - index_bytes + 2:].split(xz_number(PIECE))[0] + xz_number(PIECE)
    n_blocks = n_bytes // PIECE
    index = b'\0' + xz_number(n_blocks) + record * n_blocks
    index += b'\0' * (-len(index) % 4)
    index += struct.pack('<I', zlib.crc32(index))
    footer = struct.pack('<I', len(index) // 4 - 1) + one[6:8]
    return one[:12] + block * n_blocks + index + struct.pack('<I', zlib.crc32(footer)) + footer + b'YZ'


def after_archive(data):
    offset = -(-len(data) // PAGE) * PAGE
    return Bomb(with_code(data, offset), offset)


def compressed_debug_info():
    """Nothing says how to unwind, and what might is compressed."""
    data = struct.pack('<IIQQ', 1, 0, 3 * GIB, 1) + zlib_of_zeros(3 * GIB)
    return Bomb(with_code(elf(data, name=b'.debug_info', at=TEXT + PAGE, flags=SHF_COMPRESSED)))


def cut_off(n_bytes):
    """As much unwind data, of one function over and over; its end comes and goes."""
    data = cfi([b'\x41' * 40] * 1000)
    data *= n_bytes // len(data)
    return Bomb(with_code(elf(data + b'\0' * 4, at=TEXT + PAGE)), cut=TEXT + PAGE + len(data) // 3)


def mutant(data, chosen):
    """A library with a few bytes changed in its headers or in its unwind data."""
    n_segments = struct.unpack_from('<H', data, 56)[0]
    headers_end = 64 + 56 * n_segments
    segments = [struct.unpack_from('<IIQQQQQQ', data, 64 + 56 * i) for i in range(n_segments)]
    code = next(segment for segment in segments if segment[0] == PT_LOAD and segment[1] & 1)
    unwind = next(segment for segment in segments if segment[0] == PT_GNU_EH_FRAME)
    unwind_end = next(segment[2] + segment[5] for segment in segments
                      if segment[0] == PT_LOAD and segment[2] <= unwind[2] < segment[2] + segment[5])
    offset = code[2] + chosen.randrange(code[5] // 4, code[5] // 2)
    changed = bytearray(with_code(data, offset))
    for _ in range(chosen.randint(1, 12)):
        begin, end = chosen.choice(((16, headers_end), (unwind[2], unwind_end), (len(data) - 30 * 64, len(data))))
        changed[chosen.randrange(begin, end)] = chosen.randrange(256)
    return Bomb(bytes(changed), offset)


# Where the n-th of them is mapped.
BASE, STEP = 0x600000000000, 0x10000000
MAKERS = {
    'frames without end': frames_without_end,
    'a register 0x7000000': lambda: with_rules(bytes([0x05, 0x80, 0x80, 0x80, 0x38, 1])),
    'a register 0x1000000, remembered 40 times':
        lambda: with_rules(bytes([0x05, 0x80, 0x80, 0x80, 0x08, 1]) + b'\x0a' * 40),
    'an expression with an unknown operation': lambda: with_rules(expression_of_cfa(0x31, 0xe5, 0x22)),
    'an expression that loops': lambda: with_rules(expression_of_cfa(0x31, 0x2f, 0xfd, 0xff)),
    '3 GiB in an .xz': lambda: after_archive(xz_of_zeros(3 * GIB)),
    '3 GiB in a .gz': lambda: after_archive(gzip_of_zeros(3 * GIB)),
    '3 GiB of compressed .debug_info': compressed_debug_info,
    'a file cut while it is read': lambda: cut_off(16 << 20),
}


def make_all():
    """[(name, Bomb)], to be mapped in this order."""
    return [(name, maker()) for name, maker in MAKERS.items()]


def make_mutants(path, n_mutants):
    """Of a library, the same each time."""
    with open(path, 'rb') as file:
        data = file.read()
    chosen = random.Random(1)
    return [(f'mutant {i}', mutant(data, chosen)) for i in range(n_mutants)]
