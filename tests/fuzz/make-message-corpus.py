#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the targets message, worker, session and broker: make-message-corpus.py [CORPUS]"""
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
KERNEL_TIME, USER_STACK, CALLCHAIN, DEFERRED = (1 << i for i in range(4))
KERNEL_NAMES, SYMBOLS, CHILDREN, SYSTEM, RAW_DATA = (1 << i for i in range(16, 21))
LEAVE, COUNTERS, CONTROL, LINK, PROGRAM, PROBED, SNAPSHOT, THREADS = range(14, 22)
SINKS, COUNTERS_REQUEST, CONTROLS, INTERPRETER, PROBES, SNAPPED, THREADS_REQUEST = range(110, 117)
ASK, PROVE, SERVE, OPEN, ANNOUNCE, ADD, CLOSE, JOIN = range(201, 209)
SHEET, PROVED, OPENED, ADDED, BROKEN, TARGETS_ENDED, STUCK, JOINED = range(211, 219)  # 301 and so on: packet.h
TO_WORKER, FROM_WORKER, TO_BROKER, FROM_BROKER, ANSWER, REQUEST = range(6)  # SondeMessageWay
MAPS, CMDLINE = 1, 2
RAW, LINKED = 0x80, 0x40
OURS, NO_ERROR = 0, 2**32 - 1
OWN_PID = 2**31 - 1


def packet(kind, body=b'', n_fds=0, fd_kind=0, flags=0, files=()):
    """One step of a script: tests/fuzz/packet.h"""
    return struct.pack('<BBBH', kind, n_fds | flags, fd_kind, len(body)) + body + b''.join(files)


def raw(data, n_fds=0):
    return packet(0, data, n_fds, flags=RAW)


def file(data):
    """FD_FILE and FD_RING of fuzz-worker.c"""
    return struct.pack('<H', len(data)) + data


def asked(scope=0, event=0, tracepoint=0, switches=(1, 0, 1, 0, 0), unwind=2, stack=16384, depth=256, memory=0, counters=31, detail=0,
          trace=0, trace_depth=4096, trace_bytes=2**26, recorder_us=0, recorder_bytes=0, slow_us=0, budget=0, interpreters=0, waits=0, reserved=0, filter=b'', unit=b'', period=0, frequency=1000, duration=0, interval=4096, wait_us=0):
    """SondeAsked; switches: kernel, raw, children, start-on-exec, symbols"""
    return struct.pack('<IIQIIiiiiiIIIQQQQQQIIIIIIIIII2048s256s', scope, event, period, frequency, tracepoint, *switches, unwind, stack, depth,
                       duration, interval, trace_bytes, recorder_us, recorder_bytes, slow_us, memory, wait_us, counters, detail, trace, trace_depth, budget,
                       interpreters, waits, reserved, filter, unit)


def setup(version=OURS, flags=SYMBOLS | CHILDREN, unwind=0, depth=64, sample_type=perf.ALL, regs=perf.REGS, event=b'cpu-clock', uid=1000,
          padding=0, **options):
    """flags: those of the message, and above them what is asked for"""
    switches = [int(flags & bit != 0) for bit in (KERNEL_NAMES, RAW_DATA, CHILDREN)] + [0, int(flags & SYMBOLS != 0)]
    request = {'scope': 4 if flags & SYSTEM else 0, 'unwind': unwind, 'depth': depth, 'switches': switches, 'counters': 0} | options
    return packet(SETUP, struct.pack('<IIQII', version, flags & ~(KERNEL_NAMES | RAW_DATA | CHILDREN | SYMBOLS | SYSTEM), 1, uid, padding)
                  + asked(**request) + struct.pack('<QQQqq64s16s', sample_type, regs, 0x14, 10**18, 4000, event, b'0'))


def event(kind=1, cpu=0, tid=-1, flags=0, number=77):
    return struct.pack('<QiiII', number, cpu, tid, kind, flags)


def events(kind, entries, fd_kind=0, files=None, padding=0):
    files = [file(b'')] * len(entries) if files is None else [file(data) for data in files]
    return packet(kind, struct.pack('<II', 0, padding) + b''.join(entries), len(entries), fd_kind, files=files)


def document(kind, text=b'', pid=0):
    return packet(DOCUMENT, struct.pack('<Ii', kind, pid), 1, files=[file(text)])


def sink(number=1, kind=1, buffer=65536, frames=31, limit=0, pids=(), n_pids=None, is_last=0, fd_kind=2, files=()):
    pids = list(pids) + [0] * (64 - len(pids))
    body = struct.pack('<IIIIQII64i', number, kind, buffer, frames, limit,
                       sum(pid != 0 for pid in pids) if n_pids is None else n_pids, is_last, *pids)
    return packet(SINK, body, 1, fd_kind, files=files)


def process(request=0, pid=10, status=0, *, fds=MAPS | CMDLINE, n_fds=None, padding=0, comm=b'name', maps=b'', cmdline=b''):
    texts = [file(text) for bit, text in ((MAPS, maps), (CMDLINE, cmdline)) if fds & bit]
    body = struct.pack('<QiiQII32s', request, pid, status, 1234, fds, padding, comm)
    return packet(PROCESS, body, len(texts) if n_fds is None else n_fds, flags=LINKED if request else 0, files=texts)


def answer_file(request, data=None, status=0, padding=0, n_fds=None):
    n_fds = int(data is not None) if n_fds is None else n_fds
    return packet(FILE, struct.pack('<QiI', request, status, padding), n_fds, flags=LINKED, files=[file(data or b'')] * n_fds)


def request_process(request=1, pid=10, padding=0):
    return packet(PROCESS_REQUEST, struct.pack('<QiI', request, pid, padding))


def request_file(request=1, pid=10, kind=0, ticks=0, start=0, inode=0, device=(8, 1)):
    return packet(FILE_REQUEST, struct.pack('<QiIIIQQQQ', request, pid, *device, kind, ticks, start, 0, inode))


def counters(kind=1, text=b'', pid=0, n_fds=1):
    return packet(COUNTERS, struct.pack('<Ii', kind, pid), n_fds, files=[file(text)] * n_fds)


def request_counters(pid=10, padding=0):
    return packet(COUNTERS_REQUEST, struct.pack('<iI', pid, padding))


LAYOUT = dict(zip(('thread_data', 'thread_data_size', 'thread_data_value', 'state_frame', 'holder_frame', 'is_indirect', 'frame_size', 'frame_code',
                   'frame_caller', 'frame_at', 'is_at_index', 'frame_entry', 'entry', 'is_code_tagged', 'code_line', 'code_file', 'code_name',
                   'code_lines', 'text_length', 'text_hash', 'text_state', 'text_ascii', 'text_other', 'state_chunk',
                   'code_scope', 'scope_name', 'instruction_line', 'code_n_lines', 'state_chunk_size', 'code_body', 'code_instructions',
                   'code_size', 'code_index'),
                  (1296, 16, 8, 56, 8, 1, 72, 32, 48, 56, 0, 68, 1, 0, 72, 112, 128, 136, 16, 24, 32, 48, 72, 296, *(0,) * 9)))


