#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who gets functions of an interpreted program: test-interpreter-rights.py SOURCE BUILD"""

import os
import random
import string
import sys

from service import Service, wait_for
from tap import Skip, check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from capture import Capture  # noqa: E402

PYTHON = '/usr/bin/python3'
SECONDS = '1.5'
# What marks are in: the name of a function, that of its file, a string, the name of a variable.
PROGRAM = '''
import ctypes, sys, time
def prepare(path):
    made = {{}}
    text = "def {function}(k):\\n    {variable} = '{text}'\\n    return sum(i for i in range(k)) + len({variable})\\n"
    exec(compile(text, path, 'exec'), made)
    return made['{function}']
def before(k):
    return sum(i for i in range(k))
open(sys.argv[1], 'w').close()
until = time.monotonic() + float(sys.argv[2])
while {closes} and time.monotonic() < until:
    before(2000)
if {closes}:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
called = prepare('/srv/{file}.py')
until = time.monotonic() + float(sys.argv[2])
while {closes} is False or time.monotonic() < until:
    called(2000)
'''


def make_mark():
    return ''.join(random.choices(string.ascii_letters, k=32))


class Program:
    """Of a user, with marks of its own."""

    def __init__(self, service, user, closes=False):
        self.service, self.user = service, user
        self.marks = {what: make_mark() for what in ('function', 'file', 'text', 'variable')}
        self.path = os.path.join(service.make_folder(user), 'program.py')
        self.ready = os.path.join(os.path.dirname(self.path), 'ready')
        with open(self.path, 'w', encoding='ascii') as file:
            file.write(PROGRAM.format(closes=closes, **self.marks))
        os.chmod(self.path, 0o600)
        os.chown(self.path, user, user)

    def command(self):
        return [PYTHON, self.path, self.ready, SECONDS]

    def start(self):
        process = self.service.start(self.user, *self.command())
        wait_for(lambda: os.path.exists(self.ready), 'the program')
        return process

    def found(self, data):
        """Its marks that are in those bytes."""
        return {what for what, mark in self.marks.items() if mark.encode() in data}


def record(service, user, *arguments):
    """What the command says, its status, and the bytes of its capture, if there is one."""
    folder = service.make_folder(user)
    result = service.run(user, service.install_sondectl(), 'record', '-o', 'x.syscap', *arguments, cwd=folder,
                         env={**os.environ, 'HOME': folder})
    path = os.path.join(folder, 'x.syscap')
    data = b''
    if os.path.exists(path):
        with open(path, 'rb') as file:
            data = file.read()
    return result, data, path


def names(path):
    return set(Capture(path).jit_names.values())


def check_own(service, user):
    program = Program(service, user)
    process = program.start()
    result, data, path = record(service, user, '--service', '-d', SECONDS, '-p', str(process.pid))
    process.kill()
    check(result.returncode == 0, result.stderr)
    check({'function', 'file'} <= program.found(data), f'its functions are not there: {names(path)}')
    # What it computes with is none of what a stack has.
    check(not {'text', 'variable'} & program.found(data), f'more than names: {program.found(data)}')


def check_others(service, user, other):
    program = Program(service, other)
    process = program.start()
    result, data, _ = record(service, user, '--service', '-d', '0.5', '-p', str(process.pid))
    check(result.returncode != 0, 'it was allowed')
    said = result.stdout + result.stderr
    check('profile' in said, said)
    check(not program.found(data) and not program.found(said.encode()), f'{program.found(data)}')
    # Beside it, with a program of one's own, by a service that could read both.
    own = Program(service, user)
    mine = own.start()
    result, data, _ = record(service, user, '--service', '-d', SECONDS, '-p', str(mine.pid))
    check(result.returncode == 0 and 'function' in own.found(data), result.stderr)
    check(not program.found(data), f"marks of another's program: {program.found(data)}")
    result, data, _ = record(service, 0, '--service', '-d', SECONDS, '-p', str(process.pid))
    check(result.returncode == 0 and 'function' in program.found(data), f'root does not see it: {result.stderr}')
    process.kill()
    mine.kill()


def check_closed(service, user):
    program = Program(service, user, closes=True)
    result, data, path = record(service, user, '--service', '--', *program.command())
    check(result.returncode == 0, result.stderr)
    check(any(name.startswith('before (program.py:') for name in names(path)), f'nothing was shown: {names(path)}')
    check(not program.found(data), f'it has closed itself, and still {program.found(data)}')


def check_without(service, user):
    """With nothing but what the user may: the program of the kernel is not to be had, which is said."""
    program = Program(service, user)
    process = program.start()
    result, _, path = record(service, user, '--embedded', f'--sonded={service.install("daemon/control/sonded")}',
                             f'--worker={service.install("daemon/capture/sonde-capture")}', '-d', SECONDS, '-p', str(process.pid))
    process.kill()
    check(result.returncode == 0, result.stderr)
    check('Not shown: the functions of' in result.stderr and 'is not given the BPF program' in result.stderr, result.stderr)
    capture = Capture(path)
    check(any('CAP_BPF' in text for text in capture.logs), f'{capture.logs}')
    check(not any(program.marks['function'] in name for name in capture.jit_names.values()), 'it was walked')
    check(len(capture.samples) > 100, 'there are no samples')


def main():
    service = Service(4)
    os.environ['SONDE_BROKER'] = service.install('daemon/broker/sonde-broker')
    user, other, third, fourth = (service.next_user() for _ in range(4))
    for name, run, arguments in (("one's own program shows its functions, and nothing that it computes with", check_own, (user,)),
                                 ("another's is refused, and not a byte of it comes", check_others, (other, third)),
                                 ('a program that closes itself shows no function from then on', check_closed, (user,)),
                                 ('who may not have the BPF program is told so', check_without, (fourth,))):
        with service.case(name):
            if not os.path.exists(os.path.join(service.build, 'daemon/broker/walk.bpf.o')):
                raise Skip('built without the BPF program')
            run(service, *arguments)
    service.finish()


main()
