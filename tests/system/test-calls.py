#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of real programs, through their hooks, sonded and its worker into captures: test-calls.py BUILD"""

import collections
import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys

from system import DEADLINE_S, Fault, System, check, find_descendants, wait_until
from tap import Skip

N_CALLS = 100_000
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
FOLDER = 'sonde/calls/'
PATH, CALLS, ACCOUNT, WORDS, END = 1, 2, 4, 6, 9


class Numbers:
    """LEB128, as docs/protocol.md has it."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def is_over(self):
        return self.at == len(self.data)


class Calls:
    """One program's, added up."""

    def __init__(self):
        self.paths, self.calls, self.words, self.account = {}, collections.Counter(), [], ()
        self.end_ns = 0

    def take(self, data):
        check(data[:8] == b'SNDCALLS', 'no magic')
        numbers = Numbers(data[8:])
        _, _, _, _, begin_ns, end_ns = (numbers.take() for _ in range(6))
        if begin_ns < self.end_ns:
            self.calls.clear()
        self.end_ns, kind = end_ns, None
        while not numbers.is_over():
            check(kind != END, 'records behind the end')
            kind, size = numbers.take(), numbers.take()
            body = Numbers(numbers.data[numbers.at:numbers.at + size])
            numbers.at += size
            if kind == PATH:
                number, parent, address = body.take(), body.take(), body.take()
                self.paths[number] = parent, address
            elif kind == CALLS:
                number = body.take()
                self.calls[number] += body.take()
            elif kind == ACCOUNT:
                self.account = [body.take() for _ in range(14)]
            elif kind == WORDS:
                body.take()
                self.words.append(body.take())
        check(kind == END, 'no end')

    def check_account(self):
        calls, counted, lost_budget, lost_depth = self.account[:4]
        check(calls == counted + lost_budget + lost_depth, self.account)
        check(counted == sum(self.calls.values()), (self.account, self.calls))

    def depth(self, number):
        return 1 + self.depth(self.paths[number][0]) if number else 0

    def counts(self):
        """[(depth, calls)], of paths that were called"""
        return sorted((self.depth(number), n) for number, n in self.calls.items())


def read_calls(path):
    """[Calls], in the order in which programs began"""
    with open(path, 'rb') as file:
        data = file.read()
    at, files, programs = 256, collections.defaultdict(bytes), collections.defaultdict(Calls)
    while at + 24 <= len(data):
        length = struct.unpack_from('<H', data, at)[0]
        if data[at + 16] == 13:
            is_last, size = struct.unpack_from('<HH', data, at + 24)
            name = data[at + 28:at + 284].split(b'\0', 1)[0].decode()
            files[name] += data[at + 284:at + 284 + size]
            if is_last and name.startswith(FOLDER):
                programs[name.rsplit('/', 1)[0]].take(files[name])
        at += length
    return [programs[name] for name in sorted(programs, key=lambda name: int(name.rsplit('-', 1)[1]))]


class Callers(System):
    def __init__(self, n_cases):
        super().__init__(n_cases)
        os.environ['SONDE_TRACER_LIBRARY'] = self.program('shared-ring/collector/tracer/libsonde-tracer.so')
        self.callers = 'callers'  # the program whose calls are counted

    def start(self, name, mode, *arguments, prefix=()):
        options = [argument for argument in arguments if argument.startswith('--')]
        return self.start_recording(name, '--event=none', f'--trace={mode}', *options, '--', *prefix,
                                    self.program(f'tests/system/{self.callers}'),
                                    *[argument for argument in arguments if argument not in options])

    def finish_calls(self, process, name, status=0):
        output, errors = process.communicate(timeout=DEADLINE_S)
        check(process.returncode == status, f'record: exit status {process.returncode}\n{output}{errors}', Fault)
        self.sondectl('verify', self.path(name))
        programs = read_calls(self.path(name))
        for program in programs:
            program.check_account()
        return programs

    def trace(self, name, mode, *arguments, prefix=()):
        return self.finish_calls(self.start(name, mode, *arguments, prefix=prefix), name)