def interpreter(pid=10, kind=1, padding=0, **changes):
    place = (1, 0x1000, 0x2000, 0x3000, kind, *(LAYOUT | changes).values()) if kind else (0,) * (5 + len(LAYOUT))
    return packet(INTERPRETER, struct.pack(f'<iIQQQQII4Q{1 + len(LAYOUT)}I', pid, padding,
                                           *((0, 0x400000, 0, 5, 8, 1) if kind else (0,) * 6), *place))


def probes(pid=10, notes=(0x400, 0x440), number=1, n_notes=None, more=()):
    where = (0, 0x400000, 0, 5, 8, 1) if notes else (0,) * 6
    words = [*notes, *more] + [0] * (16 - len(notes) - len(more))
    return packet(PROBES, struct.pack('<QiI4Q2I16Q', number, pid, len(notes) if n_notes is None else n_notes, *where, *words))


def probed(number=1, status=0, padding=0):
    return packet(PROBED, struct.pack('<QiI', number, status, padding))


def request_threads(pid=10, tids=(), n=None):
    return packet(THREADS_REQUEST, struct.pack('<iI', pid, len(tids) if n is None else n) + struct.pack(f'<{len(tids)}i', *tids))


def thread(tid=10, state=0, on=1000, delay=200, slices=3, time=5000):
    return struct.pack('<iIQQQq', tid, state, on, delay, slices, time)


def threads(pid=10, entries=(thread(),), n=None, more=0, status=0):
    return packet(THREADS, struct.pack('<iIIi', pid, len(entries) if n is None else n, more, status) + b''.join(entries), flags=LINKED)


def failed(error=5, padding=0, text=b'It broke'):
    return packet(FAILED, struct.pack('<iI200s', error, padding, text))


def hello(version=OURS):
    return packet(HELLO, struct.pack('<Ii', version, 10))


def link():
    return packet(LINK, n_fds=1)


def ask(version=OURS, uid=1000, owner=10, padding=0, **options):
    return packet(ASK, struct.pack('<IIiI', version, uid, owner, padding) + asked(**options))


HAS_PROOF, HAS_MAPS, HAS_PIDFD = 1, 2, 4


def targets(kind, entries=((10, HAS_PROOF | HAS_MAPS | HAS_PIDFD),), n_targets=None, n_fds=None, padding=0):
    n = sum(bin(flags & (HAS_MAPS | HAS_PIDFD)).count('1') for _, flags in entries)
    return packet(kind, struct.pack('<II', len(entries) if n_targets is None else n_targets, padding)
                  + b''.join(struct.pack('<iI', pid, flags & 0xffffffff) for pid, flags in entries), n if n_fds is None else n_fds)


def result(kind, error=NO_ERROR, text=b'', padding=0):
    return packet(kind, struct.pack('<II1024s', error, padding, text))


def stuck(uid=1000, pid=10, is_over=0, padding=0):
    return packet(STUCK, struct.pack('<IiII', uid, pid, is_over, padding))


def sheet(version=OURS, padding=0):
    return packet(SHEET, struct.pack('<IIQQ', version, padding, 31, 2**34 - 1))


def join(number=1, pid=10, padding=0, n_fds=0):
    return packet(JOIN, struct.pack('<QiI', number, pid, padding), n_fds)


def joined(number=1, status=0, padding=0):
    return packet(JOINED, struct.pack('<QiI', number, status, padding))


def snapshot(number=1, limit=2**20, fd_kind=0, n_fds=1):
    return packet(SNAPSHOT, struct.pack('<QQ', number, limit), n_fds, fd_kind, files=[file(b'')] * n_fds)


def snapped(number=1, status=0, padding=0):
    return packet(SNAPPED, struct.pack('<QiI', number, status, padding))


def good():
    """name → (way, packet)"""
    return {
        'setup': (TO_WORKER, setup()), 'document': (TO_WORKER, document(1)), 'rings': (TO_WORKER, events(RINGS, [event(), event(2)])),
        'events': (TO_WORKER, events(EVENTS, [event(flags=3)])), 'sink': (TO_WORKER, sink(pids=[1, 2])),
        'sink-file': (TO_WORKER, sink(kind=2, limit=4096)), 'start': (TO_WORKER, packet(START)), 'process': (TO_WORKER, process()),
        'file': (ANSWER, answer_file(1, b'')), 'no-file': (ANSWER, answer_file(1, status=2)), 'stop': (TO_WORKER, packet(STOP)),
        'pause': (TO_WORKER, packet(PAUSE)), 'resume': (TO_WORKER, packet(RESUME)), 'report': (TO_WORKER, packet(REPORT)),
        'note': (TO_WORKER, packet(NOTE, b'A sentence')), 'counters': (TO_WORKER, counters()),
        'probes': (REQUEST, probes()), 'probes-no-more': (REQUEST, probes(notes=(), number=0)), 'probed': (ANSWER, probed()),
        'not-probed': (ANSWER, probed(status=13)), 'interpreter': (REQUEST, interpreter()), 'interpreter-php': (REQUEST, interpreter(kind=2, frame_entry=40)), 'interpreter-ruby': (REQUEST, interpreter(kind=3, frame_entry=32)), 'interpreter-no-more': (REQUEST, interpreter(kind=0)),
        'counters-of-process': (TO_WORKER, counters(5, pid=10, n_fds=0)), 'counters-request': (REQUEST, request_counters()),
        'hello': (FROM_WORKER, hello()), 'rings-mapped': (FROM_WORKER, packet(RINGS_MAPPED, struct.pack('<iIQQ', 0, 1, 4096, 4096))),
        'process-request': (REQUEST, request_process()), 'file-request': (REQUEST, request_file()),
        'file-request-map': (REQUEST, request_file(kind=2, device=(0, 0))), 'file-request-dump': (REQUEST, request_file(kind=1, start=4096, inode=5)),
        'statistics': (FROM_WORKER, packet(STATISTICS)), 'drained': (FROM_WORKER, packet(DRAINED)),
        'sink-closed': (FROM_WORKER, packet(SINK_CLOSED, struct.pack('<Ii', 1, 0))), 'finished': (FROM_WORKER, packet(FINISHED)),
        'failed': (FROM_WORKER, failed()), 'control': (TO_WORKER, packet(CONTROL, n_fds=1)), 'controls': (FROM_WORKER, packet(CONTROLS)), 'link': (TO_WORKER, link()),
        'setup-of-broker': (FROM_BROKER, setup()), 'rings-of-broker': (FROM_BROKER, events(RINGS, [event()])), 'process-of-broker': (FROM_BROKER, process()),
        'process-answer': (ANSWER, process(1)), 'mounts-answer': (ANSWER, document(4, pid=7)), 'counters-answer': (ANSWER, counters(5, pid=10)),
        'note-answer': (ANSWER, packet(NOTE, b'A sentence')), 'ask': (TO_BROKER, ask()), 'ask-tracepoint': (TO_BROKER, ask(event=5, tracepoint=3)),
        'ask-unit': (TO_BROKER, ask(scope=3, unit=b'a.service')), 'prove': (TO_BROKER, targets(PROVE)), 'prove-nothing': (TO_BROKER, targets(PROVE, ())),
        'add': (TO_BROKER, targets(ADD, [(10, HAS_MAPS), (11, 0), (12, HAS_PROOF | HAS_PIDFD)])), 'add-many': (TO_BROKER, targets(ADD, [(1, 0)] * 16)),
        'serve': (TO_BROKER, packet(SERVE, struct.pack('<Q', 1), 1)), 'open': (TO_BROKER, packet(OPEN, b'/a.slice/a.service')),
        'announce': (TO_BROKER, packet(ANNOUNCE)), 'close': (TO_BROKER, packet(CLOSE)), 'rings-mapped-handed-on':
        (TO_BROKER, packet(RINGS_MAPPED, struct.pack('<iIQQ', 0, 1, 4096, 4096))), 'report-to-broker': (TO_BROKER, packet(REPORT)), 'sheet': (FROM_BROKER, sheet()),
        'proved': (FROM_BROKER, result(PROVED)), 'not-proved': (FROM_BROKER, result(PROVED, 1, b'No')), 'opened': (FROM_BROKER, result(OPENED)),
        'not-opened': (FROM_BROKER, result(OPENED, 7, 'weil es\u2026'.encode())), 'added': (FROM_BROKER, result(ADDED)), 'broken': (FROM_BROKER, result(BROKEN, 7, b'It broke')),
        'targets-ended': (FROM_BROKER, packet(TARGETS_ENDED)), 'stuck': (FROM_BROKER, stuck()), 'stuck-no-more': (FROM_BROKER, stuck(is_over=1)),
        'program': (TO_WORKER, packet(PROGRAM, n_fds=1)), 'join': (TO_BROKER, join()), 'joined': (FROM_BROKER, joined()),
        'not-joined': (FROM_BROKER, joined(1, 1)), 'sink-last': (TO_WORKER, sink(is_last=1)), 'snapshot': (TO_WORKER, snapshot()),
        'snapped': (FROM_WORKER, snapped()), 'not-snapped': (FROM_WORKER, snapped(1, 27)), 'ask-recorder': (TO_BROKER, ask(recorder_us=10**6, recorder_bytes=2**20)),
        'threads-request': (REQUEST, request_threads(tids=(10, 11))), 'threads-request-all': (REQUEST, request_threads()),
        'threads': (ANSWER, threads(entries=(thread(), thread(11, ord('S'))))), 'no-threads': (ANSWER, threads(entries=(), status=3)),
    }


