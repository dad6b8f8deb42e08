#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service, by its users: test-service.py BUILD"""

import os
import pwd
import re
import subprocess
import sys

from inside import DEADLINE_S, Capture, User, check, run, wait_until
from tap import Skip, Tap


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


def refusal(user, *command):
    """What a command of the user's that fails says; empty if it does not fail."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=DEADLINE_S, check=False, **user.options)
    return result.stdout if result.returncode != 0 else ''


def journal():
    """The messages of sonded, as an administrator reads them."""
    return run('journalctl', '--quiet', '--unit=sonded', '--output=cat')


def main():
    tap = Tap(9)
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

    with tap.case('a Python program shows its own functions'):
        if not os.path.exists(os.path.join(sys.argv[1], 'daemon/broker/walk.bpf.o')):
            raise Skip('built without the BPF program')
        script = 'def busy(n):\n    return sum(i * i for i in range(n))\nbusy(9000000)\n'
        capture = alice.record('python.syscap', '--', '/usr/bin/python3', '-c', script)
        stacks = [capture.stack(sample) for sample in capture.samples]
        of_busy = [stack for stack in stacks if 'busy (<string>:2)' in stack]
        tap.note(f'{len(of_busy)} of {len(stacks)} samples; {capture.logs}')
        check(len(of_busy) > len(stacks) / 2, 'most of its time is in a function')

    with tap.case('the features are those of a machine that systemd runs'):
        features = run('busctl', 'get-property', SERVICE, '/org/sonde/Profiler1', f'{SERVICE}.Manager', 'Features')
        check({'unit', 'start-session'} <= set(re.findall(r'"([a-z-]+)"', features)), features)
        # Whose files are root's alone.
        events = run('busctl', 'get-property', SERVICE, '/org/sonde/Profiler1', f'{SERVICE}.Manager', 'Events')
        check(('"sched:sched_switch"' in events) == os.path.exists('/sys/kernel/tracing/events/sched/sched_switch/id'), events)

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

    with tap.case('the journal says who wanted what, and why not'):
        uid = pwd.getpwnam('alice').pw_uid
        session = start_session('system', 'b', 'true')
        number = session.rsplit('/', 1)[1]
        capture = os.path.basename(get_property(session, 'CaptureFile'))
        for arguments in (['record', '-a', '-d', '1', '-o', 'none.syscap'],
                          ['record', '-p', '1', '-d', '1', '-o', 'none.syscap'],
                          ['stop', number]):
            check(refusal(alice, 'sondectl', *arguments), f'{arguments} was not refused')
        check(refusal(alice, 'busctl', 'call', SERVICE, '/org/sonde/Profiler1', f'{SERVICE}.Manager', 'RemoveCapture',
                      's', capture), 'alice removes what is root\'s')
        why_not = 'Action org.sonde.profiler1.%s: an administrator must authenticate'
        for line in (f'refused: uid {uid}: Profile of the whole machine: {why_not % "profile-system"}',
                     f'refused: uid {uid}: Profile of process 1: {why_not % "profile-others"}',
                     f'refused: uid {uid}, session {number}: Stop: {why_not % "manage-sessions"}',
                     f'refused: uid {uid}: RemoveCapture of {capture}: {why_not % "manage-sessions"}',
                     f'session-started: uid 0, session {number}: system'):
            wait_until(lambda: line in journal(), f'the line {line}, in\n{journal()}')

    with tap.case('captures go when they are too old, and the journal says which'):
        run('busctl', 'call', SERVICE, session, f'{SERVICE}.Session', 'Stop')
        wait_until(lambda: get_property(session, 'State') == 'finished', 'the end of the session')
        run('systemctl', 'stop', 'sonded')
        path = f'/var/lib/sonde/captures/{capture}'
        os.utime(path, (0, 0))
        run('systemctl', 'start', 'sonded')
        wait_until(lambda: not os.path.exists(path), f'the end of {capture}')
        line = f'capture-removed: uid 0: {capture}: older than 30 days (capture-days)'
        wait_until(lambda: line in journal(), f'the line {line}, in\n{journal()}')
        check('sonded.timer' in run('systemctl', 'list-timers', '--all'), 'no timer starts sonded for that')

    with tap.case('no unit has failed'):
        check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))

    tap.finish()


main()