def check_exports(system, name, mode):
    shown = json.loads(system.sondectl('export', '-f', 'speedscope', system.path(name)))
    profiles = {profile['name'].partition(', ')[2]: profile for profile in shown['profiles']}
    check(set(profiles) == ({'calls'} if mode == 'count' else {'calls', 'time of calls'}), profiles)
    check(sum(profiles['calls']['weights']) == N_CALLS + 1, profiles)
    if mode != 'count':
        check(profiles['time of calls']['unit'] == 'nanoseconds' and sum(profiles['time of calls']['weights']) > 0, profiles)
    system.sondectl('export', '-f', 'pprof', '-o', system.path('pprof.gz'), system.path(name))
    with gzip.open(system.path('pprof.gz')) as file:
        profile = file.read()
    check(b'leaf' in profile and b'calls' in profile and (b'nanoseconds' in profile) == (mode != 'count'), profile)


def check_shown(system, name, mode):
    """What a person gets to see of outer() and leaf()."""
    shown = json.loads(system.sondectl('calls', '--json', '--paths', system.path(name)))
    functions = {row['name']: row for row in shown['functions']}
    check({name: row['calls'] for name, row in functions.items()} == {'outer': 1, 'leaf': N_CALLS}, functions)
    check(shown['refused_places'] == 0, shown)
    check([row['name'] for row in shown['paths'] if row['calls']] == ['outer', 'leaf'], shown['paths'])
    leaf = functions['leaf']
    if mode == 'count':
        check(leaf['timed'] == 'none' and 'p99_ns' not in leaf, leaf)
        return
    check(leaf['timed'] == ('some' if mode == 'auto' else 'all'), leaf)
    check(leaf['min_ns'] <= leaf['p50_ns'] <= leaf['p90_ns'] <= leaf['p99_ns'] <= leaf['max_ns'], leaf)
    check(leaf['p99_low_ns'] <= leaf['p99_ns'] <= leaf['p99_high_ns'] <= leaf['max_ns'], leaf)
    check((leaf['timed_calls'] == N_CALLS) == (mode == 'exact'), leaf)
    table = system.sondectl('calls', system.path(name))
    check(re.search(rf'^ *{N_CALLS:,} .* leaf  {system.callers}$', table, re.M), table)
    folded = system.sondectl('export', '-f', 'folded', '--unit', 'calls', system.path(name))
    check(re.fullmatch(rf'[^;]*-\d+;outer 1\n[^;]*-\d+;outer;leaf {N_CALLS}\n', folded), folded)
    check_exports(system, name, mode)
    differences = system.sondectl('calls', '--diff', system.path(name), system.path(name))
    check(re.search(rf'^ *{N_CALLS:,} -> {N_CALLS:,} .* leaf$', differences, re.M), differences)
    check(' *' not in differences, differences)
    compared = json.loads(system.sondectl('calls', '--diff', system.path(name), '--json', system.path(name)))
    check(compared['before'] == compared['after'] and compared['before']['calls'] == N_CALLS + 1, compared)
    pair, = (row for row in compared['functions'] if row['name'] == 'leaf')
    check(pair['before'] == pair['after'] == {key: value for key, value in leaf.items() if key not in ('name', 'module')}, pair)
    check(pair['changed'] == [], pair)
    alone = system.sondectl('calls', '--function', 'leaf', system.path(name))
    check('outer' in alone.split('from')[-1], 'no caller')
    check(re.search(r'^p99 is between .* in 99 of 100 such recordings$', alone, re.M), alone)


def test_modes(system):
    for mode in ('count', 'auto', 'exact'):
        programs = system.trace(f'{mode}.syscap', mode, str(N_CALLS))
        check([program.counts() for program in programs] == [[(2, 1), (3, N_CALLS)]], [program.counts() for program in programs])
        check(not programs[0].words, programs[0].words)
        check_shown(system, f'{mode}.syscap', mode)


def test_budget(system):
    n_calls = 400_000_000  # of which some seconds are left when the worker has looked twice
    program, = system.trace('budget.syscap', 'count', str(n_calls), '--trace-budget=0.01')
    check(1 < sum(program.calls.values()) < n_calls, program.calls)
    shown = system.sondectl('calls', system.path('budget.syscap'))
    check('leaf was left out by --trace-budget after' in shown, shown)


