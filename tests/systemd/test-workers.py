#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Brokers and workers that systemd starts: test-workers.py BUILD"""

import glob
import os
import signal
import subprocess
import sys

from inside import DEADLINE_S, User, broker_units, check, processes, run, wait_until, worker_units
from processor_watch import ProcessorWatch
from tap import Tap


# With sanitizers each may take what it likes.
with open('/usr/lib/systemd/system/sonde-worker@.service', encoding='utf-8') as unit:
    IS_BOUND = 'MemoryMax=512M\n' in unit
MEMORY = str(512 << 20) if IS_BOUND else 'infinity'
SPARE = ('[not set]', 'infinity', MEMORY)


def wait_for_session(user, name, n_sessions=1):
    """Until name is being written, and so many run beside the spare worker and broker. Returns the pids of all workers."""
    user.wait_for_capture(name)
    for units, program in ((worker_units, 'sonde-capture'), (broker_units, 'sonde-broker')):
        wait_until(lambda: len(units()) == len(processes(program)) == n_sessions + 1, f'{n_sessions} of {program}')
    return processes('sonde-capture')


def uid(pid):
    return os.stat(f'/proc/{pid}').st_uid


def check_at_rest(spare=1):
    for units, program in ((worker_units, 'sonde-capture'), (broker_units, 'sonde-broker')):
        wait_until(lambda: len(units()) == len(processes(program)) == spare, f'the end of each {program} but the spare one')
    check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))


def wait_for_shares(*expected):
    """Until the units of workers have these, in any order: (CPUWeight, CPUQuotaPerSecUSec, MemoryMax) as systemd shows
    them."""
    keys = ('CPUWeight', 'CPUQuotaPerSecUSec', 'MemoryMax', 'Slice')

    def shares():
        shown = [dict(line.split('=', 1) for line in run('systemctl', 'show', f'--property={",".join(keys)}', unit)
                      .splitlines()) for unit in worker_units()]
        return sorted(tuple(one[key] for key in keys) for one in shown)

    wanted = sorted((*share, 'sonde.slice') for share in expected)
    wait_until(lambda: shares() == wanted, f'the shares {wanted}, instead of {shares()}')


def end_recording(process, signum=signal.SIGINT):
    """Returns the exit status and what the command printed."""
    process.send_signal(signum)
    output, _ = process.communicate(timeout=DEADLINE_S)
    return process.returncode, output


def end_whole(user, recording, name, watch):
    """All of it is there, but for what a worker could not take that waited for a processor."""
    recording.send_signal(signal.SIGINT)
    ledger = user.finish_recording(recording, name).ledger
    n_lost = sum(ledger.get(key, 0) for key in ('lost-kernel', 'lost-ring', 'lost-queue', 'stream-lost'))
    check(ledger.get('lost-kernel', 0) == n_lost and watch.explains(n_lost, 1000), f'{watch.waits} {ledger}')


def read_journal():
    return run('journalctl', '--quiet', '--unit=sonded', '--output=cat')


