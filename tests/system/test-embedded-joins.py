#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Embedded sessions call programs that run already by a beacon of the user's own: test-embedded-joins.py BUILD"""

import contextlib
import os
import re
import signal
import stat
import subprocess
import time

from system import DEADLINE_S, System, check, find_descendant, wait_until

N_THREADS = 5
N_BLOCKS = 1000
N_JOINS = 5
MAX_STEPS = 1000  # of a program, until it has followed the call; only so that a hang ends
DEAF_STEPS = 50    # of one that is not to follow
STEP_BYTES, WORK_BYTES, OTHER_BYTES = 1111, 22222, 3333
OWNER = 61001


class Program:
    """tests/system/joined, which does what it is told in each of its threads."""

    def __init__(self, system, prefix=()):
        self.process = subprocess.Popen([*prefix, system.program('client/sondectl'), 'arm', '--',
                                         system.program('tests/system/joined')],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.tell('work', 1, STEP_BYTES)

    def tell(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        check(answer == 'ok\n', f'{words}: {answer} {self.process.poll()}')

    def has_link(self):
        folder = f'/proc/{self.pid}/fd'
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if os.readlink(os.path.join(folder, name)).startswith('socket:'):
                    return True
        return False

    def step_until(self, condition, max_steps=MAX_STEPS):
        for _ in range(max_steps):
            self.tell('work', 1, STEP_BYTES)
            if condition():
                return True
            time.sleep(0.02)
        return False

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(timeout=DEADLINE_S) == 0, 'the program has failed')


class Session:
    """A recording of it, until it is ended."""

    def __init__(self, system, name, *arguments, prefix=()):
        self.system, self.name = system, name
        self.process = system.start_recording(name, '--event=none', '--memory', '--memory-detail=events', *arguments,
                                              prefix=prefix)
        system.wait_for_worker(self.process)

    def end(self):
        """Its capture, and that as text."""
        self.process.send_signal(signal.SIGINT)
        capture, _ = self.system.finish_recording(self.process, self.name)
        return capture, self.system.sondectl('dump', self.system.path(self.name))


def says(path, sentence):
    """A capture that is still written."""
    with open(path, 'rb') as file:
        return sentence in file.read()


def count_blocks(dump, size, pid):
    return len(re.findall(rf'^ *ALLOCATION .*pid={pid}\b.* size={size}\b', dump, re.M))


def join_and_leave(system, program, name='joined.syscap', prefix=()):
    session = Session(system, name, '-p', str(program.pid), prefix=prefix)
    check(program.step_until(program.has_link), 'it has not come')
    program.tell('work', 1, STEP_BYTES)  # all threads have their rings
    program.tell('work', N_BLOCKS, WORK_BYTES)
    program.tell('fork', N_BLOCKS, OTHER_BYTES)
    program.tell('vfork', N_BLOCKS, OTHER_BYTES)
    capture, dump = session.end()
    check(capture.ledger['events-lost-ring'] == 0, f'{capture.ledger}')
    n_blocks = count_blocks(dump, WORK_BYTES, program.pid)
    check(n_blocks == N_THREADS * N_BLOCKS, f'{n_blocks} blocks')
    # What a child of vfork() does to the heap it does to its parent's.
    n_blocks = count_blocks(dump, OTHER_BYTES, program.pid)
    check(n_blocks == N_BLOCKS, f'{n_blocks} blocks of the child of vfork()')
    n_blocks = count_blocks(dump, OTHER_BYTES, r'\d+')
    check(n_blocks == 2 * N_BLOCKS, f'{n_blocks} blocks of both children')
    check(program.step_until(lambda: not program.has_link()), 'its link is still open')
    program.tell('work', 1, STEP_BYTES)


def main():
    system = System(6)
    os.environ['SONDE_MEMORY_LIBRARY'] = system.program('shared-ring/collector/memory/libsonde-memory.so')
    runtime = system.path('runtime')
    beacon = os.path.join(runtime, 'sonde-embedded/beacon')
    os.mkdir(runtime, 0o700)
    os.environ['XDG_RUNTIME_DIR'] = runtime
    if os.path.exists('/run/sonde/beacon'):  # the machine's service calls whom it arms
        os.environ['SONDE_BEACON'] = beacon
        os.mkdir(os.path.dirname(beacon), 0o700)
    program = Program(system)

    with system.case('a program that runs is joined by an embedded session and left, again and again'):
        check(stat.S_IMODE(os.stat(beacon).st_mode) == 0o600, 'others may look at it')
        for _ in range(N_JOINS):
            join_and_leave(system, program)

    with system.case('another program of the user is not joined'):
        bystander = Program(system)
        session = Session(system, 'others.syscap', '-p', str(program.pid))
        check(program.step_until(program.has_link), 'it has not come')
        check(not bystander.step_until(bystander.has_link, DEAF_STEPS), 'it has come')
        session.end()
        bystander.end()

    with system.case('the second session at a time says that it calls nobody'):
        session = Session(system, 'first.syscap', '-p', str(program.pid))
        check(program.step_until(program.has_link), 'it has not come')
        second = Session(system, 'second.syscap', '-p', str(os.getpid()))
        wait_until(lambda: says(system.path('second.syscap'), b'are not called'), 'its sentence')
        capture, _ = second.end()
        check(any('are not called' in text for text in capture.logs), f'{capture.logs}')
        program.tell('work', N_BLOCKS, WORK_BYTES)
        _, dump = session.end()
        check(count_blocks(dump, WORK_BYTES, program.pid) >= N_THREADS * (N_BLOCKS - 1), 'blocks are missing')

    with system.case('a killed session leaves nothing that keeps the next one from calling'):
        session = Session(system, 'killed.syscap', '-p', str(program.pid))
        check(program.step_until(program.has_link), 'it has not come')
        sonded = find_descendant(session.process.pid, 'sonded')
        os.kill(sonded, signal.SIGKILL)
        session.process.communicate(timeout=DEADLINE_S)
        check(program.step_until(lambda: not program.has_link()), 'its link is still open')
        join_and_leave(system, program)
    program.end()

    with system.case('commands are told of the page, by which later sessions call what they leave behind'):
        process = system.start_recording('told.syscap', '--event=none', '--', 'sleep', '2')
        sleeper = wait_until(lambda: find_descendant(process.pid, 'sleep'), 'the command')
        with open(f'/proc/{sleeper}/environ', 'rb') as file:
            check(f'SONDE_BEACON={beacon}'.encode() in file.read().split(b'\0'), 'it is not told')
        system.finish_recording(process, 'told.syscap')

    with system.case('so it is for an ordinary user'):
        os.environ.pop('SONDE_BEACON', None)
        os.chmod(system.folder, 0o777)
        own = system.path('own')
        os.mkdir(own, 0o700)
        os.chown(own, OWNER, OWNER)
        os.environ['SONDE_BEACON'] = os.path.join(own, 'beacon')
        prefix = ('setpriv', f'--reuid={OWNER}', f'--regid={OWNER}', '--clear-groups')
        program = Program(system, prefix)
        join_and_leave(system, program, 'users.syscap', prefix)
        program.end()
    system.finish()


main()
