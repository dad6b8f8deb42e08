#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the targets message, worker and session: make-message-corpus.py [CORPUS]"""
import importlib
import struct

import corpus_files
import perf_records as perf

cfi = importlib.import_module('make-cfi-corpus')
frames = importlib.import_module('make-corpus')

# daemon/base/message.h
SETUP, DOCUMENT, RINGS, EVENTS, SINK, START, PROCESS, FILE, STOP, PAUSE, RESUME, REPORT, NOTE = range(1, 14)
(HELLO, RINGS_MAPPED, PROCESS_REQUEST, FILE_REQUEST, STATISTICS, DRAINED, SINK_CLOSED, FINISHED,
 FAILED) = range(101, 110)
KERNEL_TIME, KERNEL_NAMES, SYMBOLS, CHILDREN, SYSTEM, USER_STACK, CALLCHAIN, RAW_DATA = (1 << i for i in range(8))
LEAVE, COUNTERS, CONTROL, SINKS, COUNTERS_REQUEST, CONTROLS = 14, 15, 16, 110, 111, 112
MAPS, CMDLINE = 1, 2
RAW = 0x80
OWN_PID = 2**31 - 1


def packet(kind, body=b'', n_fds=0, fd_kind=0, flags=0, files=()):
    """One step of a script: tests/fuzz/packet.h"""
    return struct.pack('<BBBH', kind, n_fds | flags, fd_kind, len(body)) + body + b''.join(files)


def raw(data, n_fds=0):
    return packet(0, data, n_fds, flags=RAW)


def file(data):
    """FD_FILE and FD_RING of fuzz-worker.c"""
    return struct.pack('<H', len(data)) + data


def setup(version=1, flags=SYMBOLS | CHILDREN, unwind=0, stack=16384, depth=64, frequency=1000, period=0,
          sample_type=perf.ALL, regs=perf.REGS, event=b'cpu-clock', scope=b'targets', uid=1000, memory=0, interval=4096, wait_us=0):
    return packet(SETUP, struct.pack('<IIQIIIIQQQQQQQIIqq64s16s16s', version, flags, 1, uid, unwind, stack, depth,
                                     frequency, period, sample_type, regs, 0x14, 0, interval, memory, wait_us, 10**18, 4000, event,
                                     scope, b'0'))


def event(kind=1, cpu=0, tid=-1, flags=0, number=77):
    return struct.pack('<QiiII', number, cpu, tid, kind, flags)


def events(kind, entries, fd_kind=0, files=None, padding=0):
    files = [file(b'')] * len(entries) if files is None else [file(data) for data in files]
    return packet(kind, struct.pack('<II', 0, padding) + b''.join(entries), len(entries), fd_kind, files=files)


def document(kind, text=b'', padding=0):
    return packet(DOCUMENT, struct.pack('<II', kind, padding), 1, files=[file(text)])


def sink(number=1, kind=1, buffer=65536, frames=31, limit=0, pids=(), n_pids=None, padding=0, fd_kind=2, files=()):
    pids = list(pids) + [0] * (64 - len(pids))
    body = struct.pack('<IIIIQII64i', number, kind, buffer, frames, limit,
                       sum(pid != 0 for pid in pids) if n_pids is None else n_pids, padding, *pids)
    return packet(SINK, body, 1, fd_kind, files=files)


def process(request=0, pid=10, status=0, fds=MAPS | CMDLINE, n_fds=None, padding=0, comm=b'name', maps=b'', cmdline=b''):
    texts = [file(text) for bit, text in ((MAPS, maps), (CMDLINE, cmdline)) if fds & bit]
    body = struct.pack('<QiiQII32s', request, pid, status, 1234, fds, padding, comm)
    return packet(PROCESS, body, len(texts) if n_fds is None else n_fds, files=texts)


def answer_file(request, data=None, status=0, padding=0, n_fds=None):
    n_fds = int(data is not None) if n_fds is None else n_fds
    return packet(FILE, struct.pack('<QiI', request, status, padding), n_fds, files=[file(data or b'')] * n_fds)


def request_process(request=1, pid=10, padding=0):
    return packet(PROCESS_REQUEST, struct.pack('<QiI', request, pid, padding))


def request_file(request=1, pid=10, padding=0, ticks=0, start=0, inode=0):
    return packet(FILE_REQUEST, struct.pack('<QiIIIQQQQ', request, pid, 8, 1, padding, ticks, start, 0, inode))


