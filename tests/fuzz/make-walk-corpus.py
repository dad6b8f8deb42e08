#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the target walk: make-walk-corpus.py [CORPUS]"""
import struct

import corpus_files

PAIRS, LINES, STACKS, FILES = range(4)
MAX_FRAMES, TEXT_BYTES = 256, 256


def walk(n_frames=2, flags=0, ip=0, kind=1, frames=None, tid=1):
    """docs/protocol.md, "Walks of interpreters"."""
    head = struct.pack('<IIQQIIII', kind, flags, 3, ip, 1, tid, n_frames, 1)
    body = b''.join(struct.pack('<QIB3x', 0x1000 * i, 184 + 2 * i, i % 2)
                    for i in range(n_frames if frames is None else frames))
    return head + body


def code(address=0x1000, name=b'walk', width=1, file=b'/a/tree.py', table=b'\x80\x00\xd8\x04\x05', kind=2,
         sizes=None, lines=None, pid=1, scope=b''):
    sizes = sizes or (len(name), len(file), len(scope))
    return (struct.pack('<IIQQIIIIIIIIII', kind, pid, 3, address, 7, len(table) if lines is None else lines,
                        sizes[0], width, sizes[1], 1, sizes[2], width, 2, 0)
            + name.ljust(TEXT_BYTES, b'\0') + file.ljust(TEXT_BYTES, b'\0') + scope.ljust(TEXT_BYTES, b'\0') + table)


def pairs(*steps):
    """Bytes are a record; numbers what comes between: 2 a sample, 3 its end."""
    script = bytes([PAIRS])
    for step in steps:
        script += bytes([step]) if isinstance(step, int) else b'\0' + struct.pack('<H', len(step)) + step
    return script


def elf(symbols, pieces, extra=None):
    """symbols: name: (value, size, perhaps a type); pieces: address: bytes; extra: name, type and bytes of one more section."""
    strings, table = b'\0', bytes(24)
    for name, (value, size, *kind) in symbols.items():
        table += struct.pack('<IBBHQQ', len(strings), 0x10 | (kind or [1])[0], 0, 1, value, size)
        strings += name + b'\0'
    names = b'\0.dynsym\0.dynstr\0.shstrtab\0'
    contents = [(1, 11, table), (9, 3, strings), (17, 3, b'')]
    if extra:
        contents.append((len(names), extra[1], extra[2]))
        names += extra[0] + b'\0'
    contents[2] = (17, 3, names)
    at = 64 + 56 * len(pieces)
    loads = body = b''
    for address, data in pieces.items():
        loads += struct.pack('<IIQQQQQQ', 1, 4, at + len(body), address, 0, len(data), len(data), 0)
        body += data
    sections = bytes(64)
    end = at + len(body)
    for name, kind, data in contents:
        sections += struct.pack('<IIQQQQIIQQ', name, kind, 0, 0, end, len(data), 0, 0, 0, 0)
        end += len(data)
    header = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 3, 62, 1, 0, 64, end, 0, 64, 56,
                                                             len(pieces), 64, 1 + len(contents), 3)
    return bytes([FILES]) + header + loads + body + b''.join(data for _, _, data in contents) + sections


RUNTIME, FUNCTION = 0x5000, 0x9000
PYTHON = {b'_PyRuntime': (RUNTIME, 0x28b20), b'_PyEval_EvalFrameDefault': (0x7000, 500),
          b'Py_Version': (0x8000, 4), b'PyCode_Type': (0x100, 408), b'PyUnicode_Type': (0x300, 408),
          b'PyGILState_GetThisThreadState': (FUNCTION, 48)}
USES_KEY = (b'\x48\x8d\xb8' + struct.pack('<I', 592)).ljust(48, b'\x90')


def python(version=0x030b02f0, uses=USES_KEY, without=()):
    return elf({name: place for name, place in PYTHON.items() if name not in without},
               {0x8000: struct.pack('<I', version), FUNCTION: uses})


