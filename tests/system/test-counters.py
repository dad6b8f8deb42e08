#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counters say what happens: test-counters.py BUILD"""

import os
import struct

from system import System, check

KINDS = 'cpu,memory,network,disk,process'
MIB = 1 << 20

# Allocates in steps and holds each for a while, then only waits.
GROWS = '''
import mmap, time
time.sleep(0.5)
held = []
for _ in range(4):
    block = mmap.mmap(-1, 16 << 20)
    for at in range(0, 16 << 20, 4096):
        block[at] = 1
    held.append(block)
    time.sleep(0.4)
'''


class Counters:
    """name -> [(seconds, value)], from a capture of this machine's byte order"""

    def __init__(self, path):
        self.values = {}
        self.pids = {}
        types = {}
        with open(path, 'rb') as file:
            data = file.read()
        at = 256
        while at < len(data):
            size, _, pid, time_ns, kind = struct.unpack_from('<HhiqB', data, at)
            if kind == 8:
                for entry in range(at + 32, at + 32 + 128 * struct.unpack_from('<H', data, at + 24)[0], 128):
                    category, name = (data[entry + start:entry + end].split(b'\0')[0].decode() for start, end in ((0, 32), (32, 64)))
                    identifier = struct.unpack_from('<I', data, entry + 116)[0]
                    types[identifier & 0xFFFFFF] = (f'{category}/{name}', identifier >> 24)
            elif kind == 9:
                for group in range(at + 32, at + 32 + 96 * struct.unpack_from('<H', data, at + 24)[0], 96):
                    for slot in range(8):
                        identifier = struct.unpack_from('<I', data, group + 4 * slot)[0]
                        if identifier:
                            name, is_double = types[identifier]
                            value = struct.unpack_from('<d' if is_double else '<q', data, group + 32 + 8 * slot)[0]
                            self.values.setdefault(name, []).append((time_ns / 1e9, value))
                            self.pids[name] = pid
            at += size

    def of_process(self, what):
        """The one counter of a process whose name begins so."""
        names = [name for name in self.values if name.startswith(f'Process/{what} (')]
        check(len(names) == 1, f'{what}: {names}')
        return self.values[names[0]]

    def last(self, name):
        return self.values[name][-1][1]


def median(series):
    return sorted(value for _, value in series)[len(series) // 2]


def record(system, name, *arguments):
    system.record(name, *arguments)
    return Counters(system.path(name))


def read_cpu_ticks():
    """Busy and idle ticks of all processors."""
    with open('/proc/stat', encoding='ascii') as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, idle


def test_burn(system, burn):
    counters = record(system, 'burn.syscap', '--counters', KINDS, '--event', 'none', '--', burn, '3')
    # Others want the processors, too: the program burns 3 s, in however much time.
    times = [time for time, _ in counters.of_process('Resident')]
    cpu = counters.of_process('CPU Percent')
    seconds = sum(value / 100 * (time - max(before for before in times if before < time)) for time, value in cpu)
    system.note(f'{len(cpu)} readings in {times[-1] - times[0]:.1f} s, median {median(cpu):.0f} %, {seconds:.2f} s in all')
    check(abs(seconds - 3) < 0.3, 'they should add up to 3 s')
    check(max(value for _, value in cpu) <= 200, f'one thread has one processor: {cpu}')


def test_machine(system):
    before = read_cpu_ticks()
    counters = record(system, 'all.syscap', '--counters', 'cpu', '--event', 'none', '-a', '-d', '2')
    after = read_cpu_ticks()
    busy, idle = after[0] - before[0], after[1] - before[1]
    measured = [value for _, value in counters.values['CPU Percent/Combined']]
    mean, expected = sum(measured) / len(measured), 100 * busy / (busy + idle)
    system.note(f'mean {mean:.1f} %, /proc/stat {expected:.1f} %')
    check(abs(mean - expected) < 15, 'they should be close')
    percentages = [value for name, series in counters.values.items() if name.startswith('CPU') for _, value in series]
    check(percentages and 0 <= min(percentages) <= max(percentages) <= 100, 'a processor is busy 0 to 100 %')
    for cpu in range(os.cpu_count()):
        check(f'CPU Percent/Total CPU {cpu}' in counters.values, f'no counter of processor {cpu}')


def test_memory(system):
    counters = record(system, 'grows.syscap', '--counters', 'memory,process', '--event', 'none', '--',
                      '/usr/bin/python3', '-c', GROWS)
    resident = [value for _, value in counters.of_process('Resident')]
    used = [value for _, value in counters.values['Memory/Used']]
    system.note(f'resident {min(resident) / MIB:.1f} to {max(resident) / MIB:.1f} MiB, used {min(used) / MIB:.0f} to {max(used) / MIB:.0f} MiB')
    # The kernel's count lags behind by some pages a processor.
    check(60 * MIB <= max(resident) - min(resident) <= 96 * MIB, '64 MiB were allocated')
    total = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    check(all(0 < value < total for value in used), 'used is more than there is')
    check(abs(used[-1] + counters.last('Memory/Available') - total) < total / 100, 'used and available are all')


def test_network(system):
    """The machine's interface, over which others may send something, too."""
    script = 'import socket\na, b = socket.socket(), socket.socket()\na.bind(("127.0.0.1", 0))\na.listen()\n' \
             'b.connect(a.getsockname())\nc, _ = a.accept()\nimport time\ntime.sleep(0.3)\n' \
             'for _ in range(64):\n    b.sendall(bytes(65536))\n    n = 0\n' \
             '    while n < 65536:\n        n += len(c.recv(65536))\n'
    counters = record(system, 'net.syscap', '--counters', 'network', '--', '/usr/bin/python3', '-c', script)
    received, sent = (counters.last(f'Network/{which} Bytes (lo)') for which in ('RX', 'TX'))
    system.note(f'{received} bytes received, {sent} sent')
    check(4 * MIB <= received <= 6 * MIB and received == sent, '4 MiB went over it')


def test_distance(system, burn):
    counters = record(system, 'ticks.syscap', '--counters', 'memory', '--', burn, '2')
    times = [time for time, _ in counters.values['Memory/Used']]
    distances = sorted(later - earlier for earlier, later in zip(times, times[1:]))
    system.note(f'{len(times)} readings, median distance {1000 * distances[len(distances) // 2]:.0f} ms')
    check(0.09 <= distances[len(distances) // 2] <= 0.15, 'the median should be 100 ms')
    check(set(counters.values) >= {'Memory/Used', 'Memory/Available', 'Memory/Swap Used'}, 'some are missing')


def main():
    system = System(6)
    burn = system.program('tests/system/burn')

    with system.case('a busy loop shows as the CPU time that it takes'):
        system.measure(test_burn, burn)
    with system.case('processors are as busy as /proc says'):
        system.measure(test_machine)
    with system.case('memory that a program allocates is in its counter and in the machine\'s'):
        system.measure(test_memory)
    with system.case('bytes on the loopback interface are counted'):
        system.measure(test_network)
    with system.case('readings come ten times a second, beside the samples'):
        system.measure(test_distance, burn)
    with system.case('what was not asked for is not there'):
        counters = record(system, 'none.syscap', '--', burn, '0.2')
        check(all(name.startswith('Sonde/') for name in counters.values), f'{set(counters.values)}')

    system.finish()


main()
