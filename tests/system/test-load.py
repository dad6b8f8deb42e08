#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Nothing is lost that need not be, and what is lost is counted: test-load.py BUILD"""

import contextlib
import os
import signal
import subprocess
import threading
import time

from capture import LOSSES, MARKERS
from system import LARGE_LIBRARY, System, check, find_descendant, find_library, read_seconds


# The rings of a CPU take what comes in this time at 1000 Hz, and more.
RING_S = 0.25


class WorkerWatch(threading.Thread):
    """How long the worker of a recording had to wait for a processor in a row, each time that the rings of the
    kernel might not last for it: others than those whom the test starts may keep it from there."""

    def __init__(self, recording):
        super().__init__()
        self.recording = recording
        self.over = threading.Event()
        self.waits = []  # seconds

    def run(self):
        worker, before = None, 0
        while not self.over.wait(0.02):
            worker = worker or find_descendant(self.recording.pid, 'sonde-capture')
            with contextlib.suppress(OSError, TypeError):  # not yet, or no more
                with open(f'/proc/{worker}/schedstat', encoding='ascii') as file:
                    waited = int(file.read().split()[1])
                if waited - before > RING_S * 1e9:
                    self.waits.append((waited - before) / 1e9)
                before = waited

    def end(self):
        self.over.set()
        self.join()


def test_busy_machine(system):
    """One burner on each CPU, so that none is ever idle."""
    cpus = os.sched_getaffinity(0)
    burners = [subprocess.Popen(['taskset', '-c', str(cpu), system.program('tests/system/burn'), '1000'],
                                stdout=subprocess.DEVNULL) for cpu in cpus]
    recording = system.start_recording('busy.syscap', '-F', '1000', '-a', '-d', '20')
    watch = WorkerWatch(recording)
    watch.start()
    try:
        capture, _ = system.finish_recording(recording, 'busy.syscap')
    finally:
        watch.end()
        for burner in burners:
            burner.kill()
            burner.wait()
    system.note(f"{len(cpus)} CPUs, {capture.ledger['produced']} samples produced, "
                f"{capture.ledger['recorded']} recorded")
    system.note(', '.join(f'{name} {capture.ledger[name]}' for name in LOSSES))
    check(capture.ledger['produced'] > 0.9 * 20 * 1000 * len(cpus), 'the machine was not busy')
    check(not any(capture.ledger[name] for name in LOSSES if name != 'lost-kernel'), 'something was lost')
    if watch.waits:
        system.note(f'the worker waited for a processor for {[round(wait, 2) for wait in watch.waits]} s')
    check(capture.ledger['lost-kernel'] <= 1000 * len(cpus) * sum(watch.waits),
          'the kernel lost samples while the worker could run')


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


def test_large_library(system):
    """Samples come all the while that its unwind data, 5.7 MB, is read."""
    milliseconds = 1000
    capture, _ = system.record('large.syscap', '-F', '1000', '--',
                               system.program('tests/system/unwinding/large-library'), str(milliseconds),
                               *LARGE_LIBRARY)
    system.note(', '.join(f'{name} {capture.ledger[name]}' for name in LOSSES))
    check(not any(capture.ledger[name] for name in LOSSES), 'something was lost')
    for phase in ('phase_before', 'phase_inside'):
        stacks = [stack for stack in map(capture.stack, capture.samples) if phase in stack]
        whole = [stack for stack in stacks if 'main' in stack and stack[-1] not in MARKERS]
        system.note(f'{phase}: {len(whole)} of {len(stacks)} stacks are whole')
        check(len(stacks) >= milliseconds / 2, f'too few samples in {phase}')
        check(len(whole) >= 0.99 * len(stacks), f'stacks of {phase} are cut')
    # From the first: what ran in it before its data was there has waited for it.
    inside = [sample.pid for sample in capture.samples if LARGE_LIBRARY[1] in capture.stack(sample)]
    cut = [stack for stack in map(capture.stack, (sample for sample in capture.samples if sample.pid in inside[:1]))
           if stack[-1] in MARKERS]
    check(len(inside) > milliseconds / 4, f'{len(inside)} samples in {LARGE_LIBRARY[1]}')
    system.note(f'{len(cut)} stacks of the program are cut: {cut[:3]}')
    check(len(cut) <= 0.01 * len(inside), 'too many are cut')


def main():
    system = System(3)
    with system.case('a busy machine at 1000 Hz loses nothing in any stage'):
        test_busy_machine(system)
    with system.case('a worker stopped for three seconds leaves a ledger that adds up'):
        test_stopped_worker(system)
    case = f'{LARGE_LIBRARY[0]} is loaded without a loss, and stacks in it are whole'
    if find_library(LARGE_LIBRARY[0]):
        with system.case(case):
            test_large_library(system)
    else:
        system.skip(case, f'{LARGE_LIBRARY[0]} is not installed')
    system.finish()


main()