def main():
    tap = Tap(11)
    alice = User('alice')
    target = str(alice.start('bash', '-c', 'while :; do :; done').pid)
    run('systemctl', 'start', 'sonded')

    with tap.case('one broker and one worker are ready before anybody asks'):
        wait_until(lambda: len(processes('sonde-capture')) == len(processes('sonde-broker')) == 1, 'the spare ones')
        spare = processes('sonde-capture')[0]
        spare_broker = processes('sonde-broker')[0]

    with tap.case('they take the first session, and others get ready'):
        recording = alice.start_recording('first.syscap', '-p', target)
        first, second = sorted(wait_for_session(alice, 'first.syscap'), key=lambda pid: pid != spare)
        check(first == spare and spare_broker in processes('sonde-broker'), f'{spare} or {spare_broker} is gone')

    with tap.case('no two brokers or workers have the same uid, and none has root\'s'):
        uids = {uid(pid) for pid in (first, second, *processes('sonde-broker'))}
        check(len(uids) == 4 and all(61184 <= number <= 65519 for number in uids), f'uids {uids}')

    with tap.case('a session has all that its user may take, and each of two the half'):
        wait_for_shares(SPARE, ('100', '1s', MEMORY))
        other = alice.start_recording('half.syscap', '-p', target)
        wait_for_session(alice, 'half.syscap', 2)
        wait_for_shares(SPARE, ('50', '500ms', MEMORY), ('50', '500ms', MEMORY))
        end_recording(other)
        wait_for_shares(SPARE, ('100', '1s', MEMORY))

    with tap.case('root has no budget, and takes nothing of a user\'s'):
        other = subprocess.Popen(['sondectl', 'record', '-o', '/tmp/root.syscap', '-p', target], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: len(worker_units()) == 3, 'the session of root')
        wait_for_shares(SPARE, ('100', 'infinity', MEMORY), ('100', '1s', MEMORY))
        end_recording(other)

    with tap.case('a worker that is killed ends its session, which says so, and no other one'):
        with ProcessorWatch(lambda: processes('sonde-capture')) as watch:
            other = alice.start_recording('other.syscap', '-p', target)
            wait_for_session(alice, 'other.syscap', 2)
            os.kill(first, signal.SIGKILL)
            output, _ = recording.communicate(timeout=DEADLINE_S)
            check(recording.returncode == 125 and 'The worker was killed by signal 9' in output,
                  f'exit status {recording.returncode}: {output}')
            end_whole(alice, other, 'other.syscap', watch)
        check_at_rest()

    with tap.case('a broker that is killed ends its session, with all that was recorded, and no other one'):
        broker, = processes('sonde-broker')
        recording = alice.start_recording('first.syscap', '-p', target)
        wait_for_session(alice, 'first.syscap')
        with ProcessorWatch(lambda: processes('sonde-capture')) as watch:
            other = alice.start_recording('other.syscap', '-p', target)
            wait_for_session(alice, 'other.syscap', 2)
            os.kill(broker, signal.SIGKILL)
            output, _ = recording.communicate(timeout=DEADLINE_S)
            check(recording.returncode == 125 and 'The broker was killed by signal 9' in output,
                  f'exit status {recording.returncode}: {output}')
            end_whole(alice, other, 'other.syscap', watch)
        alice.run('sondectl', 'verify', 'first.syscap')
        check_at_rest()

    with tap.case('a worker that hangs is killed'):
        hung, = processes('sonde-capture')
        recording = alice.start_recording('hung.syscap', '-p', target)
        wait_for_session(alice, 'hung.syscap')
        os.kill(hung, signal.SIGSTOP)
        status, output = end_recording(recording)
        check(status == 125 and 'in time' in output, f'exit status {status}: {output}')
        wait_until(lambda: hung not in processes('sonde-capture'), 'the end of the worker')
        check_at_rest()

    with tap.case('where the kernel bounds nobody sonded does, and the journal says so'):
        os.makedirs('/etc/sonde', exist_ok=True)
        with open('/etc/sonde/sonded.conf', 'w', encoding='utf-8') as file:
            file.write('[Limits]\nuid-cpu-percent=1\nuid-memory-bytes=268435456\n')
        run('systemctl', 'reload', 'sonded')
        targets = [alice.start('bash', '-c', 'while :; do :; done') for _ in range(6)]
        recording = alice.start_recording('slowed.syscap', '-F', '20000', '--stack-size', '65280',
                                          *(word for one in targets for word in ('-p', str(one.pid))))
        wait_for_session(alice, 'slowed.syscap')
        wait_for_shares(SPARE, ('100', '10ms', str(256 << 20) if IS_BOUND else MEMORY))
        wait_until(lambda: 'session-slowed: ' in read_journal(), f'that it is slowed: {read_journal()}')
        check('take more CPU time than they may (uid-cpu-percent, 1)' in read_journal(), read_journal())
        for one in targets:
            one.kill()
            one.wait()
        end_recording(recording)
        os.unlink('/etc/sonde/sonded.conf')
        run('systemctl', 'reload', 'sonded')
        check_at_rest()

    with tap.case('no broker or worker stays when sonded ends, and none has left anything'):
        recording = alice.start_recording('last.syscap', '-p', target)
        wait_for_session(alice, 'last.syscap')
        run('systemctl', 'stop', 'sonded')
        recording.communicate(timeout=DEADLINE_S)
        alice.run('sondectl', 'verify', 'last.syscap')
        check_at_rest(0)
        root = '/run/sonde-root'
        files = [path for path in glob.glob(f'{root}/**', recursive=True) if os.path.isfile(path)]
        # What is mounted there: the broker, and whose uids belong together. The other two programs are in a /run of each.
        programs = {f'{root}/usr/libexec/sonde-broker'}
        check(programs <= set(files) <= programs | {f'{root}/etc/subuid'}, files)
        left = glob.glob('/run/systemd/system.control/sonde-*')
        check(not left, left)

    with tap.case('without their sockets no session starts, and the error says why'):
        for socket, units in (('/run/sonde/worker', worker_units), ('/run/sonde/broker', broker_units)):
            run('systemctl', 'stop', 'sonded', 'sonde-broker.socket', 'sonde-worker.socket')
            run('systemctl', 'start', 'sonded')
            wait_until(lambda: len(worker_units()) == len(broker_units()) == 1, 'the spare ones')
            run('systemctl', 'kill', '--signal=KILL', units()[0])
            wait_until(lambda: not units(), 'its end')
            os.unlink(socket)
            result = subprocess.run(['sondectl', 'record', '-d', '1', '-o', '/tmp/none.syscap', '-a'], check=False,
                                    capture_output=True, text=True, timeout=DEADLINE_S)
            check(result.returncode != 0 and socket in result.stderr, result.stderr)

    tap.finish()


main()
