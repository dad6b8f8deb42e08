#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What sondectl import makes of others' profiles, and what it refuses: test-import.py BUILD SOURCE"""

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(sys.argv[2], 'tests', folder) for folder in ('lib', 'fuzz')]
DEADLINE_S, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Tap', 'check'))
seeds = importlib.import_module('make-import-corpus')

SONDECTL = os.path.join(sys.argv[1], 'client/sondectl')
PERF, PPROF = seeds.perf(), seeds.pprof()

# What is wrong with a seed, as the error has it behind the file's name.
PERF_REFUSED = {
    'no-sample': 'line 1: the text ends without a sample: ""',
    'no-head': 'line 1: neither a sample nor a frame of perf script: "what is this"',
    'no-address': 'line 2: no address before a function: "main (x)"',
    'no-module': 'line 2: no module in parentheses behind a function: "401000 main"',
    'no-function': 'line 2: no function between address and module: "401000"',
    'zero': 'line 7: a byte of zero is in it: ""',
    'long': 'line 2: longer than 65,536 bytes: "',
    'large-pid': 'line 1: a number is too large: "prog 99999999999/1',
    'large-time': 'line 1: a number is too large: "prog 10/11 [001]  99999999999999.0',
    'bad-comm': 'line 1: a name without NAME:PID/TID: "',
    'cut': 'line 2: no module in parentheses behind a function: "401000 ma"',
}
PPROF_REFUSED = {
    'gzip-broken': 'cannot be unpacked: ',
    'gzip-no': 'byte 3: cannot be unpacked: ',
    'cut-number': 'it ends within a number',
    'cut': 'a field is longer than what it is in',
    'wide-number': 'byte 5: a number has more than 64 bits',
    'group': 'byte 0: a field has a kind that protobuf does not have any more',
    'no-number': 'byte 0: a field has no number that protobuf gives',
    'longer': 'byte 0: a field is longer than what it is in',
    'no-parts': 'a field that has parts is a number',
    'no-id': 'a location has no id',
    'no-id-function': 'an entry of a table has no id',
    'many-types': 'byte 130: more than 64 types of values',
    'many-lines': 'a location has more than 64 functions',
    'no-type': 'byte 0: none of its types is samples/count, …/nanoseconds with a period, alloc_objects or inuse_objects',
    'values': 'a sample has not one value for each type',
    'values-more': 'a list is too long',
    'no-location': 'a sample has a location that is not there',
    'no-function': 'a location has a function that is not there',
    'no-value': 'byte 0: no sample has a value',
    'below': 'byte 0: no sample has a value',
}


class Case:
    def __init__(self, folder):
        self.folder = folder

    def put(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, 'wb') as file:
            file.write(content)
        return path

    @staticmethod
    def run(*arguments, status=0):
        result = subprocess.run([SONDECTL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False)
        check(result.returncode == status, f'{arguments}: exit status {result.returncode}: {result.stderr}')
        return result.stdout if status == 0 else result.stderr

    def imported(self, name, content, command='report', *options):
        path = self.put(name, content)
        self.run('import', path, '-o', f'{path}.syscap')
        return json.loads(self.run(command, '--json', *options, f'{path}.syscap'))

    def refused(self, kind, seeds_of, expected):
        for name, what in expected.items():
            path = self.put(f'{kind}-{name}', seeds_of[name])
            before = self.put('before.syscap', b'stays')
            error = self.run('import', path, '-o', before, status=1)
            check(f'{path}: ' in error and what in error and (': line ' in error or ': byte ' in error), f'{name}: {error!r}, not {what!r}')
            with open(before, 'rb') as file:
                check(file.read() == b'stays', f'{name}: the file that was there is not')


def rows_of(report):
    return {row['name']: (row['total'], row['self'], row['module']) for row in report['rows']}


def perf_text(case):
    report = case.imported('script', PERF['two'], 'report', '--flat', '-l', '0')
    check(report['total'] == 2 and report['samples'] == 2, report)
    check(report['settings']['event'] == 'cpu-clock' and report['settings']['period'] == '1001001', report['settings'])
    rows = rows_of(report)
    check(rows == {'k+0x1': (2, 2, '[kernel]')}, rows)  # of those that have something themselves
    tree = case.run('report', os.path.join(case.folder, 'script.syscap'))
    check(re.search(r'100\.0% +main\n +100\.0% +100\.0% +k\+0x1\n', tree), tree)
    threads = case.imported('threads', PERF['good'], 'report', '--by=thread')
    check([(row['comm'], row['pid']) for row in threads['processes']] == [('prog', 10)], threads['processes'])
    flat = rows_of(case.imported('flat', PERF['flat'], 'report', '--flat'))
    check(flat == {'f(int) (x)': (1, 1, 'a b.so')}, flat)


def deep_stacks(case):
    for name, content in (('script', PERF['deep']), ('profile', PPROF['deep'])):
        path = case.put(name, content)
        result = subprocess.run([SONDECTL, 'import', path, '-o', f'{path}.syscap'], capture_output=True, text=True, check=True)
        check('1 frame no name' in result.stderr, result.stderr)


def pprof_file(case):
    for name, content in (('plain', PPROF['good']), ('gzip', gzip.compress(PPROF['good']))):
        report = case.imported(name, content, 'report', '--flat')
        check(report['total'] == 3 and rows_of(report) == {'main': (3, 3, 'prog')}, report)
        check(case.imported(name, content)['processes'][0]['pid'] == 42, 'the pid of the label is not there')
    time = case.imported('time', PPROF['time'])
    check(time['total'] == 3 and time['settings']['event'] == 'cpu-clock' and time['settings']['period'] == '1', time)
    unnamed = rows_of(case.imported('no-lines', PPROF['no-lines'], 'report', '--flat'))
    check(unnamed == {'[unknown]': (3, 3, 'prog')}, unnamed)


def pprof_heap(case):
    heap = case.imported('heap', PPROF['heap'], 'heap')
    check(heap['allocated'] == {'bytes': 100, 'blocks': 3} and heap['left'] == {'bytes': 40, 'blocks': 1}, heap)


def other_files(case):
    check('is empty' in case.run('import', case.put('empty', b''), status=1), 'an empty file')
    error = case.run('import', os.path.join(case.folder, 'missing'), status=1)
    check('missing' in error, error)
    error = case.run('import', case.put('x.data', b'PERFILE2' + bytes(200)), status=1)
    check('perf' in error and 'x.data' in error, error)


def main():
    tap = Tap(6)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder)
        with tap.case('a text that is none of perf script is refused, by line'):
            case.refused('perf', PERF, PERF_REFUSED)
        with tap.case('a profile that is none of pprof is refused, by byte'):
            case.refused('pprof', PPROF, PPROF_REFUSED)
        with tap.case('other files are refused by name'):
            other_files(case)
        with tap.case('the text of perf script becomes samples with names'):
            perf_text(case)
            deep_stacks(case)
        with tap.case('a profile of pprof becomes as many samples'):
            pprof_file(case)
        with tap.case('a heap profile of pprof becomes blocks, with those that are left'):
            pprof_heap(case)
    tap.finish()


main()
