#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Capture files on a disk that fills up: test-full-disk.py SOURCE BUILD"""

import os
import re
import subprocess

from service import Service, wait_for
from tap import check

MIB = 1 << 20
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
        """Somebody else writes to the disk."""
        with open(self.ballast, 'ab') as file:
            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, self.free_bytes() - n_bytes)

    def clear(self):
        os.unlink(self.ballast)


def start_session(service, *options):
    answer = service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                            'org.sonde.Profiler1.Manager', 'StartSession', 'a{sv}', str(1 + len(options)),
                            'system', 'b', 'true', *(word for option in options for word in option))
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


def main():
    service = Service(4)
    disk = Disk()
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
