#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The harness itself: test-boot.py BOOT BUILD"""

import glob
import os
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

from tap import DEADLINE_S, Tap, check

BOOT, BUILD = sys.argv[1:]


def start(script):
    return subprocess.Popen([BOOT, BUILD, '/bin/bash', '-c', script], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    output, _ = process.communicate(timeout=DEADLINE_S)
    return output


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        check(time.monotonic() < end, f'{what} never came')
        time.sleep(0.02)


def processes_in(group):
    """The numbers of those whose control group lies in group."""
    found = []
    for path in glob.glob('/proc/[0-9]*/cgroup'):
        try:
            with open(path, encoding='utf-8') as file:
                if f'/{group}' in file.read():
                    found.append(path.split('/')[2])
        except OSError:
            pass  # it has gone
    return found


def has_started(group):
    """Whether systemd has started the test in it."""
    for pid in processes_in(f'{group}/system.slice/sonde-test.service'):
        try:
            with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
                if file.read().strip() == 'sleep':
                    return True
        except OSError:
            pass
    return False


def group_folders(group):
    with open('/proc/self/mounts', encoding='utf-8') as file:
        roots = [line.split()[1] for line in file if line.split()[2] == 'cgroup2']
    return [folder for root in roots for folder in glob.glob(f'{root}/{group}')]


def check_nothing_stays(process):
    group = f'sonde-boot-{process.pid}'
    check(not processes_in(group), f'processes stay: {processes_in(group)}')
    check(not group_folders(group), f'control groups stay: {group_folders(group)}')
    with open('/proc/self/mounts', encoding='utf-8') as file:
        check('sonde-boot' not in file.read(), 'a mount stays')


def main():
    tap = Tap(4)

    with tap.case('a program runs below systemd, beside an installed Sonde'):
        process = start('cat /proc/1/comm && busctl get-property org.sonde.Profiler1 /org/sonde/Profiler1 '
                        'org.sonde.Profiler1.Manager Version')
        output = finish(process)
        check(process.returncode == 0, output)
        check(output.startswith('systemd\ns "'), output)

    with tap.case('a failure comes out with its status, its words and the journal'):
        process = start('echo seven; ! echo 1 >/proc/sys/kernel/perf_event_paranoid && exit 7')
        output = finish(process)
        check(process.returncode == 7, f'exit status {process.returncode}: {output}')
        check(output.startswith('seven\n'), output)
        # No test may change a setting of the machine.
        check('Read-only file system' in output, output)
        check('systemd[1]: sonde-test.service: Failed' in output, output)

    with tap.case('nothing stays of it'):
        check_nothing_stays(process)

    with tap.case('nothing stays of one that is ended'):
        process = start('echo waiting; exec sleep infinity')
        wait_until(lambda: has_started(f'sonde-boot-{process.pid}'), 'the test')
        process.send_signal(signal.SIGTERM)
        output = finish(process)
        check(process.returncode != 0, 'it succeeded')
        check('waiting' in output, output)
        check_nothing_stays(process)

    tap.finish()


main()