def test_filter(system):
    program, = system.trace('filter.syscap', 'auto', str(N_CALLS), '--trace-filter=leaf')
    check(program.counts() == [(2, N_CALLS)], program.counts())
    program, = system.trace('unfilter.syscap', 'exact', str(N_CALLS), '--trace-filter=!leaf', '--trace-filter=!libc*:*')
    check(program.counts() == [(2, 1)], program.counts())
    program, = system.trace('module.syscap', 'count', str(N_CALLS), '--trace-filter=*', '--trace-filter=!caller?:ou*r')
    check(program.counts() == [(2, N_CALLS)], program.counts())


def test_slow(system):
    program, = system.trace('slow.syscap', 'auto', '10', 'nap', '--trace-slow=15000')
    check(program.counts() == [(2, 1), (2, 3), (3, 10)], program.counts())
    shown = json.loads(system.sondectl('calls', '--json', system.path('slow.syscap')))
    check(shown['slow_calls'] == 3 and [call['path'] for call in shown['slowest']] == ['nap'] * 3, (shown['slow_calls'], shown['slowest']))
    for call in shown['slowest']:
        check(20_000_000 <= call['duration_ns'] and 0 < call['begin_ns'], call)
    table = system.sondectl('calls', system.path('slow.syscap'))
    check(re.search(r'^3 slow calls$', table, re.M) and re.search(r'^ +\d+\.\d{3} s +[\d.]+ m?s  nap$', table, re.M), table)