def bad():
    """Messages that the judge refuses, each for one reason."""
    return {
        'short': (TO_WORKER, raw(b'abcd')), 'empty': (TO_WORKER, raw(b'')), 'empty-with-fds': (FROM_WORKER, raw(b'', 3)),
        'long': (TO_WORKER, raw(struct.pack('<II', START, 8200) + bytes(8192))),
        'size-of-header': (TO_WORKER, raw(struct.pack('<II', START, 16))), 'type-0': (TO_WORKER, raw(struct.pack('<II', 0, 8))),
        'type-20': (TO_WORKER, raw(struct.pack('<II', 20, 8))), 'type-200': (TO_WORKER, raw(struct.pack('<II', 200, 8))),
        'direction': (FROM_WORKER, packet(START)), 'other-direction': (TO_WORKER, hello()),
        'size-of-type': (TO_WORKER, raw(struct.pack('<IIII', START, 16, 0, 0))),
        'size-of-events': (TO_WORKER, raw(struct.pack('<III', EVENTS, 12, 1), 1)),
        'too-few-fds': (TO_WORKER, packet(DOCUMENT, struct.pack('<II', 1, 0))), 'too-many-fds': (TO_WORKER, packet(START, n_fds=1)),
        'setup-version': (TO_WORKER, setup(version=2**31)), 'setup-flags': (TO_WORKER, setup(flags=256)), 'setup-unwind': (TO_WORKER, setup(unwind=4)),
        'setup-stack': (TO_WORKER, setup(stack=7)), 'setup-stack-size': (TO_WORKER, setup(stack=65536)), 'setup-depth-0': (TO_WORKER, setup(depth=0)),
        'setup-depth': (TO_WORKER, setup(depth=4097)), 'setup-event-open': (TO_WORKER, setup(event=b'x' * 64)),
        'setup-scope': (TO_WORKER, setup(scope=5)), 'setup-memory': (TO_WORKER, setup(memory=3)),
        'setup-memory-interval': (TO_WORKER, setup(memory=2, interval=0)), 'setup-memory-wait': (TO_WORKER, setup(wait_us=1000001)),
        'control-fds': (TO_WORKER, packet(CONTROL)), 'controls-open': (FROM_WORKER, packet(CONTROLS, struct.pack('<II', 1, 2))),
        'events-0': (TO_WORKER, raw(struct.pack('<IIII', EVENTS, 16, 0, 0), 1)),
        'events-fds': (TO_WORKER, raw(struct.pack('<IIII', EVENTS, 40, 1, 0) + event(), 2)),
        'events-size': (TO_WORKER, raw(struct.pack('<IIII', EVENTS, 48, 1, 0) + event() + bytes(8), 1)),
        'events-padding': (TO_WORKER, events(EVENTS, [event()], padding=1)), 'events-kind': (TO_WORKER, events(EVENTS, [event(3)])),
        'events-cpu': (TO_WORKER, events(EVENTS, [event(cpu=-1)])), 'events-tid': (TO_WORKER, events(EVENTS, [event(tid=-2)])),
        'events-flags': (TO_WORKER, events(EVENTS, [event(flags=4)])),
        'document-kind': (TO_WORKER, document(5)), 'document-of-process': (TO_WORKER, document(1, pid=1)),
        'document-mountinfo-of-none': (TO_WORKER, document(4)),
        'sink-id': (TO_WORKER, sink(0)), 'sink-kind': (TO_WORKER, sink(kind=3)), 'sink-limit': (TO_WORKER, sink(limit=1)),
        'sink-no-limit': (TO_WORKER, sink(kind=2)), 'sink-frames': (TO_WORKER, sink(frames=32)), 'sink-n-pids': (TO_WORKER, sink(n_pids=65)),
        'sink-pid': (TO_WORKER, sink(pids=[-1])), 'sink-pid-behind': (TO_WORKER, sink(pids=[1], n_pids=0)),
        'process-fds': (TO_WORKER, process(fds=4)), 'process-n-fds': (TO_WORKER, process(fds=1, n_fds=2)), 'process-pid': (TO_WORKER, process(pid=-1)),
        'process-status': (TO_WORKER, process(status=-1)), 'process-padding': (TO_WORKER, process(padding=1)),
        'process-open': (TO_WORKER, process(comm=b'x' * 32)),
        'file-status': (ANSWER, answer_file(1, status=-1)), 'file-fd': (ANSWER, answer_file(1, status=0)),
        'file-fd-and-status': (ANSWER, answer_file(1, b'', status=2)), 'note-open': (TO_WORKER, packet(NOTE, b'x' * 200)),
        'note-control': (TO_WORKER, packet(NOTE, b'a\nb')), 'hello-version': (FROM_WORKER, raw(struct.pack('<IIIi', HELLO, 16, 0, 10))),
        'process-request-id': (REQUEST, request_process(0)), 'process-request-pid': (REQUEST, request_process(pid=0)),
        'process-request-padding': (REQUEST, request_process(padding=1)), 'file-request-id': (REQUEST, request_file(0)),
        'file-request-pid': (REQUEST, request_file(pid=-1)), 'file-request-kind': (REQUEST, request_file(kind=3)),
        'file-request-map-mapped': (REQUEST, request_file(kind=2)),
        'counters-kind': (TO_WORKER, counters(6)), 'counters-kind-0': (TO_WORKER, counters(0)), 'counters-pid': (TO_WORKER, counters(5)),
        'counters-no-pid': (TO_WORKER, counters(1, pid=1)), 'counters-fds': (TO_WORKER, counters(n_fds=0)), 'counters-many-fds': (TO_WORKER, counters(n_fds=2)),
        'probes-pid': (REQUEST, probes(0)), 'probes-id': (REQUEST, probes(number=0)), 'probes-many': (REQUEST, probes(n_notes=17)),
        'probes-more': (REQUEST, probes(more=[7])), 'probes-none': (REQUEST, probes(n_notes=0)), 'probes-id-of-none': (REQUEST, probes(notes=())),
        'probed-id': (ANSWER, probed(0)), 'probed-status': (ANSWER, probed(status=-1)), 'probed-padding': (ANSWER, probed(padding=1)),
        'interpreter-kind': (REQUEST, interpreter(kind=99)), 'interpreter-entry-of-php': (REQUEST, interpreter(kind=2)), 'interpreter-pid': (REQUEST, interpreter(0)), 'interpreter-padding': (REQUEST, interpreter(padding=1)),
        'interpreter-scope': (REQUEST, interpreter(code_scope=4096)), 'interpreter-frame': (REQUEST, interpreter(frame_size=129)),
        'interpreter-field': (REQUEST, interpreter(code_name=4096)), 'interpreter-field-of-frame': (REQUEST, interpreter(frame_at=72)),
        'interpreter-boolean': (REQUEST, interpreter(is_at_index=2)), 'interpreter-entry': (REQUEST, interpreter(entry=3)),
        'counters-request-pid': (REQUEST, request_counters(0)), 'counters-request-padding': (REQUEST, request_counters(padding=1)),
        'threads-request-pid': (REQUEST, request_threads(0)), 'threads-request-tid': (REQUEST, request_threads(tids=(10, 0))),
        'threads-request-size': (REQUEST, request_threads(tids=(10,), n=2)), 'threads-request-many': (REQUEST, request_threads(tids=(7,) * 65)),
        'threads-pid': (ANSWER, threads(0)), 'threads-status': (ANSWER, threads(status=-1)), 'threads-size': (ANSWER, threads(n=2)),
        'threads-many': (ANSWER, threads(n=201)), 'threads-tid': (ANSWER, threads(entries=(thread(0),))), 'threads-state': (ANSWER, threads(entries=(thread(state=128),))),
        'threads-time': (ANSWER, threads(entries=(thread(time=-1),))), 'ask-waits': (TO_BROKER, ask(waits=2)), 'ask-reserved': (TO_BROKER, ask(reserved=1)),
        'failed-error': (FROM_WORKER, failed(-1)), 'failed-padding': (FROM_WORKER, failed(padding=1)), 'failed-text': (FROM_WORKER, failed(text=b'\xff')),
        'link-fds': (TO_WORKER, packet(LINK)), 'ask-version': (TO_BROKER, ask(version=2**31)), 'ask-owner': (TO_BROKER, ask(owner=-1)),
        'ask-padding': (TO_BROKER, ask(padding=1)), 'ask-memory-detail': (TO_BROKER, ask(detail=3)), 'ask-trace': (TO_BROKER, ask(trace=4)),
        'ask-trace-depth': (TO_BROKER, ask(trace=1, trace_depth=0)), 'ask-trace-memory': (TO_BROKER, ask(trace=1, trace_bytes=2**26 + 1)),
        'ask-trace-slow': (TO_BROKER, ask(slow_us=10**8 + 1)), 'ask-trace-budget': (TO_BROKER, ask(budget=10**6 + 1)),
        'ask-interpreters-2': (TO_BROKER, ask(interpreters=2)), 'ask-trace-filter': (TO_BROKER, ask(filter=b'x' * 2048)), 'ask-scope': (TO_BROKER, ask(scope=5)),
        'ask-event': (TO_BROKER, ask(event=6)), 'ask-tracepoint': (TO_BROKER, ask(event=5, tracepoint=99)), 'ask-unwind': (TO_BROKER, ask(unwind=4)), 'ask-stack': (TO_BROKER, ask(stack=65536)),
        'ask-depth': (TO_BROKER, ask(depth=0)), 'ask-interval': (TO_BROKER, ask(memory=1, interval=0)), 'ask-wait': (TO_BROKER, ask(wait_us=1000001)),
        'ask-memory': (TO_BROKER, ask(memory=3)), 'ask-counters': (TO_BROKER, ask(counters=32)), 'ask-unit-open': (TO_BROKER, ask(unit=b'x' * 256)),
        **{f'ask-switch-{i}': (TO_BROKER, ask(switches=[2 * (i == n) for n in range(5)])) for i in range(5)},
        'ask-fds': (TO_BROKER, raw(struct.pack('<II', ASK, 368) + bytes(360), 1)), 'prove-many': (TO_BROKER, targets(PROVE, [(1, 0)] * 17)),
        'prove-padding': (TO_BROKER, targets(PROVE, padding=1)), 'prove-pid': (TO_BROKER, targets(PROVE, [(0, 0)])), 'prove-flags': (TO_BROKER, targets(PROVE, [(1, 8)])),
        'prove-fds': (TO_BROKER, targets(PROVE, n_fds=1)), 'add-fds': (TO_BROKER, targets(ADD, n_fds=3)), 'add-pid': (TO_BROKER, targets(ADD, [(1, 0), (-1, 0)])),
        'add-size': (TO_BROKER, raw(struct.pack('<IIII', ADD, 16, 1, 0))), 'serve-fds': (TO_BROKER, packet(SERVE, struct.pack('<Q', 1))),
        'open-open': (TO_BROKER, packet(OPEN, b'x' * 4096)), 'sheet-padding': (FROM_BROKER, sheet(padding=1)), 'result-open': (FROM_BROKER, result(OPENED, 7, b'x' * 1024)),
        'result-padding': (FROM_BROKER, result(PROVED, padding=1)), 'result-error': (FROM_BROKER, result(ADDED, 8, b'x')), 'result-no-text': (FROM_BROKER, result(BROKEN, 7)),
        'result-no-error': (FROM_BROKER, result(BROKEN, text=b'x')), 'stuck-pid': (FROM_BROKER, stuck(pid=0)), 'stuck-over': (FROM_BROKER, stuck(is_over=2)),
        'stuck-padding': (FROM_BROKER, stuck(padding=1)), 'file-of-front': (TO_WORKER, answer_file(1, status=2)), 'setup-of-link': (ANSWER, setup()),
        'request-to-front': (FROM_WORKER, request_process()), 'stop-of-broker': (FROM_BROKER, packet(STOP)), 'ask-of-worker': (REQUEST, ask()),
        'failed-open': (FROM_WORKER, failed(text=b'x' * 200)), 'program-fds': (TO_WORKER, packet(PROGRAM)),
        'join-id': (TO_BROKER, join(0)), 'join-pid': (TO_BROKER, join(pid=0)), 'join-padding': (TO_BROKER, join(padding=1)),
        'join-fds': (TO_BROKER, join(n_fds=1)), 'joined-id': (FROM_BROKER, joined(0)), 'joined-status': (FROM_BROKER, joined(1, -1)),
        'joined-padding': (FROM_BROKER, joined(padding=1)), 'join-of-worker': (FROM_WORKER, join()), 'joined-of-link': (ANSWER, joined()),
        'sink-last-2': (TO_WORKER, sink(is_last=2)), 'sink-last-frames': (TO_WORKER, sink(is_last=1, frames=1)), 'sink-last-pids': (TO_WORKER, sink(is_last=1, pids=[1])),
        'snapshot-id': (TO_WORKER, snapshot(0)), 'snapshot-limit': (TO_WORKER, snapshot(limit=0)), 'snapshot-fds': (TO_WORKER, snapshot(n_fds=0)),
        'snapped-id': (FROM_WORKER, snapped(0)), 'snapped-status': (FROM_WORKER, snapped(1, -1)), 'snapped-padding': (FROM_WORKER, snapped(padding=1)),
        'snapped-of-front': (TO_WORKER, snapped()), 'ask-recorder-length': (TO_BROKER, ask(recorder_us=2**40, recorder_bytes=2**20)),
        'ask-recorder-no-bytes': (TO_BROKER, ask(recorder_us=10**6)), 'ask-recorder-few-bytes': (TO_BROKER, ask(recorder_bytes=1)),
        'ask-recorder-many-bytes': (TO_BROKER, ask(recorder_bytes=2**31)),
    }