def counters(kind=1, text=b'', pid=0, n_fds=1):
    return packet(COUNTERS, struct.pack('<Ii', kind, pid), n_fds, files=[file(text)] * n_fds)


def request_counters(pid=10, padding=0):
    return packet(COUNTERS_REQUEST, struct.pack('<iI', pid, padding))


def failed(error=5, padding=0, text=b'It broke'):
    return packet(FAILED, struct.pack('<iI200s', error, padding, text))


def hello(version=1):
    return packet(HELLO, struct.pack('<Ii', version, 10))


def good():
    """name → (from the worker, packet)"""
    return {
        'setup': (0, setup()), 'document': (0, document(1)), 'rings': (0, events(RINGS, [event(), event(2)])),
        'events': (0, events(EVENTS, [event(flags=3)])), 'sink': (0, sink(pids=[1, 2])),
        'sink-file': (0, sink(kind=2, limit=4096)), 'start': (0, packet(START)), 'process': (0, process()),
        'file': (0, answer_file(1, b'')), 'no-file': (0, answer_file(1, status=2)), 'stop': (0, packet(STOP)),
        'pause': (0, packet(PAUSE)), 'resume': (0, packet(RESUME)), 'report': (0, packet(REPORT)),
        'note': (0, packet(NOTE, b'A sentence')), 'counters': (0, counters()),
        'counters-of-process': (0, counters(5, pid=10, n_fds=0)), 'counters-request': (1, request_counters()),
        'hello': (1, hello()), 'rings-mapped': (1, packet(RINGS_MAPPED, struct.pack('<iIQQ', 0, 1, 4096, 4096))),
        'process-request': (1, request_process()), 'file-request': (1, request_file()),
        'statistics': (1, packet(STATISTICS)), 'drained': (1, packet(DRAINED)),
        'sink-closed': (1, packet(SINK_CLOSED, struct.pack('<Ii', 1, 0))), 'finished': (1, packet(FINISHED)),
        'failed': (1, failed()), 'control': (0, packet(CONTROL, n_fds=1)), 'controls': (1, packet(CONTROLS)),
    }


