#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of allocators that have probes of their own: test-heap-probes.py BUILD

Sums are what the program counts itself, with each kind of detail; what cannot be followed is told, and probes are gone with the session.
"""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import time

import capture
from system import Fault, System, check, find_descendant, wait_until

INTERVAL = 65536
SECONDS = 3
N_THREADS = 2
# What begins and ends at other times for the program than for the session; the machine may be busy.
SLACK = 0.1


class Probed:
    """tests/system/probed.c, running."""

    def __init__(self, system, interval=INTERVAL, program=None):
        self.process = subprocess.Popen([program or system.program('tests/system/probed'), str(interval), str(N_THREADS)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def fork(self):
        self.process.stdin.write(b'x')
        self.process.stdin.flush()

    def end(self):
        """{pid: (blocks, bytes, samples, ends, whether they are traced, still)}"""
        output, _ = self.process.communicate(timeout=60)
        check(self.process.returncode == 0, f'probed: exit status {self.process.returncode}')
        lines = [tuple(map(int, line.split())) for line in output.splitlines()]
        return {line[0]: line[1:] for line in lines}


@contextlib.contextmanager
def running(system, **arguments):
    probed = Probed(system, **arguments)
    try:
        yield probed
    finally:
        with contextlib.suppress(OSError):
            probed.process.kill()
        probed.process.wait()


def start(system, name, pid, *arguments, interval=INTERVAL, **more):
    return system.start_recording(name, '--memory=sampled', f'--memory-interval={interval}', '--event=none', '--stack-size=2048', '-p',
                                  str(pid), *arguments, **more)


def finish(system, recording, name):
    """What record printed; the capture is not verified."""
    output, errors = recording.communicate(timeout=120)
    check(recording.returncode == 0, f'record: exit status {recording.returncode}\n{output}{errors}', Fault)
    return output + errors


def record(system, name, pid, *arguments, **more):
    return finish(system, start(system, name, pid, f'--duration={SECONDS}', *arguments, **more), name)


def read_heap(system, name, *arguments):
    return json.loads(system.sondectl('heap', '--json', '-l', '0', *arguments, system.path(name)))


def messages(system, name):
    return capture.Capture(system.path(name)).logs


def compare(system, count, heap, interval=INTERVAL):
    """What the program counted, and what the capture estimates of as many samples as that distance makes."""
    n_samples = count[1] / interval
    error = 5 / math.sqrt(n_samples) + SLACK
    system.note(f"{count[1]} bytes in {count[0]} blocks, {count[2]} samples; {heap['allocated']} by {heap['events']} events")
    check(count[4] == 0, 'the probes are traced, still')
    check(n_samples > 200, f'{n_samples} samples', Fault)
    check(abs(heap['allocated']['bytes'] / count[1] - 1) < error, 'bytes')
    check(abs(heap['allocated']['blocks'] / count[0] - 1) < 3 * error, 'blocks')
    check(heap['left']['bytes'] < heap['allocated']['bytes'] * 0.1, f"{heap['left']} are left")
    check(heap['inexact']['lost'] == 0, heap['inexact'])


def settled(pid):
    """Sessions let go of probes as their broker ends."""
    time.sleep(1)
    return pid


def test_details(system):
    for detail in ('log', 'events', 'sums'):
        name = f'{detail}.syscap'
        with running(system) as probed:
            output = record(system, name, probed.pid, f'--memory-detail={detail}')
            settled(probed.pid)
            count = probed.end()[probed.pid]
        system.sondectl('verify', system.path(name))
        check('Lost' not in output and 'not followed' not in output, output)
        compare(system, count, read_heap(system, name))
    text = system.sondectl('heap', system.path('log.syscap'))
    check('fire_alloc' in text and 'allocate' in text and 'start_thread' in text, text)


def test_distance(system):
    """A program that samples more often is thinned out."""
    with running(system, interval=INTERVAL // 4) as probed:
        record(system, 'finer.syscap', probed.pid)
        settled(probed.pid)
        count = probed.end()[probed.pid]
    heap = read_heap(system, 'finer.syscap')
    compare(system, count, heap)
    check(heap['events'] < count[2], f"{heap['events']} events of {count[2]} samples and as many ends")
    with running(system, interval=INTERVAL * 4) as probed:
        record(system, 'coarser.syscap', probed.pid)
    told = [text for text in messages(system, 'coarser.syscap') if f'Process {probed.pid} samples a byte in' in text]
    check(len(told) == 1 and 'memory-interval' in told[0], messages(system, 'coarser.syscap'))


def test_child(system):
    """One that it makes meanwhile is followed, too, and goes on after the session."""
    with running(system) as probed:
        recording = start(system, 'child.syscap', probed.pid, f'--duration={2 * SECONDS}')
        time.sleep(SECONDS - 1)
        probed.fork()
        finish(system, recording, 'child.syscap')
        settled(probed.pid)
        counts = probed.end()
    system.sondectl('verify', system.path('child.syscap'))
    check(len(counts) == 2, counts)
    for pid, count in counts.items():
        compare(system, count, read_heap(system, 'child.syscap', f'--pid={pid}'))


def test_two(system):
    with running(system) as probed:
        recordings = [start(system, f'two-{i}.syscap', probed.pid, f'--duration={SECONDS + i}') for i in range(2)]
        for i, recording in enumerate(recordings):
            finish(system, recording, f'two-{i}.syscap')
        settled(probed.pid)
        count = probed.end()[probed.pid]
    heaps = [read_heap(system, f'two-{i}.syscap') for i in range(2)]
    check(count[4] == 0, 'the probes are traced, still')
    for i, heap in enumerate(heaps):
        expected = count[1] * (SECONDS + i) / (SECONDS + 1)
        check(abs(heap['allocated']['bytes'] / expected - 1) < 0.4, f"session {i}: {heap['allocated']} of {count}")


def test_command(system):
    """Of a command, from its beginning, beside the library."""
    pipe, end = os.pipe()
    recording = subprocess.Popen([system.program('client/sondectl'), 'record', '--embedded', f"--sonded={system.program('daemon/control/sonded')}",
                                  f"--worker={system.program('daemon/capture/sonde-capture')}", '-o', system.path('command.syscap'),
                                  '--memory=sampled', f'--memory-interval={INTERVAL}', '--event=none', '--',
                                  system.program('tests/system/probed'), str(INTERVAL), str(N_THREADS)],
                                 stdin=pipe, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.close(pipe)
    time.sleep(SECONDS)
    os.close(end)
    output, _ = recording.communicate(timeout=120)
    check(recording.returncode == 0, output)
    line = next(line for line in output.splitlines() if len(line.split()) == 6 and line.replace(' ', '').isdigit())
    count = tuple(map(int, line.split()))[1:]
    heap = read_heap(system, 'command.syscap')
    check(abs(heap['allocated']['bytes'] / count[1] - 1) < 5 / math.sqrt(count[1] / INTERVAL) + SLACK, f"{heap['allocated']} of {count}")


def check_refused(system, name, output, pid, why):
    check('their allocators\' probes are not followed' in output, output)
    told = [text for text in messages(system, name) if text.startswith('Missing: ') and f'process {pid} ' in text]
    check(len(told) == 1 and why in told[0], messages(system, name))
    result = subprocess.run([system.program('client/sondectl'), 'verify', system.path(name)], capture_output=True, text=True, check=False)
    check(result.returncode != 0, f'verify agrees:\n{result.stdout}')


def test_instruction(system):
    """Children would die of it, on Linux 6.18."""
    with running(system, program=system.program('tests/system/probed-long')) as probed:
        output = record(system, 'long.syscap', probed.pid)
        counts = probed.end()
    check(counts[probed.pid][0] == 0, 'they were traced')
    check_refused(system, 'long.syscap', output, probed.pid, 'not an instruction of one byte')


def test_file_system(system):
    """Users can have one mounted so; and one that a program answers for is not even looked at."""
    folder = system.path('mounted')
    os.mkdir(folder)
    system.run('mount', '-t', 'tmpfs', '-o', 'nosuid,size=8m', 'tmpfs', folder)
    try:
        program = shutil.copy(system.program('tests/system/probed'), folder)
        with running(system, program=program) as probed:
            output = record(system, 'nosuid.syscap', probed.pid)
            counts = probed.end()
    finally:
        system.run('umount', '-l', folder)
    check(counts[probed.pid][0] == 0, 'they were traced')
    check_refused(system, 'nosuid.syscap', output, probed.pid, 'file system')


def test_fuse(system):
    folder, source = system.path('fuse'), system.path('source')
    os.mkdir(folder)
    os.mkdir(source)
    shutil.copy(system.program('tests/system/probed'), source)
    with subprocess.Popen([system.program('tests/system/stuck-fuse'), source, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            check(server.stdout.readline().strip() == 'mounted', 'no FUSE', Fault)
            with running(system, program=os.path.join(folder, 'probed')) as probed:
                begin = time.monotonic()
                record(system, 'fuse.syscap', probed.pid)
                system.run('true')
                system.note(f'{time.monotonic() - begin:.1f} s')
                counts = probed.end()
        finally:
            server.stdin.close()
            server.wait(60)
    check(counts[probed.pid][0] == 0, 'they were traced')


def test_kill(system):
    """Probes go, whoever is killed."""
    for name in ('sonde-broker', 'sonde-capture', 'sonded'):
        with running(system) as probed:
            recording = start(system, f'kill-{name}.syscap', probed.pid)
            time.sleep(1.5)
            os.kill(wait_until(lambda name=name: find_descendant(recording.pid, name), name), signal.SIGKILL)
            time.sleep(0.2)
            recording.kill()
            recording.communicate()
            settled(probed.pid)
            count = probed.end()[probed.pid]
        check(count[0] > 0 and count[4] == 0, f'{name}: {count}')


def test_user(system):
    """What a user's own rights do not give is told."""
    nobody = 65534
    folder = system.path('user')
    os.mkdir(folder)
    os.chown(folder, nobody, nobody)
    os.chmod(system.folder, 0o755)
    own = ['setpriv', f'--reuid={nobody}', f'--regid={nobody}', '--clear-groups', '--inh-caps=-all', '--bounding-set=-all']
    process = subprocess.Popen([*own, system.program('tests/system/probed'), str(INTERVAL), str(N_THREADS)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        time.sleep(0.5)
        output = record(system, 'user/user.syscap', process.pid, prefix=own)
    finally:
        process.stdin.close()
        process.wait()
    check_refused(system, 'user/user.syscap', output, process.pid, 'this session has none')
    check(any('CAP_BPF' in text for text in messages(system, 'user/user.syscap')), messages(system, 'user/user.syscap'))


def find_reason(system):
    """Why this kernel cannot do it, or None."""
    with running(system) as probed:
        record(system, 'try.syscap', probed.pid, '--duration=1')
    return next((text for text in messages(system, 'try.syscap') if 'Linux 6.' in text or 'file system' in text), None)


def main():
    system = System(10)
    reason = find_reason(system)
    for name, test, is_always in (('sums are those of the program, with each kind of detail', test_details, False),
                                  ('a program has a distance of its own', test_distance, False),
                                  ('a child is followed', test_child, False),
                                  ('two sessions have the same', test_two, False),
                                  ('a command is followed', test_command, False),
                                  ('an instruction that forks do not outlive is refused', test_instruction, False),
                                  ('a file system that users mount is refused', test_file_system, False),
                                  ('nobody asks one that a program answers for', test_fuse, True),
                                  ('probes go with who is killed', test_kill, False),
                                  ('a user is told what his rights do not give', test_user, True)):
        if reason and not is_always:
            system.skip(name, reason)
            continue
        with system.case(name):
            test(system)
    system.finish()


if __name__ == '__main__':
    main()