def php(build=b'API20220829,NTS', size=1800):
    return elf({b'executor_globals': (0x6000, size), b'execute_ex': (0x7000, 500)}, {},
               (b'.rodata', 1, b'\0' + build + b'\0'))


def ruby(api=(3, 1, 0), pair=0x4008, index=1):
    return elf({b'ruby_current_ec': (8, 8, 6), b'rb_vm_exec': (0x7000, 500), b'ruby_api_version': (0x100, 12)},
               {0x100: struct.pack('<3I', *api)},
               (b'.rela.dyn', 4, struct.pack('<QQQ', 0x4000, index << 32 | 16, 0) + struct.pack('<QQQ', pair, index << 32 | 17, 0)))


def newer_ruby(pair=0x4008):
    uses = b'\x66\x48\x8d\x3d' + struct.pack('<i', pair - FUNCTION - 8) + bytes(28)
    return elf({b'rb_iseq_eval': (0x7000, 500), b'rb_errinfo': (FUNCTION, 36), b'ruby_api_version': (0x100, 12)},
               {0x100: struct.pack('<3I', 3, 3, 0), FUNCTION: uses}, (b'.rela.dyn', 4, struct.pack('<QQQ', 0x4008, 16, 0)))


def ruby_lines(entries=2, index=struct.pack('<6Q', *(0x81 << 7 * i for i in range(6))) + b'\1' * 80, size=None):
    return (struct.pack('<II', len(index) if size is None else size, entries) + index
            + b''.join(struct.pack('<iii', 10 + i, i, 0) for i in range(entries)))


def threads(place=1296, size=16):
    return elf({b'_thread_db_pthread_specific': (0x100, 12), b'_thread_db_pthread_key_data_data': (0x200, 12),
                b'_thread_db_sizeof_pthread_key_data': (0x300, 4)},
               {0x100: struct.pack('<3I', 64, 32, place), 0x200: struct.pack('<3I', 64, 1, 8),
                0x300: struct.pack('<I', size)})


