# SPDX-License-Identifier: LGPL-2.1-or-later
"""Captures that ask too much of who reads them, each of at most 50 MB. By hand:
hostile_captures.py DIRECTORY [NAME...]"""

import array
import os
import random
import struct
import sys

MAX_BYTES = 50_000_000
USER = 2**64 - 512
PID = 4711


def header():
    return struct.pack('<IBBH64sqq168x', 0xFDCA975E, 1, 1, 0, b'2026-01-01T00:00:00Z', 1000, 0)


def frame(kind, body=b'', pid=PID, time=2000):
    body += b'\0' * (-(24 + len(body)) % 8)
    return struct.pack('<HhiqB7x', 24 + len(body), 0, pid, time, kind) + body


def text(value, size):
    return value.ljust(size, b'\0')


def sample(addresses, pid=PID, tid=None, time=2000):
    """@addresses: of the user's half; array or bytes"""
    stack = struct.pack('<Q', USER) + bytes(addresses)
    return frame(2, struct.pack('<HHi', len(stack) // 8, 0, pid if tid is None else tid) + stack, pid, time)


def mapping(start, end, path=b'/nowhere/lib.so', pid=PID, offset=0, inode=1):
    return frame(3, struct.pack('<4Q', start, end, offset, inode) + path + b'\0', pid)


def process(name=b'hostile', pid=PID):
    return frame(4, name + b'\0', pid)


def fork(parent, child):
    return frame(5, struct.pack('<i4x', child), parent)


def exited(pid):
    return frame(6, b'', pid)


def names(first, texts):
    return frame(7, struct.pack('<I', len(texts))
                 + b''.join(struct.pack('<Q', (0xE << 60) + first + i) + name + b'\0' for i, name in enumerate(texts)))


def allocation(address, size, addresses=b'', pid=PID, tid=None, time=2000):
    return frame(14, struct.pack('<QqiHH', address, size, pid if tid is None else tid, len(addresses) // 8, 0)
                 + bytes(addresses), pid, time)


def embedded(path, content):
    """The frames of an embedded file."""
    chunks = [content[at:at + 65000] for at in range(0, len(content), 65000)] or [b'']
    return b''.join(frame(13, struct.pack('<HH', i + 1 == len(chunks), len(chunk)) + text(path, 256) + chunk)
                    for i, chunk in enumerate(chunks))


def addresses(numbers):
    return array.array('Q', numbers).tobytes()


def random_addresses(source, n):
    """Anywhere in the user's half."""
    found = array.array('Q')
    found.frombytes(source.randbytes(8 * n))
    return array.array('Q', [number >> 17 for number in found]).tobytes()


def repeat(make, n):
    """@make(i) for the first @n, or as many as fit."""
    size = len(header())
    for i in range(n):
        made = make(i)
        size += len(made)
        if size > MAX_BYTES - 1_000_000:
            return
        yield made


# --- stacks ---

def random_stacks():
    """700 stacks of 8,000 addresses each, none of which comes again"""
    source = random.Random(1)
    yield process()
    for _ in range(700):
        yield sample(random_addresses(source, 8000))


def forked_stacks():
    """a tree that forks at each of 8,000 frames, with two addresses"""
    source = random.Random(2)
    yield process()
    for _ in range(700):
        bits = source.randbytes(1000)
        yield sample(addresses(0x1000 + (bits[i >> 3] >> (i & 7) & 1) for i in range(8000)))


def growing_stacks():
    """each stack one frame deeper than the one before: as callers of their leaves millions"""
    chain = addresses(range(0x10000, 0x10000 + 3400))
    yield process()
    for depth in range(1, 3400):
        yield sample(chain[-8 * depth:])


def tiny_samples():
    """one sample after the other, of a process of its own each"""
    body = array.array('i', [0])
    for i in repeat(lambda i: sample(b'', 10 + i), 1_200_000):
        yield i


def threads():
    """a million threads of one process"""
    yield process()
    yield from repeat(lambda i: sample(addresses([0x1000]), PID, i), 1_000_000)


# --- processes and mappings ---

def processes():
    """200,000 processes, with a name and a sample"""
    yield from repeat(lambda i: process(b'p%d' % i, 10 + i) + sample(addresses([0x1000 + i]), 10 + i), 200_000)


def process_names():
    """one process that goes by a million names"""
    yield from repeat(lambda i: process(b'n%d' % i) + sample(b''), 500_000)


def mappings():
    """60,000 mappings of one process, each with a sample"""
    yield process()
    for i in range(60_000):
        yield mapping(0x10000 * (i + 1), 0x10000 * (i + 2), b'/nowhere/%d.so' % i)
    order = list(range(60_000))
    random.Random(3).shuffle(order)
    for at in range(0, 60_000, 100):
        yield sample(addresses(0x10000 * (i + 1) + 8 for i in order[at:at + 100]))


def nested_mappings():
    """mappings within each other, a stack through all of them after each"""
    stack = addresses(0x10000 * i + 8 for i in range(1, 200))
    yield process()
    yield from repeat(lambda i: mapping(0x10000 + 16 * i, 0x2000000 - 16 * i, b'/nowhere/%d' % i)
                      + sample(stack), 30_000)


def long_paths():
    """paths of 60,000 bytes, and a million places in one of them"""
    source = random.Random(4)
    yield process()
    for i in range(300):
        yield mapping(0x10000 * i, 0x10000 * (i + 1), b'/%d' % i + b'x' * 60_000)
    yield mapping(1 << 40, 1 << 41, b'/' + b'y' * 60_000)
    for _ in range(300):
        yield sample(addresses((1 << 40) + source.randrange(1 << 40) for _ in range(8000)))


def fork_chain():
    """100,000 processes, each the child of the one before and with a mapping more; places in none of them"""
    source = random.Random(5)
    yield process(b'first', 10)
    for i in range(100_000):
        yield mapping(0x10000 * (i + 1), 0x10000 * (i + 1) + 0x1000, b'/nowhere/lib.so', 10 + i)
        yield fork(10 + i, 11 + i)
    for _ in range(500):
        yield sample(random_addresses(source, 8000), 10 + 100_000)


def fork_storm():
    """a process with 20,000 mappings and as many children, each with one of its own"""
    for i in range(20_000):
        yield mapping(0x10000 * (i + 1), 0x10000 * (i + 2), b'/nowhere/%d.so' % i, 10)
    yield from repeat(lambda i: fork(10, 11 + i) + mapping(0x10000, 0x20000, b'/nowhere/own.so', 11 + i)
                      + sample(addresses([0x10008, 0x30008 + 0x10000 * (i % 10_000)]), 11 + i)
                      + exited(11 + i), 150_000)


def real_files():
    """places in many of the programs and libraries of this machine"""
    found = []
    for folder in ('/usr/lib/x86_64-linux-gnu', '/usr/bin', '/usr/sbin', '/usr/lib/aarch64-linux-gnu'):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                found.append((path.encode(), os.stat(path).st_ino))
    yield process()
    for i, (path, inode) in enumerate(found[:20_000]):
        start = 0x100000000 * (i + 1)
        yield mapping(start, start + 0x80000000, path, inode=inode)
        yield sample(addresses(start + 0x1000 * k for k in range(0, 200)))


# --- names ---

def long_names():
    """names of 60,000 bytes, in stacks of thousands of frames"""
    for i in range(380):
        yield names(i, [b'%d' % i + b'\xff' * 60_000])
    yield process()
    source = random.Random(6)
    for _ in range(400):
        yield sample(addresses((0xE << 60) + source.randrange(380) for _ in range(8000)))


def many_names():
    """millions of names of a few bytes, each used"""
    yield process()
    for at in range(0, 2_400_000, 3000):
        yield names(at, [b'%x' % i for i in range(at, at + 3000)])
        yield sample(addresses((0xE << 60) + i for i in range(at, at + 1000)))


def colliding_names():
    """names that a well-known hash of texts does not tell apart"""
    yield process()
    for at in range(0, 1 << 19, 1 << 10):
        yield names(at, [bytes(c for bit in range(20) for c in ((97, 98) if i >> bit & 1 else (98, 65)))
                         for i in range(at, at + (1 << 10))])
        yield sample(addresses((0xE << 60) + i for i in range(at, at + (1 << 10))))


def symbols():
    """an embedded table whose million records overlap and share one name without an end in sight"""
    n = 800_000
    size = 32 * (n + 1)
    table = b''.join(struct.pack('<QQIIII', 0x1000 + i, 0x7fffffffffff, PID, size + i, 0, 0) for i in range(n))
    yield process()
    yield mapping(0x1000, 0x7fffffffffff)
    for at in range(0, n, 8000):
        yield sample(addresses(0x1000 + at + i for i in range(8000)))
    yield embedded(b'__symbols__', table + bytes(32) + b'x' * 10_000_000 + b'\0')


def embedded_files():
    """mounts of thousands of containers, and a file of none of them in each process"""
    line = b'%d 1 0:%d / /%d rw - overlay overlay rw,lowerdir=' + b':'.join(b'/l%d' % i for i in range(100)) + b'\n'
    for i in range(1500):
        yield embedded(b'/proc/%d/mountinfo' % (10 + i), b''.join(line % (k, k, k) for k in range(40)))
    for i in range(20_000):
        yield mapping(0x1000, 0x2000, b'/%d/lib%d.so' % (i % 40, i), 10 + i % 1500)
        yield sample(addresses([0x1008]), 10 + i % 1500)


# --- what programs tell ---

def counters():
    """hundreds of thousands of counters, and values of all of them"""
    def define(at):
        return frame(8, struct.pack('<HHI', 500, 0, 0) + b''.join(
            text(b'c%d' % (i % 7), 32) + text(b'n%d' % i, 32) + text(b'd', 52) + struct.pack('<Iq', i, 0)
            for i in range(at, at + 500)))

    def put(at):
        return frame(9, struct.pack('<HHI', 62, 0, 0) + b''.join(
            struct.pack('<8I8q', *range(at + 8 * g, at + 8 * g + 8), *range(8)) for g in range(62)))
    yield process()
    yield sample(b'', time=1000)
    for at in range(1, 300_000, 500):
        yield define(at)
    for at in range(1, 300_000, 496):
        yield put(at)
    yield sample(b'', time=3000)


def counter_values():
    """millions of values of one counter, each of another process"""
    yield frame(8, struct.pack('<HHI', 1, 0, 0) + text(b'c', 32) + text(b'n', 32) + text(b'd', 52)
                + struct.pack('<Iq', 1, 0))
    yield process()
    yield sample(b'', time=1000)
    yield from repeat(lambda i: frame(9, struct.pack('<HHI', 1, 0, 0) + struct.pack('<8I8q', *([1] * 8), *range(8)),
                                      10 + i), 350_000)
    yield sample(b'', time=3000)


def marks():
    """marks with texts of 60,000 bytes, and hundreds of thousands of short ones"""
    def mark(message, name, time):
        return frame(10, struct.pack('<q', time) + text(b'group', 24) + text(name, 40) + message + b'\0', PID, time)
    yield process()
    yield sample(b'', time=1000)
    for i in range(400):
        yield mark(b'%d' % i + b'\x01' * 60_000, b'long', 1000 + i)
    yield from repeat(lambda i: mark(b'%d' % i, b'n%d' % i, 2000 + i), 200_000)
    yield sample(b'', time=10_000_000)


def metadata():
    """a description of 60,000 bytes, and then hundreds of thousands of others"""
    yield frame(11, text(b'sonde', 40) + b'[sonde]\n' + b'k=v\n' * 15_000 + b'\0', -1)
    yield process()
    yield sample(b'')
    yield from repeat(lambda i: frame(11, text(b'id%d' % i, 40) + b'text\0', -1), 600_000)


# --- heaps ---

def allocations():
    """a million blocks that are never freed, each from a stack of its own"""
    source = random.Random(7)
    yield process()
    yield from repeat(lambda i: allocation(0x10000 + 16 * i, 1 + i % 4096,
                                           random_addresses(source, 1)), 900_000)


def deep_allocations():
    """blocks from stacks of 4,000 addresses that never come again"""
    source = random.Random(8)
    yield process()
    for i in range(1500):
        yield allocation(0x10000 + 16 * i, 64, random_addresses(source, 4000))


def zstd_block(kind, n_bytes, data, is_last=0):
    """@kind: 0 has its bytes, 1 one that is repeated"""
    return struct.pack('<I', n_bytes << 3 | kind << 1 | is_last)[:3] + data


def heap_log():
    """a heap log of 3 KiB that has 16,384 blocks, of a stack 1,000 deep"""
    blocks = 1 << 14
    columns = [b'\x02', bytes(2000), b'\xd0\x0f\x09', b'\x01\x01', b'\x03']
    yield process()
    for epoch in range(1):
        sizes = [len(column) for column in columns]
        sizes[-1] += blocks
        begin = struct.pack('<IIIIqQ6I', 1, epoch, 0, 1000, 2000, epoch * blocks, *sizes, 0) + b''.join(columns)
        packed = struct.pack('<IBI', 0xFD2FB528, 0xA0, len(begin) + blocks) + zstd_block(0, len(begin), begin)
        packed += zstd_block(1, blocks // 2, b'\0') + zstd_block(1, blocks // 2, b'\0', 1)
        label = struct.pack('<IIII', 0x184D2A53, 8, blocks, len(packed))
        yield embedded(b'sonde/heap.v1.zst', label + packed)


def heap_sums():
    """300,000 stacks 1,000 deep in each of 5 segments of sums"""
    nodes = b''.join(bytes([i & 127 | 128, i >> 7, 0]) for i in range(1000))
    stack = b'\x02\x01\xe8\x07\x00'
    stacks = stack * 1000
    yield process()
    for epoch in range(5):
        sizes = [1, len(nodes), 300_000 * len(stack), 0]
        begin = struct.pack('<6Iq5QQqqQ8Q4I', 1, epoch, 0, 1, 1, 0, 2000, *[0] * 9, *[0] * 8, *sizes) + b'\x02' + nodes
        packed = struct.pack('<IBI', 0xFD2FB528, 0xA0, len(begin) + sizes[2]) + zstd_block(0, len(begin), begin)
        packed += b''.join(zstd_block(0, len(stacks), stacks, i == 299) for i in range(300))
        label = struct.pack('<IIII', 0x184D2A53, 8, 0, len(packed))
        data = label + packed
        for at in range(0, len(data), 32_000):
            yield embedded(b'sonde/heap-sums.v1.zst', data[at:at + 32_000])


def heaps_of_forks():
    """a heap of 300,000 blocks and children that each allocate in it"""
    yield process(b'first', 10)
    for i in range(300_000):
        yield allocation(0x10000 + 16 * i, 64, pid=10)
    yield from repeat(lambda i: fork(10, 11 + i) + allocation(0x10000, 64, pid=11 + i), 100_000)


def backwards():
    """samples and blocks whose times go back, by all that a clock can"""
    yield process()
    yield from repeat(lambda i: sample(addresses([0x1000 + i % 5000]), time=2**62 - 2**43 * i)
                      + allocation(0x10000 + 16 * i, 64, time=-2**62 + 2**43 * (i % 2 * 500_000 - i)), 400_000)


def tiny_frames():
    """frames that say nothing but that somebody exited"""
    yield process()
    yield sample(b'')
    pids = array.array('i', range(1, 2_000_000))
    yield b''.join(struct.pack('<HhiqB7x', 24, 0, pid, 2000, 6) for pid in pids)


ALL = [random_stacks, processes, mappings,
       forked_stacks, growing_stacks, tiny_samples, threads, process_names, nested_mappings, long_paths, fork_chain,
       fork_storm, real_files, long_names, many_names, colliding_names, symbols, embedded_files, counters,
       counter_values, marks, metadata, allocations, deep_allocations, heap_log, heap_sums,
       heaps_of_forks, backwards, tiny_frames]


def write(make, path):
    with open(path, 'wb') as file:
        file.write(header())
        for part in make():
            file.write(part)
        assert file.tell() <= MAX_BYTES, f'{make.__name__} has {file.tell()} bytes'


if __name__ == '__main__':
    for maker in ALL:
        if len(sys.argv) < 3 or maker.__name__ in sys.argv[2:]:
            write(maker, os.path.join(sys.argv[1], maker.__name__ + '.syscap'))
