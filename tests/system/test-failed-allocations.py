#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The n-th allocation of sonded or of its worker fails: test-failed-allocations.py BUILD. GLib ends a program
that gets no memory; the others have to notice, and say so. SONDE_TEST_LONG=1 tries each n."""

import os
import struct

from faults import PROGRAMS, choose, record_once, try_faults, write_script
from system import System, check

IS_LONG = os.environ.get('SONDE_TEST_LONG') == '1'
N_TRIES = 120


def make_programs(system, role, number):
    """Where the program of this role has its allocation of this number fail, or none (0)."""
    variables = {'LD_PRELOAD': system.program('tests/system/libcount-allocations.so'),
                 'ALLOCATIONS_FILE': system.path('counter'), 'ALLOCATION_TO_FAIL': number}
    with open(variables['ALLOCATIONS_FILE'], 'wb') as file:
        file.write(bytes(8))
    environment = ' '.join(f'{name}={value}' for name, value in variables.items())
    return {role: write_script(system, f'starved-{role}', f'env {environment} {system.program(PROGRAMS[role])}')}


def count_allocations(system, role):
    """Of one session that gets all it asks for."""
    outcome = record_once(system, make_programs(system, role, 0))
    check(outcome.is_made, f'no recording: {outcome.wrong}')
    with open(system.path('counter'), 'rb') as file:
        return struct.unpack('<Q', file.read(8))[0]


def main():
    system = System(len(PROGRAMS))
    for role in PROGRAMS:
        with system.case(f'no allocation of the {role} that fails makes a recording hang or a capture bad'):
            n_allocations = count_allocations(system, role)
            system.note(f'{n_allocations} allocations from start-up to the end of a session')
            check(n_allocations > 100, 'they were not counted')
            faults = [(role, number) for number in range(1, n_allocations + 1)]
            if not IS_LONG:
                faults = choose([faults], N_TRIES // len(PROGRAMS))
            n_wrong = try_faults(system, faults, lambda *fault: make_programs(system, *fault))
            check(n_wrong == 0, f'{n_wrong} of them end badly')
    system.finish()


main()
