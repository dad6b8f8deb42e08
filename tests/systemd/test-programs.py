#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rings of programs, through the installed service: test-programs.py BUILD"""

import os
import subprocess
import sys

from inside import DEADLINE_S, User, check, run, wait_until
from tap import Tap

EVENTS = 300  # of each of three kinds: less than a ring holds


def record(user, name, script, do_meanwhile=None):
    recording = user.start_recording(name, '--event', 'none', '--', 'sh', '-c', script)
    if do_meanwhile:
        do_meanwhile()
    return user.finish_recording(recording, name)


def main():
    tap = Tap(4)
    alice, bob = User('alice'), User('bob')
    collect = f"{os.path.join(sys.argv[1], 'tests/system/collect')} 0 {EVENTS}"
    told, go_on = (os.path.join(alice.home, name) for name in ('told', 'go-on'))
    run('systemctl', 'start', 'sonded')

    with tap.case('what a program tells arrives, and its process is told of'):
        capture = record(alice, 'one.syscap', f'{collect}; true')
        check(capture.ledger['events-recorded'] == 3 * EVENTS, f'{capture.ledger}')
        check(any(name.startswith('collect') for _, name in capture.processes), f'{capture.processes}')
        check('even' in capture.jit_names.values(), f'{capture.jit_names}')

    with tap.case('rings and control sockets outlive the service'):
        def restart():
            wait_until(lambda: os.path.exists(told), 'the first program')
            for _ in range(2):
                run('systemctl', 'restart', 'sonded')
            open(go_on, 'w', encoding='utf-8').close()
        capture = record(alice, 'two.syscap', f'{collect}; touch {told}; while [ ! -e {go_on} ]; do sleep 0.1; done; {collect}',
                         restart)
        check(capture.ledger['events-recorded'] == 6 * EVENTS, f'{capture.ledger}')

    with tap.case('programs without a socket come to the service, and to the next one'):
        for path in (told, go_on):
            if os.path.exists(path):
                os.unlink(path)
        child = f'python3 -c \'import subprocess; subprocess.run("{collect}".split(), check=True)\''
        capture = record(alice, 'four.syscap', f'{child}; touch {told}; while [ ! -e {go_on} ]; do sleep 0.1; done; {child}',
                         restart)
        check(capture.ledger['events-recorded'] == 6 * EVENTS, f'{capture.ledger}')

    with tap.case('nobody else gets a socket of a session'):
        recording = alice.start_recording('three.syscap', '--event', 'none', '--', 'sleep', '3000')
        alice.wait_for_capture('three.syscap')
        path = alice.run('busctl', 'call', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                         'ListSessions').split('"')[1]
        result = subprocess.run(['busctl', 'call', 'org.sonde.Profiler1', path, 'org.sonde.Profiler1.Session', 'OpenControl'],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **bob.options)
        check(result.returncode != 0 and 'or it is not for you' in result.stderr, result.stderr)
        recording.terminate()
        recording.communicate(timeout=DEADLINE_S)

    tap.finish()


main()
