#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks and names of programs of all kinds beside perf's, in turn on the same machine: test-corpus.py BUILD SOURCE [KIND…]

A stack is whole if the functions that each of a program's stacks has are in it, in their order, by name. The share of
those, and of the frames with names in them, may be one point below the better of perf's two ways, and not more of them
may end in a word that calls them broken. SONDE_TEST_LONG=1
tries the programs whose compilers and interpreters are large, too."""

import collections
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys

from capture import MARKERS
from system import DEADLINE_S, System, check

IS_LONG = os.environ.get('SONDE_TEST_LONG') == '1'
SECONDS = 1 if IS_LONG else 0.4
FREQUENCY = 499
TOLERANCE = 1.0  # percentage points
WAYS = {'dwarf': 'dwarf,16384', 'fp': 'fp'}

# How it is built, how it is run, and what each of its stacks has, outermost first, as patterns. {source} is its source,
# {out} where it is built, {n} how long it runs in seconds and {ms} in milliseconds.
Kind = collections.namedtuple('Kind', 'name source build run functions is_long', defaults=(False,))
C = '{build}/tests/system/unwinding/'
PLAIN = ('main', 'plain_outer', 'plain_middle')
LIBC = ('__libc_start_main.*',)
KINDS = (
    Kind('static', '../unwinding/stacks.c', 'gcc -O2 -static -DPREFIX=plain -I{top} -o {out} {source}', '{out} {ms}', PLAIN),
    Kind('static-pie', None, None, C + 'stacks-static-pie {ms}', PLAIN),
    Kind('frame pointers alone', '../unwinding/stacks.c',
         'gcc -O2 -static -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -DPREFIX=plain -I{top} -o {out} {source}',
         '{out} {ms}', PLAIN[:2]),  # a leaf has no frame, so that nothing tells of its caller
    Kind('deep, frame pointers', None, None, C + 'deep-frame-pointers {ms}', ('main', 'descend', 'descend')),
    Kind('makecontext', None, None, C + 'odd-stacks coroutine {ms}', ('coroutine_main', 'middle')),
    Kind('unshare -m chroot', '../unwinding/stacks.c', 'gcc -O2 -static -DPREFIX=plain -I{top} -o {out} {source}',
         'unshare -m chroot {folder} /{base} {ms}', PLAIN),
    Kind('C++ coroutine', 'coroutines.cc', 'g++ -std=c++20 -O1 -o {out} {source}', '{out} {n}', ('main', 'outer.*', 'middle.*')),
    Kind('perl', 'work.pl', None, 'perl {source} {n}', ('perl_run',)),
    Kind('musl, static', None, None, C + 'stacks-musl {ms}', PLAIN, True),
    Kind('musl, dynamic', None, None, C + 'stacks-musl-dynamic {ms}', PLAIN, True),
    Kind('32-bit', None, None, C + 'stacks-32-bit {ms}', PLAIN, True),
    Kind('Go 1.19', 'work.go', '/usr/lib/go-1.19/bin/go build -o {out} {source}', '{out} {n}', ('main.outer', 'main.middle'), True),
    Kind('Go, newer', 'work.go', '{newer_go} build -o {out} {source}', '{out} {n}', ('main.outer', 'main.middle'), True),
    Kind('Go, stripped', 'work.go', '/usr/lib/go-1.19/bin/go build -ldflags=-s -o {out} {source}', '{out} {n}',
         ('main.outer', 'main.middle'), True),
    Kind('Rust', 'work.rs', '/usr/bin/rustc -O -o {out} {source}', '{out} {n}', ('main', '.*outer.*', '.*middle.*'), True),
    Kind('OCaml', 'work.ml', 'sh -c "cp {source} {out}.ml && ocamlopt -o {out} {out}.ml"', '{out} {n}',
         ('main', 'caml.*outer.*', 'caml.*middle.*'), True),
    Kind('GHC', 'Work.hs', 'ghc -O1 -outputdir {out}.d -o {out} {source}', '{out} {n}', ('main', 'hs_main'), True),
    Kind('SBCL', 'work.lisp', None, 'sbcl --script {source} {n}', ('main', 'call_into_lisp_'), True),
    Kind('node', 'work.js', None, 'node {source} {n}', LIBC, True),
    Kind('node, maps', 'work.js', None, 'node --perf-basic-prof {source} {n}', LIBC + ('.*(middle|leaf).*',), True),
    Kind('java', 'Work.java', 'javac -d {folder} {source}', 'java -XX:-UseOnStackReplacement -cp {folder} Work {n}', ('JavaMain',), True),
    Kind('java, frame pointers', 'Work.java', 'javac -d {folder} {source}',
         'java -XX:+PreserveFramePointer -cp {folder} Work {n}', ('JavaMain',), True),
    Kind('python 3.11', 'work.py', None, '/usr/bin/python3.11 {source} {n}', LIBC + ('(_PyEval_EvalFrame|outer|<module>).*',), True),
    Kind('python 3.13', 'work.py', None, '/usr/bin/python3.13 {source} {n}', LIBC + ('(_PyEval_EvalFrame|outer|<module>).*',), True),
    Kind('php', 'work.php', None, 'php {source} {n}', LIBC + ('php_execute_script', 'execute_ex'), True),
    Kind('ruby', 'work.rb', None, 'ruby {source} {n}', ('ruby_run_node',), True),
    Kind('lua', 'work.lua', None, 'lua5.4 {source} {n}', ('lua_pcallk',), True),
    Kind('gawk', 'work.awk', None, 'gawk -v seconds={n} -f {source}', LIBC, True),
)

Shares = collections.namedtuple('Shares', 'n_stacks whole named')


def find_whole(stack, functions):
    """Where in a stack, leaf first, the outermost of the functions is, if all are there in their order; else None."""
    at, found = len(stack), None
    for pattern in functions:
        at = next((i for i in range(at - 1, -1, -1) if stack[i] and re.fullmatch(pattern, stack[i])), None)
        if at is None:
            return None
        found = at if found is None else found
    return found


def is_named(name):
    return name is not None and name not in MARKERS and name != '[unknown]' and not re.search(r'\+0x[0-9a-f]+$|^0x', name)


def measure_stacks(stacks, functions):
    """Of a stack that is not whole no frame counts as named."""
    n_whole = named = 0
    for stack in stacks:
        outermost = find_whole(stack, functions)
        if outermost is not None:
            n_whole += 1
            named += sum(map(is_named, stack[:outermost + 1])) / (outermost + 1)
    return Shares(len(stacks), 100 * n_whole / max(len(stacks), 1), 100 * named / max(len(stacks), 1))


def find_newer_go():
    found = [path for path in glob.glob('/usr/lib/go-*/bin/go') if path != '/usr/lib/go-1.19/bin/go']
    return max(found, key=lambda path: [int(part) for part in re.findall(r'\d+', path)], default='go')


class Trial:
    """One program."""

    def __init__(self, system, kind, number):
        self.system, self.kind = system, kind
        folder = system.path(f'kind-{number}')
        os.makedirs(folder, exist_ok=True)
        self.words = {'build': system.build, 'top': sys.argv[2], 'folder': folder, 'base': f'work-{number}', 'n': SECONDS, 'ms': int(1000 * SECONDS),
                      'out': f'{folder}/work-{number}', 'newer_go': find_newer_go(),
                      'source': os.path.join(sys.argv[2], 'tests/system/programs', kind.source or '')}

    def fill(self, text):
        return [word.format(**self.words) for word in shlex.split(text)]

    def find_obstacle(self):
        """Why it cannot be run here."""
        build = self.fill(self.kind.build) if self.kind.build else None
        if build and not shutil.which(build[0]):
            return f'no {build[0]}'
        if build:
            result = subprocess.run(build, capture_output=True, text=True, check=False, timeout=DEADLINE_S,
                                    env=os.environ | {'HOME': self.system.folder, 'GOFLAGS': '-mod=mod'})
            if result.returncode != 0:
                return f'{self.kind.build.split()[0]}: {result.stderr.strip().splitlines()[-1:]}'
        program = self.fill(self.kind.run)[0]
        return None if shutil.which(program) else f'no {program}'

    def run_perf(self, way):
        data = self.system.path('perf.data')
        self.system.run('perf', 'record', '-q', '--call-graph', WAYS[way], '-e', 'cpu-clock:u', '-F', str(FREQUENCY), '-o', data,
                        '--', *self.fill(self.kind.run))
        text = self.system.run('perf', 'script', '--no-inline', '-i', data, '-F', 'comm,pid,ip,sym')
        stacks = []
        for block in text.strip().split('\n\n'):
            lines = block.split('\n')
            names = [re.match(r'\s*[0-9a-f]+ (.*)', line)[1] for line in lines[1:]]
            if names and not lines[0].startswith('perf'):
                stacks.append(names)
        return measure_stacks(stacks, self.kind.functions)

    def run_sonde(self):
        """By the names that sondectl gives them, as perf looks for debug files, too."""
        self.system.record('corpus.syscap', '-F', str(FREQUENCY), '--event', 'cpu-clock', '--', *self.fill(self.kind.run))
        stacks = []
        for line in self.system.sondectl('export', '-f', 'folded', self.system.path('corpus.syscap')).splitlines():
            text, count = line.rsplit(' ', 1)
            stack = text.split(';')[:0:-1]  # without the process
            # perf was asked for user mode alone.
            if stack and stack[0] != '[kernel]':
                stacks += int(count) * [stack]
        whole = [stack for stack in stacks if find_whole(stack, self.kind.functions) is not None]
        n_broken = sum(stack[-1] in MARKERS for stack in whole)
        ends = collections.Counter(stack[-1] for stack in stacks if stack[-1] in MARKERS)
        return measure_stacks(stacks, self.kind.functions), 100 * n_broken / max(len(whole), 1), ends


def compare(system, trial):
    theirs = {way: trial.run_perf(way) for way in WAYS}
    ours, broken, ends = trial.run_sonde()
    text = ', '.join(f'{name} {shares.whole:.1f} % whole {shares.named:.1f} % named ({shares.n_stacks})'
                     for name, shares in (('sonde', ours), *theirs.items()))
    system.note(f'{trial.kind.name}: {text}; {broken:.1f} % of the whole ones are called broken; {dict(ends)}')
    check(ours.n_stacks > FREQUENCY * SECONDS / 8, f'{ours.n_stacks} samples are too few')
    for what in ('whole', 'named'):
        mine, best = getattr(ours, what), max(getattr(shares, what) for shares in theirs.values())
        check(mine >= best - TOLERANCE, f'{mine:.1f} % are {what}, perf has {best:.1f} %')
    check(broken <= TOLERANCE, f'{broken:.1f} % of the whole stacks are called broken: {ends}')


def main():
    kinds = [kind for kind in KINDS if (kind.name in sys.argv[3:] if sys.argv[3:] else IS_LONG or not kind.is_long)]
    system = System(len(kinds))
    for number, kind in enumerate(kinds):
        name = f'{kind.name}: stacks and names are as good as with perf'
        trial = Trial(system, kind, number)
        obstacle = trial.find_obstacle() if shutil.which('perf') else 'perf is not installed: Debian calls it linux-perf'
        if obstacle:
            system.skip(name, obstacle)
            continue
        with system.case(name):
            system.measure(compare, trial)
    system.finish()


main()
