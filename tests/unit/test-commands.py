#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""All commands of sondectl, in what they have in common, and what dump shows: test-commands.py BUILD SOURCE"""

import importlib
import os
import re
import shutil
import struct
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


def run(*arguments, program=SONDECTL, **environment):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False, env=os.environ | environment)


def write(folder, data):
    path = os.path.join(folder, 'x.syscap')
    with open(path, 'wb') as file:
        file.write(data)
    return path


def options_with_values():
    """(command, option) of all."""
    for command in '|'.join(re.findall(r'^  sondectl ([a-z|]+) ', run('--help').stdout, re.M)).split('|'):
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
            if option in ('--memory', '--temporary', '--trace') and len(words) == 2:
                continue  # its value is optional, and never the next word
            complaint = check_refused(command, *words, *(['--', 'true'] if command == 'record' else [path] * (1 + (command == 'diff'))))
            check(option in complaint, f'{command} {option}: {complaint}')


def test_environment(folder):
    """Names of programs that are none."""
    os.makedirs(os.path.join(folder, 'elsewhere/bin'))
    program = shutil.copy(SONDECTL, os.path.join(folder, 'elsewhere/bin'))
    os.chdir(folder)
    for name in ('SONDE_DAEMON', 'SONDE_BROKER', 'SONDE_WORKER'):
        result = run('record', '--embedded', '--', 'true', program=program, **{'SONDE_DAEMON': '/nonexistent', name: ''})
        check(result.returncode == 125 and 'Cannot start /' in result.stderr, f'{result.returncode} {result.stderr}')


def test_siblings(folder):
    """What was built beside it, wherever it is called; never what lies where it is called."""
    os.makedirs(os.path.join(folder, 'tree/client'))
    os.makedirs(os.path.join(folder, 'tree/daemon/control'))
    os.makedirs(os.path.join(folder, 'bin'))
    daemon = os.path.join(folder, 'tree/daemon/control/sonded')
    with open(daemon, 'w', encoding='utf-8') as file:
        file.write('#!/bin/sh\nexit 1\n')
    os.chmod(daemon, 0o755)
    inside = shutil.copy(SONDECTL, os.path.join(folder, 'tree/client'))
    outside = shutil.copy(SONDECTL, os.path.join(folder, 'bin'))
    os.chdir(os.path.join(folder, 'tree'))
    for program, is_sibling in ((inside, True), (outside, False)):
        result = run('record', '--embedded', '--', 'true', program=program)
        check(result.returncode == 125 and (daemon in result.stderr) == is_sibling, f'{program}: {result.stderr}')


def elf(machine=62, elf_class=2, loader=None):
    """The header of a program for x86-64 that needs that loader; without one it is static."""
    name = (loader or '').encode() + b'\0'
    segment = struct.pack('<IIQQQQQQ', 3 if loader else 1, 4, 120, 0, 0, len(name), len(name), 1)
    return struct.pack('<4sBBBB8xHHIQQQIHHHHHH', b'\x7fELF', elf_class, 1, 1, 0, 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0,
                       0) + segment + name


def make_program(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, 'wb') as file:
        file.write(data)
    os.chmod(path, 0o755)
    return path


def test_preload(folder):
    """The loader would say nothing of use, and the recording have no allocation."""
    library = make_program(folder, 'library.so', elf(loader='/lib64/ld-linux-x86-64.so.2'))
    good = make_program(folder, 'good', elf(loader='/lib64/ld-linux-x86-64.so.2'))
    static = make_program(folder, 'static', elf())
    programs = {static: 'statically linked', make_program(folder, 'script', f'#! {static} -x\n'.encode()): 'statically linked',
                make_program(folder, 'other', elf(machine=183)): 'another architecture',
                make_program(folder, 'narrow', elf(machine=3, elf_class=1)): 'a 32-bit program',
                make_program(folder, 'musl', elf(loader='/lib/ld-musl-x86_64.so.1')): 'musl'}
    if os.getuid() == 0:
        programs[make_program(folder, 'privileged', elf(loader='/lib64/ld-linux-x86-64.so.2'))] = 'gains rights'
        os.chown(os.path.join(folder, 'privileged'), 2, 2)
        os.chmod(os.path.join(folder, 'privileged'), 0o4755)
    output = os.path.join(folder, 'begun.syscap')
    for program, word in programs.items():
        complaint = check_refused('record', '--memory', '-o', output, '--', program, SONDE_MEMORY_LIBRARY=library)
        check(word in complaint, complaint)
    for name, word in ((os.path.join(folder, 'none'), 'No such file'), (write(folder, b'text' * 99), 'no library')):
        complaint = check_refused('record', '--memory', '-o', output, '--', good, SONDE_MEMORY_LIBRARY=name)
        check(name in complaint and word in complaint, complaint)
    # One path for programs of both kinds, to a library for each that is there.
    config = open(os.path.join(sys.argv[1], 'config.h'), encoding='ascii').read()
    wide, narrow = (re.search(rf'define SONDE_{name} "([^":]*)', config)[1] for name in ('LIB', 'LIBDIRS_I386'))
    for directory, data, word in ((wide, elf(loader='/lib64/ld-linux-x86-64.so.2'), 'a 32-bit program'),
                                  (narrow, elf(machine=3, elf_class=1), 'statically linked')):
        if directory:
            os.makedirs(os.path.join(folder, directory))
            make_program(folder, os.path.join(directory, 'any.so'), data)
            complaint = check_refused('record', '--memory', '-o', output, '--', os.path.join(folder, 'narrow'),
                                      SONDE_MEMORY_LIBRARY=os.path.join(folder, '$LIB/any.so'))
            check(word in complaint, complaint)
    check(not os.path.exists(output), 'a capture was begun')