def bad():
    """Messages that the judge refuses, each for one reason."""
    return {
        'short': (0, raw(b'abcd')), 'empty': (0, raw(b'')), 'empty-with-fds': (1, raw(b'', 3)),
        'long': (0, raw(struct.pack('<II', START, 8200) + bytes(8192))),
        'size-of-header': (0, raw(struct.pack('<II', START, 16))), 'type-0': (0, raw(struct.pack('<II', 0, 8))),
        'type-14': (0, raw(struct.pack('<II', 14, 8))), 'type-200': (0, raw(struct.pack('<II', 200, 8))),
        'direction': (1, packet(START)), 'other-direction': (0, hello()),
        'size-of-type': (0, raw(struct.pack('<IIII', START, 16, 0, 0))),
        'size-of-events': (0, raw(struct.pack('<III', EVENTS, 12, 1), 1)),
        'too-few-fds': (0, packet(DOCUMENT, struct.pack('<II', 1, 0))), 'too-many-fds': (0, packet(START, n_fds=1)),
        'setup-version': (0, setup(version=2)), 'setup-flags': (0, setup(flags=256)), 'setup-unwind': (0, setup(unwind=4)),
        'setup-stack': (0, setup(stack=7)), 'setup-stack-size': (0, setup(stack=65536)), 'setup-depth-0': (0, setup(depth=0)),
        'setup-depth': (0, setup(depth=4097)), 'setup-event-open': (0, setup(event=b'x' * 64)),
        'setup-scope-open': (0, setup(scope=b'x' * 16)), 'setup-memory': (0, setup(memory=3)),
        'setup-memory-interval': (0, setup(memory=2, interval=0)), 'setup-memory-wait': (0, setup(wait_us=1000001)),
        'control-fds': (0, packet(CONTROL)), 'controls-open': (1, packet(CONTROLS, struct.pack('<II', 1, 2))),
        'events-0': (0, raw(struct.pack('<IIII', EVENTS, 16, 0, 0), 1)),
        'events-fds': (0, raw(struct.pack('<IIII', EVENTS, 40, 1, 0) + event(), 2)),
        'events-size': (0, raw(struct.pack('<IIII', EVENTS, 48, 1, 0) + event() + bytes(8), 1)),
        'events-padding': (0, events(EVENTS, [event()], padding=1)), 'events-kind': (0, events(EVENTS, [event(3)])),
        'events-cpu': (0, events(EVENTS, [event(cpu=-1)])), 'events-tid': (0, events(EVENTS, [event(tid=-2)])),
        'events-flags': (0, events(EVENTS, [event(flags=4)])),
        'document-kind': (0, document(5)), 'document-padding': (0, document(1, padding=1)),
        'document-mountinfo': (0, document(4, padding=42)), 'document-mountinfo-of-none': (0, document(4)),
        'sink-id': (0, sink(0)), 'sink-kind': (0, sink(kind=3)), 'sink-limit': (0, sink(limit=1)),
        'sink-no-limit': (0, sink(kind=2)), 'sink-frames': (0, sink(frames=32)), 'sink-n-pids': (0, sink(n_pids=65)),
        'sink-pid': (0, sink(pids=[-1])), 'sink-pid-behind': (0, sink(pids=[1], n_pids=0)),
        'process-fds': (0, process(fds=4)), 'process-n-fds': (0, process(fds=1, n_fds=2)), 'process-pid': (0, process(pid=-1)),
        'process-status': (0, process(status=-1)), 'process-padding': (0, process(padding=1)),
        'process-open': (0, process(comm=b'x' * 32)),
        'file-status': (0, answer_file(1, status=-1)), 'file-fd': (0, answer_file(1, status=0)),
        'file-fd-and-status': (0, answer_file(1, b'', status=2)), 'note-open': (0, packet(NOTE, b'x' * 200)),
        'note-control': (0, packet(NOTE, b'a\nb')), 'hello-version': (1, hello(2)),
        'process-request-id': (1, request_process(0)), 'process-request-pid': (1, request_process(pid=0)),
        'process-request-padding': (1, request_process(padding=1)), 'file-request-id': (1, request_file(0)),
        'file-request-pid': (1, request_file(pid=-1)), 'file-request-padding': (1, request_file(padding=1)),
        'counters-kind': (0, counters(6)), 'counters-kind-0': (0, counters(0)), 'counters-pid': (0, counters(5)),
        'counters-no-pid': (0, counters(1, pid=1)), 'counters-fds': (0, counters(n_fds=0)), 'counters-many-fds': (0, counters(n_fds=2)),
        'counters-request-pid': (1, request_counters(0)), 'counters-request-padding': (1, request_counters(padding=1)),
        'failed-error': (1, failed(-1)), 'failed-padding': (1, failed(padding=1)), 'failed-text': (1, failed(text=b'\xff')),
        'failed-open': (1, failed(text=b'x' * 200)),
    }


def messages():
    answers, leaves, frees = 2, 4, 8
    seeds = {name: bytes([how | answers]) + data for name, (how, data) in good().items()}
    seeds |= {'bad-' + name: bytes([how]) + data for name, (how, data) in bad().items()}
    seeds['leaves'] = bytes([1 | answers | leaves]) + hello() + packet(STATISTICS) * 3
    seeds['freed'] = bytes([1 | frees]) + hello() + packet(STATISTICS)
    seeds['turns'] = bytes([1 | leaves]) + packet(STATISTICS) * 40
    return seeds


WAIT = 0
PROGRAMS = 200  # as type of a packet, which no message has
FD_FILE, FD_RING, FD_STREAM, FD_LEFT = range(4)
MAPS_TEXT = (b'00400000-00410000 r-xp 00000000 08:01 7                 /bin/x\n'
             b'00600000-00610000 rw-p 00010000 08:01 7                 /bin/x\n'
             b'7f0000000000-7f0000010000 r-xp 00000000 08:01 8         /lib/a b.so\n'
             b'7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0         [vdso]\n')
KALLSYMS = b'ffffffff81000000 T _stext\nffffffff81000008 t do_it\nffffffffc0000000 t probe\t[mod]\n'


def wait(ms=4):
    return packet(WAIT, fd_kind=ms)


# What programs say on a control socket, and what they write into rings: say() of fuzz-worker.c
SAY_CONTROL, SAY_LINK, SAY_RING, SAY_LEAVE = range(4)
LINK_REQUEST, BELL = struct.pack('<HHI', 0x534E, 1, 1), struct.pack('<HHI', 0x534E, 1, 3)


