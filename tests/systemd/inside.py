# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests inside of a systemd share: users, recordings through the service."""

import contextlib
import glob
import os
import subprocess
import sys
import time

tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path += [os.path.join(tests, 'lib'), os.path.join(tests, 'system')]

from capture import LOSSES, Capture
from tap import DEADLINE_S, check

TAKING_PART = ('systemd', 'dbus-daemon', 'polkitd', 'sonded', 'sonde-broker', 'sonde-capture')


def run(*command, **options):
    """Output of a program that must succeed."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=DEADLINE_S, check=False, **options)
    check(result.returncode == 0,
          f'{" ".join(command)}: exit status {result.returncode}\n{result.stdout}{result.stderr}')
    return result.stdout


def wait_until(condition, what, poll_seconds=0.02):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        check(time.monotonic() < end, f'{what} never came')
        time.sleep(poll_seconds)


def processes(name):
    """The numbers of all processes that are called so."""
    found = []
    for path in glob.glob('/proc/[0-9]*/comm'):
        try:
            with open(path, encoding='utf-8') as file:
                if file.read().strip() == name[:15]:
                    found.append(int(path.split('/')[2]))
        except OSError:
            pass  # it has gone
    return found


def units(pattern):
    lines = run('systemctl', 'list-units', '--plain', '--no-legend', pattern).splitlines()
    return [line.split()[0] for line in lines]


def worker_units():
    return units('sonde-worker@*')


def broker_units():
    return units('sonde-broker@*')


def processor_waits():
    """Seconds for which each thread of what takes part waited for a processor, by (pid, tid)."""
    waits = {}
    for pid in [os.getpid()] + [pid for name in TAKING_PART for pid in processes(name)]:
        for path in glob.glob(f'/proc/{pid}/task/*/schedstat'):
            with contextlib.suppress(OSError):  # it has gone
                with open(path, encoding='ascii') as file:
                    waits[pid, path] = int(file.read().split()[1]) / 1e9
    return waits


class Stopwatch:
    """How long a block takes: seconds, and own_seconds without those in which systemd, the bus, polkit, the service, its
    brokers, its workers or this test could not run because others did. How busy the machine is is not the question."""

    def __enter__(self):
        self.waits = processor_waits()
        self.start = time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.start
        waited = sum(wait - self.waits.get(thread, 0) for thread, wait in processor_waits().items())
        self.own_seconds = max(0, self.seconds - waited)


class User:
    """An account without privileges, with a home folder for its captures."""

    def __init__(self, name):
        run('useradd', '--create-home', '--user-group', name)
        self.name = name
        self.home = os.path.expanduser(f'~{name}')
        self.options = {'user': name, 'group': name, 'extra_groups': [], 'cwd': self.home,
                        'env': {'PATH': '/usr/bin:/bin', 'LANG': 'C.UTF-8'}}

    def run(self, *command):
        return run(*command, **self.options)

    def start(self, *command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **self.options)

    def start_recording(self, name, *arguments):
        return self.start('sondectl', 'record', '-o', name, *arguments)

    def wait_for_capture(self, name):
        """Until something of it has arrived."""
        path = os.path.join(self.home, name)
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, name)

    def finish_recording(self, process, name):
        """Waits, verifies and reads."""
        output, _ = process.communicate(timeout=DEADLINE_S)
        check(process.returncode == 0, f'record: exit status {process.returncode}\n{output}')
        self.run('sondectl', 'verify', name)
        capture = Capture(os.path.join(self.home, name))
        check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()))
        return capture

    def record(self, name, *arguments):
        return self.finish_recording(self.start_recording(name, *arguments), name)