def test_choices(folder):
    path = write(folder, seeds.capture([]))
    for command, *arguments, wanted in (
            ('report', '--by', 'modle', path, 'did you mean module?'), ('report', '--flt', path, 'did you mean --flat?'),
            ('export', '-f', 'speedscop', path, 'did you mean speedscope?'), ('export', path, '--format: folded, speedscope'),
            ('export', '-f', 'heaptrack', path, 'the capture has no allocations'),
            ('export', '-f', 'heaptrack', '-o', os.path.join(folder, 'x.zst'), path, '.gz'),
            ('export', '-f', 'heaptrack', '--unit', 'bytes', path, 'for folded and dot'),
            ('export', '-f', 'folded', '--by', 'module', path, 'which processes are one'),
            ('flamegraph', '--by', 'line', path, 'which processes are one'), ('heap', '--by', 'thread', path, '--thread chooses them'),
            ('diff', '--by', 'process', path, path, '--by=command'), ('report', '--fold-recursion', 'alll', path, 'did you mean all?'),
            ('heap', '--unit', 'byte', path, 'did you mean bytes?'), ('top', '--by', 'threads', 'did you mean thread?'),
            ('record', '--memory=sample', '--', 'true', 'did you mean sampled?'),
            ('record', '--memory', 'sampled', '--', 'true', '--memory=sampled'), ('help', 'repot', 'did you mean report?')):
        complaint = check_refused(command, *arguments)
        check(wanted in complaint, complaint)
    complaint = check_refused('report', '--by', 'zzz', path)
    check(complaint == 'sondectl: --by is one of none, container, unit, command, process, thread, module, function, line, not "zzz"\n', complaint)
    complaint = run('repot').stderr
    check(complaint == 'sondectl: repot is neither a command of sondectl, nor a capture, nor a program; did you mean report?\n', complaint)
    complaint = run('xyzzy').stderr
    check('sondectl help' in complaint and 'did you mean' not in complaint, complaint)


def test_help(folder):
    check(run('help').stdout == run('--help').stdout == run().stdout, 'the help of sondectl')
    check(run('help', 'report').stdout == run('report', '--help').stdout, 'the help of a command')


def test_optional(folder):
    """A value that may be left out is never the next word."""
    path = write(folder, seeds.capture([]))
    check('tells nothing of the heap' in check_refused('heap', '--temporary', path), 'the capture was taken for a duration')
    check('takes a duration' in check_refused('heap', '--temporary=soon', path), 'a value behind a = counts')
    check('exclude each other' in check_refused('heap', '--lines', '--no-lines', path), 'lines or none')


def test_locale(folder):
    """Names that the C locale cannot show are names all the same."""
    name = os.path.join(folder, 'größe.syscap')
    os.rename(write(folder, seeds.capture([])), name)
    for locale in ('C', 'C.UTF-8'):
        result = run('report', '--comm', 'größe', '--callers', 'größe', name, LC_ALL=locale)
        check('größe' in result.stderr and 'no sample' in result.stderr, f'{locale}: {result.stderr}')
        result = run('heap', name, LC_ALL=locale)
        check(f'{name} tells nothing' in result.stderr, f'{locale}: {result.stderr}')
    # of a program that is none of ours
    result = subprocess.run([SONDECTL.encode(), b'report', b'--comm', b'\xff', name.encode()], capture_output=True, check=False,
                            timeout=DEADLINE_S, env=os.environ | {'LC_ALL': 'C'})
    check(result.returncode == 1 and b'--comm' in result.stderr, result.stderr)


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
             ('a build tree uses the programs that were built with it, and no folder of the caller', test_siblings),
             ('a word that is none of a few is refused with these and the nearest', test_choices),
             ('help is that of --help', test_help),
             ('a value that may be left out stands behind a "="', test_optional),
             ('names that are not ASCII work in the C locale', test_locale),
             ('a library that cannot be preloaded is an error', test_preload),
             ('dump shows values of counters as they were defined', test_doubles)]
    tap = Tap(len(cases))
    for name, test in cases:
        with tempfile.TemporaryDirectory() as folder, tap.case(name):
            test(folder)
    tap.finish()


main()
