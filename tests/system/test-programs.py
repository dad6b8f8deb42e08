#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What programs tell by themselves arrives: test-programs.py BUILD [SYSPROF_EVENTS LIBSYSPROF]"""

import glob
import os
import re
import sys

from system import System, check

EVENTS = 20000  # of each kind in each program
DEPTH = 2
STATE_FRAMES = 2  # of each program: a counter's definition, a name


def read_accounts(output):
    """(made, lost) of each program that collect was."""
    return [(int(made), int(lost)) for made, lost in re.findall(r'^\d+ made (\d+) lost (\d+)$', output, re.M)]


def collect(system, name, *options):
    recording = system.start_recording(name, *options, '--', system.program('tests/system/collect'), str(DEPTH), str(EVENTS))
    capture, output = system.finish_recording(recording, name)
    accounts = read_accounts(output)
    check(len(accounts) == 2 * DEPTH + 1, output)
    return capture.ledger, accounts, capture


def check_sysprof(system, program, directory):
    preload = glob.glob(os.path.join(directory, 'usr/lib/*/libsysprof-memory-4.so'))
    threads, events = 3, 500
    with system.case('a program built with libsysprof-capture delivers'):
        capture, _ = system.record('sysprof.syscap', '--', program, str(threads), str(events))
        system.note(f"{capture.counts['MARK']} marks, {capture.counts['ALLOCATION']} allocations")
        check(capture.counts['MARK'] == threads * events, 'marks are missing')
        check(capture.counts['ALLOCATION'] == threads * events, 'allocations are missing')
        check(capture.ledger['events-recorded'] == 4 * threads * events, f'{capture.ledger}')

    with system.case('the preload of libsysprof delivers allocations'):
        check(preload, 'the package has no preload')
        library_path = os.path.dirname(preload[0])
        capture, _ = system.record('preload.syscap', '--', 'env', f'LD_LIBRARY_PATH={library_path}', f'LD_PRELOAD={preload[0]}',
                                   'python3', '-c', 'print([str(n) for n in range(2000)][7])')
        system.note(f"{capture.counts['ALLOCATION']} allocations")
        check(capture.counts['ALLOCATION'] > 1000, 'allocations are missing')


def test_all(system):
    ledger, accounts, capture = collect(system, 'all.syscap', '--event', 'none', '--memory-wait', '1000000')
    check(sum(lost for _, lost in accounts) == 0, f'{accounts}')
    check(ledger['events-recorded'] == 3 * EVENTS * len(accounts), f'{ledger}')
    check(ledger['events-lost-ring'] == ledger['events-refused'] == 0, f'{ledger}')
    check({'even', 'odd'} <= set(capture.jit_names.values()), f'{capture.jit_names}')
    names = system.sondectl('heap', system.path('all.syscap'))
    check('make_events' in names and 'even' in names, names)


def test_some(system):
    ledger, accounts, _ = collect(system, 'some.syscap', '--memory-wait', '0')
    made, lost = (sum(column) for column in zip(*accounts))
    system.note(f'{made} made, {lost} lost')
    check(ledger['events-lost-ring'] == lost, f'{lost} lost: {ledger}')
    check(ledger['events-recorded'] + STATE_FRAMES * len(accounts) == made, f'{made} made: {ledger}')


def test_killed(system):
    program = system.program('tests/system/collect')
    # The session goes on behind it, so that its end is seen as what it is.
    capture, _ = system.record('killed.syscap', '--', 'sh', '-c',
                               f'timeout -s KILL 1 {program} 0 1000000000; {program} 0 3000000')
    check(capture.ledger['events-recorded'] > 1000, f'{capture.ledger}')
    check(any('left open by a program that is gone' in text for text in capture.logs), f'{capture.logs}')


def main():
    system = System(3 + 2 * (len(sys.argv) > 2))
    with system.case('all that a program tells arrives, through forks and execs'):
        system.measure(test_all)
    with system.case('lost and delivered are what was produced'):
        test_some(system)
    with system.case('what a killed program had told is there'):
        system.measure(test_killed)
    if len(sys.argv) > 2:
        check_sysprof(system, sys.argv[2], sys.argv[3])
    system.finish()


main()
