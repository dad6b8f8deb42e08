#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that run already have their calls counted, and then no more: test-traced-joins.py SOURCE BUILD"""

import json
import os
import signal
import subprocess

from service import Service, wait_for
from tap import DEADLINE_S, check

N_JOINS = 4
N_CALLS = 1000
OFF, ON = b'\xeb\x09', b'\xeb\x00'


class Program:
    """tests/system/callers, which calls as often as it is told."""

    def __init__(self, service, user, path, library, mode='serve'):
        # Also in what becomes the user, which takes capabilities from one of its threads alone.
        environment = {**os.environ, 'SONDE_BEACON': os.path.join(os.environ['PRIVATE_BUS_DIR'], 'beacon'), 'LD_PRELOAD': library}
        self.process = service.start(user, path, '0', mode, env=environment, stdin=subprocess.PIPE)
        self.pid, self.path = self.process.pid, path
        self.tell(1)

    def tell(self, n_calls):
        self.process.stdin.write(f'{n_calls}\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        check(answer == 'ok\n', f'{answer} {self.process.poll()}')

    def has_region(self):
        return self.count_regions() > 0

    def count_regions(self):
        with open(f'/proc/{self.pid}/maps', encoding='utf-8') as file:
            return sum('/memfd:sonde-trie' in line for line in file)

    def count_threads(self):
        return len(os.listdir(f'/proc/{self.pid}/task'))

    def read_sled(self):
        """The two bytes that outer() begins with."""
        symbols = subprocess.run(['nm', self.path], capture_output=True, text=True, check=True).stdout.splitlines()
        offset, = (int(line.split()[0], 16) for line in symbols if line.endswith(' outer'))
        with open(f'/proc/{self.pid}/maps', encoding='utf-8') as file:
            base = int(next(line for line in file if line.rstrip().endswith(self.path)).split('-')[0], 16)
        with open(f'/proc/{self.pid}/mem', 'rb') as memory:
            memory.seek(base + offset)
            return memory.read(2)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=DEADLINE_S)


def start_session(service, sondectl, user, path, pid):
    """A recording that runs; too many may have been begun, and it is tried again."""
    def start():
        before = {number for number, _, _ in service.list_sessions()}
        process = service.start(user, sondectl, 'record', '--service', '--event=none', '--trace=count', '-o', path, '-p', str(pid))
        wait_for(lambda: process.poll() is not None or [
            number for number, owner, state in service.list_sessions()
            if owner == user and state == 'running' and number not in before], 'the session')
        if process.poll() is None:
            return process
        errors = process.communicate()[1]
        check('Limit starts' in errors, errors)
        return None
    return wait_for(start, 'a session')


def end_session(service, sondectl, user, path, process):
    """Calls by path."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=DEADLINE_S)
    check(process.returncode == 0, f'{process.returncode}: {output}{errors}')
    wait_for(lambda: not [state for _, owner, state in service.list_sessions() if owner == user], 'the end of the session')
    result = service.run(user, sondectl, 'verify', path)
    check(result.returncode == 0, result.stdout + result.stderr)
    result = service.run(user, sondectl, 'calls', '--json', '--paths', path)
    check(result.returncode == 0, result.stderr)
    shown = json.loads(result.stdout)
    check(shown['refused_places'] == 0, shown)
    paths, calls = {}, {}
    for i, row in enumerate(shown['paths']):
        paths[i] = f"{paths[row['parent']]} {row['name']}" if row['parent'] >= 0 else row['name']
        calls[paths[i]] = row['calls']
    return calls


def join(service, sondectl, user, program, has_sleds):
    """A session from its beginning to its end, in the middle of the program."""
    path = os.path.join(service.make_folder(user), 'joined.syscap')
    n_before = program.count_regions()
    process = start_session(service, sondectl, user, path, program.pid)
    wait_for(lambda: program.count_regions() > n_before, 'the region')
    if has_sleds:
        wait_for(lambda: program.read_sled() == ON, 'the sled')
    program.tell(N_CALLS)
    calls = end_session(service, sondectl, user, path, process)
    check(calls == {'[thread]': 0, '[thread] main': 0, '[thread] main serve': 0, '[thread] main serve outer': 1,
                    '[thread] main serve outer leaf': N_CALLS, '[signal]': 0}, calls)
    if has_sleds:
        wait_for(lambda: program.read_sled() == OFF, 'the sled')


def main():
    service = Service(5)
    sondectl = service.install_sondectl()
    user = service.next_user()
    service.busctl('introspect', 'org.sonde.Profiler1', '/org/sonde/Profiler1')
    library = service.install('shared-ring/collector/tracer/libsonde-tracer.so')

    path = service.install('tests/system/callers')
    hooked = Program(service, user, path, library)
    with service.case('calls of a program that runs are counted from a session on to its end, by paths from main on'):
        for _ in range(N_JOINS):
            join(service, sondectl, user, hooked, has_sleds=False)
        check(hooked.end() == 0, 'it has failed')

    with service.case('so are those of one that has closed all descriptors'):
        closed = Program(service, user, path, library, 'serve-closed')
        join(service, sondectl, user, closed, has_sleds=False)
        check(closed.end() == 0, 'it has failed')

    if not os.path.exists(os.path.join(service.build, 'tests/system/callers-sleds')):
        for name in ('sleds', 'threads', 'the end'):
            service.skip(name, 'there is no clang')
        service.finish()
        return
    program = Program(service, user, service.install('tests/system/callers-sleds'), library)
    with service.case('sleds of a program that nobody looks at are off'):
        check(program.read_sled() == OFF, program.read_sled())
        n_threads = program.count_threads()
    with service.case('they are on from a session on to its end, and calls are counted'):
        for _ in range(N_JOINS):
            join(service, sondectl, user, program, has_sleds=True)
    with service.case('nothing of it stays'):
        wait_for(lambda: program.count_threads() == n_threads, f'{n_threads} threads')
        program.tell(N_CALLS)
        check(program.read_sled() == OFF, program.read_sled())
        check(program.end() == 0, 'it has failed')
    service.finish()


if __name__ == '__main__':
    main()