def messages():
    answers, leaves, frees = 8, 16, 32
    seeds = {name: bytes([how | answers]) + data for name, (how, data) in good().items()}
    seeds |= {'bad-' + name: bytes([how]) + data for name, (how, data) in bad().items()}
    seeds['leaves'] = bytes([FROM_WORKER | answers | leaves]) + hello() + packet(STATISTICS) * 3
    seeds['freed'] = bytes([FROM_WORKER | frees]) + hello() + packet(STATISTICS)
    seeds['turns'] = bytes([FROM_WORKER | leaves]) + packet(STATISTICS) * 40
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
SAY_CONTROL, SAY_LINK, SAY_RING, SAY_LEAVE, SAY_BROKER_LEAVES = range(5)
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


def programs(*steps, memory=0, detail=0):
    return b''.join([link(), setup(memory=memory, detail=detail), sink(), packet(START), packet(CONTROL, n_fds=1), *steps, wait(7), packet(STOP), wait(7)])


def session(begin, sample_records, side_records, middle, modules):
    return b''.join([
        link(), begin, document(1, KALLSYMS), document(2, b'processor: 0\n'), document(3, b'/dev/a / ext4 rw 0 0\n'),
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
    for unwind, name in ((1, 'frame-pointer'), (2, 'dwarf')):
        seeds['deferred-' + name] = session(setup(unwind=unwind, flags=every | DEFERRED), samples, sides, [], elves)
    seeds['raw'] = session(setup(flags=every | RAW_DATA, unwind=2), samples, sides, [], elves)
    seeds['hidden'] = session(setup(flags=every, unwind=2), hidden, hidden, [answer_file(1, status=1)], [])
    made = perf.mmap2(0x900000, 0x1000, b'//anon', inode=0) + perf.mmap2(0x700000, 0x1000, b'/tmp/jit-10.dump', inode=8)
    ran = b''.join(perf.sample(ip=ip, chain=(perf.CONTEXT_USER, ip), time=time) for ip, time in ((0x900010, 5001), (0x900810, 5002), (0x900010, 5003)))
    dump = struct.pack('<IIIIIIQQ', 0x4A695444, 1, 40, 62, 0, 10, 0, 0) + struct.pack('<IIQ', 0, 64, 1) \
        + struct.pack('<IIQQQQ', 10, 10, 0x900800, 0x900800, 32, 1) + b'dumped\0\0'
    for unwind, name in enumerate(('none', 'frame-pointer', 'dwarf')):
        seeds['made-code-' + name] = session(setup(unwind=unwind, flags=every), ran, made, [], [b'900000 20 py::f\n900400 10 g\n'] * 2 + [dump] * 4)
    many = b''.join(perf.good().values())
    seeds['both-rings'] = session(setup(unwind=2, flags=every | RAW_DATA), many, many, [], elves)
    seeds['unknown-mode'] = session(setup(flags=every), perf.sample(misc=0, chain=(), abi=0, stack=b'', time=perf.EARLY), b'', [], [])
    seeds['damaged'] = session(setup(), samples + bytes(8), sides + bytes(8), [], [])
    seeds['no-kallsyms'] = link() + setup(flags=every) + document(1, b'nothing') + document(1, KALLSYMS)
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
    linked = [say(SAY_CONTROL, LINK_REQUEST), wait()]
    ring = linked + [say(SAY_LINK, ring_request()), wait()]
    bell = say(SAY_LINK, BELL)
    seeds['programs'] = programs(*ring, put(told()), bell, wait(7), packet(PAUSE), packet(RESUME), say(SAY_LEAVE, b''))
    seeds['programs-come'] = programs(packet(PROGRAM, n_fds=1), say(SAY_CONTROL, struct.pack('<HHI', 0x534E, 1, 5) + bytes(32)),
                                      say(SAY_CONTROL, ring_request()), wait(), put(told()), say(SAY_CONTROL, BELL), wait(7))
    seeds['programs-sysprof'] = programs(say(SAY_CONTROL, b'CreatRing\0'), wait(), put(told()), wait(7))
    seeds['programs-memory'] = programs(*linked, say(SAY_LINK, ring_request(2, 131072)), wait(), put(told()), bell, memory=2)
    seeds['programs-log'] = programs(*linked, say(SAY_LINK, ring_request(2, 131072)), wait(), put(told()), bell, wait(7), sink(2), put(told()),
                                     bell, packet(PAUSE), packet(RESUME), say(SAY_LEAVE, b''), memory=1, detail=1)
    seeds['programs-no-memory'] = programs(*linked, say(SAY_LINK, ring_request(2)), say(SAY_LINK, ring_request(3)), wait())
    seeds['programs-size'] = programs(*linked, say(SAY_LINK, ring_request(1, 5)), wait())
    seeds['programs-rubbish'] = programs(say(SAY_CONTROL, b'rubbish'), *linked, say(SAY_LINK, b''), say(SAY_LINK, b'rubbish'), wait())
    seeds['programs-position'] = programs(*ring, put(b'', tail=2**40), bell)
    seeds['programs-unaligned'] = programs(*ring, put(b'', tail=4), bell)
    seeds['programs-mapping'] = programs(*ring, put(frames.frame(3, struct.pack('<4Q', 1, 2, 0, 0) + b'/x\0')), bell)
    seeds['programs-length'] = programs(*ring, put(bytes(24)), bell)
    seeds['programs-end'] = programs(*ring, put(frames.frame(10, bytes(72) + b'm\0') + struct.pack('<HhiqII', 24, -1, -1, 0, 255, 0)), bell)
    seeds['readers'] = session(setup(), samples, sides, [sink(2, pids=[10], frames=1), sink(3, fd_kind=FD_LEFT), sink(4, kind=2, limit=8192, fd_kind=FD_FILE, files=[file(b'')])], [])
    recorder = setup(unwind=2, flags=every, recorder_us=10**6, recorder_bytes=2**20)
    seeds['recorder'] = session(recorder, samples, sides, [snapshot(), wait(7), snapshot(2), *[wait(7)] * 3, snapshot(3, 8192), wait(7), sink(2, is_last=1)], elves)
    seeds['recorder-snapshot-late'] = session(recorder, samples, sides, [snapshot(), packet(STOP), snapshot(2), wait(7)], elves)
    seeds['recorder-snapshot-of-socket'] = session(recorder, samples, sides, [snapshot(fd_kind=FD_LEFT), snapshot(2, fd_kind=FD_STREAM), wait(7)], elves)
    seeds['recorder-of-file'] = session(recorder + sink(5, kind=2, limit=2**20, is_last=1, fd_kind=FD_FILE, files=[file(b'')]), samples, sides, [wait(7)] * 4, elves)
    seeds['recorder-heap'] = link() + setup(memory=1, detail=1, recorder_bytes=2**20) + sink(is_last=1) + packet(START) + packet(CONTROL, n_fds=1) + b''.join(
        [*linked, say(SAY_LINK, ring_request(2, 131072)), wait(), put(told()), bell, wait(7), snapshot(), wait(7), put(told()), bell, wait(7)]) + packet(STOP) + wait(7)
    seeds['snapshot-without-recorder'] = session(setup(), samples, sides, [snapshot(), wait(7)], [])
    seeds['snapshot-before-start'] = link() + setup(recorder_bytes=2**20) + snapshot()
    seeds['last-without-recorder'] = link() + setup() + sink(is_last=1) + packet(START) + wait(7) + packet(STOP) + wait(7)
    seeds['control-leaves'] = link() + setup() + events(RINGS, [event()], FD_RING, [samples]) + sink() + packet(START)
    seeds['stop-before-start'] = link() + setup() + sink() + packet(STOP) + wait()
    seeds['sink-after-stop'] = link() + setup() + sink() + packet(START) + packet(STOP) + wait() + sink(2) + wait()
    seeds['start-twice'] = link() + setup() + packet(START) + packet(START)
    seeds['setup-twice'] = link() + setup() + setup()
    seeds['nothing-but-stop'] = packet(STOP)
    seeds['unsupported'] = link() + setup(sample_type=2**40)
    seeds['no-time'] = link() + setup(sample_type=perf.IP)
    seeds['sink-twice'] = link() + setup() + sink() + sink() + packet(START) + packet(STOP) + wait()
    seeds['no-link'] = setup()
    seeds['link-twice'] = link() + link() + setup()
    seeds['broker-leaves'] = session(setup(), samples, sides, [say(SAY_BROKER_LEAVES, b'')], elves)
    seeds['broker-left-before'] = link() + say(SAY_BROKER_LEAVES, b'') + setup() + sink() + packet(START) + process() + packet(STOP) + wait(7)
    seeds['broker-says-stop'] = session(setup(), samples, sides, [packet(STOP, flags=LINKED)], elves)
    seeds['stuck'] = session(setup(), samples, sides, [process(1, pid=30, status=110, fds=0), *[answer_file(i, status=110) for i in range(1, 10)],
                                                       *[wait(7)] * 16], [])
    seeds['answers-not-asked-for'] = (link() + setup() + events(RINGS, [event()], FD_RING, [b'']) + packet(START)
                                      + answer_file(9, b'\x7fELF') + process(9, maps=MAPS_TEXT) + packet(STOP) + wait())
    return seeds


(STEP_STOP, STEP_STOP_ASYNC, STEP_PAUSE, STEP_RESUME, STEP_ABORT, STEP_OPEN, STEP_DEAF, STEP_LEAVES, STEP_GONE, STEP_BROKER_DEAF,
 STEP_BROKER_GONE, STEP_ADD, STEP_CONTROL, STEP_SLOW, STEP_FAST, STEP_MEET, STEP_SNAPSHOT) = range(1, 18)


def step(number):
    return packet(number)


def by_broker(data):
    """A packet of the broker's, where those of the worker have no mark."""
    return data[:1] + bytes([data[1] | LINKED]) + data[2:]


def sessions():
    """What is not of the broker is of the worker, or a step."""
    mapped = packet(RINGS_MAPPED, struct.pack('<iIQQ', 0, 1, 4096, 4096))
    rings, opened, ended = by_broker(events(RINGS, [event()], files=[])), by_broker(result(OPENED)), by_broker(packet(TARGETS_ENDED))
    proved = by_broker(sheet()) + by_broker(result(PROVED))
    served = proved + hello() + by_broker(setup()) + by_broker(packet(DOCUMENT, struct.pack('<Ii', 2, 0), 1)) + rings
    live = served + mapped + by_broker(events(EVENTS, [event()], files=[])) + opened
    told = b''.join(by_broker(data) for data in (
        packet(NOTE, b'A sentence'), packet(PROCESS, struct.pack('<QiiQII32s', 0, 10, 0, 1234, 3, 0, b'name'), 2),
        packet(COUNTERS, struct.pack('<Ii', 5, 10), 1), packet(DOCUMENT, struct.pack('<Ii', 3, 0), 1), stuck(), stuck(is_over=1)))
    closed = packet(SINK_CLOSED, struct.pack('<Ii', 1, 0))
    asks = request_process(1, 10) + request_counters(10)
    drained = step(STEP_STOP_ASYNC) + packet(DRAINED)
    older = raw(struct.pack('<II', STATISTICS, 352) + bytes(344))
    scripts = {
        'whole': live + told + packet(STATISTICS) + drained + closed + packet(FINISHED) + step(STEP_GONE),
        'whole-late-broker': live + told + drained + told + opened + packet(FINISHED),
        'targets-ended': live + ended + packet(DRAINED) + ended + packet(FINISHED),
        'added': live + step(STEP_ADD) * 3 + by_broker(result(ADDED)) + by_broker(result(ADDED, 1, b'No')) + ended,
        'added-unasked': live + by_broker(result(ADDED)),
        'met': live + step(STEP_MEET) * 3 + by_broker(joined(2)) + by_broker(joined(1, 1)) + drained + by_broker(joined(3)) + step(STEP_MEET),
        'met-too-early': served + step(STEP_MEET) + mapped, 'joined-unasked': live + by_broker(joined()),
        'joined-twice': live + step(STEP_MEET) + by_broker(joined()) * 2, 'met-many': live + step(STEP_MEET) * 30 + step(STEP_BROKER_GONE),
        'met-without-broker': live + step(STEP_BROKER_DEAF) + step(STEP_MEET) + step(STEP_DEAF) + step(STEP_MEET),
        'added-to-none': step(STEP_ADD) + live + drained + step(STEP_ADD),
        'processor-came': live + rings + mapped + by_broker(events(EVENTS, [event(cpu=1)], files=[])) + drained + rings + packet(FINISHED),
        'sheet-version': by_broker(sheet(version=2**31)), 'sheet-twice': by_broker(sheet()) * 2, 'refused': by_broker(sheet()) +
        by_broker(result(PROVED, 1, b'Process 7: no')), 'proved-first': by_broker(result(PROVED)), 'setup-first': proved + by_broker(setup()),
        'events-first': served + by_broker(events(EVENTS, [event()], files=[])), 'opened-first': served + opened,
        'not-opened': served + mapped + by_broker(result(OPENED, 4, b'Limit events: \xff')),
        'broken': live + by_broker(result(BROKEN, 7, b'It\nbroke')) + packet(DRAINED) + packet(FINISHED),
        'broken-early': served + by_broker(result(BROKEN, 7, b'It broke')), 'broken-not': live + by_broker(result(BROKEN)),
        'broker-gone': live + step(STEP_BROKER_GONE) + step(STEP_ADD) + step(STEP_PAUSE) + packet(DRAINED) + packet(FINISHED) + step(STEP_GONE),
        'broker-gone-early': served + step(STEP_BROKER_GONE) + mapped, 'broker-gone-late': live + drained + step(STEP_BROKER_GONE) + packet(FINISHED),
        'broker-gone-at-once': step(STEP_BROKER_GONE), 'broker-deaf': step(STEP_BROKER_DEAF) + proved,
        'broker-deaf-at-open': served + step(STEP_BROKER_DEAF) + mapped, 'broker-deaf-later': live + step(STEP_BROKER_DEAF) + step(STEP_ADD) + mapped
        + drained, 'broker-says-stop': live + by_broker(packet(STOP)) + packet(DRAINED),
        'asks-us': live + asks,
        'paused': live + step(STEP_PAUSE) + step(STEP_PAUSE) + step(STEP_RESUME) + drained + packet(FINISHED),
        'slowed': live + step(STEP_SLOW) + step(STEP_PAUSE) + step(STEP_FAST) + step(STEP_RESUME) + drained,
        'readers': live + step(STEP_OPEN) * 17 + closed + closed + drained + step(STEP_OPEN),
        'reader-left': live + closed + packet(DRAINED) + packet(FINISHED),
        'owner-left': live + step(STEP_LEAVES) + packet(DRAINED) + told,
        'owner-leaves-late': live + drained + step(STEP_LEAVES) + packet(FINISHED),
        'aborted': live + step(STEP_ABORT) + told,
        'aborted-early': proved + hello() + step(STEP_ABORT),
        'stopped-early': step(STEP_STOP_ASYNC),
        'deaf': proved + step(STEP_DEAF) + hello(),
        'deaf-at-start': served + mapped + step(STEP_DEAF) + opened,
        'deaf-later': live + step(STEP_DEAF) + told,
        'deaf-at-stop': live + step(STEP_DEAF) + step(STEP_STOP_ASYNC),
        'deaf-delivery': live + drained + step(STEP_DEAF) + told + packet(FINISHED),
        'snapshots': live + step(STEP_SNAPSHOT) * 3 + snapped(2, 27) + snapped(1) + drained + snapped(3, 108) + step(STEP_SNAPSHOT),
        'snapshots-many': live + step(STEP_SNAPSHOT) * 12 + snapped(1, 28) + step(STEP_GONE), 'snapped-unasked': live + snapped(1),
        'snapped-twice': live + step(STEP_SNAPSHOT) + snapped(1) * 2, 'snapshot-early': step(STEP_SNAPSHOT) + proved,
        'snapshot-of-the-deaf': live + step(STEP_DEAF) + step(STEP_SNAPSHOT) + snapped(1),
        'deaf-at-pause': live + step(STEP_DEAF) + step(STEP_PAUSE),
        'controls': live + step(STEP_CONTROL) * 2 + packet(CONTROLS, struct.pack('<II', 2, 1)) + drained + packet(FINISHED),
        'controls-many': live + step(STEP_CONTROL) * 40,
        'controls-not-given': live + packet(CONTROLS, struct.pack('<II', 1, 1)),
        'unknown-sink': live + packet(SINK_CLOSED, struct.pack('<Ii', 9, 0)),
        'other-version': proved + hello(version=2**31),
        'sinks': live + packet(SINKS, struct.pack('<I18I', 1, 1, *[0] * 17)) + drained + packet(FINISHED),
        'sinks-none': live + step(STEP_OPEN) + packet(SINKS, struct.pack('<I18I', *[0] * 19)),
        'not-mapped': served + packet(RINGS_MAPPED, struct.pack('<iIQQ', 12, 0, 0, 0)),
        'mapped-badly': served + packet(RINGS_MAPPED, struct.pack('<iIQQ', -2**31, 0, 0, 0)),
        'older-statistics': live + older + drained,
        'failed': live + failed(),
        'failed-silently': live + failed(text=b''),
        'mapped-again': live + mapped,
        'mapped-while-stopping': live + step(STEP_STOP_ASYNC) + mapped + packet(DRAINED) + packet(FINISHED),
        'hello-twice': proved + hello() + hello(),
        'mapped-first': proved + mapped,
        'drained-unasked': live + packet(DRAINED),
        'finished-unasked': live + packet(FINISHED),
        'died': live + step(STEP_GONE),
        'after-the-end': live + drained + packet(FINISHED) + told + failed(),
    }
    seeds = {f'{name}-{how}': bytes([how]) + script for name, script in scripts.items() for how in ((0, 2) if name != 'whole' else range(8))}
    return seeds


CHILD_PID = 11
STEP_EVENTS_FAIL, STEP_SWITCHES_FAIL, STEP_CHILD_ENDS, STEP_WORKER_LEAVES = range(30, 34)


def brokers():
    """What front and worker say: fuzz-broker.c"""
    everything = HAS_PROOF | HAS_MAPS | HAS_PIDFD
    serve, start = packet(SERVE, struct.pack('<Q', 1), 1), packet(OPEN) + packet(ANNOUNCE)
    mapped = packet(RINGS_MAPPED, struct.pack('<iIQQ', 0, 1, 4096, 4096))
    asks = b''.join(data[:1] + bytes([data[1] | LINKED]) + data[2:] for data in (
        request_process(1), request_process(2, CHILD_PID), request_process(3, 1), request_process(4, 99), request_file(5), request_file(6, CHILD_PID),
        request_file(7, 1), request_file(8, ticks=1), request_file(9, inode=1),
        request_file(10, kind=1), request_file(11, kind=2, device=(0, 0)), request_file(12, CHILD_PID, kind=2, device=(0, 0)),
        request_file(13, 1, kind=2, device=(0, 0)), request_counters(), request_counters(CHILD_PID), request_counters(1)))
    own = targets(PROVE, [(10, everything), (CHILD_PID, everything)])
    fails = {name: lambda code, step=step: packet(step, fd_kind=code) for name, step in (('events', STEP_EVENTS_FAIL), ('switches', STEP_SWITCHES_FAIL))}
    seeds = {}

    def live(asked, proof, opened=start):
        return asked + proof + serve + opened
    for number, (name, proof) in enumerate((('targets', own), ('launch', own), ('pids', targets(PROVE, [(10, HAS_PIDFD), (CHILD_PID, HAS_PIDFD)])),
                                            ('unit', targets(PROVE, ())), ('system', targets(PROVE, ())))):
        group = packet(OPEN, b'/a.slice/a.service') + packet(ANNOUNCE) if name == 'unit' else start
        for who, uid in (('', 1000), ('-of-root', 0), ('-of-another', 77)):
            asked = ask(scope=number, uid=uid, unit=b'a.service' if name == 'unit' else b'')
            seeds[name + who] = live(asked, proof, group) + asks + wait(7) + packet(CLOSE) + asks
    pids = [targets(ADD, [(CHILD_PID, everything)]), targets(ADD, [(1, everything)]), targets(ADD, [(CHILD_PID, HAS_PROOF)]), targets(ADD, ())]
    seeds['add'] = live(ask(), targets(PROVE, [(10, everything)])) + b''.join(pids) + asks + packet(CLOSE) + pids[0]
    seeds['add-many'] = live(ask(), own) + targets(ADD, [(10, everything)] * 15) * 8
    seeds['add-to-pids'] = live(ask(scope=2), targets(PROVE, [(10, HAS_PIDFD)])) + targets(ADD, [(10, HAS_PIDFD)])
    seeds['add-to-system'] = live(ask(scope=4), targets(PROVE, ())) + targets(ADD, ())
    joins = b''.join(join(i + 1, pid) for i, pid in enumerate((10, CHILD_PID, 1, 99)))
    seeds['join'] = live(ask(), own) + joins + wait(7) + asks
    seeds['join-of-another'] = live(ask(uid=77), own) + joins
    seeds['join-pids'] = live(ask(scope=2), targets(PROVE, [(CHILD_PID, HAS_PIDFD)])) + joins
    seeds['join-system'] = live(ask(scope=4), targets(PROVE, ())) + joins
    tells = b''.join(data[:1] + bytes([data[1] | LINKED]) + data[2:] for data in (interpreter(), interpreter(CHILD_PID), interpreter(1), interpreter(99), interpreter(kind=0)))
    for name, walked in (('interpreters', 1), ('interpreters-no', 0)):
        seeds[name] = live(ask(interpreters=walked), own) + tells + wait(7) + packet(CLOSE) + tells
    follows = b''.join(data[:1] + bytes([data[1] | LINKED]) + data[2:] for data in
                       (probes(), probes(CHILD_PID), probes(1), probes(99), probes(notes=(), number=0), probes(CHILD_PID, notes=(), number=0)))
    for name, memory in (('probes', 2), ('probes-no', 1)):
        seeds[name] = live(ask(memory=memory), own) + follows + wait(7) + packet(CLOSE) + follows
    looks = b''.join(data[:1] + bytes([data[1] | LINKED]) + data[2:] for data in (
        request_threads(), request_threads(tids=(10, 2**30)), request_threads(CHILD_PID), request_threads(1), request_threads(99)))
    for name, scope in (('threads', 0), ('threads-of-launch', 1)):
        seeds[name] = live(ask(scope=scope, waits=1), own) + looks + wait(7) + packet(CLOSE) + looks
    seeds['threads-of-another'] = live(ask(uid=77, waits=1), own) + looks + wait(7)
    seeds['threads-of-system'] = live(ask(scope=4, waits=1), targets(PROVE, ())) + looks + wait(7)
    seeds['threads-not-wanted'] = live(ask(), own) + looks
    seeds['join-early'] = ask() + own + serve + joins
    seeds['join-late'] = live(ask(), own) + packet(CLOSE) + joins
    seeds['ended'] = live(ask(), targets(PROVE, [(CHILD_PID, everything)])) + packet(STEP_CHILD_ENDS) + wait(7) + packet(REPORT)
    seeds['gone-before'] = ask() + own + serve + packet(STEP_CHILD_ENDS) + start
    seeds['worker-leaves'] = live(ask(), own) + packet(STEP_WORKER_LEAVES) + targets(ADD, [(10, everything)]) + packet(REPORT) + packet(CLOSE)
    seeds['worker-says-ask'] = live(ask(), own) + bytes([ASK, LINKED]) + ask()[2:] + targets(ADD, [(10, everything)])
    seeds['worker-asks-early'] = ask() + own + serve + asks
    seeds['start-on-exec'] = live(ask(scope=1, switches=(0, 0, 1, 1, 0)), own) + asks
    seeds['raw'] = live(ask(scope=1, switches=(1, 1, 1, 0, 1)), own) + asks
    seeds['tracepoint'] = live(ask(event=5, tracepoint=0), own)
    seeds['no-event'] = live(ask(event=4), own) + asks
    seeds['mapped-unasked'] = live(ask(), own) + mapped
    seeds['mapped-late'] = live(ask(), own) + packet(CLOSE) + mapped
    seeds['serve-stream'] = ask() + own + packet(SERVE, struct.pack('<Q', 1), 1, 1)
    seeds['serve-twice'] = ask() + own + serve + serve
    seeds['wrong-maps'] = ask() + packet(PROVE, own[5:], 4, 1)
    seeds['wrong-pidfd'] = ask() + packet(PROVE, own[5:], 4, 2)
    seeds['not-proven'] = ask() + targets(PROVE, [(10, HAS_PROOF), (99, HAS_PROOF | HAS_PIDFD)])
    seeds['targets-of-system'] = ask(scope=4) + own
    seeds['no-proof-needed'] = ask(scope=2) + own
    seeds['proof-needed'] = ask() + targets(PROVE, [(10, HAS_PIDFD)])
    seeds['unit-everything'] = live(ask(scope=3, unit=b'a.service'), targets(PROVE, ()), packet(OPEN, b'/') + packet(ANNOUNCE))
    seeds['unit-outside'] = live(ask(scope=3, unit=b'a.service'), targets(PROVE, ()), packet(OPEN, b'/../../etc') + packet(ANNOUNCE))
    seeds['close-first'] = packet(CLOSE) + ask()
    seeds['report-first'] = packet(REPORT) + packet(SERVE, bytes(8), 1)
    seeds['ask-twice'] = ask() + ask()
    seeds['version'] = ask(version=2**31)
    seeds['stack-of-setup'] = live(ask(stack=4 << 20), own)
    seeds['rubbish'] = raw(b'rubbish')
    for name, fail in fails.items():
        for code in (1, 2, 13, 22, 24):
            seeds[f'{name}-fail-{code}'] = fail(code) + live(ask(), own)
            seeds[f'{name}-fail-{code}-later'] = live(ask(), targets(PROVE, [(10, everything)])) + fail(code) + pids[0] + fail(0) + pids[0]
    return seeds


corpus_files.write('message', messages())
corpus_files.write('worker', workers())
corpus_files.write('session', sessions())
corpus_files.write('broker', brokers())
