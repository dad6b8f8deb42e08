#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the targets proc, counters, kallsyms, demangle, symbols, options and bus-body:
make-text-corpus.py [CORPUS]"""
import os
import struct

from gi.repository import Gio, GLib

import corpus_files

# In the order of the table in fuzz-proc.c.
PROC = {
    'maps': [
        b'00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/dbus-daemon\n', b'7ffd0000-7ffd1000 rw-p 00000000 00:00 0\n',
        b'400000-300000 r-xp 0 08:02 1 /x\n', b'400000 500000 r-xp 0 08:02 1 /x', b'g-1 r-xp 0 8:2 1', b'1-2r', b'1-2 r-x',
        b'1-2 r-xp', b'1-2 r-xp x', b'1-2 r-xp 0 8', b'1-2 r-xp 0 8:', b'1-2 r-xp 0 8:2', b'1-2 r-xp 0 8:2 x',
        b'1-2 r-xp 0 100000000:2 1', b'1-2 r-xp 0 1:100000000 1', b'0-10000000000000000 r-xp 0 8:2 1',
        b'1-2 r-xp 0 8:2 99999999999999999999', b'\n\n', b'1-2 r-xp 0 8:2 7 /a b\\012c (deleted)\n1-2 r--p 0 8:2 7 [vdso]'],
    'maps-fd': [b'1-2 r-xp 0 8:2 7 /x\n' * 8, b'no newline', b'\n'],
    'stat': [
        b'42 (name) R 1 ' + b'0 ' * 17 + b'1234 0\n', b'42 (a) R 1 (b) S 1 ' + b'0 ' * 17 + b'1234', b'42 name R', b'42 )(', b'42 (x)R 1',
        b'42 (x) R 1 2', b'42 (x) R 1 ' + b'0 ' * 17 + b'x', b'42 (x) R 1 ' + b'0 ' * 17 + b'99999999999999999999999',
        b'42 (x) R 1 ' + b'0 ' * 17 + b'12x', b'42 (' + b'n' * 80 + b') R 1 ' + b'0 ' * 17 + b'5'],
    'status': [
        b'Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t1\t1\t1\t1\nCapPrm:\t000001ffffffffff\n', b'Uid:\t1\t2\t3\t4\nGid:\t1\t2\t3\t4\nCapPrm:\t0',
        b'Uid:\t1\nGid:\t1\t1\t1\nCapPrm:\t0\n', b'Uid:\t1\t1\t1\n', b'Uid: 1', b'Uid:\t4294967296\t1\t1\n', b'Uid:\t-1\t1\t1\n',
        b'Uid:\t1\t1\t1\nGid:\t1\t1\t1\nCapPrm:\tg\n', b'Uid:\t1\t1\t1\nGid:\t1\t1\t1\nCapPrm:\t0x\n', b'Uid:\t1\t1\t1\nGid:\t1\t1\t1\nCapPrm: 0'],
    'fdinfo': [b'pos:\t0\nflags:\t02\nmnt_id:\t29\nino:\t5\n', b'mnt_id:', b'mnt_id:\tx', b'mnt_id:\t-5', b'mnt_id:\t99999999999999999999',
               b'pos:\t0'],
    'mountinfo': [
        b'29 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n30 29 0:5 / /proc rw - proc proc rw\n31 29 0:9 / /m rw - fuse.x x rw\n',
        b'5 1 0:1 / / rw - overlay overlay rw', b'5 1 0:1 / / rw - btrfs', b'5 1 0:1 / / rw', b'5 1 0:1 / / rw - ',
        b'5 1 0:1 / / rw - ' + b't' * 40, b'x', b'5', b'5x 1 - ext4 x'],
    'cpus': [b'0-3,8\n', b'0', b'', b'0-', b'3-1', b'8192', b'0-8191', b'0-8191,5', b'0,', b'0;', b'1-9999', b'99999999999999999999'],
    'cgroup': [b'0::/system.slice/a.service\n', b'0::/system.slice/a.service/b', b'0::/system.slice/a.services', b'0::/',
               b'4:memory:/x\n1:name=systemd:/system.slice/a.service\n0::/', b':name=systemd:/system.slice', b'1', b''],
    'unit': [b'cron.service', b'-.slice', b'a@b.scope', b'.service', b'x.timer', b'a/b.service', b'a' * 300 + b'.service', b''],
}

# In the order of the table in fuzz-counters.c.
CPU = b'cpu0 1 2 3 4 5 6 7 8 9 10\n'
DISK = b'8 0 sda 1 2 3 4 5 6 7 8\n'
PROCESS = b' R 1 2 3 4 -1 5 6 7 8 9 150 50 0 0 20 0 3 0 4242 999999 25 18446744073709551615\n'
COUNTERS = {
    'cpu': [
        b'cpu  1 2 3 4 5 6 7 8 9 10\n' + CPU + b'intr 5 6\n' + CPU, CPU[:-1], b'cpu8191' + CPU[4:], b'cpu8192' + CPU[4:], b'cpu-1' + CPU[4:],
        b'cpu0 1 2 3\n' + CPU, b'cpu0 1 2 3 -4 5 6 7 8\n', b'cpu0 1 2 3x 4 5 6 7 8\n', b'cpu0 18446744073709551616 2 3 4 5 6 7 8\n',
        b'cpu0 18446744073709551615 1 3 4 5 6 7 8\n', b'cpu0 1 2 3 18446744073709551615 1 6 7 8\n', b'cpu\n\ncpu', b''],
    'memory': [
        b'MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\nSwapTotal: 3 kB\nSwapFree: 1 kB\n', b'MemTotal: 9 kB\n',
        b'MemTotal: x\nMemAvailable: 5\nSwapTotal: 3\nSwapFree: 1\n',
        b'MemTotal: 18014398509481984\nMemAvailable: 5\nSwapTotal: 3\nSwapFree: 1\n', b'MemTotal:', b''],
    'network': [
        b'Inter-| Receive |\n face |bytes |\n    lo: 1 2 3 4 5 6 7 8 9 10\neth0:1 2 3 4 5 6 7 8 9\n', b' :1 2 3 4 5 6 7 8 9\n',
        b'eth0:1 2 3\n', b'n' * 70 + b':1 2 3 4 5 6 7 8 9\n', b'eth0: 1 2 3 4 5 6 7 8 99999999999999999999\n', b'a:b:1 2 3 4 5 6 7 8 9\n', b':'],
    'disk': [DISK + DISK[:-1], b'8 0\n', b'8 0 sda\n', b'8 0 sda 1 2\n', b'8 sda 1 2 3 4 5 6 7\n', b'8 0 sda 1 2 36028797018963968 4 5 6 7\n',
             b'8 0 ' + b'n' * 70 + DISK[7:], b'\n'],
    'process': [
        b'77 (a)' + PROCESS, b'77 (a) R 1 (b' + PROCESS, b'77 (a\nb)' + PROCESS, b'77 ()' + PROCESS, b'77 (' + b'n' * 70 + b')' + PROCESS,
        b')(\n', b'77 (a)\n', b'77 (a) R 1 2\n', b'77 (a)' + PROCESS.replace(b' 150', b' -150'),
        b'77 (a)' + PROCESS.replace(b' 150', b' 18446744073709551614'), b'77 (a)' + PROCESS[:-1]],
}

KALLSYMS = {
    'usual': b'ffffffff81000000 T _stext\nffffffff81000000 t _text\nffffffff81000010 W weak\nffffffff81000020 d data\n'
             b'ffffffffc0000000 t probe\t[mod]\n',
    'hidden': b'0000000000000000 T _stext\n0000000000000000 T x\n', 'no-text': b'ffffffff81000000 D data\n', 'empty': b'',
    'no-number': b'xyz T a\n', 'sign': b'-1 T a\n+1 T a\n 1 T a\n\t1 T a\n', 'overflow': b'11111111111111111 T a\n',
    'no-type': b'1\n1 \n1 T\n1 T \n1 Tx\n1Tx\n', 'no-name': b'1 T \tx\n', 'long-line': b'1 T ' + b'n' * 1100 + b'\n2 T b\n',
    'no-newline': b'1 T a\n2 T b', 'no-lines': b'n' * 65536 + b'\n1 T a\n', 'nul': b'1 T a\0b\n2 T b\n', 'only-newlines': b'\n' * 9,
    'many': b''.join(b'%x T f%d\n' % (4096 + i * 16, i) for i in range(5000)),
}

NAMES = {
    'plain': b'main', 'function': b'_ZN3foo3barEi', 'template': b'_ZNSt6vectorIiSaIiEE9push_backEOi', 'type': b'i',
    'substitutions': b'_Z1fN1aES_S0_S1_S_', 'parameters': b'_Z1fIiET_S0_T0_', 'lambda': b'_ZZ4mainENKUlvE_clEv',
    'doubling': b'_Z1fPFvPFvvEE' + b''.join(b'PFvS%d_S%d_E' % (i, i) for i in range(9)), 'not-a-name': b'_Z', 'cut': b'_ZN3foo3ba',
    'long': b'_Z' + b'1a' * 2500, 'deep': b'_Z1f' + b'P' * 2000 + b'i', 'high-substitution': b'_Z1fSZZZZ_S_',
    'nul': b'_Z1f\0v', 'nested': b'_Z1f' + b'FvN1aE' * 100,
    'rust': b'_RINvYNtC3std5StateNtC4core6hasherE8hash_oneRNtC5alloc6StringE', 'rust-empty-name': b'_RNvC0_3bar',
    'rust-lifetimes': b'_RNvXIC1aFGzzzzzzzz_EuEuC1b1c', 'rust-lifetimes-in-a-name': b'_RINvC1a11FGzzzzzzzzz1bXB7_uB2_E',
    'rust-everything': b'_RINvMs_C1aAhj10_1bL_Kjna_Kp_FG_UKCRL_eQaEuDG_NtC1a1tp1buEL_TPaObSce' + b'EC1c',
    'rust-impl': b'_RNvXs0_C1aNtB5_1bNtNtC4core4hash4Hash3fmt.llvm.12', 'rust-itself': b'_RNvB_1a', 'rust-loop': b'_RNvYB_B_1a',
}


def elf(tables, sections=None, n_sections=None, link=2, entry_size=24, flags=0, header_size=64, phdr_size=56, name_type=3,
        table_type=2, loads=((1, 5, 0x100, 0x1000, 0x100),), strings=b'\0main\0other\0$x\0.Llabel\0_start\0'):
    """.symtab, .strtab and .text; tables: symbols as (name, info, section, value, size)"""
    segments = b''.join(struct.pack('<IIQQQQQQ', kind, rights, offset, vaddr, vaddr, size, size, 4096)
                        for kind, rights, offset, vaddr, size in loads)
    symbols = b''.join(struct.pack('<IBBHQQ', name, info, 0, section, value, size)
                       for name, info, section, value, size in tables)
    at = 64 + len(segments)
    body = symbols + strings
    sections_at = at + len(body) + -(at + len(body)) % 8
    headers = bytes(64) if n_sections is None else struct.pack('<IIQQQQIIQQ', 0, 0, 0, 0, 0, n_sections, 0, 0, 0, 0)
    headers += struct.pack('<IIQQQQIIQQ', 0, table_type, flags, 0, at, len(symbols), link, 0, 8, entry_size)
    headers += struct.pack('<IIQQQQIIQQ', 0, name_type, flags, 0, at + len(symbols), len(strings), 0, 0, 1, 0)
    headers += struct.pack('<IIQQQQIIQQ', 0, 1, 6, 0x1000, 0x100, 0x100, 0, 0, 16, 0)
    count = len(headers) // 64 if sections is None else sections
    file = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 3, 62, 1, 0x1000, 64, sections_at, 0, 64, phdr_size,
                                                     len(loads), header_size, count, 0)
    return (file + segments + body).ljust(sections_at, b'\0') + headers


def elf32(tables, strings=b'\0main\0other\0$x\0.Llabel\0_start\0'):
    """The same of a 32-bit program, as far as it goes."""
    symbols = b''.join(struct.pack('<IIIBBH', name, value, size, info, 0, section) for name, info, section, value, size in tables)
    at = 52 + 32
    headers = bytes(40)
    headers += struct.pack('<10I', 0, 2, 0, 0, at, len(symbols), 2, 0, 4, 16)
    headers += struct.pack('<10I', 0, 3, 0, 0, at + len(symbols), len(strings), 0, 0, 1, 0)
    headers += struct.pack('<10I', 0, 1, 6, 0x1000, 0x100, 0x100, 0, 0, 16, 0)
    file = b'\x7fELF\1\1\1' + bytes(9) + struct.pack('<HHIIIIIHHHHHH', 3, 3, 1, 0x1000, 52, at + len(symbols + strings), 0, 52, 32,
                                                     1, 40, 4, 0)
    file += struct.pack('<8I', 1, 0x100, 0x1000, 0x1000, 0x100, 0x100, 5, 4096)
    return file + symbols + strings + headers


def symbol_tables():
    function, weak, local, label, unique = 0x12, 0x22, 0x02, 0x10, 0xa2
    usual = [(0, 0, 0, 0, 0), (1, function, 3, 0x1000, 16), (6, weak, 3, 0x1000, 32), (6, local, 3, 0x1020, 0), (22, label, 3, 0x1040, 0),
             (12, label, 3, 0x1050, 0), (15, label, 3, 0x1060, 0), (6, unique, 3, 0x1080, 8), (1, 0x1a, 3, 0x10a0, 8)]
    whole = elf(usual)
    return {
        'usual': whole, 'i386': elf32(usual), 'dynsym': elf(usual, table_type=11), 'many-sections': elf(usual, sections=0, n_sections=4),
        'cut': whole[:100], 'cut-symbols': whole[:-1], 'empty': b'', 'not-elf': bytes(64), '32-bit': whole[:4] + b'\1' + whole[5:],
        'big-endian': whole[:5] + b'\2' + whole[6:], 'no-sections': elf(usual, sections=0, n_sections=0),
        'too-many-sections': elf(usual, sections=0, n_sections=2**40), 'section-size': elf(usual, header_size=40),
        'segment-size': elf(usual, phdr_size=32), 'link': elf(usual, link=9), 'entry-size': elf(usual, entry_size=16),
        'compressed': elf(usual, flags=0x800), 'not-strings': elf(usual, name_type=1), 'no-strings': elf(usual, strings=b''),
        'names-open': elf([(1, function, 3, 0x1000, 16)], strings=b'\0main'), 'no-symbols': elf([]),
        'undefined': elf([(1, function, 0, 0x1000, 16)]), 'name-outside': elf([(999, function, 3, 0x1000, 16)]),
        'data': elf([(1, 0x11, 3, 0x1000, 16)]), 'nowhere': elf([(1, function, 0xfff1, 0x5000, 0)]),
        'around': elf([(1, function, 3, 2**64 - 8, 64), (6, function, 3, 2**64 - 1, 0)]),
        'nested': elf([(1, function, 3, 0x1000, 256)] + [(6, function, 3, 0x1001 + i, 1) for i in range(40)]),
        'no-loads': elf(usual, loads=()), 'note-only': elf(usual, loads=((4, 5, 0, 0, 64),)),
        'two-loads': elf(usual, loads=((1, 4, 0, 0, 0x200), (1, 5, 0x100, 0x1000, 0x100), (1, 5, 0x180, 0x2180, 0x80))),
        'load-around': elf(usual, loads=((1, 5, 2**64 - 8, 0, 64),)),
        'many-symbols': elf([(1, function, 3, 0x1000 + i, 1) for i in range(2100)]),
    }


def dictionary(text, n_fds=0):
    value = GLib.Variant.parse(GLib.VariantType.new('a{sv}'), text, None, None)
    return bytes([n_fds]) + value.get_data_as_bytes().get_data()


GOOD_OPTIONS = {
    'nothing': ('{}', 0), 'system': ("{'system': <true>}", 0), 'launch': ("{'launch': <true>}", 0), 'pids': ("{'pids': <[uint32 1, 2]>}", 0),
    'targets': ("{'targets': <[(uint32 1, handle 0), (2, 1)]>}", 2), 'unit': ("{'unit': <'cron.service'>}", 0),
    'words': ("{'launch': <true>, 'event': <'cpu-clock'>, 'unwind': <'libdwfl'>, 'symbols': <'none'>, 'memory': <'off'>, "
              "'counters': <@as []>, 'format': <'syscap'>, 'label': <'a.b-c_D9'>}", 0),
    'numbers': ("{'launch': <true>, 'frequency': <uint32 99>, 'stack-size': <uint32 1024>, 'max-depth': <uint32 5>, "
                "'duration': <uint64 7>, 'memory-interval': <uint64 1>, 'memory-wait': <uint32 5>, 'memory-detail': <'log'>, 'buffer-size': <uint32 65536>}", 0),
    'flags': ("{'launch': <true>, 'kernel': <true>, 'raw': <true>, 'children': <false>, 'start-on-exec': <true>}", 0),
    'tracepoint': ("{'system': <true>, 'event': <'sched:sched_switch'>}", 0),
    'tracepoint-period': ("{'system': <true>, 'event': <'sched:sched_switch'>, 'period': <uint64 5>}", 0),
    'period': ("{'system': <true>, 'period': <uint64 1000000>}", 0),
    'stream': ("{'pids': <[uint32 1]>, 'frames': <['samples', 'logs']>, 'buffer-size': <uint32 65536>}", 0),
}

BAD_OPTIONS = [
    ("{'no-such-key': <1>}", 0), ("{'%s': <1>}" % ('ä' * 200), 0), ("{'system': <1>}", 0), ("{'system': <true>, 'system': <true>}", 0),
    ("{'system': <true>, 'launch': <true>}", 0), ("{'system': <false>}", 0), ("{'pids': <@au []>}", 0), ("{'pids': <[uint32 0]>}", 0),
    ("{'pids': <[uint32 4294967295]>}", 0), ("{'pids': <%s>}" % ('@au [' + '7, ' * 70 + '7]'), 0), ("{'targets': <@a(uh) []>}", 0),
    ("{'targets': <[(uint32 1, handle 0)]>}", 0), ("{'targets': <[(uint32 1, handle 1)]>}", 1), ("{'targets': <[(uint32 1, handle -1)]>}", 1),
    ("{'targets': <[(uint32 1, handle 0), (2, 0)]>}", 2), ("{'targets': <[(uint32 0, handle 0)]>}", 1), ("{'system': <true>}", 1),
    ("{'unit': <'../x'>}", 0), ("{'unit': <'-.slice'>}", 0), ("{'system': <true>, 'event': <'x'>}", 0),
    ("{'system': <true>, 'frequency': <uint32 0>}", 0), ("{'system': <true>, 'frequency': <uint32 20001>}", 0),
    ("{'system': <true>, 'period': <uint64 0>}", 0), ("{'system': <true>, 'period': <uint64 5>}", 0),
    ("{'system': <true>, 'period': <uint64 1000000>, 'frequency': <uint32 9>}", 0), ("{'system': <true>, 'unwind': <'x'>}", 0),
    ("{'system': <true>, 'stack-size': <uint32 7>}", 0), ("{'system': <true>, 'stack-size': <uint32 65288>}", 0),
    ("{'system': <true>, 'max-depth': <uint32 0>}", 0), ("{'system': <true>, 'duration': <uint64 18446744073709551615>}", 0),
    ("{'system': <true>, 'symbols': <'x'>}", 0), ("{'system': <true>, 'memory': <'x'>}", 0), ("{'system': <true>, 'memory': <'all'>}", 0),
    ("{'system': <true>, 'memory-interval': <uint64 0>}", 0), ("{'system': <true>, 'memory-wait': <uint32 4294967295>}", 0),
    ("{'system': <true>, 'counters': <['x']>}", 0), ("{'system': <true>, 'counters': <['cpu', 'disk']>}", 0),
    ("{'system': <true>, 'format': <'x'>}", 0), ("{'system': <true>, 'buffer-size': <uint32 1>}", 0), ("{'system': <true>, 'label': <''>}", 0),
    ("{'system': <true>, 'label': <'a/b'>}", 0), ("{'system': <true>, 'label': <'%s'>}" % ('a' * 65), 0),
    ("{'system': <true>, 'start-on-exec': <true>}", 0), ("{'frames': <['x']>}", 0), ("{'launch': <false>}", 0),
    ("{'targets': <[%s]>}" % ', '.join(f'(uint32 1, handle {i})' for i in range(17)), 17),
]


def options():
    seeds = {name: dictionary(*value) for name, value in GOOD_OPTIONS.items()}
    seeds |= {f'bad-{i:02}': dictionary(*value) for i, value in enumerate(BAD_OPTIONS)}
    whole = dictionary(*GOOD_OPTIONS['words'])
    seeds['cut'] = whole[:-9]
    seeds['shifted'] = whole[:20] + whole[21:]
    seeds['not-utf8'] = dictionary("{'system': <true>, 'label': <'aaaa'>}", 0).replace(b'aaaa', b'\xff\xfe\xfd\xfc')
    seeds['no-type'] = dictionary("{'system': <true>}", 0)[:-2]
    return seeds


# In the order of the table in fuzz-bus-body.c.
SIGNATURES = ('a{sv}', 'a(uh)', 'ss', 's', '', 'ybnqiuxtd', 'sog', 'h', 'v', 'a{s(av)}', 'aas', 'a{tv}')
OWN_SIGNATURE, RAW, FOREIGN, LEAVES, REPLY, SIGNAL, ERROR = 14, 15, 16, 32, 64, 128, 192
FREES = 128  # in the second byte
ENTRIES, TEXT_BYTES = 256, 16384  # of limits.h

BODIES = {
    'targets-added': ('a(uh)', '[(uint32 1, handle 0)]', 1), 'property': ('ss', "'org.sonde.Profiler1.Manager', 'Version'", 0),
    'all-properties': ('s', "'org.sonde.Profiler1.Session'", 0), 'nothing': ('', '', 0),
    'numbers': ('ybnqiuxtd', 'byte 1, true, int16 -2, uint16 3, -4, uint32 5, int64 -6, uint64 7, 8.5', 0),
    'texts': ('sog', "'a', objectpath '/b', signature 'a{sv}'", 0), 'descriptor': ('h', 'handle 0', 1),
    'variants': ('v', '<<<<(1, "x", [<2>])>>>>', 0), 'deep': ('v', '<' * 31 + '1' + '>' * 31, 0),
    'arrays': ('a{s(av)}', "{'a': ([<1>, <'b'>],), 'c': (@av [],)}", 0), 'arrays-of-arrays': ('aas', "[['a'], @as [], ['b', 'c']]", 0),
    'as-many-entries-as-may-be': ('aas', f"[{', '.join(['@as []'] * ENTRIES)}]", 0),
    'bad-one-entry-too-many': ('aas', f"[{', '.join(['@as []'] * (ENTRIES + 1))}]", 0),
    'bad-entries-of-two-arrays': ('aas', f"[{['x'] * ENTRIES}]", 0),
    'as-much-text-as-may-be': ('ss', f"'{'a' * (TEXT_BYTES - 1)}', 'b'", 0),
    'bad-one-byte-too-many': ('ss', f"'{'a' * TEXT_BYTES}', 'b'", 0),
    'bad-flood': ('a{sv}', '{%s}' % ', '.join(f"'{i}': <byte 1>" for i in range(2000)), 0),
}


def bus_message(signature, text, n_fds):
    """The bytes of a whole one, and where its body begins."""
    message = Gio.DBusMessage.new_method_call(None, '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager', 'Profile')
    message.set_serial(1)
    if text:
        comma = ',' if len(signature) == 1 or signature[0] == 'a' else ''
        message.set_body(GLib.Variant.parse(GLib.VariantType.new(f'({signature})'), f'({text}{comma})', None, None))
    if n_fds:
        null = os.open('/dev/null', os.O_RDONLY)
        message.set_unix_fd_list(Gio.UnixFDList.new_from_array([null] + [os.dup(null) for _ in range(n_fds - 1)]))
    blob = message.to_blob(Gio.DBusCapabilityFlags.UNIX_FD_PASSING)
    return blob, len(blob) - struct.unpack_from('<I', blob, 4)[0]


def bus_body(signature, text, n_fds=0, n_sent=None, flags=0):
    blob, at = bus_message(signature, text, n_fds)
    return bytes([SIGNATURES.index(signature) | flags, n_fds if n_sent is None else n_sent]) + blob[at:]


def bus_bodies():
    seeds = {f'options-{name}': bus_body('a{sv}', text.replace('@a{sv} ', ''), n_fds) for name, (text, n_fds) in GOOD_OPTIONS.items()}
    seeds |= {name: bus_body(*value) for name, value in BODIES.items()}
    options = bus_body('a{sv}', *GOOD_OPTIONS['words'])
    # Not what it says it is.
    seeds['bad-handle'] = bus_body('h', 'handle 0', 1)[:2] + struct.pack('<I', 1)
    seeds['bad-no-descriptor'] = bus_body('h', 'handle 0', 1, n_sent=0)
    seeds['bad-other-signature'] = bytes([SIGNATURES.index('a(uh)'), 0]) + options[2:]
    seeds['bad-cut'] = options[:-9]
    seeds['bad-longer'] = options + bytes(8)
    seeds['bad-length'] = options[:2] + b'\xff\xff\xff\x03' + options[6:]
    seeds['bad-padding'] = bus_body('a{tv}', '{uint64 1: <2>}').replace(bytes(4), b'\1\1\1\1', 1)
    seeds['bad-not-utf8'] = options.replace(b'a.b-c', b'\xff\xfe\xfd.c')
    seeds['bad-nul'] = options.replace(b'a.b-c', b'a\0b-c')
    seeds['bad-boolean'] = bus_body('v', '<true>')[:-4] + struct.pack('<I', 2)
    seeds['bad-path'] = bus_body('sog', "'a', objectpath '/b', signature 'a{sv}'").replace(b'/b', b'b/')
    seeds['bad-type-of-a-variant'] = bus_body('v', '<true>').replace(b'b\0', b'(\0', 1)
    seeds['bad-key-twice'] = bus_body('a{sv}', "{'system': <true>, 'system': <true>}")
    # Of services that we call.
    seeds['reply'] = bytes([OWN_SIGNATURE | REPLY, 0, 1]) + b'o' + struct.pack('<I', 2) + b'/a\0'
    seeds['bad-reply'] = bus_body('s', "'a'", flags=REPLY)
    seeds['bad-long-reply'] = bus_body('aas', f"[{['x'] * 5000}]", flags=REPLY)
    seeds['error'] = bus_body('s', "'No such unit'", flags=ERROR)
    seeds['bad-error'] = bus_body('', '', flags=ERROR)
    seeds['signal'] = bus_body('a{s(av)}', *BODIES['arrays'][1:], flags=SIGNAL)
    seeds['bad-signal'] = seeds['signal'][:-3]
    # Whole messages, other byte orders, types that no method takes.
    seeds['raw'] = bytes([RAW, 0]) + bus_message('as', "['a', 'b']", 0)[0]
    seeds['raw-no-descriptors'] = bytes([RAW, 0]) + bus_message('a(uh)', '[(uint32 1, handle 0), (2, 1)]', 2)[0]
    seeds['raw-twice'] = bytes([RAW, 0]) + 2 * bus_message('ss', "'a', 'b'", 0)[0]
    seeds['raw-no-reply'] = seeds['raw-twice'][:4] + b'\1' + seeds['raw-twice'][5:]
    seeds['raw-bad'] = bytes([RAW, 0]) + b'GET / HTTP/1.1\r\n\r\n'
    seeds['raw-leaves'] = bytes([RAW | LEAVES]) + seeds['raw'][1:]
    seeds['freed'] = bytes([seeds['property'][0], FREES]) + seeds['property'][2:]
    seeds['foreign'] = bytes([SIGNATURES.index('s') | FOREIGN, 0]) + struct.pack('>I', 1) + b'a\0'
    seeds['own-signature'] = bytes([OWN_SIGNATURE, 0, 2]) + b'at' + struct.pack('<II', 8, 0) + struct.pack('<Q', 1)
    seeds['bad-own-signature'] = bytes([OWN_SIGNATURE, 0, 2]) + b'a('
    seeds['deeper'] = bytes([OWN_SIGNATURE, 0, 33]) + b'a' * 32 + b't' + bytes(4)
    return seeds


def numbered(kinds):
    return {f'{name}-{i:02}': bytes([which]) + text
            for which, (name, texts) in enumerate(kinds.items()) for i, text in enumerate(texts)}


corpus_files.write('proc', numbered(PROC))
corpus_files.write('counters', numbered(COUNTERS))
corpus_files.write('kallsyms', KALLSYMS)
corpus_files.write('demangle', NAMES)
corpus_files.write('symbols', symbol_tables())
corpus_files.write('options', options())
corpus_files.write('bus-body', bus_bodies())