def say(where, data):
    """One thing that the programs of a session do."""
    return packet(PROGRAMS, fd_kind=where, body=data)


def ring_request(producer=1, size=0):
    return struct.pack('<HHIIiII', 0x534E, 1, 2, producer, 7, size, 5)


def put(frames, tail=None, sequence=1):
    """Frames at the beginning of the ring's body, and a position behind them."""
    return say(SAY_RING, struct.pack('<QQ', len(frames) if tail is None else tail, sequence) + frames)


def told():
    """A frame of each type that a program may send."""
    address = 0xE << 60
    return b''.join((
        frames.frame(7, struct.pack('<IQ', 1, address) + b'name\0'),
        frames.frame(8, struct.pack('<HHI', 1, 0, 0) + frames.text(b'Sonde', 32) + frames.text(b'n', 32) + bytes(52) + struct.pack('<Iq', 7, 0)),
        frames.frame(9, struct.pack('<HHI8I8q', 1, 0, 0, 7, 9, *[0] * 6, *range(8))),
        frames.frame(10, struct.pack('<q', -1) + frames.text(b'g', 24) + frames.text(b'n', 40) + b'm\0'),
        frames.frame(12, struct.pack('<HHI', 16, 0, 0) + frames.text(b'sonde', 32) + b'line\0'),
        frames.frame(14, struct.pack('<QqiHH3Q', 0x5000, 64, 7, 3, 0, 0x400010, address, 2**64 - 128)),
        frames.frame(2, struct.pack('<HHi2Q', 2, 0, 7, 0x400010, address + 1))))


def programs(*steps, memory=0):
    return b''.join([setup(memory=memory), sink(), packet(START), packet(CONTROL, n_fds=1), *steps, wait(7), packet(STOP), wait(7)])


def session(begin, sample_records, side_records, middle, modules):
    return b''.join([
        begin, document(1, KALLSYMS), document(2, b'processor: 0\n'), document(3, b'/dev/a / ext4 rw 0 0\n'),
        document(4, b'1 0 8:1 / / rw - ext4 /dev/sda1 rw\n', 7),
        events(RINGS, [event(), event(2)], FD_RING, [sample_records, side_records]), sink(),
        events(EVENTS, [event(), event(2, flags=1)]), packet(START), packet(NOTE, b'A sentence'),
        process(maps=MAPS_TEXT, cmdline=b'x\0--fast\0'), *middle, wait(),
        *[answer_file(1 + i, data) for i, data in enumerate(modules)],
        *[answer_file(i, status=2) for i in range(1 + len(modules), 10)], wait(), packet(REPORT), packet(STOP), wait(7)])


