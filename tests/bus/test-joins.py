#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that run already are called into a session, and leave it again: test-joins.py SOURCE BUILD"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from service import Service, wait_for
from tap import DEADLINE_S, check

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))

N_THREADS = 5
N_CROWD = 601
N_CROWD_BLOCKS = 10
N_CROWD_JOINS = 10  # of up to eight common rings each, of which 64 may stay
N_BLOCKS = 1000
N_HELD = 50
WAIT = '--memory-wait=1000000'
MAX_STEPS = 10000  # of a program, until it has followed the call; only so that a hang ends
DEAF_STEPS = 100   # of one that is not to follow
N_JOINS = 1000 if os.environ.get('SONDE_TEST_LONG') == '1' else 20
BUSY_BYTES, N_BUSY_SIZES, N_BUSY = 100000, 1000, 4  # of joined, too
MAX_INHERITED = 2 * (N_BUSY + 1)  # of each thread, for a moment
STEP_BYTES, WORK_BYTES, HELD_BYTES, OTHER_BYTES = 1111, 22222, 3333, 4444


class Program:
    """tests/system/joined, which does what it is told in each of its threads."""

    def __init__(self, service, user, path, *arguments, preload=None):
        environment = {**os.environ, 'SONDE_BEACON': os.path.join(os.environ['PRIVATE_BUS_DIR'], 'beacon'),
                       'LD_LIBRARY_PATH': service.folder}
        if preload is not None:
            environment['LD_PRELOAD'] = preload
        self.process = service.start(user, path, *arguments, env=environment, stdin=subprocess.PIPE)
        self.pid = self.process.pid
        self.tell('work', 1, STEP_BYTES)

    def tell(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        check(answer == 'ok\n', f'{words}: {answer} {self.process.poll()}')

    def count(self):
        """Descriptors, and mappings."""
        with open(f'/proc/{self.pid}/maps', encoding='utf-8') as file:
            mappings = file.read().splitlines()
        return len(os.listdir(f'/proc/{self.pid}/fd')), len(mappings)

    def count_rings(self):
        with open(f'/proc/{self.pid}/maps', encoding='utf-8') as file:
            return len({line.split()[4] for line in file if '/memfd:sonde-ring' in line})

    def has_link(self):
        """Whether it has a socket; else it has none."""
        folder = f'/proc/{self.pid}/fd'
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if os.readlink(os.path.join(folder, name)).startswith('socket:'):
                    return True
        return False

    def step_until(self, condition, size=STEP_BYTES, max_steps=MAX_STEPS):
        """In how many steps it is so, or None."""
        for i in range(max_steps):
            self.tell('work', 1, size)
            if condition():
                return i
            time.sleep(0.02)
        return None

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=DEADLINE_S)


class Session:
    """A recording of what runs already."""

    def __init__(self, service, sondectl, user, name, *arguments):
        self.service, self.sondectl, self.user = service, sondectl, user
        self.path = os.path.join(service.make_folder(user), name)
        command = (sondectl, 'record', '--service', '--event=none', '-o', self.path, *arguments)
        self.process = wait_for(lambda: self.start(command), f'the session of {name}')

    def start(self, command):
        """Its recording once it runs, or None: too many were begun, and it is to be tried again."""
        before = {number for number, _, _ in self.service.list_sessions()}
        process = self.service.start(self.user, *command)
        wait_for(lambda: process.poll() is not None or [
            number for number, owner, state in self.service.list_sessions()
            if owner == self.user and state == 'running' and number not in before], 'the session')
        if process.poll() is None:
            return process
        errors = process.communicate()[1]
        check('Limit starts' in errors, errors)
        time.sleep(0.5)
        return None

    def end(self):
        """Its capture, as text."""
        self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        check(self.process.returncode == 0, f'{self.process.returncode}: {output}{errors}')
        wait_for(lambda: not [state for _, owner, state in self.service.list_sessions() if owner == self.user],
                 'the end of the session')
        result = self.service.run(self.user, self.sondectl, 'verify', self.path)
        check(result.returncode == 0, result.stdout + result.stderr)
        return self.service.run(self.user, self.sondectl, 'dump', self.path).stdout

    def read_heap(self):
        result = self.service.run(self.user, self.sondectl, 'heap', '--json', self.path)
        check(result.returncode == 0, result.stderr)
        return json.loads(result.stdout)


