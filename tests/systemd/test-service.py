#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service, by its users: test-service.py BUILD"""

import os
import sys

from inside import Capture, User, check, run
from tap import Tap


def main():
    tap = Tap(3)
    burn = os.path.join(sys.argv[1], 'tests/system/burn')
    alice = User('alice')

    with tap.case('a user without privileges starts the service by asking for a profile'):
        check(run('systemctl', 'show', '--property=ActiveState', 'sonded') == 'ActiveState=inactive\n',
              'the service runs already')
        capture = alice.record('own.syscap', '--', burn, '1')
        names = {name for sample in capture.samples for name in capture.stack(sample)}
        tap.note(f'{capture.counts["SAMPLE"]} samples in one second of CPU time')
        check(capture.counts['SAMPLE'] > 500, 'about 1000 were to be expected')
        check({'main', '__libc_start_main'} <= names, f'only {names}')

    with tap.case('root sees the names of kernel functions'):
        run('sondectl', 'record', '--kernel', '-o', '/tmp/kernel.syscap', '--', 'dd', 'if=/dev/zero',
            'of=/dev/null', 'bs=1M', 'count=3000')
        capture = Capture('/tmp/kernel.syscap')
        names = {name for sample in capture.samples for name in capture.stack(sample)}
        with open('/proc/kallsyms', encoding='utf-8') as file:
            known = {line.split()[2] for line in file}
        check(names & known, f'only {names}')

    with tap.case('no unit has failed'):
        check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))

    tap.finish()


main()
