#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of sondectl report and diff, to pipes and to terminals: test-report.py BUILD SOURCE"""

import importlib
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from random import Random

sys.path[:0] = [os.path.join(sys.argv[2], 'tests', folder) for folder in ('lib', 'fuzz')]
DEADLINE_S, Skip, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Skip', 'Tap', 'check'))
seeds = importlib.import_module('make-report-corpus')

SONDECTL = os.path.join(sys.argv[1], 'client/sondectl')
BEGIN_NS = 1000  # of every capture here


def capture(samples):
    """Of (pid, leaf, caller, seconds after the beginning); addresses are those of add() and main()."""
    table = seeds.symbols([(0x401000, 0x4010ff, 42, 0, 5), (0x402000, 0x4020ff, 42, 9, 5)], b'main\0bin\0_Z3addv\0')
    parts = [seeds.process(42, b'prog'), seeds.mapping(42, 0x400000, 0x403000, b'/bin/prog')]
    parts += [seeds.sample(pid, [seeds.USER, leaf, caller], BEGIN_NS + int(seconds * 1e9))
              for pid, leaf, caller, seconds in samples]
    return seeds.capture([*parts, seeds.chunks(table)], len(samples))


ADD, MAIN = 0x402010, 0x401010
USUAL = capture([(42, ADD, MAIN, 1.0), (42, ADD, MAIN, 1.5), (42, MAIN, MAIN, 2.0), (42, ADD, MAIN, 3.0)])