def workers():
    samples = b''.join(data for name, data in perf.good().items() if name.startswith(('sample', 'lost', 'throttle')))
    sides = b''.join(data for name, data in perf.good().items() if not name.startswith('sample'))
    hidden = perf.mmap2(0x800000, 0x1000, b'/x', inode=9, pid=30) + perf.sample(pid=30, ip=0x800010)
    elves = [data for name, data in cfi.modules() if name in ('sections', 'table')]
    every = SYMBOLS | CHILDREN | KERNEL_TIME | KERNEL_NAMES | USER_STACK | CALLCHAIN
    seeds = {}
    for unwind, name in enumerate(('none', 'frame-pointer', 'dwarf', 'libdwfl')):
        seeds[name] = session(setup(unwind=unwind, flags=every), samples, sides, [], elves)
    seeds['system'] = session(setup(flags=every | SYSTEM, uid=0), samples, sides, [process(1, pid=30, status=3, fds=0)], elves)
    seeds['raw'] = session(setup(flags=every | RAW_DATA, unwind=2), samples, sides, [], elves)
    seeds['hidden'] = session(setup(flags=every, unwind=2), hidden, hidden, [answer_file(1, status=1)], [])
    many = b''.join(perf.good().values())
    seeds['both-rings'] = session(setup(unwind=2, flags=every | RAW_DATA), many, many, [], elves)
    seeds['unknown-mode'] = session(setup(flags=every), perf.sample(misc=0, chain=(), abi=0, stack=b'', time=perf.EARLY), b'', [], [])
    seeds['damaged'] = session(setup(), samples + bytes(8), sides + bytes(8), [], [])
    seeds['no-kallsyms'] = setup(flags=every) + document(1, b'nothing') + document(1, KALLSYMS)
    seeds['ticks'] = session(setup(), samples, sides, [wait(7)] * 16, elves)
    seeds['bad-records'] = session(setup(), b''.join(perf.bad().values()), sides, [], [])
    for name, data in perf.bad().items():
        if name.startswith(('chain', 'stack', 'mmap', 'comm')):
            seeds['bad-record-' + name] = session(setup(unwind=2, flags=every), data, data, [], [])
    seeds['paused'] = session(setup(), samples, sides, [packet(PAUSE), packet(PAUSE), wait(), packet(RESUME)], [])
    texts = [b'cpu0 1 2 3 4 5 6 7 8\n', b'MemTotal: 1 kB\nMemAvailable: 1 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n', b'lo:1 2 3 4 5 6 7 8 9\n',
             b'8 0 sda 1 2 3 4 5 6 7 8\n']
    own = b'10 (x) R 1 2 3 4 -1 5 6 7 8 9 1 5 0 0 20 0 3 0 42 9 25 1\n'
    seeds['counters'] = session(setup() + b''.join(counters(1 + i, text) for i, text in enumerate(texts)), samples, sides,
                                [counters(5, own, 10), counters(5, pid=20, n_fds=0), *[wait(7)] * 16], [])
    seeds['counters-hostile'] = session(setup() + b''.join(counters(1 + i, own) for i in range(4)), samples, sides,
                                        [counters(5, texts[0], 10), counters(5, own, 20), *[wait(7)] * 16, packet(REPORT)], [])
    link = [say(SAY_CONTROL, LINK_REQUEST), wait()]
    ring = link + [say(SAY_LINK, ring_request()), wait()]
    bell = say(SAY_LINK, BELL)
    seeds['programs'] = programs(*ring, put(told()), bell, wait(7), packet(PAUSE), packet(RESUME), say(SAY_LEAVE, b''))
    seeds['programs-sysprof'] = programs(say(SAY_CONTROL, b'CreatRing\0'), wait(), put(told()), wait(7))
    seeds['programs-memory'] = programs(*link, say(SAY_LINK, ring_request(2, 131072)), wait(), put(told()), bell, memory=2)
    seeds['programs-no-memory'] = programs(*link, say(SAY_LINK, ring_request(2)), say(SAY_LINK, ring_request(3)), wait())
    seeds['programs-size'] = programs(*link, say(SAY_LINK, ring_request(1, 5)), wait())
    seeds['programs-rubbish'] = programs(say(SAY_CONTROL, b'rubbish'), *link, say(SAY_LINK, b''), say(SAY_LINK, b'rubbish'), wait())
    seeds['programs-position'] = programs(*ring, put(b'', tail=2**40), bell)
    seeds['programs-unaligned'] = programs(*ring, put(b'', tail=4), bell)
    seeds['programs-mapping'] = programs(*ring, put(frames.frame(3, struct.pack('<4Q', 1, 2, 0, 0) + b'/x\0')), bell)
    seeds['programs-length'] = programs(*ring, put(bytes(24)), bell)
    seeds['programs-end'] = programs(*ring, put(frames.frame(10, bytes(72) + b'm\0') + struct.pack('<HhiqII', 24, -1, -1, 0, 255, 0)), bell)
    seeds['readers'] = session(setup(), samples, sides, [sink(2, pids=[10], frames=1), sink(3, fd_kind=FD_LEFT), sink(4, kind=2, limit=8192, fd_kind=FD_FILE, files=[file(b'')])], [])
    seeds['control-leaves'] = setup() + events(RINGS, [event()], FD_RING, [samples]) + sink() + packet(START)
    seeds['stop-before-start'] = setup() + sink() + packet(STOP) + wait()
    seeds['sink-after-stop'] = setup() + sink() + packet(START) + packet(STOP) + wait() + sink(2) + wait()
    seeds['start-twice'] = setup() + packet(START) + packet(START)
    seeds['setup-twice'] = setup() + setup()
    seeds['nothing-but-stop'] = packet(STOP)
    seeds['unsupported'] = setup(sample_type=2**40)
    seeds['no-time'] = setup(sample_type=perf.IP)
    seeds['sink-twice'] = setup() + sink() + sink() + packet(START) + packet(STOP) + wait()
    seeds['answers-not-asked-for'] = (setup() + events(RINGS, [event()], FD_RING, [b'']) + packet(START)
                                      + answer_file(9, b'\x7fELF') + process(9, maps=MAPS_TEXT) + packet(STOP) + wait())
    return seeds


