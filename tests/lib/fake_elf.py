# SPDX-License-Identifier: LGPL-2.1-or-later
"""Small ELF files with call frame information of one's own making, as tests/lib/fake-elf.h makes them in C."""
import struct

TEXT = 0x10000  # virtual address of the first function
FUNCTION_BYTES = 0x100
RSP_8 = bytes([0x0c, 7, 8, 0x90, 1])
ESP_4 = bytes([0x0c, 4, 4, 0x88, 1])


def entry(body):
    body += b'\0' * (-(4 + len(body)) % 8)
    return struct.pack('<I', len(body)) + body


def cfi(programs, letters=b'zR', function_bytes=FUNCTION_BYTES):
    """One CIE and an FDE for each program, of functions that follow each other from TEXT on. No terminator."""
    section = entry(struct.pack('<IB', 0, 1) + letters + b'\0' + bytes([1, 0x78, 16, 1, 0]) + RSP_8)
    for i, program in enumerate(programs):
        body = struct.pack('<IQQB', len(section) + 4, TEXT + i * function_bytes, function_bytes, 0)
        section += entry(body + program)
    return section


def eh_frame(programs, letters=b'zR'):
    return cfi(programs, letters) + b'\0' * 4


def elf(section, name=b'.eh_frame', table=None, at=0x100, flags=0):
    """section: what lies at offset (and virtual address) at, under name, with sh_flags. table: the rows of
    .eh_frame_hdr, pairs of (address, offset of the FDE in section)."""
    header = b''
    if table is not None:
        hdr_at = at + len(section)
        header = struct.pack('<BBBBiI', 1, 0x1b, 3, 0x3b, at - hdr_at - 4, len(table))
        header += b''.join(struct.pack('<ii', begin - hdr_at, fde + at - hdr_at) for begin, fde in table)
    body = section + header
    segments = struct.pack('<IIQQQQQQ', 1, 5, 0, 0, 0, at + len(body), max(0x100000, at + len(body)), 0x1000)
    if header:
        segments += struct.pack('<IIQQQQQQ', 0x6474e550, 4, at + len(section), at + len(section), 0, len(header), len(header), 4)
    names = b'\0' + name + b'\0'
    sections = b''
    sections_at = at + len(body) + len(names)
    sections_at += -sections_at % 8
    if name:
        sections = b'\0' * 64
        sections += struct.pack('<IIQQQQIIQQ', 1, 1, flags, at, at, len(section), 0, 0, 1, 0)
        sections += struct.pack('<IIQQQQIIQQ', 0, 3, 0, 0, at + len(body), len(names), 0, 0, 1, 0)
    file = b'\x7fELF\2\1\1' + b'\0' * 9
    file += struct.pack('<HHIQQQIHHHHHH', 3, 62, 1, TEXT, 64, sections_at if sections else 0, 0, 64, 56,
                        len(segments) // 56, 64, len(sections) // 64, 2 if sections else 0)
    file += segments
    file = file.ljust(at, b'\0') + body + names
    return file.ljust(sections_at, b'\0') + sections


def elf32(programs):
    at = 0x100
    section = entry(struct.pack('<IB', 0, 1) + b'zR\0' + bytes([1, 0x7c, 8, 1, 0x1b]) + ESP_4)
    for i, program in enumerate(programs):
        place = TEXT + i * FUNCTION_BYTES - (at + len(section) + 8)
        section += entry(struct.pack('<IiIB', len(section) + 4, place, FUNCTION_BYTES, 0) + program)
    section += b'\0' * 4
    names = b'\0.eh_frame\0'
    sections_at = at + len(section) + len(names)
    sections = b'\0' * 40
    sections += struct.pack('<10I', 1, 1, 0, at, at, len(section), 0, 0, 1, 0)
    sections += struct.pack('<10I', 0, 3, 0, 0, at + len(section), len(names), 0, 0, 1, 0)
    file = b'\x7fELF\1\1\1' + b'\0' * 9
    file += struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, TEXT, 52, sections_at, 0, 52, 32, 1, 40, 3, 2)
    file += struct.pack('<8I', 1, 0, 0, 0, at + len(section), 0x100000, 5, 0x1000)
    return file.ljust(at, b'\0') + section + names + sections
