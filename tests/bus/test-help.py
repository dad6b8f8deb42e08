#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What --help says fits a screen, and its examples run as printed: test-help.py SOURCE BUILD"""

import os
import re
import subprocess
import threading

from service import DEADLINE_S, Service, wait_for
from tap import check

N_LINES, N_COLUMNS = 24, 80
# What the examples speak of.
PROGRAM = 'import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n    sum(range(10000))\n'
# Commands whose example ends a session come after those that need it.
LAST = 'stop'


class Help:
    def __init__(self, service):
        self.sondectl = os.path.join(service.build, 'client/sondectl')
        self.folder = service.make_folder(0)
        self.environment = {**os.environ, 'PATH': f'{os.path.dirname(self.sondectl)}:/usr/bin:/bin', 'NO_COLOR': '1',
                            'SONDE_DAEMON': os.path.join(service.build, 'daemon/control/sonded'),
                            'SONDE_WORKER': os.path.join(service.build, 'daemon/capture/sonde-capture')}
        self.general = self.run('sondectl --help')
        names = set(re.findall(r'^  sondectl ([a-z]+) ', self.general, re.M))
        self.commands = sorted(names, key=lambda name: (name == LAST, name))
        self.texts = {name: self.run(f'sondectl {name} --help') for name in self.commands}

    def run(self, command):
        result = subprocess.run(['sh', '-c', command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(result.returncode == 0, f'{command}: exit status {result.returncode}\n{result.stdout}{result.stderr}')
        return result.stdout

    def prepare(self):
        with open(os.path.join(self.folder, 'program.py'), 'w', encoding='utf-8') as file:
            file.write(PROGRAM)
        for name in ('slow', 'before', 'after'):
            self.run(f'sondectl record --embedded -o {name}.syscap -d 1 -- python3 program.py')


def test_size(texts):
    for name, text in texts.items():
        lines = text.splitlines()
        check(len(lines) <= N_LINES, f'{name}: {len(lines)} lines')
        check(max(map(len, lines)) <= N_COLUMNS, f'{name}: {max(lines, key=len)}')


def test_examples(service, help_of, texts):
    examples = [(name, example) for name, text in texts.items()
                for example in re.findall(r'^(?:Example: |  )(sondectl [^\n]*)$', text, re.M)]
    missing = set(texts) - {name for name, _ in examples} - {'heap'}
    check(not missing, f'no example: {missing}')
    attached = None
    for name, example in examples:
        service.note(example)
        if name == 'attach':  # it lasts as long as the session
            attached = threading.Thread(target=help_of.run, args=(example,))
            attached.start()
            copy = os.path.join(help_of.folder, 'session.syscap')
            wait_for(lambda: os.path.exists(copy) and os.path.getsize(copy), 'the first bytes of the session')
        else:
            help_of.run(example)
    attached.join()
    help_of.run('sondectl verify session.syscap')


def main():
    service = Service(3)
    help_of = Help(service)
    with service.case('--help fits a screen'):
        test_size({'sondectl': help_of.general, **help_of.texts})
    with service.case('the example of sondectl --help runs'):
        help_of.prepare()
        example, = re.findall(r'^  (sondectl record --embedded .*)$', help_of.general, re.M)
        help_of.run(example)
    with service.case('the examples of the commands run'):
        service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                       'StartSession', 'a{sv}', '1', 'system', 'b', 'true')
        check(service.list_sessions()[0][0] == 1, 'the examples speak of the first session')
        test_examples(service, help_of, help_of.texts)
    service.finish()


main()
