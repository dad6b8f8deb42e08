# SPDX-License-Identifier: LGPL-2.1-or-later
"""A second reader of captures, written from docs/protocol.md alone, so that ours has a witness."""

import bisect
import collections
import struct

HEADER_BYTES = 256
FRAME_BYTES = 24
NAMES = {1: 'TIMESTAMP', 2: 'SAMPLE', 3: 'MAP', 4: 'PROCESS', 5: 'FORK', 6: 'EXIT', 7: 'JITMAP',
         8: 'CTRDEF', 9: 'CTRSET', 10: 'MARK', 11: 'METADATA', 12: 'LOG', 13: 'FILE_CHUNK',
         14: 'ALLOCATION', 15: 'OVERLAY'}
JIT_BASE = 0xE000000000000000
HEAP_LOG, HEAP_LABEL_MAGIC = 'sonde/heap.v1.zst', 0x184D2A53
# Of the ledger, and the ends of stacks that are not whole.
LOSSES = ('lost-kernel', 'lost-ring', 'lost-queue', 'stream-lost', 'stream-samples-lost')
MARKERS = ('[stack truncated]', '[frame pointers end]', '[no unwind data]', '[unwind error]', '[depth limit]')
CONTEXTS = 0xFFFFFFFFFFFFF001  # PERF_CONTEXT_* and above: markers, not addresses

Sample = collections.namedtuple('Sample', 'cpu pid tid time_ns addresses')


def c_string(data):
    return data.split(b'\0', 1)[0].decode('utf-8', 'replace')


def count_samples(path):
    """In what there is of a capture that is being written; none where there is nothing yet."""
    try:
        with open(path, 'rb') as file:
            data = file.read()
    except FileNotFoundError:
        return 0
    at, n_samples = HEADER_BYTES, 0
    while at + FRAME_BYTES <= len(data):
        length = struct.unpack_from('<H', data, at)[0]
        if length < FRAME_BYTES:
            raise ValueError(f'{path} is broken at {at}')
        n_samples += at + length <= len(data) and NAMES.get(data[at + 16]) == 'SAMPLE'
        at += length
    return n_samples


class Meanings:
    """What each sample says to a reader who knows only what came before it in the capture: the name
    of its process, and for each address its place in a file or its made-up name."""

    def __init__(self):
        self.names = {}                             # pid: name
        self.maps = collections.defaultdict(list)   # pid: (begin, end, offset, path), in their order
        self.of_samples = []

    def take(self, kind, pid, frame, jit_names):
        if kind == 'PROCESS':
            self.names[pid] = c_string(frame[24:])
        elif kind == 'MAP':
            begin, end, offset, _ = struct.unpack_from('<4Q', frame, FRAME_BYTES)
            self.maps[pid].append((begin, end, offset, c_string(frame[56:])))
        elif kind == 'FORK':
            child = struct.unpack_from('<i', frame, FRAME_BYTES)[0]
            if pid in self.names and child not in self.maps:
                self.names[child] = self.names[pid]
                self.maps[child] = list(self.maps[pid])
        elif kind == 'SAMPLE':
            n_addresses = struct.unpack_from('<H', frame, FRAME_BYTES)[0]
            addresses = struct.unpack_from(f'<{n_addresses}Q', frame, 32)
            self.of_samples.append((self.names.get(pid), *(
                jit_names.get(address) or self._place(pid, address)
                for address in addresses if address < CONTEXTS)))

    def _place(self, pid, address):
        """Of two mappings that overlap the newer one holds."""
        for begin, end, offset, path in reversed(self.maps[pid]):
            if begin <= address < end:
                return f'{path}+{address - begin + offset:x}'
        return None