def test_example(system):
    """The lines of docs/tracing.md, as they stand there."""
    with open(os.path.join(SOURCE, 'docs/tracing.md'), encoding='utf-8') as file:
        section = file.read().split('\n## Finding a slow call\n')[1].split('\n## ')[0]
    lines = re.findall(r'^    (.*)$', section, re.M)
    check(len(lines) == 6, lines)
    record = ' '.join(['sondectl record', '--embedded', f"--sonded={system.program('daemon/control/sonded')}",
                       f"--worker={system.program('daemon/capture/sonde-capture')}"])
    environment = dict(os.environ, PATH=f"{system.program('client')}:{os.environ['PATH']}")
    os.symlink(os.path.abspath(os.path.join(SOURCE, 'docs')), system.path('docs'))
    said = []
    for line in lines:
        done = subprocess.run(['sh', '-c', line.replace('sondectl record', record)], cwd=system.folder, env=environment,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(done.returncode == 0, f'{line}: {done.stdout}{done.stderr}')
        said.append(done.stdout)
    # Of the ten slowest that are shown others may be as slow.
    check(said[3].count('  main > serve > answer > look_up > read_page\n') >= 1, said[3])
    check(re.search(r'^ +2,000 .* answer  server$', said[4], re.M), said[4])
    check(os.path.getsize(system.path('server.html')) > 10000, 'there is no page')
    trace = json.loads(system.sondectl('export', '-f', 'chrome', system.path('server.syscap')))
    slices = [event for event in trace['traceEvents'] if event.get('cat') == 'slow call' and event['ph'] == 'b']
    check(sum(event['name'] == 'read_page' for event in slices) == 4, slices)
    shown = json.loads(system.sondectl('calls', '--json', system.path('server.syscap')))
    check(sum(call['path'].endswith('> read_page') for call in shown['slowest']) == 4, shown['slowest'])
    rows = {row['name']: row for row in shown['functions']}
    check(rows['look_up']['total_ns'] >= rows['read_page']['total_ns'] > 4 * 20_000_000, rows)


def test_none(system):
    recording = system.start_recording('none.syscap', '--event=none', '--trace', '--', '/bin/true')
    output, errors = recording.communicate(timeout=DEADLINE_S)
    check(recording.returncode == 0, output + errors)
    check(errors.count('1 process has no call hooks: build with') == 1, errors)


def test_exec(system):
    programs = system.trace('exec.syscap', 'count', '1000', 'exec')
    check([program.counts() for program in programs] == [[(2, 1), (3, 1000)], [(2, 1), (3, 7)]], [program.counts() for program in programs])


def test_fork(system):
    programs = system.trace('fork.syscap', 'count', '1000', 'fork')
    check([program.counts() for program in programs] == [[(2, 1), (3, 1000)], [(3, 1), (4, 5)]], [program.counts() for program in programs])


def test_kill(system):
    recording = system.start('kill.syscap', 'auto', '1000', 'stay')
    check(recording.stdout.readline().strip() == 'stays', 'it never came there')
    pid, = wait_until(lambda: find_descendants(recording.pid, system.callers), 'the program')
    os.kill(pid, signal.SIGKILL)
    program, = system.finish_calls(recording, 'kill.syscap', status=128 + signal.SIGKILL)
    check(program.counts() == [(2, 1), (2, 1), (3, 1000)], program.counts())
    shown = system.sondectl('calls', system.path('kill.syscap'))
    check('ended in: stay' in shown, shown)
    check(len(program.words) == 1 and program.depth(program.words[0]) == 2, program.words)


# Of a process, and of what it executes: no code may be changed. It is the number of PR_SET_MDWE.
REFUSE_CHANGES = """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).prctl(65, 1, 0, 0, 0):
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_refusal(system):
    recording = system.start('refusal.syscap', 'count', '1000', prefix=['python3', '-I', '-c', REFUSE_CHANGES])
    output, errors = recording.communicate(timeout=DEADLINE_S)
    if recording.returncode == 77:
        raise Skip('the kernel has no PR_SET_MDWE')
    check(recording.returncode == 0, output + errors)
    verified = subprocess.run([system.program('client/sondectl'), 'verify', system.path('refusal.syscap')], capture_output=True,
                              text=True, check=False)
    check(verified.returncode == 1 and re.search(r'\b0 of \d functions of process', verified.stdout), verified.stdout)
    check(sum(sum(program.calls.values()) for program in read_calls(system.path('refusal.syscap'))) == 0, 'calls were counted')
    shown = subprocess.run([system.program('client/sondectl'), 'calls', system.path('refusal.syscap')], capture_output=True,
                           text=True, check=False)
    check(shown.returncode == 1 and 'places in its programs could not be changed: the kernel refuses' in shown.stderr, shown.stderr)


def test_sleds(system):
    system.callers = 'callers-sleds'
    with system.case('the example finds the slow call that its page says'):
        test_example(system)
    with system.case('each call through a sled is counted, once, in each mode'):
        test_modes(system)
    with system.case('a program with sleds that executes another one has calls of its own'):
        test_exec(system)
    with system.case('so has a child that finds them switched on'):
        test_fork(system)
    with system.case('a program with sleds that is killed has told all, and where it was'):
        test_kill(system)
    with system.case('sleds that the kernel lets nobody switch are told'):
        test_refusal(system)


def test_entries(system):
    system.callers = 'callers-fentry'
    if not os.path.exists(system.program('tests/system/callers-fentry')):
        raise Skip('it is not gcc that builds')
    for mode in ('count', 'auto', 'exact'):
        program, = system.trace(f'entries-{mode}.syscap', mode, str(N_CALLS))
        check(program.counts() == [(2, 1), (3, N_CALLS)], program.counts())
        check_shown(system, f'entries-{mode}.syscap', 'count')
    program, = system.trace('entries-filter.syscap', 'count', str(N_CALLS), '--trace-filter=leaf')
    check(program.counts() == [(2, N_CALLS)], program.counts())


def main():
    has_sleds = os.path.exists(os.path.join(sys.argv[1], 'tests/system/callers-sleds'))
    system = Callers(15 if has_sleds else 9)
    with system.case('each call of a program is counted, once, in each mode'):
        test_modes(system)
    with system.case('above a budget what is called most is counted no more'):
        test_budget(system)
    with system.case('functions are counted that a filter names, and no other'):
        test_filter(system)
    with system.case('slow calls are told one by one'):
        test_slow(system)
    with system.case('a program without hooks is told of'):
        test_none(system)
    with system.case('a program that executes another one has calls of its own'):
        test_exec(system)
    with system.case('so has a child'):
        test_fork(system)
    with system.case('a program that is killed has told all, and where it was'):
        test_kill(system)
    with system.case('calls whose ends nobody tells are counted, and not timed'):
        test_entries(system)
    if has_sleds:
        test_sleds(system)
    system.finish()


if __name__ == '__main__':
    main()
