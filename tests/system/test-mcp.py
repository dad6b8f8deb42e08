#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""sondectl mcp records programs for clients, who find what they waste: test-mcp.py BUILD SOURCE"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from system import DEADLINE_S, System, check, find_descendants, wait_until

import mcp

USER = 65534  # without any right
LOCKS = ('pthread_mutex_lock', 'lll_lock', 'pthread_mutex_unlock')


class Places:
    """Where a server of that user has its captures, and what is there."""

    def __init__(self, system, user):
        self.runtime = system.path(f'runtime-{len(os.listdir(system.folder))}')
        os.mkdir(self.runtime, 0o700)
        os.chown(self.runtime, user, user)
        os.chmod(system.folder, 0o755)
        self.prefix = ['setpriv', '--reuid', str(user), '--regid', str(user), '--clear-groups'] if user else []
        self.environment = {'XDG_RUNTIME_DIR': self.runtime, 'HOME': self.runtime}
        self.folder = os.path.join(self.runtime, 'sonde-mcp')

    def client(self, system):
        client = mcp.Client(system.program('client/sondectl'), *self.prefix, **self.environment)
        client.initialize()
        return client

    def servers(self):
        return [os.path.join(self.folder, name) for name in os.listdir(self.folder)] if os.path.exists(self.folder) else []

    def captures(self):
        return sorted(name for server in self.servers() for name in os.listdir(server))