STEP_STOP, STEP_STOP_ASYNC, STEP_PAUSE, STEP_RESUME, STEP_ABORT, STEP_OPEN, STEP_DEAF, STEP_LEAVES, STEP_GONE = range(1, 10)


def step(number):
    return packet(number)


def sessions():
    mapped = packet(RINGS_MAPPED, struct.pack('<iIQQ', 0, 1, 4096, 4096))
    live = hello() + mapped
    closed = packet(SINK_CLOSED, struct.pack('<Ii', 1, 0))
    asks = request_process(1, OWN_PID) + request_file(2, OWN_PID) + request_file(3, OWN_PID, ticks=1) + request_process(4, 1) + request_file(5, 2**31 - 2)
    drained = step(STEP_STOP_ASYNC) + packet(DRAINED)
    scripts = {
        'whole': live + asks + packet(STATISTICS) + drained + closed + packet(FINISHED) + step(STEP_GONE),
        'counters': live + request_counters(OWN_PID) + request_counters(1) + drained + packet(FINISHED),
        'paused': live + step(STEP_PAUSE) + step(STEP_PAUSE) + step(STEP_RESUME) + drained + packet(FINISHED),
        'readers': live + step(STEP_OPEN) * 17 + closed + closed + drained + step(STEP_OPEN),
        'reader-left': live + closed + packet(DRAINED) + packet(FINISHED),
        'owner-left': live + step(STEP_LEAVES) + packet(DRAINED) + asks,
        'owner-leaves-late': live + drained + step(STEP_LEAVES) + packet(FINISHED),
        'aborted': live + step(STEP_ABORT) + asks,
        'aborted-early': hello() + step(STEP_ABORT),
        'stopped-early': step(STEP_STOP_ASYNC),
        'deaf': step(STEP_DEAF) + hello(),
        'deaf-at-start': hello() + step(STEP_DEAF) + mapped,
        'deaf-later': live + step(STEP_DEAF) + asks,
        'deaf-at-stop': live + step(STEP_DEAF) + step(STEP_STOP_ASYNC),
        'deaf-delivery': live + drained + step(STEP_DEAF) + asks + packet(FINISHED),
        'deaf-at-pause': live + step(STEP_DEAF) + step(STEP_PAUSE),
        'controls': live + packet(CONTROLS, struct.pack('<II', 0, 0)) + drained + packet(FINISHED),
        'controls-not-given': live + packet(CONTROLS, struct.pack('<II', 1, 1)),
        'unknown-sink': live + packet(SINK_CLOSED, struct.pack('<Ii', 9, 0)),
        'other-version': hello(version=2),
        'sinks': live + packet(SINKS, struct.pack('<I18I', 1, 1, *[0] * 17)) + drained + packet(FINISHED),
        'sinks-none': live + step(STEP_OPEN) + packet(SINKS, struct.pack('<I18I', *[0] * 19)),
        'not-mapped': hello() + packet(RINGS_MAPPED, struct.pack('<iIQQ', 12, 0, 0, 0)),
        'mapped-badly': hello() + packet(RINGS_MAPPED, struct.pack('<iIQQ', -2**31, 0, 0, 0)),
        'failed': live + failed(),
        'failed-silently': live + failed(text=b''),
        'mapped-again': live + mapped,
        'mapped-while-stopping': live + step(STEP_STOP_ASYNC) + mapped + packet(DRAINED) + packet(FINISHED),
        'hello-twice': hello() + hello(),
        'mapped-first': mapped,
        'drained-unasked': live + packet(DRAINED),
        'finished-unasked': live + packet(FINISHED),
        'died': live + step(STEP_GONE),
        'after-the-end': live + drained + packet(FINISHED) + asks + failed(),
    }
    seeds = {f'{name}-{how}': bytes([how]) + script for name, script in scripts.items() for how in ((0, 2) if name != 'whole' else range(8))}
    return seeds


corpus_files.write('message', messages())
corpus_files.write('worker', workers())
corpus_files.write('session', sessions())