SEEDS = {
    'a-sample-with-names': pairs(code(), code(0x2000, b'leaf'), walk(), 2, 2, 3),
    'a-walk-alone': pairs(walk(), walk(), 3),
    'walk-cut': pairs(walk(n_frames=2, frames=1)),
    'walk-short': pairs(walk()[:39]),
    'walk-too-deep': pairs(walk(n_frames=MAX_FRAMES + 1)),
    'walk-deepest': pairs(walk(n_frames=MAX_FRAMES, flags=2), 2, 3),
    'walk-flags': pairs(walk(flags=4)),
    'walk-of-another-thread': pairs(walk(tid=9), 2, 3),
    'walk-kind': pairs(walk(kind=3)),
    'code-short': pairs(code()[:500], 3),
    'code-lines-beyond': pairs(code(lines=4097), 3),
    'code-lines-cut': pairs(code(lines=50), 3),
    'code-name-beyond': pairs(code(sizes=(257, 3, 0)), 3),
    'code-scope-beyond': pairs(code(sizes=(4, 3, 257)), 3),
    'code-of-php': pairs(code(name='größe'.encode(), width=8, scope=b'App\\Tree', table=b''), 3),
    'code-of-php-cut': pairs(code(name=b'\xff\n\xe2\x82', width=8, scope=b'\xc3', table=b''), 3),
    'code-width': pairs(code(width=3), 3),
    'code-wide': pairs(code(name='αβγ'.encode('utf-16-le'), width=2), code(0x2000, '🐍'.encode('utf-32-le'), 4), 3),
    'code-surrogate': pairs(code(name=b'\x00\xd8\x00\xdc', width=2), 3),
    'code-unreadable': pairs(code(width=0), 3),
    'code-control-characters': pairs(code(name=b'a\nb\x1b['), 3),
    'code-pid': pairs(code(pid=2**31), 3),
    'code-address': pairs(code(address=0), 3),
    'lines-of-3-9': bytes([LINES]) + struct.pack('<Q', 2) + bytes.fromhex('0005040102010201020102ff02fe047f0022'),
    'lines-of-3-10': bytes([LINES]) + struct.pack('<Q', 2) + bytes.fromhex('0405020102010201020102ff04fe007f0a22'),
    'lines-without': bytes([LINES]) + struct.pack('<Q', 2) + b'\x04\x80\xf8\xf8\xf8',
    'lines-of-3-11': bytes([LINES]) + struct.pack('<Q', 2)
    + bytes.fromhex('8000f00a6a02050edd1013d80c0ddd0c0fd81011f103020d0ef400020d0e'),
    'lines-cut': bytes([LINES]) + struct.pack('<Q', 2) + b'\xf0\x0a',
    'lines-endless-number': bytes([LINES]) + struct.pack('<Q', 2) + b'\xe8' + b'\x7f' * 20,
    'lines-far': bytes([LINES]) + struct.pack('<Q', 0xffffffff) + b'\xe8\x7e\x7f\x7f\x7f\x7f\x01' * 4,
    # how, room, natives, frames
    'stack-each': bytes([STACKS, 1, 64, 5, 4, 20, 5, 20, 6, 2, 1, 1]),
    'stack-entries': bytes([STACKS, 1 | 1 << 3, 64, 5, 4, 20, 5, 20, 6, 4, 0, 1, 0, 1]),
    'stack-shims': bytes([STACKS, 1 | 2 << 3, 64, 5, 4, 20, 5, 20, 6, 5, 0, 0, 3, 0, 3]),
    'stack-entered': bytes([STACKS, 1 | 1 << 3, 64, 6, 20, 4, 20, 5, 20, 6, 2, 1, 1]),
    'stack-cut': bytes([STACKS, 0 | 1 << 3, 64, 2, 4, 20, 4, 1, 1, 1, 1]),
    'stack-early': bytes([STACKS, 1 | 1 << 3 | 1 << 5, 64, 4, 4, 5, 20, 6, 2, 1, 1]),
    'stack-torn': bytes([STACKS, 1 | 1 << 1 | 1 << 3, 64, 5, 4, 20, 5, 20, 6, 1, 0]),
    'stack-apart': bytes([STACKS, 1 | 1 << 3, 64, 2, 4, 6, 3, 1, 1, 1]),
    'stack-no-room': bytes([STACKS, 1, 2, 5, 4, 20, 5, 20, 6, 2, 1, 1]),
    'python': python(),
    'python-unknown': python(version=0x030f0000),
    'python-unconfirmed': python(uses=b'\x90' * 48),
    'python-without-types': python(without=(b'PyCode_Type',)),
    'python-linked-with-it': python(without=(b'_PyRuntime',)),
    'python-cut': python()[:-70],
    'php': php(),
    'php-unknown': php(b'API20210902,NTS'),
    'php-with-threads': php(b'API20220829,TS'),
    'php-of-another-size': php(size=1808),
    'php-cut': php()[:-70],
    'ruby': ruby(),
    'ruby-unknown': ruby((3, 4, 0)),
    'ruby-newer': newer_ruby(),
    'ruby-newer-no-pair': newer_ruby(0x4010),
    'ruby-no-pair': ruby(pair=0x4010),
    'ruby-no-variable': ruby(index=2),
    'ruby-cut': ruby()[:-70],
    'lines-of-ruby': bytes([LINES]) + struct.pack('<Q', 2) + ruby_lines(),
    'lines-of-ruby-one': bytes([LINES]) + struct.pack('<Q', 2) + ruby_lines(1, b''),
    'lines-of-ruby-cut': bytes([LINES]) + struct.pack('<Q', 2) + ruby_lines()[:140],
    'lines-of-ruby-beyond': bytes([LINES]) + struct.pack('<Q', 2) + ruby_lines(size=2**32 - 1),
    'code-of-ruby': pairs(code(name=b'block in run', width=8, table=ruby_lines()), 3),
    'threads': threads(),
    'threads-far': threads(place=5000),
    'threads-near': threads(place=100),
    'threads-no-size': threads(size=0),
    'no-file': bytes([FILES]),
}

corpus_files.write('walk', SEEDS)
