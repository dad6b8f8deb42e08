#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What can be profiled, and from when on: test-targets.py BUILD"""

import bisect
import ctypes
import collections
import os
import statistics
import subprocess
import sys
import time

from system import DEADLINE_S, System, check, read_seconds, wait_until

FREQUENCY = 1000
# Twice is never near to once.
TOLERANCE = 0.15
STORM_FREQUENCY = 5000
STORM_S = 2  # of CPU time, while it is recorded
STORM_CHAINS = 16
STORM_THREAD_SAMPLES = 10  # of the CPU time that a thread of it burns
CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x44000
TRACEFS = '/sys/kernel/tracing'


def mount_tracefs():
    """In a mount namespace of our own; the machine's stays as it is. True if it is there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.path.exists(f'{TRACEFS}/events/sched'):
        return True
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b'/', None, MS_REC_PRIVATE, None):
        return False
    return libc.mount(b'tracefs', TRACEFS.encode(), b'tracefs', 0, None) == 0


def check_samples(system, capture, seconds, what):
    n_samples = len(capture.samples)
    system.note(f'{what}: {seconds:.3f} s of CPU time, {n_samples} samples: '
                f'{n_samples / FREQUENCY / seconds:.3f} of what is to be expected')
    check(abs(n_samples / FREQUENCY - seconds) <= TOLERANCE * seconds, f'{what}: miscounted')


def spent_seconds(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as stat:
        user, kernel = stat.read().rsplit(')', 1)[1].split()[11:13]
    return (int(user) + int(kernel)) / os.sysconf('SC_CLK_TCK')


def done_between(output, first, last):
    """CPU seconds, and threads that have burned theirs, between two moments, by what storm printed."""
    looks = [tuple(map(float, line.split())) for line in output.splitlines()]

    def done_at(moment):
        after = bisect.bisect_left(looks, (moment,))
        check(0 < after < len(looks), 'the storm was over before')
        (t0, *before), (t1, *behind) = looks[after - 1], looks[after]
        return [a + (b - a) * (moment - t0) / (t1 - t0) for a, b in zip(before, behind)]

    return [b - a for a, b in zip(done_at(first), done_at(min(last, looks[-1][0] - 1e-6)))]


def check_threads(system, capture, first, output):
    """Each has samples, and as many as its time lets expect: twice is never near to once. A chain that is not recorded
    is one thread of 16. first: when all events were on, which are turned on one by one"""
    samples = [sample for sample in capture.samples if sample.time_ns / 1e9 >= first]
    check(samples, 'nothing was recorded')
    spent_s, n_threads = done_between(output, first, max(sample.time_ns for sample in samples) / 1e9)
    counts = collections.Counter(sample.tid for sample in samples)
    typical = statistics.median(counts.values())
    n_lost = capture.ledger['produced'] - capture.ledger['recorded']
    system.note(f'{len(counts)} of {n_threads:.0f} threads, {typical} samples of each (median); {spent_s:.2f} s of CPU time, '
                f'{len(samples) / STORM_FREQUENCY / spent_s:.3f} of the samples that are to be expected, {n_lost} lost')
    check(len(counts) > 0.99 * n_threads - 2 * STORM_CHAINS, 'threads are missing')
    check(STORM_THREAD_SAMPLES / 2 < typical < STORM_THREAD_SAMPLES * 1.5, 'threads are counted twice, or not always')


def test_storm(system, storm):
    with system.case('threads that are made while a program is opened are counted once'):
        for attempt in range(5):
            name = f'storm-{attempt}.syscap'
            with open(system.path('storm'), 'w+', encoding='ascii') as times:
                program = subprocess.Popen([storm], stdout=times)
                wait_until(lambda: spent_seconds(program.pid) > 0.2, 'the storm has begun')
                recording = system.start_recording(name, '-F', str(STORM_FREQUENCY), '--unwind', 'none',
                                                   '-p', str(program.pid))
                # The worker reads none before the last event is on.
                system.wait_for_samples(name)
                first = time.monotonic()
                end = spent_seconds(program.pid) + STORM_S
                wait_until(lambda: spent_seconds(program.pid) > end, 'the storm has lasted')
                program.terminate()
                check(program.wait(timeout=DEADLINE_S) == 0, 'the storm has failed')
                times.seek(0)
                output = times.read()
            capture, _ = system.finish_recording(recording, name)
            check_threads(system, capture, first, output)


def test_exec(system, burn):
    with system.case('a command is recorded from its exec on'):
        capture, output = system.record('exec.syscap', '-F', str(FREQUENCY), '--', burn, '1')
        check_samples(system, capture, read_seconds(output), 'burn')
        others = {name for pid, name in capture.processes if name not in ('burn', f'{burn} 1')}
        check(not others, f'what came before is recorded as well: {others}')

    with system.case('the children that a command starts are recorded, too'):
        capture, output = system.record('children.syscap', '-F', str(FREQUENCY), '--', 'sh', '-c',
                                        f'{burn} 1; exit 0')
        check(any(name == 'burn' for _, name in capture.processes), 'burn is not there')
        check_samples(system, capture, read_seconds(output), 'sh and burn')

    with system.case('without children they are not'):
        capture, _ = system.record('no-children.syscap', '-F', str(FREQUENCY), '--no-children', '--',
                                   'sh', '-c', f'{burn} 1; i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done')
        pids = {sample.pid for sample in capture.samples}
        check(len(pids) == 1, f'samples of {len(pids)} processes')


def test_tracepoints(system):
    name = 'a tracepoint gives a stack for each time that it is hit'
    if not mount_tracefs():
        system.skip(name, 'tracefs cannot be mounted')
        return
    with system.case(name):
        n_calls = 500
        script = f'import os\nfor i in range({n_calls}): os.read(os.open("/dev/zero", os.O_RDONLY), 1)'
        capture, _ = system.record('openat.syscap', '--event', 'syscalls:sys_enter_openat', '--',
                                   sys.executable, '-c', script)
        n_hits = capture.ledger['produced']
        deep = sum(len(sample.addresses) > 6 for sample in capture.samples)
        system.note(f'{n_hits} hits for {n_calls} calls of ours and some of Python, '
                    f'{len(capture.samples)} recorded, {deep} with a stack')
        check(n_hits >= n_calls, 'hits are missing')
        check(deep > 0.9 * len(capture.samples), 'hits have no stack')
        again, _ = system.record('openat-10.syscap', '--event', 'syscalls:sys_enter_openat', '--period',
                                 '10', '--', sys.executable, '-c', script)
        system.note(f'{again.ledger["produced"]} samples when each tenth is one')
        check(abs(again.ledger['produced'] - n_hits / 10) < 10, 'the period is not kept')


def main():
    system = System(5)
    burn = system.program('tests/system/burn')
    test_storm(system, system.program('tests/system/storm'))
    test_exec(system, burn)
    test_tracepoints(system)
    system.finish()


main()
