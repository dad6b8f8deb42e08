# SPDX-License-Identifier: LGPL-2.1-or-later
"""Perf records as the kernel writes them. Source: perf_event_open(2), linux/perf_event.h"""
import struct

IP, TID, TIME, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID = 1, 2, 4, 32, 64, 128, 256, 512
REGS_USER, STACK_USER, IDENTIFIER = 0x1000, 0x2000, 0x10000
ALL = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN | REGS_USER | STACK_USER
REGS = 0xff01ff  # x86-64: ax … ip, r8 … r15
N_REGS = 17
EARLY = 1000  # before what a worker has to ask about

MMAP, LOST, COMM, EXIT, THROTTLE, UNTHROTTLE, FORK, SAMPLE, MMAP2, LOST_SAMPLES = 1, 2, 3, 4, 5, 6, 7, 9, 10, 13
SWITCH, SWITCH_CPU_WIDE = 14, 15
CALLCHAIN_DEFERRED = 22
MISC_KERNEL, MISC_USER, MISC_HYPERVISOR = 1, 2, 3
MISC_EXEC = MISC_MMAP_DATA = 1 << 13
MISC_BUILD_ID = MISC_PREEMPTED = 1 << 14
MISC_OUT = 1 << 13
CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED = 2**64 - 128, 2**64 - 512, 2**64 - 640
COOKIE = 0x100000007


def record(kind, body, misc=0, size=None):
    return struct.pack('<IHH', kind, misc, 8 + len(body) if size is None else size) + body


def trailer(time=5000, pid=10, tid=11, sample_type=ALL):
    fields = [(TID, struct.pack('<II', pid, tid)), (TIME, struct.pack('<Q', time)), (ID, bytes(8)),
              (STREAM_ID, bytes(8)), (CPU, struct.pack('<II', 1, 0)), (IDENTIFIER, struct.pack('<Q', 77))]
    return b''.join(data for bit, data in fields if sample_type & bit)


def text(value):
    return value + bytes(8 - len(value) % 8)


def side(kind, body, misc=0, **identity):
    return record(kind, body + trailer(**identity), misc)


def mmap2(start, length, path, misc=0, inode=7, prot=5, pid=10, time=5000):
    body = struct.pack('<IIQQQIIQQII', pid, pid, start, length, 0, 8, 1, inode, 0, prot, 2)
    return side(MMAP2, body + text(path), misc, time=time)


def comm(name, misc=0, pid=10, tid=10, time=5000):
    return side(COMM, struct.pack('<II', pid, tid) + text(name), misc, time=time)


def task(kind, pid, parent, time=5000):
    return side(kind, struct.pack('<IIIIQ', pid, parent, pid, parent, time))


def deferred(n_chain=None, pid=10, time=5001, chain=(CONTEXT_USER, 0x401000, 0x401004)):
    body = struct.pack('<QQ', COOKIE, len(chain) if n_chain is None else n_chain)
    return side(CALLCHAIN_DEFERRED, body + b''.join(struct.pack('<Q', address) for address in chain), time=time, pid=pid, tid=pid)


def stack_words():
    return [0x7ffe00001000 + 8 * i if i % 3 else 0x401004 + i for i in range(16)]


def sample(pid=10, time=5000, ip=0x401000, misc=MISC_USER, chain=(CONTEXT_USER, 0x401000), abi=2, stack=None,
           n_stack=None, n_valid=None, n_chain=None):
    stack = struct.pack('<16Q', *stack_words()) if stack is None else stack
    body = struct.pack('<QQIIQIIQ', 77, ip, pid, pid, time, 1, 0, 1000000)
    body += struct.pack('<Q', len(chain) if n_chain is None else n_chain)
    body += b''.join(struct.pack('<Q', address) for address in chain)
    body += struct.pack('<Q', abi)
    if abi:
        registers = [0] * N_REGS
        registers[6], registers[7], registers[8] = 0x7ffe00001010, 0x7ffe00001000, ip
        body += struct.pack('<17Q', *registers)
    body += struct.pack('<Q', len(stack) if n_stack is None else n_stack) + stack
    if stack:
        body += struct.pack('<Q', len(stack) if n_valid is None else n_valid)
    return record(SAMPLE, body, misc)