def tell_losses(dump):
    return re.findall('LOG.*(?:lost|no ring|refused).*', dump)


def count_blocks(dump, size):
    return len(re.findall(rf'^ *ALLOCATION .*address=\w+ size={size}\b', dump, re.M))


def count_holdings():
    """What the service's processes hold, by name: how many there are, their descriptors and shared mappings."""
    holdings = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
                name = file.read().strip()
            if not name.startswith('sonde'):
                continue
            with open(f'/proc/{pid}/maps', encoding='utf-8') as file:
                n_shared = sum('s' in line.split()[1] for line in file)
            n_fds = len(os.listdir(f'/proc/{pid}/fd'))
            counts = holdings.get(name, (0, 0, 0))
            holdings[name] = tuple(map(sum, zip(counts, (1, n_fds, n_shared))))
    return holdings


def wait_for_rest():
    """What they hold once that stays the same for half a second."""
    looks = [count_holdings()]

    def look():
        looks.append(count_holdings())
        return len(looks) > 25 and all(one == looks[-1] for one in looks[-25:]) and looks[-1]
    return wait_for(look, 'rest')


def check_run(dump, pid):
    """Each thread's blocks follow each other from its first on, and each is freed behind the next one; how many there are."""
    events = {}
    for tid, address, size in re.findall(rf'^ *ALLOCATION .*pid={pid} .*tid=(\d+) address=(\w+) size=(\d+)', dump, re.M):
        events.setdefault(tid, []).append((address, int(size)))
    n_blocks = n_before = 0
    for tid, told in events.items():
        live, last = {}, None
        for address, size in told:
            if size == 0:
                n_before += live.pop(address, None) is None
                continue
            if not BUSY_BYTES <= size < BUSY_BYTES + N_BUSY_SIZES:
                continue  # the main thread's
            check(last is None or size - BUSY_BYTES == (last + 1 - BUSY_BYTES) % N_BUSY_SIZES, f'{tid}: {size} behind {last}')
            check(address not in live, f'{tid}: {address} twice')
            live[address] = last = size
            n_blocks += 1
        check(len(live) <= 2, f'{tid}: {len(live)} blocks stay')
    check(n_before <= MAX_INHERITED, f'{n_before} blocks of before')
    return n_blocks


def join_and_leave(service, sondectl, user, program, *arguments):
    """The session, the text of its capture, and the steps of the program on both ways."""
    session = Session(service, sondectl, user, 'joined.syscap', *arguments)
    n_in = program.step_until(program.has_link)
    check(n_in is not None, 'it has not come')
    program.tell('work', 1, STEP_BYTES)  # all threads have their rings
    program.tell('work', N_BLOCKS, WORK_BYTES)
    dump = session.end()
    n_out = program.step_until(lambda: not program.has_link())
    check(n_out is not None, 'its link is still open')
    program.tell('work', 1, STEP_BYTES)  # all threads have given theirs back
    return session, dump, n_in, n_out


