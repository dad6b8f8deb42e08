#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""More threads and processes than there are rings, and all that they tell: test-crowds.py BUILD"""

import os
import re
import subprocess
import sys

from system import DEADLINE_S, Fault, System, check

LONG = os.environ.get('SONDE_TEST_LONG') == '1'
WAIT = '--memory-wait=1000000'
# What a thread, or a process, allocates beside its own: its stack's table, the buffer of standard output.
MAX_OTHER_EVENTS = 8
N_COMPILERS = 36
SOURCE = '#include <algorithm>\n#include <map>\n#include <string>\nint f (std::map<std::string, int> &m) { return m.begin ()->second; }\n'


def record(system, name, *arguments):
    """(ledger of events, what the command printed, what verify said)"""
    process = system.start_recording(name, '--event=none', WAIT, *arguments)
    output, errors = process.communicate(timeout=DEADLINE_S)
    check(process.returncode == 0, f'record: exit status {process.returncode}\n{output}{errors}', Fault)
    told = subprocess.run((system.program('client/sondectl'), 'verify', system.path(name)), capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False).stdout
    ledger = re.search(r'^events +ok +events-produced (\d+) = events-recorded (\d+) \+ events-lost-ring (\d+)', told, re.M)
    check(ledger, f'no account of events: {told}', Fault)
    return dict(zip(('produced', 'recorded', 'lost'), map(int, ledger.groups()))), output + errors, told


def test_crowd(system, kind, n, n_each):
    """Each event is recorded, of each thread and process."""
    memory = [] if kind == 'marks' else ['--memory']
    ledger, output, told = record(system, 'crowd.syscap', *memory, '--', system.program('tests/system/crowd'), kind, str(n), str(n_each))
    system.note(f'{n} {kind}: {ledger}')
    made, missed = map(int, re.search(r'^(\d+) made, (\d+) missed', output, re.M).groups())
    check(made == n * n_each, output, Fault)
    check('got no ring' not in output + told, output + told, Fault)
    check(0 <= ledger['produced'] - made <= MAX_OTHER_EVENTS * n, f'the crowd made {made}: {ledger}', Fault)
    check(ledger['lost'] == missed == 0, f'{ledger}, {missed} missed')


def test_compilers(system):
    """Each of the many processes of a build has its events, or is told of."""
    folder = system.path('build')
    os.makedirs(folder, exist_ok=True)
    names = [f'f{i}' for i in range(N_COMPILERS)]
    for name in names:
        with open(os.path.join(folder, f'{name}.cc'), 'w', encoding='utf-8') as file:
            file.write(SOURCE)
    with open(os.path.join(folder, 'Makefile'), 'w', encoding='utf-8') as file:
        file.write(f'all: {" ".join(name + ".o" for name in names)}\n%.o: %.cc\n\tg++ -c $< -o $@\n')
    ledger, output, told = record(system, 'build.syscap', '--memory', '--', 'make', '-B', '-s', f'-j{N_COMPILERS}', '-C', folder)
    text = system.sondectl('dump', system.path('build.syscap'))
    compilers = {match[1] for match in re.finditer(r'^PROCESS .*pid=(\d+) .*cc1plus', text, re.M)}
    allocating = {match[1] for match in re.finditer(r'^ *ALLOCATION .*pid=(\d+) ', text, re.M)}
    system.note(f'{ledger}, {len(compilers)} compilers, {len(allocating)} processes with blocks')
    check('got no ring' not in output + told, output + told, Fault)
    check(len(compilers) == N_COMPILERS and compilers <= allocating, f'{len(compilers & allocating)} of {len(compilers)} compilers')


def main():
    crowds = [('threads', 100, 2000), ('threads', 400, 2000), ('marks', 300, 6020), ('processes', 100, 2000)]
    if LONG:
        crowds.append(('processes', 1000, 200))
    system = System(len(crowds) + LONG)
    for kind, n, n_each in crowds:
        with system.case(f'{n} {kind} at a time are recorded whole'):
            system.measure(test_crowd, kind, n, n_each)
    if LONG:
        with system.case(f'{N_COMPILERS} compilers at a time are recorded'):
            system.measure(test_compilers)
    system.finish()


main()