def good():
    return {
        'sample': sample(),
        'sample-kernel': sample(misc=MISC_KERNEL, ip=0xffffffff81000010,
                                chain=(CONTEXT_KERNEL, 0xffffffff81000010, CONTEXT_USER, 0x401000)),
        'sample-guest': sample(misc=MISC_HYPERVISOR, time=EARLY),
        'sample-kernel-thread': sample(misc=MISC_KERNEL, abi=0, stack=b'', chain=(CONTEXT_KERNEL, 0xffffffff81000010)),
        'sample-32-bit': sample(abi=1),
        'sample-cut-stack': sample(n_valid=8),
        'sample-deferred': sample(n_valid=8, chain=(CONTEXT_USER_DEFERRED, COOKIE)),
        'sample-deferred-chain': deferred(),
        'mmap2': mmap2(0x400000, 0x10000, b'/bin/x'),
        'mmap2-build-id': mmap2(0x400000, 0x10000, b'/bin/x', misc=MISC_BUILD_ID),
        'mmap2-data': mmap2(0x400000, 0x10000, b'/bin/x', prot=1),
        'mmap': side(MMAP, struct.pack('<IIQQQ', 10, 10, 0x500000, 0x1000, 0) + text(b'//anon')),
        'mmap-data': side(MMAP, struct.pack('<IIQQQ', 10, 10, 0x500000, 0x1000, 0) + text(b'//anon'), MISC_MMAP_DATA),
        'comm': comm(b'name', time=EARLY),
        'exec': comm(b'other', MISC_EXEC, time=EARLY),
        'fork': task(FORK, 20, 10, EARLY),
        'exit': task(EXIT, 20, 10, EARLY),
        'lost': side(LOST, struct.pack('<QQ', 77, 3), time=EARLY),
        'lost-samples': side(LOST_SAMPLES, struct.pack('<Q', 3), time=EARLY),
        'throttle': side(THROTTLE, bytes(24), time=EARLY),
        'unthrottle': side(UNTHROTTLE, bytes(24), time=EARLY),
        'switch-on': side(SWITCH, b'', time=EARLY), 'switch-out': side(SWITCH, b'', MISC_OUT, time=EARLY),
        'switch-preempted': side(SWITCH, b'', MISC_OUT | MISC_PREEMPTED, time=EARLY),
        'switch-of-cpu': side(SWITCH_CPU_WIDE, struct.pack('<II', 666, 667), MISC_OUT, time=EARLY),
        'other': side(99, b'', time=EARLY),
    }


def bad():
    """Records that the decoder refuses, each for one reason."""
    whole = sample()
    cuts = {f'sample-cut-{n}': whole[:n] for n in (8, 16, 24, 32, 40, 48, 56, 72, 80, len(whole) - 8)}
    return cuts | {
        'size-0': record(COMM, bytes(16), size=0),
        'size-7': record(COMM, bytes(16), size=7),
        'chain': sample(n_chain=2**61 + 2),
        'abi': sample(abi=3),
        'registers': sample(abi=2)[:104],
        'stack': sample(n_stack=65528),
        'stack-unaligned': sample(n_stack=127),
        'stack-valid': sample(n_valid=136),
        'chain-deferred': deferred(n_chain=2**61 + 2),
        'switch-of-cpu-short': side(SWITCH_CPU_WIDE, bytes(4)),
        'deferred-short': side(CALLCHAIN_DEFERRED, bytes(8)),
        'mmap-short': side(MMAP, bytes(24)),
        'mmap2-short': side(MMAP2, struct.pack('<IIQQQ', 10, 10, 0x500000, 0x1000, 0)),
        'mmap-empty': side(MMAP, struct.pack('<IIQQQ', 10, 10, 0x500000, 0, 0) + text(b'x')),
        'mmap-around': side(MMAP, struct.pack('<IIQQQ', 10, 10, 2**64 - 4096, 2**63, 0) + text(b'x')),
        'mmap-open': side(MMAP, struct.pack('<IIQQQ', 10, 10, 0x500000, 0x1000, 0) + b'x' * 16),
        'comm-short': side(COMM, b''),
        'comm-open': side(COMM, struct.pack('<II', 10, 10) + b'x' * 16),
        'fork-short': side(FORK, bytes(16)),
        'lost-short': side(LOST, bytes(8)),
        'lost-samples-short': side(LOST_SAMPLES, b''),
        'trailer-short': record(COMM, bytes(24)),
    }
