#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Workers that systemd starts: test-workers.py BUILD"""

import glob
import os
import signal
import subprocess
import sys

from inside import DEADLINE_S, User, check, processes, run, wait_until, worker_units
from tap import Tap


def wait_for_session(user, name, n_sessions=1):
    """Until name is being written, and so many run beside the spare worker. Returns the pids of all workers."""
    user.wait_for_capture(name)
    wait_until(lambda: len(worker_units()) == n_sessions + 1 and
               len(processes('sonde-capture')) == n_sessions + 1, f'{n_sessions} sessions')
    return processes('sonde-capture')


def uid(pid):
    return os.stat(f'/proc/{pid}').st_uid


def check_at_rest(spare=1):
    wait_until(lambda: len(worker_units()) == spare, 'the end of all workers but the spare one')
    check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))


def end_recording(process, signum=signal.SIGINT):
    """Returns the exit status and what the command printed."""
    process.send_signal(signum)
    output, _ = process.communicate(timeout=DEADLINE_S)
    return process.returncode, output


def main():
    tap = Tap(7)
    alice = User('alice')
    target = str(alice.start('bash', '-c', 'while :; do :; done').pid)
    run('systemctl', 'start', 'sonded')

    with tap.case('one worker is ready before anybody asks'):
        wait_until(lambda: len(processes('sonde-capture')) == 1, 'the spare worker')
        spare = processes('sonde-capture')[0]

    with tap.case('it takes the first session, and another one gets ready'):
        recording = alice.start_recording('first.syscap', '-p', target)
        first, second = sorted(wait_for_session(alice, 'first.syscap'), key=lambda pid: pid != spare)
        check(first == spare, f'{spare} is gone')

    with tap.case('no two workers have the same uid, and none has root\'s'):
        uids = {uid(first), uid(second)}
        check(len(uids) == 2 and all(61184 <= number <= 65519 for number in uids), f'uids {uids}')

    with tap.case('a worker that is killed ends its session, which says so, and no other one'):
        other = alice.start_recording('other.syscap', '-p', target)
        wait_for_session(alice, 'other.syscap', 2)
        os.kill(first, signal.SIGKILL)
        output, _ = recording.communicate(timeout=DEADLINE_S)
        check(recording.returncode == 125 and 'The worker was killed by signal 9' in output,
              f'exit status {recording.returncode}: {output}')
        status, output = end_recording(other)
        check(status == 0 and 'none lost' in output, f'exit status {status}: {output}')
        alice.run('sondectl', 'verify', 'other.syscap')
        check_at_rest()

    with tap.case('one that hangs is killed'):
        hung, = processes('sonde-capture')
        recording = alice.start_recording('hung.syscap', '-p', target)
        wait_for_session(alice, 'hung.syscap')
        os.kill(hung, signal.SIGSTOP)
        status, output = end_recording(recording)
        check(status == 125 and 'in time' in output, f'exit status {status}: {output}')
        wait_until(lambda: hung not in processes('sonde-capture'), 'the end of the worker')
        check_at_rest()

    with tap.case('no worker stays when sonded ends, and none has left anything'):
        recording = alice.start_recording('last.syscap', '-p', target)
        wait_for_session(alice, 'last.syscap')
        run('systemctl', 'stop', 'sonded')
        recording.communicate(timeout=DEADLINE_S)
        alice.run('sondectl', 'verify', 'last.syscap')
        check_at_rest(0)
        root = '/usr/share/sonde/root'
        files = [path for path in glob.glob(f'{root}/**', recursive=True) if os.path.isfile(path)]
        check(len(files) == 2, files)

    with tap.case('without its socket no session starts, and the error says why'):
        run('systemctl', 'start', 'sonded')
        wait_until(lambda: len(worker_units()) == 1, 'the spare worker')
        run('systemctl', 'kill', '--signal=KILL', worker_units()[0])
        check_at_rest(0)
        os.unlink('/run/sonde/capture')
        result = subprocess.run(['sondectl', 'record', '-d', '1', '-o', '/tmp/none.syscap', '-a'], check=False,
                                capture_output=True, text=True, timeout=DEADLINE_S)
        check(result.returncode != 0 and '/run/sonde/capture' in result.stderr, result.stderr)

    tap.finish()


main()
