#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A unit that cannot start: test-start.py BUILD"""

import contextlib
import glob
import os
import pathlib
import signal
import subprocess
import time

from inside import DEADLINE_S, Stopwatch, User, check, processes, run, wait_until
from tap import Tap

DROP_IN = '/etc/systemd/system/sonded.service.d'
SONDED = '/usr/libexec/sonded'
MAX_SECONDS = 2
# It is loaded, and then ends itself: AddressSanitizer alone is larger than what does not do for the rest.
TOO_LITTLE = '200M' if b'__asan_init' in pathlib.Path(SONDED).read_bytes() else '20M'
LIBCAP, = glob.glob('/usr/lib/*-linux-gnu/libcap.so.2')


def show(name):
    return run('systemctl', 'show', 'sonded', '--value', f'--property={name}').strip()


@contextlib.contextmanager
def settings(text):
    os.makedirs(DROP_IN, exist_ok=True)
    with open(f'{DROP_IN}/test.conf', 'w', encoding='utf-8') as file:
        file.write(f'[Service]\n{text}\n')
    run('systemctl', 'daemon-reload')
    try:
        yield
    finally:
        os.unlink(f'{DROP_IN}/test.conf')
        run('systemctl', 'daemon-reload')


@contextlib.contextmanager
def program(replace):
    """Something else in its place."""
    os.rename(SONDED, f'{SONDED}.away')
    replace()
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SONDED)
        os.rename(f'{SONDED}.away', SONDED)


BROKEN = {
    'a program that is gone': (lambda: program(lambda: None), 'exit status 203/EXEC'),
    'a program that is none': (lambda: program(lambda: open(SONDED, 'w', encoding='utf-8').close()), 'exit status 203/EXEC'),
    'an option that is none': (lambda: settings(f'ExecStart=\nExecStart=/run/sonde-service/sonded --nonsense'), 'Unknown option --nonsense'),
    'a library that is missing': (lambda: settings(f'InaccessiblePaths=+{LIBCAP} +{LIBCAP.removeprefix("/usr")}'),
                                  'exit status 127, a library is missing'),
    'memory that does not do': (lambda: settings(f'LimitAS={TOO_LITTLE}'), 'signal'),
}


def call(user):
    """What a client is told, within the time."""
    with Stopwatch() as watch:
        result = subprocess.run(['sondectl', 'list'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False, **user.options)
    check(watch.own_seconds < MAX_SECONDS, f'{watch.seconds} s, {watch.own_seconds} s without waiting for a processor')
    return result


def check_told(user, reason):
    result = call(user)
    check(result.returncode == 1 and f'The service cannot start: {reason}\n' in result.stderr
          and 'journalctl -u sonded' in result.stderr and '--embedded' in result.stderr,
          f'exit status {result.returncode}: {result.stderr}')


def stop():
    """Its starts are forgotten: they count while something, as its timer, has systemd keep the unit in mind."""
    run('systemctl', 'stop', 'sonded')
    subprocess.run(['systemctl', 'reset-failed', 'sonded'], stderr=subprocess.DEVNULL, check=False)


def recover():
    """The bus, too: it waits for a start that it asked for, and asks for no other."""
    stop()
    run('systemctl', 'start', 'sonded')
    run('sondectl', 'list')
    stop()


def main():
    tap = Tap(len(BROKEN) + 5)
    alice = User('alice')

    for name, (broken, reason) in BROKEN.items():
        with tap.case(f'clients hear at once of {name}'):
            with broken():
                check_told(alice, reason)
                check_told(alice, reason)
            recover()

    with tap.case('a start that fails is tried again each second, and after six no more'):
        with program(lambda: None):
            start = time.monotonic()
            check_told(alice, 'exit status 203/EXEC')
            wait_until(lambda: show('ActiveState') == 'failed', 'the end of it')
            check(time.monotonic() - start > 5, 'it was not held back')
            check(show('NRestarts') == '6', f'{show("NRestarts")} starts')
            check_told(alice, 'exit status 203/EXEC')
        journal = run('journalctl', '--unit=sonded', '--output=cat')
        check('Failed at step EXEC spawning /run/sonde-service/sonded: No such file' in journal, journal)
        recover()

    with tap.case('sessions outlive a start that fails'):
        target = alice.start('bash', '-c', 'while :; do :; done')
        recording = alice.start_recording('own.syscap', '-p', str(target.pid))
        alice.wait_for_capture('own.syscap')
        with program(lambda: None):
            os.kill(processes('sonded')[0], signal.SIGKILL)
            wait_until(lambda: int(show('NRestarts')) >= 2, 'a second try')
        wait_until(lambda: processes('sonded'), 'another sonded')
        check('running' in run('sondectl', 'list'), 'the session ended')
        recording.send_signal(signal.SIGINT)
        alice.finish_recording(recording, 'own.syscap')
        target.kill()
        target.wait()
        recover()

    with tap.case('a service that ends because nothing is to do is started as often as somebody calls'):
        with open('/etc/sonde/sonded.conf', 'w', encoding='utf-8') as file:
            file.write('[Service]\nidle-timeout-ms=50\n')
        for _ in range(10):
            result = call(alice)
            check(result.returncode == 0, result.stderr)
            wait_until(lambda: not processes('sonded'), 'its end')
        with open('/etc/sonde/sonded.conf', 'w', encoding='utf-8') as file:
            file.write('')
        recover()

    with tap.case('a worker that cannot start is named'):
        os.rename('/usr/libexec/sonde-capture', '/usr/libexec/away')
        result = subprocess.run(['sondectl', 'record', '-o', 'none.syscap', '--', 'true'], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=DEADLINE_S, check=False, **alice.options)
        os.rename('/usr/libexec/away', '/usr/libexec/sonde-capture')
        check(result.returncode == 125 and "journalctl -u 'sonde-worker@*'" in result.stderr,
              f'exit status {result.returncode}: {result.stderr}')
        recover()

    with tap.case('one that is masked is said to be'):
        run('systemctl', 'mask', '--runtime', 'sonded')
        result = call(alice)
        check(result.returncode == 1 and 'sonded.service is masked' in result.stderr, result.stderr)

    tap.finish()


main()
