#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of tests/fuzz/corpus/symbols that have static probes: make-probe-corpus.py [CORPUS]"""

import struct

import corpus_files

TEXT, DATA, NOTES, FAR, BASE = 0x200, 0x280, 0x400, 0x400000, 0x403000
NAMES = b'\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0'


def note(pc=FAR + TEXT, base=BASE, semaphore=FAR + DATA, name=b'alloc', arguments=b'8@%rdi -4@8(%rsp) 8@$5', provider=b'otel_memory',
         kind=3, owner=b'stapsdt\0', cut=0, longer=0):
    body = struct.pack('<3Q', pc, base, semaphore) + b'\0'.join([provider, name, arguments, b''])
    body = body[:len(body) - cut]
    return struct.pack('<3I', len(owner), len(body) + longer, kind) + owner + body + bytes(-len(body) % 4)


def elf(*notes, base=BASE):
    section = b''.join(notes)
    loads = [struct.pack('<2I6Q', 1, flags, at, FAR + at, FAR + at, 0x80, 0x80, 0x1000) for flags, at in ((5, TEXT), (6, DATA))]
    sections = [struct.pack('<2I4Q2I2Q', name, kind, 0, address, at, size, 0, 0, 1, 0) for name, kind, address, at, size in
                ((0, 0, 0, 0, 0), (1, 7, 0, NOTES, len(section)), (15, 1, base, 0x300, 1), (29, 3, 0, 0x380, len(NAMES)))]
    end = NOTES + len(section)
    header = struct.pack('<4s5B7x2HI3QI6H', b'\x7fELF', 2, 1, 1, 0, 0, 3, 62, 1, 0, 64, end, 0, 64, 56, 2, 64, 4, 3)
    data = bytearray(end)
    data[:len(header)] = header
    data[64:64 + 112] = b''.join(loads)
    data[TEXT:TEXT + 0x80] = b'\x90' * 0x80
    data[0x380:0x380 + len(NAMES)] = NAMES
    data[NOTES:] = section
    return bytes(data) + b''.join(sections)


def main():
    corpus_files.write('symbols', {
        'probes': elf(note(provider=b'libc'), note(), note(name=b'free', arguments=b'8@%r12', semaphore=0)),
        'probes-moved': elf(note(pc=TEXT, base=BASE - FAR, semaphore=DATA)),
        'probes-outside': elf(note(pc=FAR + TEXT + 0x80), note(pc=FAR + DATA), note(semaphore=FAR + TEXT), note(semaphore=FAR + DATA + 0x7f)),
        'probes-cut': elf(note(cut=9), note(cut=40), note(longer=512), note()),
        'probes-kind': elf(note(kind=1), note()), 'probes-owner': elf(note(owner=b'GNU\0'), note()),
        'probes-arguments': elf(*(note(arguments=text) for text in
                                  (b'', b'8@', b'3@%rdi', b'8@%xmm0', b'8@-8(%rsp)', b'8@(%rsp,%rax,8)', b'8@(%rsp,%rax,3)', b'8@sym(%rip)',
                                   b'8@%rax 8@%rax 8@%rax 8@%rax 8@%rax', b'-8@99999999999999999999(%rbp)', b'1@$-129 2@%cx'))),
        'probes-many': elf(*(note() for _ in range(40))),
    })


if __name__ == '__main__':
    main()