class Capture:
    """Everything in memory: counts (by type name), samples, ledger, names for addresses, and on
    demand the meaning of each sample."""

    def __init__(self, path, with_meanings=False):
        self.path = path
        with open(path, 'rb') as file:
            data = file.read()
        magic, version, little_endian = struct.unpack_from('<IBB', data)
        if (magic, version, little_endian) != (0xFDCA975E, 1, 1):
            raise ValueError(f'{path} is no capture of this machine')
        self.counts = collections.Counter()
        self.meanings = Meanings() if with_meanings else None
        self.n_logged = 0  # events of the heap log
        self.samples = []
        self.logs = []  # texts
        self.log_times = []  # of these, ns
        # {pid: number}: the exits of each, and whom each has made; a thread counts as its process
        self.tasks = {'FORK': collections.Counter(), 'EXIT': collections.Counter()}
        self.processes = []  # (pid, name), once for each PROCESS frame
        self.jit_names = {}
        self.counters = {}  # id: name
        self.ledger = {}    # name: value
        self.files = collections.defaultdict(bytes)
        at = HEADER_BYTES
        while at < len(data):
            length, cpu, pid, time_ns, kind = struct.unpack_from('<HhiqB', data, at)
            if length < FRAME_BYTES or length % 8 or at + length > len(data):
                raise ValueError(f'{path} is broken at {at}')
            self._take(NAMES[kind], cpu, pid, time_ns, data[at:at + length])
            at += length
        self._read_symbols(self.files.get('__symbols__', b''))

    def _take(self, kind, cpu, pid, time_ns, frame):
        self.counts[kind] += 1
        if self.meanings:
            self.meanings.take(kind, pid, frame, self.jit_names)
        if kind == 'SAMPLE':
            n_addresses, _, tid = struct.unpack_from('<HHi', frame, FRAME_BYTES)
            addresses = struct.unpack_from(f'<{n_addresses}Q', frame, 32)
            self.samples.append(Sample(cpu, pid, tid, time_ns, addresses))
        elif kind == 'PROCESS':
            self.processes.append((pid, c_string(frame[FRAME_BYTES:])))
        elif kind == 'LOG':
            self.logs.append(c_string(frame[64:]))
            self.log_times.append(time_ns)
        elif kind in self.tasks:
            self.tasks[kind][pid] += 1
        elif kind == 'JITMAP':
            at = 28
            for _ in range(struct.unpack_from('<I', frame, FRAME_BYTES)[0]):
                name = c_string(frame[at + 8:])
                self.jit_names[struct.unpack_from('<Q', frame, at)[0]] = name
                at = frame.index(b'\0', at + 8) + 1
        elif kind == 'CTRDEF':
            for at in range(32, 32 + 128 * struct.unpack_from('<H', frame, FRAME_BYTES)[0], 128):
                if c_string(frame[at:at + 32]) == 'Sonde':
                    identifier = struct.unpack_from('<I', frame, at + 116)[0] & 0xFFFFFF
                    self.counters[identifier] = c_string(frame[at + 32:at + 64])
        elif kind == 'CTRSET':
            for at in range(32, 32 + 96 * struct.unpack_from('<H', frame, FRAME_BYTES)[0], 96):
                group = struct.unpack_from('<8I8q', frame, at)
                self.ledger.update((self.counters[identifier], value)
                                   for identifier, value in zip(group[:8], group[8:])
                                   if identifier in self.counters)
        elif kind == 'FILE_CHUNK':
            size = struct.unpack_from('<H', frame, 26)[0]
            self.files[c_string(frame[28:284])] += frame[284:284 + size]
            label = struct.unpack_from('<4I', frame, 284) if size >= 16 else (0,)
            if c_string(frame[28:284]) == HEAP_LOG and label[0] == HEAP_LABEL_MAGIC:
                self.n_logged += label[2]

    def made_by(self, name):
        """FORK frames of the processes that were called so, by command line or alone, when they were last named."""
        pids = {pid for pid, process in self.processes if process.split(' ')[0].rpartition('/')[2] == name}
        return sum(count for pid, count in self.tasks['FORK'].items() if pid in pids)

    def _read_symbols(self, data):
        """Records sorted by (pid, begin), ended by zeroes, with offsets of strings."""
        self._begins = collections.defaultdict(list)
        self._symbols = collections.defaultdict(list)
        for record in struct.iter_unpack('<QQIIII', data[:len(data) // 32 * 32]):
            begin, end, pid, name, _, _ = record
            if not any(record):
                break
            self._begins[pid].append(begin)
            self._symbols[pid].append((end, c_string(data[name:name + 4096])))

    def name(self, pid, address):
        """Of the function at address, or None. Kernel functions have pid 0 or are JIT names."""
        if address >= JIT_BASE and address in self.jit_names:
            return self.jit_names[address]
        for owner in (pid, 0):
            index = bisect.bisect_right(self._begins[owner], address) - 1
            if index >= 0 and address <= self._symbols[owner][index][0]:
                return self._symbols[owner][index][1]
        return None

    def stack(self, sample):
        """Names, leaf first; None where there is none. A return address names its call."""
        names = []
        is_leaf = True
        for address in sample.addresses:
            if address >= CONTEXTS:
                is_leaf = True
                continue
            is_call = not is_leaf and address < JIT_BASE
            names.append(self.name(sample.pid, address - 1 if is_call else address))
            is_leaf = False
        return names

    def ledger_faults(self):
        """Sums that do not come out, as sentences."""
        ledger, faults = self.ledger, []
        for left, right in (
                (('produced',), ('recorded', 'lost-kernel', 'lost-ring', 'lost-queue')),
                (('events-produced',), ('events-recorded', 'events-lost-ring', 'events-refused')),
                (('events-recorded',), ('stream-events', 'stream-events-lost', 'stream-events-filtered',
                                        'stream-events-before')),
                (('stream-recorded', 'stream-resent'),
                 ('stream-delivered', 'stream-lost', 'stream-filtered')),
                (('recorded',), ('stream-samples', 'stream-samples-lost',
                                 'stream-samples-filtered', 'stream-samples-before'))):
            if sum(ledger[key] for key in left) != sum(ledger[key] for key in right):
                faults.append(' + '.join(left) + ' is not ' + ' + '.join(right) + f': {ledger}')
        if ledger['stream-delivered'] != sum(self.counts.values()):
            faults.append(f"{ledger['stream-delivered']} frames delivered, "
                          f'{sum(self.counts.values())} are there')
        if ledger['stream-samples'] != self.counts['SAMPLE']:
            faults.append(f"{ledger['stream-samples']} samples delivered, "
                          f"{self.counts['SAMPLE']} are there")
        return faults
