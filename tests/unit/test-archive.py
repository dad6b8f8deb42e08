#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names that are embedded later, of files and of code made at run time: test-archive.py BUILD SOURCE"""

import contextlib
import importlib
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(sys.argv[2], 'tests', folder) for folder in ('lib', 'fuzz')]
DEADLINE_S, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Tap', 'check'))
seeds = importlib.import_module('make-report-corpus')

SONDECTL = os.path.join(sys.argv[1], 'client/sondectl')
BASE, JIT_CODE = 0x55550000000, 0x7e0000001000
PROGRAM = '__attribute__((noinline)) int spin (int n) { return n + 1; }\nint main (int argc, char **argv) { return spin (argc); }\n'


def run(*command, status=0, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options)
    check(result.returncode == status, f'{command}: exit status {result.returncode}: {result.stderr}')
    return result.stdout if status == 0 else result.stderr


def map_of(pid):
    return f'/tmp/perf-{pid}.map'


def free_pid():
    """Of a process that is over, and left nothing."""
    process = subprocess.Popen(['true'])
    process.wait()
    return process.pid if not os.path.exists(map_of(process.pid)) else free_pid()


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.pid = free_pid()
        self.capture = os.path.join(folder, 'x.syscap')
        self.program = os.path.join(folder, 'program')
        source = self.program + '.c'
        with open(source, 'w') as file:
            file.write(PROGRAM)
        run('gcc', '-O2', '-o', self.program, source)
        self.spin = int(re.search(r'^([0-9a-f]+) T spin', run('nm', self.program), re.M)[1], 16)

    def write(self, *more, embedded=()):
        parts = [seeds.process(self.pid, b'prog'),
                 seeds.mapping(self.pid, BASE, BASE + 0x10000, os.fsencode(self.program), os.stat(self.program).st_ino), *more,
                 seeds.sample(self.pid, [seeds.USER, JIT_CODE + 5, BASE + self.spin + 1])]
        if embedded:
            table = seeds.symbols([(begin, end, self.pid, i * 32, 0) for i, (begin, end, _) in enumerate(embedded)],
                                  b''.join(name.ljust(32, b'\0') for _, _, name in embedded))
            parts += [seeds.chunks(table)]
        content = b''.join(parts)
        n_frames = 0
        at = 0
        while at < len(content):
            at += struct.unpack_from('<H', content, at)[0]
            n_frames += 1
        head = seeds.metadata(b'sonde', b'[sonde]\nversion=1\n') + seeds.definitions(seeds.LEDGER)
        with open(self.capture, 'wb') as file:
            file.write(seeds.frames.header() + head + content + seeds.closing(n_frames + 3, 1))
        run(SONDECTL, 'verify', self.capture)

    def archive(self, *arguments):
        run(SONDECTL, 'archive', *arguments, self.capture)
        run(SONDECTL, 'verify', self.capture)

    def names(self, path=None):
        shown = run(SONDECTL, 'report', '--flat', path or self.capture)
        return [line.split()[2] for line in shown.splitlines() if re.match(r' *[0-9.]+% +[0-9.]+%', line)]

    @contextlib.contextmanager
    def perf_map(self, text):
        path = map_of(self.pid)
        with open(path, 'x') as file:
            file.write(text)
        try:
            yield path
        finally:
            os.unlink(path)


NAMED = f'{JIT_CODE:x} 20 JS:*work\n'


def test_files(case):
    case.write()
    with open(case.capture, 'rb') as file:
        before = file.read()
    output = case.capture + '.out'
    case.archive('-o', output)
    with open(case.capture, 'rb') as file:
        check(file.read() == before, 'FILE was changed')
    case.archive()
    with open(case.capture, 'rb') as file, open(output, 'rb') as other:
        check(file.read() == other.read(), 'the two differ')
    os.unlink(case.program)
    tree = run(SONDECTL, 'report', case.capture)
    check(' spin\n' in tree, tree)
    case.archive()  # with nothing left but what it brings
    check(' spin\n' in run(SONDECTL, 'report', case.capture), 'names got lost')


def test_kept(case):
    case.write(embedded=[(BASE + case.spin, BASE + case.spin + 2, b'told_before'), (JIT_CODE, JIT_CODE + 9, b'jit_before')])
    case.archive()
    tree = run(SONDECTL, 'report', case.capture)
    check('told_before' in tree and 'jit_before' in tree and 'spin' not in tree, tree)


def test_perf_map(case):
    """Whoever may write to /tmp now: the capture has what the program said in its time."""
    case.write()
    with case.perf_map(NAMED):
        case.archive()
    check(case.names() == [f'{JIT_CODE + 5:#x}'], case.names())


def test_broken(case):
    case.write()
    with open(case.capture, 'r+b') as file:
        file.truncate(os.path.getsize(case.capture) - 3)
    with open(case.capture, 'rb') as file:
        before = file.read()
    complaint = run(SONDECTL, 'archive', case.capture, status=1)
    check('is broken at offset' in complaint, complaint)
    with open(case.capture, 'rb') as file:
        check(file.read() == before, 'a broken capture was changed')
    complaint = run(SONDECTL, 'archive', '-o', case.folder + '/none/x', case.capture + '.none', status=1)
    check('Cannot open' in complaint, complaint)
    check(sorted(os.listdir(case.folder)) == ['program', 'program.c', 'x.syscap'], os.listdir(case.folder))


def main():
    cases = [('a broken capture is left as it is', test_broken),
             ('a map file of perf is not read', test_perf_map),
             ('names of files outlive the files', test_files),
             ('names that the capture brings stay', test_kept)]
    tap = Tap(len(cases))
    for name, test in cases:
        with tempfile.TemporaryDirectory() as folder, tap.case(name):
            test(Case(folder))
    tap.finish()


main()
