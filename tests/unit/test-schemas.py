#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What --json of commands prints of captures, against the schemas: test-schemas.py BUILD SOURCE"""

import copy
import importlib
import os
import re
import subprocess
import sys
import tempfile

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, 'tests/lib'))
DEADLINE_S, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Tap', 'check'))
schemas = importlib.import_module('schemas')

HOME = tempfile.TemporaryDirectory(prefix='sonde-schemas-')
SONDECTL = os.path.join(BUILD, 'client/sondectl')
CORPUS = os.path.join(SOURCE, 'tests/fuzz/corpus')
# The service's, which tests/bus/test-sondectl.py has; and what no command prints as a whole.
ELSEWHERE = {'list', 'status', 'events', 'limits'}
# The corpus that is tried with a command, how ("{}" is a capture), and what else is tried with some that say much.
COMMANDS = {
    'report': ('report', ['-l', '0', '{}'], ['usual', 'foreign', 'deep'],
               [['{}'], ['--flat', '-l', '0', '{}'], ['--by=line', '-l', '0', '{}'], ['--bottom-up', '{}'], ['--lines', '{}']]),
    'heap': ('heap', ['-l', '0', '{}'], ['usual', 'deep', 'forked'],
             [['--flat', '-l', '0', '--leaks', '{}'], ['--graph', '{}'], ['--diff', '0s', 'end', '{}'], ['--diff', '--leaks', '{}', '{}']]),
    'calls': ('report', ['--paths', '{}'], ['calls-whole', 'calls-many-open'], [['{}'], ['--diff', '{}', '{}']]),
    'diff': ('report', ['-l', '0', '{}', '{}'], ['usual', 'deep'], [['--by=module', '--per=second', '{}', '{}'], ['-l', '100', '{}', '{}']]),
    'verify': ('report', ['{}'], [], []),
}


def run(*arguments):
    return subprocess.run([SONDECTL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False, env={'PATH': os.environ['PATH'], 'HOME': HOME.name, 'DEBUGINFOD_URLS': '',
                                            'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '')})


def test_schemas():
    for name in schemas.names():
        schemas.validator().check_schema(schemas.load(name))
    helps = {word for words in re.findall(r'^  sondectl ([a-z|]+) ', run('--help').stdout, re.M) for word in words.split('|')}
    print_json = {command for command in helps if re.search(r'^  --json ', run('help', command).stdout, re.M)}
    check(print_json == schemas.names(), f'commands with --json are {print_json}, schemas {schemas.names()}')
    check(print_json == ELSEWHERE | set(COMMANDS), 'a command is tried nowhere')


def test_captures(command):
    """Captures of strangers among them; what a command refuses is no JSON at all."""
    folder, usual, some, more = COMMANDS[command]
    names = sorted(name for name in os.listdir(os.path.join(CORPUS, folder)) if command != 'calls' or name.startswith('calls-'))
    n_valid = 0
    for name, arguments in [(name, usual) for name in names] + [(name, arguments) for name in some for arguments in more]:
        path = os.path.join(CORPUS, folder, name)
        result = run(command, '--json', *(word.format(path) for word in arguments))
        check(result.returncode in (0, 1, 2), f'{command} {arguments} of {name}: {result.returncode} {result.stderr}')
        if not result.stdout:
            check(result.returncode != 0 and result.stderr, f'{command} {arguments} of {name}: nothing at all')
            continue
        try:
            schemas.check_schema(command, result.stdout)
        except AssertionError as error:
            raise AssertionError(f'{command} {arguments} of {name}: {error}') from error
        n_valid += 1
    check(n_valid > len(names) / 4, f'{command}: only {n_valid} answers')


def test_refusals():
    """What the schema would not let pass, or the whole test could not fail."""
    text = run('report', '--json', '--flat', '-l', '0', os.path.join(CORPUS, 'report/usual')).stdout
    good = schemas.check_schema('report', text)
    check(good['rows'], text)
    errors = schemas.validator()(schemas.close(schemas.load('report'))).iter_errors
    for change in (lambda document: document.pop('ledger'), lambda document: document.update(version=2),
                   lambda document: document.update(more=1), lambda document: document.pop('rows'),
                   lambda document: document['rows'][0].update(self='1'), lambda document: document['rows'][0].pop('module')):
        bad = copy.deepcopy(good)
        change(bad)
        check(list(errors(bad)), f'accepted: {bad}')
    for text in ('{"version":1,"version":1}', '{"version":NaN}', '{'):
        try:
            schemas.check_schema('report', text)
        except (AssertionError, ValueError):
            continue
        raise AssertionError(f'accepted: {text}')


def main():
    cases = [('each command that prints JSON has a schema, and each schema a command', test_schemas),
             ('a schema refuses what is missing, unknown, or of another type', test_refusals)]
    tap = Tap(len(cases) + len(COMMANDS))
    for name, test in cases:
        with tap.case(name):
            test()
    for command in COMMANDS:
        with tap.case(f'{command} prints what its schema says of every capture'):
            test_captures(command)
    tap.finish()


main()
