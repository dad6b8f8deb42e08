#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The collector from C++, Python and GLib, with and without a profiler: test-wrappers.py BUILD SOURCE"""

import os
import re
import subprocess
import sys

from system import DEADLINE_S, System, check
from tap import Skip

N = 20
PYTHON = """
import asyncio, threading
import sonde_collector

@sonde_collector.mark('call', group='python')
def call(depth):
    return call(depth - 1) if depth else 0

@sonde_collector.mark('wait', group='python', message='asleep')
async def wait():
    await asyncio.sleep(0.01)

@sonde_collector.mark('fails', group='python')
def fail():
    raise KeyError

pieces = sonde_collector.Counter('pieces', description='so far')
share = sonde_collector.Counter('share', kind=float)
for i in range({n}):
    with sonde_collector.mark('block', group='python') as mark:
        mark.message = f'ä {{i}}'
        pieces.set(i + 1)
        share.set((i + 1) / {n})
    try:
        fail()
    except KeyError:
        sonde_collector.log('failed')
call(2)
asyncio.run(wait())
thread = threading.Thread(target=call, args=(1,))
thread.start()
thread.join()
assert call.__name__ == 'call' and asyncio.iscoroutinefunction(wait)
print(sonde_collector.is_wanted())
"""


class Test:
    def __init__(self, system):
        self.system = system
        self.source = sys.argv[2]
        self.folder = os.path.join(sys.argv[1], 'tests/system')
        library = os.path.join(sys.argv[1], 'shared-ring/collector')
        self.environment = {'PYTHONPATH': os.path.join(self.source, 'shared-ring/collector'), 'LD_LIBRARY_PATH': library,
                            'PYTHONDONTWRITEBYTECODE': '1'}

    def run(self, *command, **environment):
        """Nobody listens."""
        result = subprocess.run(command, env={**os.environ, **self.environment, **environment}, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(result.returncode == 0, f'{command}: {result.returncode} {result.stderr}')
        return result.stdout

    def record(self, *command):
        """Marks by (group, name), as (count, messages); lines of counters and log lines."""
        settings = [f'{name}={value}' for name, value in self.environment.items()]
        capture, _ = self.system.record('wrappers.syscap', '--event=none', '--', 'env', *settings, *command)
        check(capture.ledger['events-lost-ring'] == 0 and capture.ledger['events-recorded'] > 0, f'{capture.ledger}')
        text = self.system.sondectl('dump', self.system.path('wrappers.syscap'))
        return [line for line in text.splitlines() if re.match('MARK|COUNTER|CTR|LOG', line)]


def count(lines, *words):
    return sum(all(word in line for word in words) for line in lines)


def check_counts(lines, expected):
    for words, number in expected.items():
        check(count(lines, *words) == number, f'{count(lines, *words)} of {words}: {lines[:20]}')


def test_cpp(test):
    program = os.path.join(test.folder, 'scopes')
    if not os.path.exists(program):
        raise Skip('there is no C++ compiler')
    check(test.run(program, str(N)) == '0 messages\n', 'messages are made for nobody')
    lines = test.record(program, str(N))
    check_counts(lines, {('MARK', 'piece'): N, ('MARK', 'moved'): N, ('MARK', 'left'): N, ('MARK', 'number 7'): 1,
                         ('MARK', 'made in begin: moved'): N, ('left by an exception',): N // 2})
    check(count(lines, 'share') >= 1 and count(lines, 'pieces') >= 1, f'{lines}')


def test_python(test):
    script = PYTHON.format(n=N)
    check(test.run('python3', '-c', script) == 'False\n', 'somebody listens')
    lines = test.record('python3', '-c', script)
    check_counts(lines, {('MARK', 'block'): N, ('MARK', 'fails'): N, ('MARK', 'call'): 5, ('MARK', 'wait', 'asleep'): 1,
                         ('LOG', 'failed'): N})
    check(count(lines, 'share') >= 1 and count(lines, 'pieces') >= 1, f'{lines}')
    check(count(lines, 'MARK', 'ä 7') == 1, f'{lines}')


def test_absent(test):
    """No library: everything works, and tells nothing."""
    check(test.run('python3', '-c', PYTHON.format(n=N), LD_LIBRARY_PATH='') in ('False\n', '0\n'), 'somebody listens')


def test_glib(test):
    program = os.path.join(test.folder, 'marks')
    test.run(program, str(N))
    lines = test.record(program, str(N))
    check_counts(lines, {('MARK', 'work'): N, ('MARK', 'piece 7'): 1})
    check(count(lines, 'length') >= 1, f'{lines}')


def main():
    cases = (('C++ marks scopes, and sets counters', test_cpp), ('Python marks blocks and functions', test_python),
             ('Python does without the library', test_absent), ('GLib marks blocks', test_glib))
    system = System(len(cases))
    test = Test(system)
    for name, case in cases:
        with system.case(name):
            case(test)
    system.finish()


main()
