#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Capture files on a disk that fills up: test-full-disk.py SOURCE BUILD"""

import contextlib
import os
import re
import signal
import subprocess

from service import Service, wait_for
from tap import check

MIB = 1 << 20
TRIES = 100
DISK_BYTES = 32 * MIB
STATE = '/mnt/state'  # where tests/lib/private-bus has sonded's state


class Disk:
    """A small disk of its own under the state directory."""

    def __init__(self):
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'mode=0755,size={DISK_BYTES}', 'full-disk', STATE],
                       check=True)
        self.ballast = os.path.join(STATE, 'ballast')

    def free_bytes(self):
        disk = os.statvfs(STATE)
        return disk.f_bavail * disk.f_frsize

    def leave(self, n_bytes):
        """Somebody else writes to the disk, while sonded may."""
        with open(self.ballast, 'ab') as file:
            for _ in range(TRIES):
                wanted = self.free_bytes() - n_bytes
                if wanted <= 0:
                    return
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, wanted)
                    return
        raise RuntimeError('the disk fills by itself')

    def clear(self):
        os.unlink(self.ballast)


def start_session(service, *options, scope=('system', 'b', 'true')):
    options = (scope, *options) if scope else options
    answer = service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                            'org.sonde.Profiler1.Manager', 'StartSession', 'a{sv}', str(len(options)),
                            *(word for option in options for word in option))
    return re.search(r'"(.*)"', answer)[1]


def get_property(service, session, name):
    answer = service.busctl('get-property', 'org.sonde.Profiler1', session,
                            'org.sonde.Profiler1.Session', name)
    return answer.split()[1].strip('"')


def read_capture(service, session):
    """As its owner gets it: whole, with a ledger that holds. Returns the text of its LOG frames."""
    sondectl = os.path.join(service.build, 'client/sondectl')
    path = os.path.join(service.folder, 'full.syscap')
    for arguments in (['attach', session, '-o', path], ['verify', path], ['dump', path]):
        result = service.run(0, sondectl, *arguments)
        check(result.returncode == 0, f'{arguments[0]}: {result.returncode}\n{result.stdout[-2000:]}{result.stderr}')
    return [line for line in result.stdout.splitlines() if 'LOG' in line.split()]


def test_full(service, disk, left_bytes, reason):
    session = start_session(service, ('frequency', 'u', '20000'))
    if left_bytes:
        disk.leave(left_bytes)
    # Something for it to record.
    burner = service.start_burner(0)
    wait_for(lambda: get_property(service, session, 'State') == 'finished', 'the end of the session')
    burner.kill()
    burner.communicate()
    logs = read_capture(service, session)
    check(any('ends before the session' in line and reason in line for line in logs), '\n'.join(logs))
    size_bytes = os.stat(get_property(service, session, 'CaptureFile')).st_size
    service.note(f'{size_bytes} bytes, {disk.free_bytes()} are free; {logs[-1].strip()}')
    check(size_bytes > 0.2 * MIB, 'there was room for more')


def get_statistics(service, session):
    answer = service.busctl('get-property', 'org.sonde.Profiler1', session, 'org.sonde.Profiler1.Session', 'Statistics')
    return {key: int(value) for key, value in re.findall(r'"([a-z-]+)" (\d+)', answer)}


def count_frames(service, path):
    """{type: how many}"""
    result = service.run(0, os.path.join(service.build, 'client/sondectl'), 'dump', '--counts', path)
    check(result.returncode == 0, f'{result.stdout}{result.stderr}')
    return {words[0]: int(words[1].replace(',', '')) for words in map(str.split, result.stdout.splitlines())
            if len(words) == 2}


def test_step(service, disk, burner, size_bytes, left_bytes):
    """The disk is full so many bytes after what the file has when it has size_bytes. Returns the samples in the file."""
    session = start_session(service, ('pids', 'au', '1', str(burner.pid)), ('frequency', 'u', '2000'),
                            ('symbols', 's', 'none'), scope=None)
    path = get_property(service, session, 'CaptureFile')
    wait_for(lambda: os.stat(path).st_size > size_bytes, 'something of it')
    disk.leave(left_bytes)
    wait_for(lambda: get_property(service, session, 'State') == 'finished', 'the end of the session')
    result = service.run(0, os.path.join(service.build, 'client/sondectl'), 'verify', path)
    check(result.returncode == 0, f'{left_bytes} bytes: {result.stdout}{result.stderr}')
    frames = count_frames(service, path)
    told = get_statistics(service, session)
    samples = frames.get('SAMPLE', 0)
    check(samples == told['stream-samples'] and sum(frames.values()) == told['stream-delivered'],
          f'{left_bytes} bytes: {frames} are there, and told is {told}')
    check(told['stream-recorded'] + told['stream-resent'] ==
          told['stream-delivered'] + told['stream-lost'] + told['stream-filtered'], f'{left_bytes} bytes: {told}')
    check(told['stream-lost'] > 0, f'{left_bytes} bytes: nothing is lost')
    text = service.run(0, os.path.join(service.build, 'client/sondectl'), 'dump', path).stdout
    check('This file ends before the session does: No space left on device' in text, f'{left_bytes} bytes: no word of it')
    check('CTRSET' in text.splitlines()[-1], f'{left_bytes} bytes: no ledger at the end: {text.splitlines()[-1]}')
    service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                   'RemoveCapture', 's', os.path.basename(path))
    disk.clear()
    return samples


def main():
    service = Service(5)
    disk = Disk()
    with service.case('wherever the disk is full the file ends whole, with its ledger, and the numbers are exact'):
        burner = service.start_burner(0)
        # The state alone has some 8 KiB. Where a write ends is another place in its block each time.
        samples = [test_step(service, disk, burner, size, step * 4096)
                   for size in (4096, 12288, 24576) for step in range(5)]
        burner.kill()
        burner.communicate()
        service.note(f'{samples} samples')
        check(max(samples) > 3 * min(samples), 'more room takes no more samples')
    with service.case('a file that fills its part of the disk ends whole, and a tenth stays free'):
        disk.leave(9 * MIB)
        test_full(service, disk, 0, 'File too large')
        check(disk.free_bytes() >= DISK_BYTES // 10, f'{disk.free_bytes()} bytes are free')
        disk.clear()
    with service.case('a disk that others fill ends the file whole'):
        test_full(service, disk, 3 * MIB, 'No space left on device')
        check(disk.free_bytes() < 2 * MIB, f'{disk.free_bytes()} bytes are free')
    with service.case('a full disk refuses a session by the name of the limit'):
        try:
            start_session(service)
        except subprocess.CalledProcessError as error:
            check('capture-free-percent' in error.stderr, error.stderr)
        else:
            raise AssertionError('a session started')
        check(service.list_sessions()[-1][2] == 'finished', 'a session stayed')
    with service.case('with room again a session starts'):
        disk.clear()
        session = start_session(service)
        result = service.run(0, os.path.join(service.build, 'client/sondectl'), 'stop', session)
        check(result.returncode == 0, result.stderr)
        check(not any('ends before' in line for line in read_capture(service, session)), 'it was cut')
    service.finish()


main()
