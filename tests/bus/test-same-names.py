#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions have the same names, frame by frame, whichever way a profile comes: test-same-names.py SOURCE BUILD"""

import collections
import glob
import os
import re
import signal
import sys

from service import Service, wait_for
from tap import Skip, check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from capture import Capture  # noqa: E402

SECONDS = '1.5'
MIN_SHARE = 0.5  # of the samples: they have the one stack that the program has nearly always
# A program each, whose stacks all have these functions, innermost first.
PYTHON = '''
import sys
def leaf_of_names(n):
    t = 0
    for i in range(n): t += i
    return t
def middle_of_names(n): return leaf_of_names(n) + 1
def outer_of_names(n): return max(middle_of_names(n), 1)
open(sys.argv[1], 'w').close()
while True: outer_of_names(20000)
'''
KINDS = {
    'Python': ['leaf_of_names', 'middle_of_names', 'outer_of_names'],
    'made code': ['made_for_names'],
}


class Program:
    def __init__(self, service, user, kind):
        folder = service.make_folder(user)
        self.kind, self.user, ready = kind, user, os.path.join(folder, 'ready')
        if kind == 'Python':
            path = os.path.join(folder, 'names.py')
            with open(path, 'w', encoding='ascii') as file:
                file.write(PYTHON)
            self.command = ['/usr/bin/python3', path, ready]
        else:
            self.command = [service.install('tests/system/jit'), '600', KINDS[kind][0]]
        self.process = service.start(user, *self.command)
        if kind == 'Python':
            wait_for(lambda: os.path.exists(ready), 'the program')
        else:
            check(self.process.stdout.readline() == 'ready\n', 'it did not begin')
        self.pid = str(self.process.pid)

    def stop(self):
        self.process.kill()
        self.process.wait()
        if self.kind != 'Python':
            os.unlink(f'/tmp/perf-{self.pid}.map')


def stacks_of(path):
    """How often there is each stack of user mode, by names, without lines and addresses."""
    capture = Capture(path)
    found = collections.Counter()
    for sample in capture.samples:
        stack = [re.sub(r':\d+\)', ')', name or '?') for name in capture.stack(sample) if name != '[kernel]']
        if stack:
            found[tuple(stack)] += 1
    return found


class Ways:
    """Each returns the path of a capture of the program."""

    def __init__(self, service, program):
        self.service, self.program = service, program
        self.sondectl = service.install_sondectl()
        self.folder = service.make_folder(program.user)

    def run(self, *arguments, user=None):
        result = self.service.run(self.program.user if user is None else user, self.sondectl, *arguments, cwd=self.folder,
                                  env={**os.environ, 'HOME': self.folder})
        check(result.returncode == 0, f'{arguments}: {result.stdout}{result.stderr}')
        return result.stdout + result.stderr

    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self):
        self.run('record', '--service', '-d', SECONDS, '-p', self.program.pid, '-o', 'record.syscap')
        return self.path('record.syscap')

    def start_session(self):
        """The file of the service, and beside it the stream of who attaches to that session."""
        said = self.run('start', '-p', self.program.pid)
        number = re.search(r'Started session (\d+)', said)
        check(number, said)
        attached = self.service.start(self.program.user, self.sondectl, 'attach', number[1], '-o', 'attach.syscap', cwd=self.folder,
                                      env={**os.environ, 'HOME': self.folder})
        wait_for(lambda: os.path.exists(self.path('attach.syscap')) and os.path.getsize(self.path('attach.syscap')) > 60000,
                 'samples of the one who attached')
        self.run('stop', number[1])
        _, errors = attached.communicate(timeout=60)
        check(attached.returncode == 0, errors)
        stored = re.search(r'(/\S+\.syscap)', said + self.run('list', '--captures'))
        check(stored, said)
        return stored[1], self.path('attach.syscap')

    def stream(self):
        """What a reader of OpenCapture gets, and one who comes later."""
        os.makedirs(self.path('streams'))
        result = self.service.run(0, os.path.join(self.service.build, 'tests/system/read-late'),
                                  os.path.join(self.service.build, 'daemon/control/sonded'),
                                  os.path.join(self.service.build, 'daemon/capture/sonde-capture'), self.path('streams'),
                                  *self.program.command,
                                  env={**os.environ, 'SONDE_BROKER': os.path.join(self.service.build, 'daemon/broker/sonde-broker')})
        check(result.returncode == 0, result.stderr)
        paths = sorted(glob.glob(self.path('streams/*.syscap')))
        check(len(paths) == 8, f'{paths}')
        return paths[0], paths[-1]

    def top(self):
        """Its text."""
        return self.run('top', '--service', '-p', self.program.pid, '--count', '2', '--interval', '0.8')


def only_stack(path, names):
    stacks = stacks_of(path)
    (stack, count), *_ = stacks.most_common(1) or [((), 0)]
    check(count >= MIN_SHARE * sum(stacks.values()) and count > 20, f'{path}: {stacks.most_common(3)}')
    ours = [name for name in stack if re.sub(r' \(.*', '', name) in names]
    check([re.sub(r' \(.*', '', name) for name in ours] == names, f'{path}: {stack}')
    return stack


def compare(service, kind, user):
    program = Program(service, user, kind)
    ways = Ways(service, program)
    try:
        recorded = only_stack(ways.record(), KINDS[kind])
        stored, attached = ways.start_session()
        text = ways.top()
    finally:
        program.stop()
    first, late = ways.stream()
    service.note(f'{kind}: {recorded}')
    for what, path in (('StartSession', stored), ('attach', attached), ('OpenCapture', first), ('a late OpenCapture', late)):
        stack = only_stack(path, KINDS[kind])
        check(stack == recorded, f'{what}: {stack} is not {recorded}')
    # It has rows of functions that take time themselves.
    leaf = re.sub(r':\d+\)', ')', recorded[0])
    check(re.search(rf'% +{re.escape(leaf)}  ', text), f'top has no {leaf}: {text}')


def main():
    service = Service(len(KINDS))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for kind in KINDS:
        with service.case(f'functions of {kind} are the same in record, StartSession, attach, OpenCapture and top'):
            if kind == 'Python' and not os.path.exists(os.path.join(service.build, 'daemon/broker/walk.bpf.o')):
                raise Skip('built without the BPF program')
            compare(service, kind, service.next_user())
    service.finish()


main()
