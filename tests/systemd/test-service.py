#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service, by its users: test-service.py BUILD"""

import os
import re
import sys

from inside import Capture, User, check, run, wait_until
from tap import Tap


SERVICE = 'org.sonde.Profiler1'


def start_session(*options):
    """By root. Returns its object path."""
    answer = run('busctl', 'call', SERVICE, '/org/sonde/Profiler1', f'{SERVICE}.Manager', 'StartSession', 'a{sv}',
                 str(len(options) // 3), *options)
    return answer.split('"')[1]


def get_property(session, name):
    return run('busctl', 'get-property', SERVICE, session, f'{SERVICE}.Session', name).split('"')[1]


def count_recorded(session):
    statistics = run('busctl', 'get-property', SERVICE, session, f'{SERVICE}.Session', 'Statistics')
    return int(re.search(r'"recorded" (\d+)', statistics)[1])


def main():
    tap = Tap(5)
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

    with tap.case('a session that outlives its caller writes a file that its owner may read'):
        session = start_session('system', 'b', 'true', 'duration', 't', '300000')
        path = get_property(session, 'CaptureFile')
        check(path.startswith('/var/lib/sonde/captures/'), path)
        wait_until(lambda: get_property(session, 'State') == 'finished', 'the end of the session')
        run('sondectl', 'verify', path)

    with tap.case('the processes of a unit are found'):
        unit = 'sonde-burn.service'
        run('systemd-run', '--quiet', f'--unit={unit}', burn, '1000')
        session = start_session('unit', 's', unit)
        wait_until(lambda: count_recorded(session) > 50, 'its samples')
        run('busctl', 'call', SERVICE, session, f'{SERVICE}.Session', 'Stop')
        wait_until(lambda: get_property(session, 'State') == 'finished', 'the end of the session')
        capture = Capture(get_property(session, 'CaptureFile'))
        run('systemctl', 'stop', unit)
        names = {name for sample in capture.samples for name in capture.stack(sample)}
        tap.note(f'{capture.counts["SAMPLE"]} samples')
        check(capture.counts['SAMPLE'] > 50 and 'main' in names, f'only {names}')

    with tap.case('no unit has failed'):
        check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))

    tap.finish()


main()
