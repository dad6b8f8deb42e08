#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Readers who come while a restless program runs understand what they get as the first one does, and
so does Debian's sysprof: test-late-readers.py BUILD [SYSPROF-COUNT SYSPROF-DIRECTORY]"""

import glob
import os
import subprocess
import sys

from capture import Capture
from system import DEADLINE_S, System, check, read_counts


def read_all(system):
    """In the order in which they came."""
    captures = []
    for i in range(len(glob.glob(system.path('*.syscap')))):
        path = system.path(f'{i}.syscap')
        system.sondectl('verify', path)
        captures.append(Capture(path, with_meanings=True))
        check(not captures[i].ledger_faults(), '\n'.join(captures[i].ledger_faults()))
    return captures


def compare(system, first, late, pid):
    """pid: the only process that it asked for, or None."""
    begin = late.ledger['stream-samples-before']
    wanted = [i for i in range(begin, len(first.samples)) if pid in (None, first.samples[i].pid)]
    check(late.ledger['stream-lost'] == 0, f'it lost something: {late.ledger}')
    check(late.samples == [first.samples[i] for i in wanted], 'it got other samples')
    for i, sample in zip(wanted, range(len(late.samples))):
        check(first.meanings.of_samples[i] == late.meanings.of_samples[sample],
              f'{first.meanings.of_samples[i]} is to it {late.meanings.of_samples[sample]}')
        check(first.stack(first.samples[i]) == late.stack(late.samples[sample]),
              'it has other names for functions')
    files, first_files = dict(late.files), dict(first.files)
    # Of threads and processes that have ended it is not told.
    tasks, first_tasks = (set(of.pop('sonde/tasks', b'').splitlines()) for of in (files, first_files))
    check(tasks <= first_tasks, f'it has tasks of its own: {tasks - first_tasks}')
    check(files == first_files, 'it has other embedded files')
    check(late.counters == first.counters, 'it has other counters')
    system.note(f'{begin} samples before it came, {len(late.samples)} since, '
                f'{late.ledger["stream-filtered"]} frames not asked for')


def merge(system, directory, first, second):
    """What sysprof-cli makes of two captures must have all of their frames. It writes JITMAP frames
    anew, with other addresses, so these are compared by their names."""
    libraries = glob.glob(os.path.join(directory, 'usr/lib/*-linux-gnu'))
    path = system.path('merged')
    with open(path, 'wb') as out:
        subprocess.run([os.path.join(directory, 'usr/bin/sysprof-cli'), '--merge', first.path,
                        second.path], stdout=out, check=True, timeout=DEADLINE_S,
                       env=os.environ | {'LD_LIBRARY_PATH': ':'.join(libraries)})
    counts = read_counts(system.run(sys.argv[2], path))
    expected = first.counts + second.counts
    system.note(f'{sum(first.counts.values())} and {sum(second.counts.values())} frames are '
                f'{sum(counts.values())} in one, {counts.pop("JITMAP")} instead of '
                f'{expected.pop("JITMAP")} of them with names')
    check(counts == expected, f'{expected} became {counts}')
    names = set(Capture(path).jit_names.values())
    check(names == {*first.jit_names.values(), *second.jit_names.values()}, f'other names: {names}')


def main():
    system = System(4)
    captures = []

    with system.case('a restless program is recorded for eight readers'):
        system.run(system.program('tests/system/read-late'),
                   system.program('daemon/control/sonded'),
                   system.program('daemon/capture/sonde-capture'), system.folder,
                   system.program('tests/system/restless'))
        captures = read_all(system)
        check(len(captures) == 8, f'{len(captures)} readers came')
        first = captures[0]
        check(first.ledger['stream-samples-before'] == 0, 'the first one came late')
        check(first.counts['FORK'] > 10 and first.counts['EXIT'] > 10, f'not restless: {first.counts}')
        check(len(set(first.meanings.of_samples)) > 30, 'all samples are alike')

    with system.case('those who come late understand each sample as the first does'):
        for late in captures[1::2]:
            compare(system, captures[0], late, None)

    with system.case('those who ask for one process get all of its samples and no others'):
        pid = captures[2].samples[0].pid
        for late in captures[2::2]:
            check(late.ledger['stream-filtered'] > 0, 'nothing was left out')
            compare(system, captures[0], late, pid)

    name = "Debian's sysprof-cli merges any two of them without losing a frame"
    if len(sys.argv) < 4:
        system.skip(name, 'sysprof is not there: tools/test.sh gets it')
    else:
        with system.case(name):
            for first, second in zip(captures, captures[1:]):
                merge(system, sys.argv[3], first, second)

    system.finish()


main()