def main():
    service = Service(12)
    sondectl = service.install_sondectl()
    shutil.copy(os.path.join(service.build, 'shared-ring/collector/libsonde-collector.so.0'), service.folder)
    user, other = service.next_user(), service.next_user()
    service.busctl('introspect', 'org.sonde.Profiler1', '/org/sonde/Profiler1')
    path = service.install('tests/system/joined')
    library = service.install('shared-ring/collector/memory/libsonde-memory.so')
    program = Program(service, user, path, preload=library)
    stranger = Program(service, other, path, preload=library)
    bystander = Program(service, user, path, preload=library)
    target = ('-p', str(program.pid), '--memory')

    with service.case('a program that runs is joined, and all its threads do is recorded from there'):
        program.tell('hold', N_HELD, HELD_BYTES)
        session = Session(service, sondectl, user, 'first.syscap', *target)
        service.note(f'{program.step_until(program.has_link)} steps')
        check(program.has_link(), 'it has not come')
        program.tell('work', 1, STEP_BYTES)
        program.tell('work', N_BLOCKS, WORK_BYTES)
        program.tell('drop')
        program.tell('hold', N_HELD, OTHER_BYTES)
        dump = session.end()
        check(count_blocks(dump, WORK_BYTES) == N_THREADS * N_BLOCKS, f'{count_blocks(dump, WORK_BYTES)} blocks')
        check(count_blocks(dump, HELD_BYTES) == 0, 'what was before is there')

    with service.case('blocks of before are freed as inherited, and nothing is below zero'):
        heap = session.read_heap()
        service.note(str({key: value for key, value in heap.items() if not isinstance(value, (list, dict))}))
        check(heap['inexact']['unknown-freed'] == N_THREADS * N_HELD, f"{heap['inexact']}")
        check(heap['left']['blocks'] == N_THREADS * N_HELD, f"{heap['left']}")
        check(heap['left']['bytes'] == N_THREADS * N_HELD * OTHER_BYTES, f"{heap['left']}")

    with service.case('nothing of it stays'):
        program.step_until(lambda: not program.has_link())
        program.tell('drop')
        join_and_leave(service, sondectl, user, program, *target)  # what is made once is made
        before = program.count()
        most = 0
        for _ in range(N_JOINS):
            _, dump, n_in, n_out = join_and_leave(service, sondectl, user, program, *target)
            most = max(most, n_in, n_out)
            n_blocks = count_blocks(dump, WORK_BYTES)
            check(n_blocks == N_THREADS * N_BLOCKS, f'{n_blocks} blocks')
        service.note(f'{N_JOINS} times, in at most {most} steps: {before}, {program.count()}')
        check(program.count() == before, f'{before}: {program.count()}')

    with service.case('nor of rings that threads have shared'):
        crowd = Program(service, user, path, 'crowd', preload=library)
        for i in range(N_CROWD_JOINS + 1):
            session = Session(service, sondectl, user, 'crowd.syscap', '-p', str(crowd.pid), '--memory',
                              WAIT)
            check(crowd.step_until(crowd.has_link) is not None, 'it has not come')
            crowd.tell('work', 1, STEP_BYTES)
            crowd.tell('work', N_CROWD_BLOCKS, WORK_BYTES)
            dump = session.end()
            check(crowd.step_until(lambda: not crowd.has_link()) is not None, 'its link is still open')
            crowd.tell('work', 1, STEP_BYTES)
            n_blocks = count_blocks(dump, WORK_BYTES)
            check(n_blocks == N_CROWD * N_CROWD_BLOCKS, f'{n_blocks} blocks, {i}: {tell_losses(dump)}')
            if i == 0:
                before = crowd.count()
        service.note(f'{before}, {crowd.count()}')
        check(crowd.count() == before, f'{before}: {crowd.count()}')
        check(crowd.end() == 0, 'it has failed')

    with service.case('a service under load is joined and left, and all of it is right from there on'):
        loaded = Program(service, user, path, 'busy', preload=library)
        before = holdings = None
        n_blocks = n_late = 0
        for i in range(N_JOINS + 1):
            session = Session(service, sondectl, user, 'loaded.syscap', '-p', str(loaded.pid), '--memory', WAIT)
            check(loaded.step_until(loaded.has_link) is not None, 'it has not come')
            wait_for(lambda: loaded.count_rings() >= N_BUSY, 'its rings')
            time.sleep(0.05)
            dump = session.end()
            n_blocks += check_run(dump, loaded.pid)
            # What a thread is in the middle of when it is left may come behind the last look into its ring.
            heap = session.read_heap()
            n_late += heap['inexact']['lost']
            check(heap['inexact'].pop('lost') <= N_BUSY, f"{i}: {tell_losses(dump)}, {heap['inexact']}")
            n_inherited = heap['inexact'].pop('unknown-freed')
            check(n_inherited <= MAX_INHERITED and not any(heap['inexact'].values()), f"{i}: {n_inherited}, {heap['inexact']}")
            check(heap['left']['blocks'] <= MAX_INHERITED, f"{i}: {heap['left']}")
            check(loaded.step_until(lambda: not loaded.has_link()) is not None, 'its link is still open')
            check(loaded.step_until(lambda: loaded.count_rings() == 0) is not None, 'its rings are not given back')
            if i == 0:
                before, holdings = loaded.count(), wait_for_rest()
        service.note(f'{N_JOINS} times, {n_blocks} blocks, {n_late} events too late: {before}, {holdings}')
        wait_for(lambda: loaded.count() == before, f'{before} of descriptors and mappings')
        wait_for(lambda: count_holdings() == holdings, f'{holdings} of the service')
        check(loaded.end() == 0, 'it has failed')

    with service.case('another program of the user, and one of another user, are not joined'):
        session = Session(service, sondectl, user, 'others.syscap', *target)
        check(program.step_until(program.has_link) is not None, 'it has not come')
        for one in (bystander, stranger):
            check(one.step_until(one.has_link, OTHER_BYTES, max_steps=DEAF_STEPS) is None, f'{one.pid} has come')
        dump = session.end()
        check(count_blocks(dump, OTHER_BYTES) == 0, 'others are recorded')

    with service.case('children that it makes are joined, too'):
        session = Session(service, sondectl, user, 'children.syscap', *target)
        check(program.step_until(program.has_link) is not None, 'it has not come')
        program.tell('fork', N_BLOCKS, WORK_BYTES)
        dump = session.end()
        check(count_blocks(dump, WORK_BYTES) == N_BLOCKS, f'{count_blocks(dump, WORK_BYTES)} blocks')

    with service.case('of the whole machine all are joined'):
        session = Session(service, sondectl, 0, 'machine.syscap', '-a', '--memory')
        for one in (bystander, stranger):
            check(one.step_until(one.has_link) is not None, f'{one.pid} has not come')
            one.tell('work', N_BLOCKS, WORK_BYTES)
        dump = session.end()
        n_blocks = count_blocks(dump, WORK_BYTES)
        check(n_blocks >= 2 * (N_THREADS * N_BLOCKS - N_THREADS), f'{n_blocks} blocks')

    with service.case('marks are joined where they are asked for, also of a program that sleeps'):
        marking = Program(service, user, path)
        marking.tell('mark', 'before')
        session = Session(service, sondectl, user, 'marks.syscap', '-p', str(marking.pid), '--collectors')
        wait_for(marking.has_link, 'its thread')
        marking.tell('mark', 'within')
        dump = session.end()
        check(len(re.findall('^MARK .*within', dump, re.M)) == N_THREADS, 'marks are missing')
        check(not re.search('^MARK .*before', dump, re.M), 'what was before is there')
        wait_for(lambda: not marking.has_link(), 'that its thread lets go')
        check(marking.end() == 0, 'it has failed')

    with service.case('without being asked for nothing is'):
        session = Session(service, sondectl, user, 'plain.syscap', '-p', str(program.pid))
        check(program.step_until(program.has_link, max_steps=DEAF_STEPS) is None, 'it has come')
        session.end()

    with service.case('a program in a filter lives, and does not come'):
        filtered = Program(service, user, path, 'filter', preload=library)
        session = Session(service, sondectl, user, 'filter.syscap', '-p', str(filtered.pid), '--memory', '--collectors')
        filtered.tell('mark', 'within')
        check(filtered.step_until(filtered.has_link, max_steps=DEAF_STEPS) is None, 'it has come')
        session.end()
        check(filtered.end() == 0, 'it has failed')

    with service.case('a program that is linked to a fixed place is idle, and comes'):
        fixed = Program(service, user, service.install('tests/system/joined-fixed'), preload=library)
        session = Session(service, sondectl, user, 'fixed.syscap', '-p', str(fixed.pid), '--memory')
        check(fixed.step_until(fixed.has_link) is not None, 'it has not come')
        session.end()
        check(fixed.end() == 0, 'it has failed')

    for one in (program, stranger, bystander):
        check(one.end() == 0, 'a program has failed')
    service.finish()


main()