class Case:
    def __init__(self, folder):
        self.path = os.path.join(folder, 'usual.syscap')
        with open(self.path, 'wb') as file:
            file.write(USUAL)

    def run(self, *arguments, status=0):
        result = subprocess.run([SONDECTL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False)
        check(result.returncode == status, f'{arguments}: exit status {result.returncode}: {result.stderr}')
        return result.stdout if status == 0 else result.stderr

    @staticmethod
    def open_terminal():
        try:
            return pty.openpty()
        except OSError as error:  # no devpts is mounted
            raise Skip('no pseudo terminal can be had here') from error

    def run_on_terminal(self, *arguments, **environment):
        ours, theirs = self.open_terminal()
        process = subprocess.Popen([SONDECTL, *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                                   env={'TERM': 'xterm', 'PATH': os.environ['PATH'], **environment})
        os.close(theirs)
        text = b''
        try:
            while block := os.read(ours, 65536):
                text += block
        except OSError:  # what a pseudo terminal says at its end
            pass
        os.close(ours)
        check(process.wait(timeout=DEADLINE_S) == 0, f'exit status {process.returncode}')
        return text.decode().replace('\r\n', '\n')


def test_refusals(case):
    for arguments, word in ((['--flat', '--bottom-up'], 'only one of'), (['--by', 'colour'], '--by is one of'),
                            (['--from', '3', '--to', '2'], '--from and --to'), (['--from', '-1'], '--from and --to'),
                            (['--callers', 'nobody'], 'no sample has a function nobody'),
                            (['--max-depth', '0'], '--max-depth'), (['-l', '101'], '--percent-limit')):
        complaint = case.run('report', *arguments, case.path, status=1)
        check(word in complaint, f'{arguments}: {complaint}')


def test_time(case):
    for arguments, expected in (([], 4), (['--from', '1.5'], 3), (['--to', '1.5'], 1), (['--from', '1.5', '--to', '2.5'], 2),
                                (['--from', '1e300'], 0), (['--tid', '42'], 4), (['--tid', '41'], 0)):
        report = json.loads(case.run('report', '--json', *arguments, case.path))
        check(report['total'] == expected, f'{arguments}: {report["total"]} samples')


def test_json(case):
    report = json.loads(case.run('report', '--json', '-l', '0', case.path))
    check(report['version'] == 1 and report['samples'] == 4 and report['ledger']['produced'] == 4, report)
    names = [function['name'] for function in report['functions']]
    process, = report['processes']
    check((process['pid'], process['comm'], process['total']) == (42, 'prog', 4), process)
    paths = {}
    for node in process['nodes']:
        parent = paths[node['parent']] if node['parent'] >= 0 else ()
        paths[len(paths)] = path = (*parent, names[node['function']])
        expected = {('main',): (4, 0), ('main', 'add()'): (3, 3), ('main', 'main'): (1, 1)}[path]
        check((node['total'], node['self']) == expected, f'{path}: {node}')
    check(len(paths) == 3, paths)
    rows = json.loads(case.run('report', '--json', '--flat', case.path))['rows']
    check(rows == [{'name': 'add()', 'module': 'bin', 'source': '', 'self': 3, 'total': 3},
                       {'name': 'main', 'module': 'bin', 'source': '', 'self': 1, 'total': 4}], rows)


def test_plain(case):
    tree = case.run('report', case.path)
    check(tree.endswith('\n  Total    Self\n 100.0%          prog (pid 42)\n 100.0%   25.0%  main  [2 deep]\n'
                            '  75.0%   75.0%  add\n'), tree)
    tree = case.run('report', '--fold-recursion=no', '--full-names', case.path)
    check(tree.endswith('100.0%          main\n  75.0%   75.0%  ├─ add()\n  25.0%   25.0%  └─ main\n'), tree)
    check('\033' not in tree, 'colours in a pipe')


def test_colours(case):
    shown = case.run_on_terminal('report', case.path, PAGER='')
    check('\033[31m 100.0%\033[m' in shown, shown)
    for environment in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        check('\033' not in case.run_on_terminal('report', case.path, PAGER='cat', **environment), environment)
    check('\033' in case.run_on_terminal('report', case.path, PAGER='cat', NO_COLOR=''), 'an empty NO_COLOR is none')


def test_pager(case):
    shown = case.run_on_terminal('report', case.path, PAGER='sed s/^/paged:/', NO_COLOR='1')
    check(all(line.startswith('paged:') for line in shown.splitlines()), shown)
    for arguments, pager in ((['--no-pager'], 'sed s/^/paged:/'), ([], 'nonexistent-pager 2>/dev/null'), ([], 'cat')):
        shown = case.run_on_terminal('report', *arguments, case.path, PAGER=pager, NO_COLOR='1')
        check('  add' in shown and 'paged:' not in shown, f'{arguments}, {pager}: {shown}')
    case.run_on_terminal('report', case.path, PAGER='true')  # which reads nothing


def test_diff(case):
    after = case.path + '.after'
    with open(after, 'wb') as file:
        file.write(capture([(42, MAIN, MAIN, 1.0)] * 3 + [(42, ADD, MAIN, 1.0)] * 3))
    shown = case.run('diff', case.path, after)
    rows = [line.split() for line in shown.splitlines()]
    check(['25.0%', '50.0%', '+25.0', 'main', 'bin'] in rows, shown)
    check(['75.0%', '50.0%', '-25.0', '└─', 'add'] in rows, shown)
    complaint = case.run('diff', case.path, '--comm=nobody', after, status=1)
    check('no samples to compare' in complaint, complaint)


def many(case, name, part, seed, settings=b''):
    """A capture of 2,000 samples in 20 s, of which that part is of add()."""
    random = Random(seed)
    table = seeds.symbols([(0x401000, 0x4010ff, 42, 0, 5), (0x402000, 0x4020ff, 42, 9, 5)], b'main\0bin\0_Z3addv\0')
    parts = [seeds.process(42, b'prog'), seeds.mapping(42, 0x400000, 0x403000, b'/bin/prog')]
    parts += [seeds.metadata(b'sonde', b'[sonde]\n' + settings)] if settings else []
    parts += [seeds.sample(42, [seeds.USER, ADD if random.random() < part else MAIN, MAIN], BEGIN_NS + i * 10**7)
              for i in range(2000)]
    path = os.path.join(os.path.dirname(case.path), name)
    with open(path, 'wb') as file:
        file.write(seeds.capture([*parts, seeds.chunks(table)], 2000))
    return path


def test_chance(case):
    before, same, after = (many(case, f'{name}.syscap', part, name) for name, part in (('before', .5), ('same', .5), ('after', .6)))
    shown = case.run('diff', '-l', '0', before, same)
    check('Nothing changed by more than chance lets it.' in shown and '*' not in shown and ' to ' in shown, shown)
    shown = case.run('diff', before, after)
    check(re.search(r' \+\d+\.\d  \* \+\d+\.\d\d to \+\d\d\.\d\d +add ', shown), shown)
    check('* differs by more than chance lets two such recordings differ' in shown, shown)
    check(re.search(r'^Chance    all 2 intervals hold in 995 of 1,000 such pairs; 500 slices of 0.04 s$', shown, re.M), shown)
    check(re.search(r'^Seen      in 95 of 100 such pairs: changes of [3-9]\.\d\d points; of (add|main) of ', shown, re.M), shown)
    for limit in ('15', '100'):  # marked rows are there whatever the limit
        shown = case.run('diff', '-l', limit, before, after)
        check(re.search(r'^ .*  \* .* add ', shown, re.M) and '\n* differs by more than chance' in shown, shown)
        check('Nothing changed' not in shown, shown)
    shown = case.run('diff', '-l', '0', case.path, case.path)
    check('too few samples to tell it from changes' in shown, shown)


def test_fail_on(case):
    before, same, after = (many(case, f'{name}.syscap', part, name) for name, part in (('before', .5), ('same', .5), ('after', .6)))
    for value in ('x', '-1', '101', '3%%', '3 %'):
        check('--fail-on takes points such as 3%' in case.run('diff', f'--fail-on={value}', before, same, status=1), value)
    complaint = case.run('diff', '--fail-on=3%', before, after, status=3)
    check(re.search(r'add\(\) takes \d+\.\d\d points more', complaint), complaint)
    case.run('diff', '--fail-on=3%', after, before, status=3)  # of which main became slower
    case.run('diff', '--fail-on=3%', '-l', '100', after, before, status=3)  # whatever is shown
    case.run('diff', '--fail-on=30', before, after)
    case.run('diff', '--fail-on=0', before, same)
    check('too few samples to tell' in case.run('diff', '--fail-on=3%', case.path, case.path, status=1), 'it was told')


def test_markdown(case):
    before, after = (many(case, f'{name}.syscap', part, name) for name, part in (('before', .5), ('after', .6)))
    shown = case.run('diff', '--markdown', before, after)
    check(re.search(r'^\| `add` \| `bin` \| \d+\.\d% \| \d+\.\d% \| \+\d+\.\d\d \| \+\S+ to \+\S+ \| \*\*slower\*\* \|$', shown, re.M), shown)
    check(re.search(r'^\| `main` .* \| faster \|$', shown, re.M), shown)
    check(f'- Before: `{before}`: 2,000 samples in 19.99 s\n' in shown, shown)
    check('\n- Chance: all 2 intervals hold in 995 of 1,000 such pairs; 500 slices of 0.04 s\n' in shown, shown)
    check(re.search(r'^- Seen: in 95 of 100 such pairs: changes of \d\.\d\d points; of `(add|main)` of \d\.\d\d$', shown, re.M), shown)
    check('Nothing changed' not in shown, shown)
    check('\nNothing changed by more than chance lets it.\n' in case.run('diff', '-l', '0', '--markdown', before, many(case, 'same.syscap', .5, 'same')),
          'it is marked')
    odd = os.path.join(os.path.dirname(before), 'a|b`c')
    os.link(before, odd)
    shown = case.run('diff', '--markdown', before, odd)
    check(f"- After: `{odd.replace('`', chr(39))}`: 2,000 samples" in shown, shown)


def test_per_second(case):
    before, after = (many(case, f'{name}.syscap', .5, name, f'frequency={hz}\n'.encode()) for name, hz in (('slow', 200), ('fast', 1000)))
    shown = case.run('diff', '--per', 'second', before, after)
    check('50.0% of a CPU' in shown and '10.0% of a CPU' in shown, shown)
    check(re.search(r'^ +2\d\.\d% +\d\.\d% +-\S+  \* .* add ', shown, re.M), shown)
    check('Nothing changed' in case.run('diff', '-l', '0', before, after), 'shares are the same')
    check('no --per=second' in case.run('diff', '--per=second', case.path, case.path, status=1), 'it knows')
    check('--per is one of' in case.run('diff', '--per=minute', before, after, status=1), 'a minute')


def test_groups(case):
    """By command of processes, however many there are of it."""
    before, after = (many(case, f'{name}.syscap', .5, name) for name in ('one', 'two'))
    for by in ('command', 'module', 'none'):
        shown = case.run('diff', '-l', '0', '--by', by, before, after)
        check('No function changed by 0.0% or more' in shown, shown)
    check('No function changed' in case.run('diff', '-l', '10', '--by', 'line', before, after), 'a line')


def head(case, settings, cpuinfo=b''):
    """The labelled lines above the call tree."""
    parts = [seeds.process(42, b'./prog a b'), seeds.metadata(b'sonde', b'[sonde]\n' + settings),
             seeds.sample(42, [seeds.USER, MAIN], BEGIN_NS)]
    with open(case.path, 'wb') as file:
        file.write(seeds.capture([seeds.chunks(cpuinfo, b'/proc/cpuinfo'), *parts] if cpuinfo else parts, 1))
    return dict(line.split(None, 1) for line in case.run('report', case.path).split('\n\n')[0].splitlines())


def test_head(case):
    os.environ['TZ'] = 'UTC'
    lines = head(case, b'event=cycles\nfrequency=99\nkernel-time=yes\nscope=launch\nhost=box\x1b[2J\nkernel-release=6.1.0\n'
                 b'processors=2\nstart-realtime=1700000000000000000\n',
                 b'processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\n' + b'flags\t\t: fpu\n' * 600)
    check(lines['Command'] == './prog a b', lines)
    check(lines['Host'] == 'box\\x1b[2J, 2023-11-14 22:13:20, Linux 6.1.0', lines)
    check(lines['CPU'] == 'Fast CPU @ 3 GHz, 2 processors', lines)
    check(lines['Event'] == 'cycles at 99 Hz, user and kernel time', lines)
    check(lines['Samples'].startswith('1 in '), lines)


def test_no_event(case):
    lines = head(case, b'event=none\nfrequency=1000\nkernel-time=yes\n')
    check('Hz' not in lines['Event'] and 'time' not in lines['Event'], lines)
    check('CPU' not in lines and 'Host' not in lines, lines)


def test_progress(case):
    """Of a capture that takes its time to come: a line that is gone at the end, and on no pipe."""
    for command in (['report', '--no-pager'], ['verify'], ['flamegraph', '-o', case.path + '.html']):
        ours, theirs = case.open_terminal()
        process = subprocess.Popen([SONDECTL, *command, '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs,
                                   env={'TERM': 'xterm', 'PATH': os.environ['PATH']})
        os.close(theirs)
        process.stdin.write(USUAL[:1024])
        process.stdin.flush()
        shown = b''
        while b'Reading standard input' not in shown:  # the test's own time limit ends this
            shown += os.read(ours, 65536)
        process.stdin.write(USUAL[1024:])
        process.stdin.close()
        output = process.stdout.read()
        check(process.wait(timeout=DEADLINE_S) == 0, f'{command}: exit status {process.returncode}')
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:
            pass
        os.close(ours)
        process.stdout.close()
        left = shown.split(b'\r\x1b[K')[-1]
        check(left == b'' or left.startswith(b'Wrote '), f'{command}: {shown}')
        check(b'Reading' not in output, output)
        result = subprocess.run([SONDECTL, *command, '-'], input=USUAL, capture_output=True, timeout=DEADLINE_S, check=True)
        check(b'Reading' not in result.stderr, result.stderr)


def test_flamegraph(case):
    """It says what it wrote, but for what went to standard output."""
    page = case.path + '.html'
    result = subprocess.run([SONDECTL, 'flamegraph', '-o', page, case.path], capture_output=True, text=True, check=True)
    check(result.stderr.startswith(f'Wrote {page} (') and result.stdout == '', result.stderr)
    result = subprocess.run([SONDECTL, 'flamegraph', '-o', '-', case.path], capture_output=True, text=True, check=True)
    check(result.stderr == '' and '<html' in result.stdout, result.stderr)


def main():
    cases = [('a view, a group or a range that cannot be is refused', test_refusals),
             ('samples are chosen by time and thread', test_time),
             ('JSON has every node with its parent, and rows', test_json),
             ('the head names command, host, date and CPU', test_head),
             ('without an event the head claims no rate', test_no_event),
             ('a pipe gets plain text', test_plain),
             ('a terminal gets colours unless NO_COLOR is set', test_colours),
             ('a terminal gets a pager, and goes without one that is not there', test_pager),
             ('what takes its time shows how far it is', test_progress),
             ('flamegraph says what it wrote', test_flamegraph),
             ('diff tells what became slower by function and by path', test_diff),
             ('diff tells changes from chance', test_chance),
             ('diff fails where something became slower by more than is allowed', test_fail_on),
             ('diff writes a table in Markdown', test_markdown),
             ('diff compares the time of a CPU, too', test_per_second),
             ('diff compares groups by their names', test_groups)]
    tap = Tap(len(cases))
    for name, test in cases:
        with tempfile.TemporaryDirectory() as folder, tap.case(name):
            test(Case(folder))
    tap.finish()


main()
