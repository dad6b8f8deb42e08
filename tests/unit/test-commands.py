#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What all commands of sondectl have in common, and what dump shows: test-commands.py BUILD SOURCE"""

import importlib
import os
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(sys.argv[2], 'tests', folder) for folder in ('lib', 'fuzz')]
DEADLINE_S, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Tap', 'check'))
seeds = importlib.import_module('make-report-corpus')

SONDECTL = os.path.join(sys.argv[1], 'client/sondectl')
HIDDEN = {'record': ['--sonded', '--worker']}
REFUSED = {'record': 125, 'top': 125}  # as env and timeout: others are the command's own
INTEGER, DOUBLE = 0, 1


def run(*arguments, **environment):
    return subprocess.run([SONDECTL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False, env=os.environ | environment)


def write(folder, data):
    path = os.path.join(folder, 'x.syscap')
    with open(path, 'wb') as file:
        file.write(data)
    return path


def options_with_values():
    """(command, option) of all."""
    for command in re.findall(r'^  sondectl ([a-z]+) ', run('--help').stdout, re.M):
        shown = re.findall(r'^  (?:-., )?(--[a-z-]+)(?:=|\[=)', run(command, '--help').stdout, re.M)
        yield from ((command, option) for option in shown + HIDDEN.get(command, []))


def check_refused(command, *arguments, **environment):
    result = run(command, *arguments, **environment)
    check(result.returncode == REFUSED.get(command, 1), f'{command} {arguments}: exit status {result.returncode}: {result.stderr}')
    check(re.fullmatch('sondectl: .*\n', result.stderr) and 'CRITICAL' not in result.stderr, result.stderr)
    return result.stderr


def test_empty(folder):
    path = write(folder, seeds.capture([]))
    options = list(options_with_values())
    check(len(options) > 40 and len({command for command, _ in options}) >= 7, f'{options}')
    for command, option in options:
        for words in ([option + '='], [option, '']):
            if option == '--memory' and len(words) == 2:
                continue  # its value is optional, and never the next word
            complaint = check_refused(command, *words, *(['--', 'true'] if command == 'record' else [path] * (1 + (command == 'diff'))))
            check(option in complaint, f'{command} {option}: {complaint}')


def test_environment(folder):
    """Names of programs that are none."""
    os.chdir(folder)
    for name in ('SONDE_DAEMON', 'SONDE_WORKER'):
        result = run('record', '--embedded', '--', 'true', **{'SONDE_DAEMON': '/nonexistent', name: ''})
        check(result.returncode == 125 and 'Cannot start /' in result.stderr, f'{result.returncode} {result.stderr}')


def test_doubles(folder):
    def shown(*parts):
        result = run('dump', write(folder, seeds.frames.header() + b''.join(parts)))
        check(result.returncode == 0, result.stderr)
        return [re.findall(r' (\d+)=(\S+)', line) for line in result.stdout.splitlines() if line.startswith('ctrset') or line.startswith('CTRSET')]

    integer, double = (seeds.definitions(['x'], b'X', 5, kind) for kind in (INTEGER, DOUBLE))
    half = seeds.values([(5, 0x3fe0000000000000), (6, 7)])  # 0.5 as IEEE 754 has it
    check(shown(double, half) == [[('5', '0.5'), ('6', '7')]], shown(double, half))
    check(shown(integer, half) == [[('5', str(0x3fe0000000000000)), ('6', '7')]], shown(integer, half))
    check(shown(half) == [[('5', str(0x3fe0000000000000)), ('6', '7')]], shown(half))
    # The last definition is what counts.
    check(shown(integer, double, half, integer, half) == [[('5', '0.5'), ('6', '7')], [('5', str(0x3fe0000000000000)), ('6', '7')]],
          shown(integer, double, half, integer, half))


def main():
    cases = [('an option that has no value although it needs one is refused by its name', test_empty),
             ('a program of no name is that which is installed', test_environment),
             ('dump shows values of counters as they were defined', test_doubles)]
    tap = Tap(len(cases))
    for name, test in cases:
        with tempfile.TemporaryDirectory() as folder, tap.case(name):
            test(folder)
    tap.finish()


main()
