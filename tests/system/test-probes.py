#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The probes of libsonde-memory.so, traced by the kernel's uprobes: test-probes.py BUILD

Samples, weights and ends of blocks are as many as they should be, in 64-bit and 32-bit programs, and none are there unless somebody
asks and somebody traces.
"""

import ctypes
import math
import mmap
import os
import re
import struct
import subprocess
import sys
import tempfile

from system import PERF_EVENT_OPEN, Fault, System, check

WIDE = 'shared-ring/collector/memory/libsonde-memory.so'
NARROW = 'shared-ring/collector/memory/i386/libsonde-memory.so'
PMU = '/sys/bus/event_source/devices/uprobe/type'
# As perf counts them, and as each is called.
REGISTERS = ['ax', 'bx', 'cx', 'dx', 'si', 'di']
RING_PAGES = 1024
N_TIMES, MEAN = 100, 16384
SIZES = range(1, 1001)
KEPT = 777


def read_notes(library):
    """{name: (offset in the file of the site, of the semaphore, numbers of the arguments' registers)}"""
    segments = [tuple(int(word, 16) for word in match) for match in
                re.findall(r'^ +LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)', subprocess.check_output(['readelf', '-lW', library], text=True), re.M)]
    text = subprocess.check_output(['readelf', '-nW', library], text=True)
    pattern = r'Provider: otel_memory\s+Name: (\w+)\s+Location: (\w+), Base: \w+, Semaphore: (\w+)\s+Arguments: (.*)'

    def offset(address):
        return next(address - start + at for at, start, size in segments if start <= address < start + size)

    return {name: (offset(int(place, 16)), offset(int(semaphore, 16)), [REGISTERS.index(word) for word in re.findall(r'%[er](\w+)', arguments)])
            for name, place, semaphore, arguments in re.findall(pattern, text)}


class Probe:
    """One site, in one process."""

    def __init__(self, library, offset, semaphore, pid):
        self.path = ctypes.create_string_buffer(os.path.realpath(library).encode())
        with open(PMU, encoding='ascii') as file:
            kind = int(file.read())
        # type, size; config; sample_period; sample_type: registers; read_format; flags; wakeup; bp_type; config1; config2
        attributes = struct.pack('<IIQQQQQIIQQQQ40x', kind, 128, semaphore << 32, 1, 1 << 12, 0, 0, 0, 0, ctypes.addressof(self.path), offset,
                                 0, (1 << len(REGISTERS)) - 1)
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.syscall(PERF_EVENT_OPEN[os.uname().machine], ctypes.create_string_buffer(attributes, 128), pid, -1, -1, 8)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.ring = mmap.mmap(self.fd, (RING_PAGES + 1) * mmap.PAGESIZE)

    def read(self):
        """The registers of each hit; the descriptor and the ring go."""
        head = struct.unpack_from('<Q', self.ring, 1024)[0]
        check(head < RING_PAGES * mmap.PAGESIZE, f'{head} bytes of samples', Fault)
        records = self.ring[mmap.PAGESIZE:mmap.PAGESIZE + head]
        at, hits = 0, []
        while at < head:
            kind, _, size = struct.unpack_from('<IHH', records, at)
            if kind == 9:
                hits.append(struct.unpack_from(f'<{len(REGISTERS)}Q', records, at + 16))
            at += size
        self.ring.close()
        os.close(self.fd)
        return hits


def trace(system, library, program, names, *arguments, **variables):
    """Runs it; [arguments of each hit] for each probe."""
    notes = read_notes(library)
    check(set(notes) == {'alloc', 'free'}, f'{library} has the probes {sorted(notes)}')
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.read(ready, 1)
        os.execve(program, [program, *(arguments or (str(N_TIMES),))], {'LD_PRELOAD': os.path.abspath(library), **variables})
    os.close(ready)
    try:
        probes = {name: Probe(library, *notes[name][:2], pid) for name in names}
    finally:
        os.close(go)
        status = os.waitpid(pid, 0)[1]
    check(status == 0, f'{program}: wait status {status}', Fault)
    return {name: [[hit[register] for register in notes[name][2]] for hit in probe.read()] for name, probe in probes.items()}


def test_samples(system, library, program, **variables):
    hits = trace(system, library, program, ('alloc', 'free'), SONDE_MEMORY_PROBES=str(MEAN), **variables)
    expected = N_TIMES * sum(1 - math.exp(-size / MEAN) for size in SIZES)
    n_bytes = N_TIMES * sum(SIZES)
    weight = sum(weight for _, _, weight in hits['alloc'])
    system.note(f"{len(hits['alloc'])} samples, {expected:.0f} expected; they stand for {weight} bytes of {n_bytes}")
    check(abs(len(hits['alloc']) - expected) < 5 * math.sqrt(expected), 'samples')
    check(abs(weight - n_bytes) < 5 * math.sqrt(n_bytes * MEAN), 'weights')
    check(all(size in SIZES and address != 0 and weight % MEAN == 0 for address, size, weight in hits['alloc']), hits['alloc'][:9])
    n_kept = sum(size == KEPT for _, size, _ in hits['alloc'])
    check(len(hits['free']) == len(hits['alloc']) - n_kept, f"{len(hits['free'])} ends, {n_kept} were kept")
    check({address for address, in hits['free']} <= {address for address, _, _ in hits['alloc']}, 'ends of other blocks')


def test_beacon(system, library, program):
    """Where a service could call it, as on each machine that has one."""
    with tempfile.NamedTemporaryFile() as page:
        page.write(bytes(mmap.PAGESIZE))
        page.flush()
        test_samples(system, library, program, SONDE_BEACON=page.name)


def test_silence(system, library, program):
    hits = trace(system, library, program, ('alloc', 'free'))
    check(hits == {'alloc': [], 'free': []}, 'nobody had asked')
    for wish in ('0', '', 'x', '-1', '99999999999999999999999999', '9223372036854775807'):
        hits = trace(system, library, program, ('alloc', 'free'), SONDE_MEMORY_PROBES=wish)
        check(hits == {'alloc': [], 'free': []}, f'{wish!r} asks for nothing')


def test_child(system, library, program):
    """A child has its parent's probes, which nobody traces there."""
    script = ('import os\n'
              'blocks = [bytes(3000) for _ in range(1000)]\n'
              'pid = os.fork()\n'
              'if pid == 0:\n'
              '    blocks = [bytes(3000) for _ in range(1000)]\n'
              '    os._exit(0)\n'
              'raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n')
    hits = trace(system, library, sys.executable, ('alloc', 'free'), '-c', script, SONDE_MEMORY_PROBES='1024', PYTHONMALLOC='malloc')
    check(len(hits['alloc']) > 500, f"{len(hits['alloc'])} samples")


def test_one(system, library, program):
    """A block that nobody was told of has no end."""
    hits = trace(system, library, program, ('free',), SONDE_MEMORY_PROBES=str(MEAN))
    check(hits == {'free': []}, f"{len(hits['free'])} ends")


def main():
    system = System(6)
    wide = system.program(WIDE), system.program('tests/system/blocks')
    narrow = system.program(NARROW), system.program('tests/system/blocks-32-bit')
    obstacle = None if os.path.exists(PMU) else 'this kernel has no uprobes'
    if not obstacle and os.uname().machine != 'x86_64':
        obstacle = 'its registers are x86-64\'s'
    missing = None if os.path.exists(narrow[0]) else 'no compiler for 32-bit programs was there'
    for name, test, programs in (('who asks gets samples, with weights, and their ends', test_samples, wide),
                                 ('so it is where there is a beacon', test_beacon, wide),
                                 ('nobody is told who does not ask', test_silence, wide),
                                 ('who traces ends alone gets none', test_one, wide),
                                 ('children of who is traced live', test_child, wide),
                                ('in a 32-bit program, too', test_samples, narrow)):
        why = obstacle or (missing if programs is narrow else None)
        if why:
            system.skip(name, why)
            continue
        with system.case(name):
            test(system, *programs)
    system.finish()


if __name__ == '__main__':
    main()