def judge(system, source):
    """Knows the names of nothing; what he found, and in how many calls."""
    judges = os.environ.get('JUDGES_DIR')
    places = Places(system, USER)
    result = subprocess.run([*places.prefix, 'node', os.path.join(source, 'tests/judges/mcp.mjs'), system.program('client/sondectl'),
                             system.program('tests/system/planted')], cwd=judges, env=os.environ | places.environment, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    check(result.returncode == 0, f'{result.stderr}')
    system.note(result.stdout)
    check(places.servers() == [], f'left behind: {places.servers()}')
    return json.loads(result.stdout)


def test_judged(system, source):
    found = judge(system, source)
    line = next(number for number, text in enumerate(open(os.path.join(source, 'tests/system/planted.c'), encoding='utf-8'), 1)
                if 'the hot line' in text)
    check(found['time']['function'] == 'add_up' and found['time']['source'] in (f'planted.c:{line}', f'planted.c:{line - 1}')
          and found['time']['percent'] > 80, f'{found["time"]}')
    check(found['memory']['function'] == 'remember' and (found['memory']['bytes'], found['memory']['blocks']) == (2000000, 2000), f'{found["memory"]}')
    check(found['threads']['function'] == 'take_turns' and any(lock in found['threads']['lock'] for lock in LOCKS)
          and found['threads']['threads'] >= 4, f'{found["threads"]}')
    check(max(found[what]['calls'] for what in ('time', 'memory', 'threads')) <= 3, f'{found}')
    check(found['rows'] == found['total'] == found['different'] and found['pages'] > 1 and found['sorted'], f'{found}')
    check('there is no capture c99' in found['refused'] and found['progress'] >= 3, f'{found}')


def test_private(system):
    """Nobody else sees a capture, and a failed recording leaves none."""
    places = Places(system, USER)
    with places.client(system) as client:
        check('/nonexistent' in client.call('record', command=['/nonexistent']), 'it ran')
        check(places.captures() == [], f'{places.captures()}')
        answer = client.call('record', command=['sh', '-c', 'echo "$PWD"; echo some >&2; exit 7'], folder='/usr')
        check(isinstance(answer, dict), f'{answer}')
        check((answer['exit-status'], answer['printed']) == (7, '/usr') and 'some\n' in answer['said'], f'{answer}')
        check(places.captures() == [f'{answer["capture"]}.syscap'], f'{places.captures()}')
        for path in (places.folder, *places.servers()):
            status = os.stat(path)
            check((status.st_mode & 0o777, status.st_uid) == (0o700, USER), f'{path}: {status.st_mode:o}')
        path = os.path.join(places.servers()[0], places.captures()[0])
        stranger = Places(system, USER - 1)
        with stranger.client(system) as other:
            check(isinstance(other.call('report', capture=path), str), 'a stranger reads it')
        check(isinstance(client.call('report', capture=path), dict), 'its own user does not')
        check(client.close() == 0, 'status')
    check(places.servers() == [], f'left behind: {places.servers()}')


def test_many(system):
    """The oldest go."""
    places = Places(system, USER)
    with places.client(system) as client:
        names = [client.call('record', command=['true'])['capture'] for _ in range(18)]
        check(len(places.captures()) == 16, f'{places.captures()}')
        check(names[0] in client.call('report', capture=names[0]), 'the first one is there')
        check(isinstance(client.call('report', capture=names[-1]), dict), 'the last one is not there')


def test_cancelled(system):
    """With all that it started, and nobody is told of it any more."""
    places = Places(system, USER)
    with places.client(system) as client:
        number = client.start_call('record', token='how far', command=['sh', '-c', 'sleep 4711 & sleep 4712'], seconds=500)
        pid = client.server.pid
        wait_until(lambda: len(find_descendants(pid, 'sleep')) == 2, 'the command')
        sleepers = find_descendants(pid, 'sleep')
        note = client.receive()
        check(note['method'] == 'notifications/progress' and note['params']['progressToken'] == 'how far' and note['params']['total'] == 500,
              f'{note}')
        client.send({'jsonrpc': '2.0', 'method': 'notifications/cancelled', 'params': {'requestId': number}})
        wait_until(lambda: not any(is_running(sleeper) for sleeper in sleepers), 'the end of the command')
        check(client.call('report', capture='c1').startswith('there is no capture c1'), 'its capture is there')
        check(places.captures() == [] and not any(note.get('id') == number for note in client.notes), f'{client.notes}')


def is_running(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as stat:
            return stat.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def test_left_alone(system):
    """A client that goes ends what runs; a server that is killed leaves its captures to the next one."""
    places = Places(system, USER)
    with places.client(system) as client:
        client.start_call('record', command=['sleep', '4713'], seconds=500)
        sleeper, = wait_until(lambda: find_descendants(client.server.pid, 'sleep'), 'the command')
        check(client.close() == 0, 'status')
        wait_until(lambda: not is_running(sleeper), 'the end of the command')
        check(places.servers() == [], f'left behind: {places.servers()}')
    with places.client(system) as client:
        client.call('record', command=['true'])
        client.server.send_signal(signal.SIGKILL)
        client.server.wait()
        check(len(places.servers()) == 1, 'who removed it?')
    with places.client(system) as one, places.client(system) as other:
        check(one.call('record', command=['true'])['capture'] == 'c1' and len(places.servers()) == 1, f'{places.servers()}')
        check(other.call('record', command=['true'])['capture'] == 'c1' and len(places.servers()) == 2, 'the other one lives, too')
        check(isinstance(one.call('report', capture='c1'), dict), 'it lost its capture to the other')


def test_daemon(system):
    """What a command leaves running is not waited for, and does not stay."""
    places = Places(system, USER)
    begin = time.monotonic()
    with places.client(system) as client:
        answer = client.call('record', command=['sh', '-c', 'sleep 4714 & echo $!'], seconds=2)
        sleeper = int(answer['printed'])
        wait_until(lambda: not is_running(sleeper), 'the end of what it left')
        system.note(f'{time.monotonic() - begin:.1f} s')


def main():
    system = System(6)
    source = sys.argv[2]
    name = 'the SDK of others finds a hot line, a leak and a lock in three calls each'
    if os.environ.get('JUDGES_DIR') and shutil.which('node'):
        with system.case(name):
            system.measure(lambda _: test_judged(system, source))
    else:
        system.skip(name, 'the packages of tests/judges are not there')
    for name, test in (('captures are private, and go with their server', test_private),
                       ('only so many captures are kept', test_many),
                       ('a call that is cancelled ends with all that it started', test_cancelled),
                       ('what a client or a server leaves behind is ended and removed', test_left_alone),
                       ('a command that leaves something running ends all the same', test_daemon)):
        with system.case(name):
            test(system)
    system.finish()


main()
