#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program on a file system that answers no more: test-stalled-mount.py SOURCE BUILD"""

import contextlib
import os
import re
import subprocess

from service import DEADLINE_S, Service, wait_for
from tap import check

N_ROUNDS = 5
N_AT_ONCE = 10  # sessions: each asks for the file


class StalledProgram:
    """Burns CPU time; then whoever wants its file waits for ever."""

    def __init__(self, service):
        folder = service.make_folder(0)
        os.chmod(folder, 0o755)
        self.server = subprocess.Popen(
            [os.path.join(service.build, 'tests/bus/stuck-fuse'), os.path.join(service.build, 'tests/system'), folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(self.server.stdout.readline() == 'mounted\n', 'the file system cannot be mounted')
        self.path = os.path.join(folder, 'burn')
        self.user = service.next_user()
        self.process = service.start(self.user, self.path, '600')
        wait_for(lambda: os.readlink(f'/proc/{self.process.pid}/exe') == self.path and self.cpu_ticks() > 20,
                 'the program')
        self.server.stdin.write('stop ALL\n')
        self.server.stdin.flush()
        check(self.server.stdout.readline() == 'ok\n', 'the file system does not stop')

    def cpu_ticks(self):
        with open(f'/proc/{self.process.pid}/stat', encoding='ascii') as stat:
            return int(stat.read().rsplit(')', 1)[1].split()[11])

    def end(self):
        self.process.kill()
        # What waits for it fails once it is gone.
        self.server.communicate()
        self.process.communicate()


def start_recording(service, pid, name, seconds):
    return service.start(0, os.path.join(service.build, 'client/sondectl'), 'record', '-p', str(pid), '-d',
                         str(seconds), '-o', os.path.join(service.folder, name))


def finish_recording(recording):
    output, errors = recording.communicate(timeout=DEADLINE_S)
    check(recording.returncode == 0, f'{output}{errors}')
    return output + errors


def is_waiting(pid):
    """Whether some thread of it sleeps so that no signal but one that kills wakes it, as it does for a moment in
    perf_event_open(), and on a stalled file system for good."""
    states = []
    for task in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            with open(f'/proc/{pid}/task/{task}/stat', encoding='utf-8', errors='replace') as stat:
                states.append(stat.read().rsplit(')', 1)[1].split()[0])
    return 'D' in states


def test_stalls(service):
    service.list_sessions()  # now there is a sonded
    program = StalledProgram(service)
    burner = service.start_burner(program.user)
    other = start_recording(service, burner.pid, 'other.syscap', 2 * N_ROUNDS)
    ping = subprocess.Popen([os.path.join(service.build, 'tests/bus/bench-flood'), '0'],
                            stdout=subprocess.PIPE, text=True)
    logs = ''
    for round_ in range(N_ROUNDS):
        recordings = [start_recording(service, program.process.pid, f'stalled-{round_}-{i}.syscap', 1)
                      for i in range(N_AT_ONCE)]
        wait_for(lambda: not is_waiting(service.daemon_pid()), 'sonded leaves the file system alone')
        logs += ''.join(map(finish_recording, recordings))
    p99_ms = float(re.search(r'p99_ms=(\S+)', ping.communicate(timeout=DEADLINE_S)[0])[1])
    service.note(f'{N_ROUNDS * N_AT_ONCE} sessions of a program on a stalled file system')
    service.note(f'bench stall p99_ms={p99_ms}')
    samples = [int(n.replace(',', '')) for n in re.findall(r'Recorded ([\d,]+) samples', logs)]
    check(len(samples) == N_ROUNDS * N_AT_ONCE and min(samples) > 0, f'samples: {samples}')
    check('none lost' in finish_recording(other), 'the other session has lost something')
    burner.kill()
    burner.communicate()
    program.end()


def main():
    service = Service(1)
    with service.case('a program on a stalled file system is profiled, and nobody waits for it'):
        test_stalls(service)
    service.finish()


main()
