#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of tests/fuzz/corpus/module and tests/fuzz/corpus/unwind, and those of corpus/symbols that are
programs of Go: make-cfi-corpus.py CORPUS"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from fake_elf import ESP_4, RSP_8, eh_frame, elf, elf32  # noqa: E402

PROGRAMS = {
    'plain': bytes([0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 9, 0x0c, 7, 8]),
    'remember': bytes([0x0a, 0x41, 0x0e, 16, 0x86, 2, 0x41, 0x0b, 0x41, 0xc6, 0x2e, 8]),
    'extended': bytes([0x05, 6, 2, 0x11, 3, 0x7d, 0x14, 12, 1, 0x15, 13, 1, 0x2f, 14, 1, 0x06, 6]),
    'plt': bytes([0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]),
    'realigned': bytes([0x0f, 3, 0x76, 0x78, 6, 0x10, 6, 2, 0x76, 0, 0x10, 3, 2, 0x76, 8]),
    'in-register': bytes([0x09, 16, 5, 0x0e, 0]),
    'undefined': bytes([0x07, 16]),
    'val-expression': bytes([0x16, 16, 3, 0x0a, 0x10, 0x10, 0x16, 6, 2, 0x34, 0x22]),
    'arithmetic': bytes([0x0f, 14, 0x77, 0, 0x12, 0x14, 0x17, 0x1c, 0x1e, 0x22, 0x23, 8, 0x31, 0x25, 0x26, 0x19]),
    'jumps': bytes([0x0f, 10, 0x77, 8, 0x3a, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x13]),
    'huge-register': bytes([0x05, 0x80, 0x80, 0x80, 0x38, 1]),
    'pile': bytes([0x0a] * 17),
    'skip-loop': bytes([0x0f, 4, 0x31, 0x2f, 0xfd, 0xff]),
    'constant': bytes([0x0f, 9, 0x0e]) + struct.pack('<Q', 0x7ffe00001010) + bytes([0x90, 1]),
    'i386': bytes([0x41, 0x0e, 8, 0x85, 2, 0x42, 0x0d, 5, 0x02, 9, 0xc5, 0x0c, 4, 4]),
    'i386-realigned': bytes([0x0f, 3, 0x75, 0x7c, 6, 0x10, 5, 2, 0x75, 0, 0x10, 3, 2, 0x75, 0x78]),
    'i386-plt': bytes([0x0f, 11, 0x74, 4, 0x78, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x32, 0x24, 0x22]),
    'signed': bytes([0x2d, 0x0c, 31, 16, 0x9d, 2, 0x9e, 1, 0x44, 0x2d, 0x0e, 0, 0xdd, 0xde]),
}


def unwind_input(program, flags=0):
    common = bytes([0x0c, 31, 0]) if flags & 1 else ESP_4 if flags & 4 else RSP_8
    registers = struct.pack('<34h', *range(0, 34 * 16, 16))
    if flags & 4:
        stack = struct.pack('<32I', *[0x1000 + i * 4 if i % 3 else 0x1004 + i for i in range(32)])
    else:
        stack = struct.pack('<16Q', *[0x7ffe00001000 + i * 8 if i % 3 else 0x1004 + i for i in range(16)])
    return struct.pack('<BBHI', flags, len(common), len(program), 0xffffffff) + registers + common + program + stack


def go_table(magic, lie=0):
    """Two functions of Go and the place where stacks begin; @lie moves what the records say."""
    wide = magic == 0xfffffffa
    word, text = ('<Q', 0x10000) if wide else ('<I', 0)
    names = b'\0main.leaf\0main.main\0runtime.goexit\0'
    sizes = b'\0' + b'\2\4\x30\x78\0' + b'\x12\x7f\0' + b'\2\x7f\0'
    begins, at_name, at_size = [0, 0x80, 0x100, 0x180], [1, 11, 21], [1, 6, 9]
    n_bytes = struct.calcsize(word)
    rows, records = b'', b''
    for i in range(3):
        rows += struct.pack(word, text + begins[i]) + struct.pack(word, 7 * n_bytes + len(records))
        records += struct.pack(word, text + begins[i] + lie) + struct.pack('<IIII', at_name[i], 0, 0, at_size[i])
    rows += struct.pack(word, text + begins[3])
    header = 8 + (7 if wide else 8) * 8
    data = struct.pack('<IHBBQQ', magic, 0, 1, 8, 3, 0)
    if not wide:
        data += struct.pack('<Q', 0x10000)
    data += struct.pack('<QQQQQ', header, header, header, header + len(names), header + len(names) + len(sizes))
    return data + names + sizes + rows + records


def modules():
    programs = [program for name, program in PROGRAMS.items() if not name.startswith('i386')]
    section = eh_frame(programs)
    fdes, at = [], 0
    while len(fdes) <= len(programs):
        fdes.append(at)
        at += 4 + struct.unpack_from('<I', section, at)[0]
    table = [(0x10000 + i * 0x100, fde) for i, fde in enumerate(fdes[1:])]
    yield 'sections', elf(section)
    yield 'table', elf(section, table=table)
    yield 'unsorted-table', elf(section, table=table[::-1])
    yield 'no-sections', elf(section, name=b'', table=table)
    yield 'signal-frame', elf(eh_frame(programs[:2], b'zRS'))
    yield 'debug-frame', elf(b'\x14\0\0\0\xff\xff\xff\xff' + section[8:], name=b'.debug_frame')
    yield 'cut', elf(section)[:0x180]
    yield 'i386', elf32([PROGRAMS[name] for name in PROGRAMS if name.startswith('i386')])
    for name, magic in ('go-1.16', 0xfffffffa), ('go-1.18', 0xfffffff0), ('go-1.20', 0xfffffff1):
        yield name, elf(go_table(magic), name=b'.gopclntab')
    yield 'go-lie', elf(go_table(0xfffffff1, lie=16), name=b'.gopclntab')
    yield 'go-cut', elf(go_table(0xfffffff1)[:-40], name=b'.gopclntab')
    yield 'xz', b'\xfd7zXZ\0' + b'\0' * 58


def main(corpus):
    inputs = {f'module/{name}': data for name, data in modules()}
    inputs |= {f'symbols/{name}': data for name, data in modules() if name in ('go-1.16', 'go-1.20', 'go-lie')}
    for name, program in PROGRAMS.items():
        inputs[f'unwind/{name}'] = unwind_input(program, 4 if name.startswith('i386') else 0)
    inputs['unwind/signal'] = unwind_input(PROGRAMS['realigned'], 2)
    inputs['unwind/aarch64'] = unwind_input(PROGRAMS['signed'], 1)
    for name, data in inputs.items():
        os.makedirs(os.path.dirname(os.path.join(corpus, name)), exist_ok=True)
        with open(os.path.join(corpus, name), 'wb') as file:
            file.write(data)


if __name__ == '__main__':
    main(sys.argv[1])
