#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Nothing is lost that need not be, and what is lost is counted: test-load.py BUILD"""

import os
import signal
import subprocess
import time

from system import System, check, find_descendant, read_seconds

LOSSES = ('lost-kernel', 'lost-ring', 'lost-queue', 'stream-lost', 'stream-samples-lost')


def test_busy_machine(system):
    """One burner on each CPU, so that none is ever idle."""
    cpus = os.sched_getaffinity(0)
    burners = [subprocess.Popen(['taskset', '-c', str(cpu), system.program('tests/system/burn'), '1000'],
                                stdout=subprocess.DEVNULL) for cpu in cpus]
    try:
        capture, _ = system.record('busy.syscap', '-F', '1000', '-a', '-d', '20')
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    system.note(f"{len(cpus)} CPUs, {capture.ledger['produced']} samples produced, "
                f"{capture.ledger['recorded']} recorded")
    system.note(', '.join(f'{name} {capture.ledger[name]}' for name in LOSSES))
    check(capture.ledger['produced'] > 0.9 * 20 * 1000 * len(cpus), 'the machine was not busy')
    check(not any(capture.ledger[name] for name in LOSSES), 'something was lost')


def test_stopped_worker(system):
    recording = system.start_recording('stopped.syscap', '-F', '1000', '--',
                                       system.program('tests/system/burn'), '6')
    worker = None
    deadline = time.monotonic() + 10
    while worker is None and time.monotonic() < deadline:
        time.sleep(0.1)
        worker = find_descendant(recording.pid, 'sonde-capture')
    check(worker, 'there is no worker')
    time.sleep(1)
    os.kill(worker, signal.SIGSTOP)
    time.sleep(3)
    os.kill(worker, signal.SIGCONT)
    capture, output = system.finish_recording(recording, 'stopped.syscap')
    seconds = read_seconds(output)
    ledger = capture.ledger
    system.note(f"{seconds:.3f} s of CPU time, {ledger['produced']} produced, {ledger['recorded']} recorded")
    system.note(', '.join(f'{name} {ledger[name]}' for name in LOSSES))
    # The kernel's own count is complete, whatever happened to the samples.
    check(abs(ledger['produced'] - 1000 * seconds) <= 0.05 * 1000 * seconds,
          'the produced samples are not those of the CPU time')
    check(ledger['lost-kernel'] > 0 or ledger['recorded'] == ledger['produced'],
          'samples are missing without a loss in the kernel')


def main():
    system = System(2)
    with system.case('a busy machine at 1000 Hz loses nothing in any stage'):
        test_busy_machine(system)
    with system.case('a worker stopped for three seconds leaves a ledger that adds up'):
        test_stopped_worker(system)
    system.finish()


main()
