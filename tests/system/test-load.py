#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Nothing is lost that need not be, and what is lost is counted: test-load.py BUILD"""

import os
import signal
import subprocess
import time

from capture import LOSSES, MARKERS
from system import DEADLINE_S, LARGE_LIBRARY, System, check, find_descendant, find_library, read_seconds
from processor_watch import ProcessorWatch
from tap import N_TRIES


def read_idle_share(cpus, before):
    """Of the processors' time since before, if that is given; and what to give next time."""
    ticks = [0, 0]
    with open('/proc/stat', encoding='ascii') as file:
        for name, *fields in map(str.split, file):
            if name[:3] == 'cpu' and name[3:].isdigit() and int(name[3:]) in cpus:
                ticks[0] += int(fields[3]) + int(fields[4])
                ticks[1] += sum(map(int, fields[:8]))
    idle, total = (ticks[i] - (before or (0, 0))[i] for i in range(2))
    return idle / max(total, 1), ticks


def record_busy_machine(system):
    """One burner on each CPU, so that none is ever idle. The capture, and the watch over its worker."""
    cpus = os.sched_getaffinity(0)
    burners = [subprocess.Popen(['taskset', '-c', str(cpu), system.program('tests/system/burn'), '1000'],
                                stdout=subprocess.DEVNULL) for cpu in cpus]
    _, ticks = read_idle_share(cpus, None)
    recording = system.start_recording('busy.syscap', '-F', '1000', '-a', '-d', '20')
    try:
        worker = system.wait_for_worker(recording)
        with ProcessorWatch(lambda: [worker]) as watch:
            capture, _ = system.finish_recording(recording, 'busy.syscap')
    finally:
        idle, _ = read_idle_share(cpus, ticks)
        for burner in burners:
            burner.kill()
            burner.wait()
    system.note(f"{len(cpus)} CPUs, {100 * idle:.1f} % idle, {capture.ledger['produced']} samples produced, "
                f"{capture.ledger['recorded']} recorded")
    system.note(', '.join(f'{name} {capture.ledger[name]}' for name in LOSSES))
    check(idle < 0.1 and capture.ledger['produced'] > 0.5 * 20 * 1000 * len(cpus), 'the machine was not busy')
    check(not any(capture.ledger[name] for name in LOSSES if name != 'lost-kernel'), 'something was lost')
    return capture, watch


def test_busy_machine(system):
    """Nothing is lost; and where others kept the worker from its rings for longer than these last, it is tried again,
    and never is more lost than came meanwhile."""
    for _ in range(N_TRIES):
        capture, watch = record_busy_machine(system)
        if capture.ledger['lost-kernel'] == 0:
            break
        system.note(f'the worker waited for a processor for {[round(wait, 2) for wait in watch.waits]} s')
        check(watch.explains(capture.ledger['lost-kernel'], 1000), 'the kernel lost samples while the worker could run')


def test_stopped_worker(system):
    recording = system.start_recording('stopped.syscap', '-F', '1000', '--',
                                       system.program('tests/system/burn'), '6')
    worker = system.wait_for_worker(recording)
    system.wait_for_samples('stopped.syscap', 1000)
    os.kill(worker, signal.SIGSTOP)
    time.sleep(3)
    os.kill(worker, signal.SIGCONT)
    capture, output = system.finish_recording(recording, 'stopped.syscap')
    seconds = read_seconds(output)
    ledger = capture.ledger
    system.note(f"{seconds:.3f} s of CPU time, {ledger['produced']} produced, {ledger['recorded']} recorded")
    system.note(', '.join(f'{name} {ledger[name]}' for name in LOSSES))
    # The kernel's own count is complete, whatever happened to the samples: half of them are lost.
    check(abs(ledger['produced'] - 1000 * seconds) <= 0.1 * 1000 * seconds,
          'the produced samples are not those of the CPU time')
    check(ledger['lost-kernel'] > 0 or ledger['recorded'] == ledger['produced'],
          'samples are missing without a loss in the kernel')


def test_killed_worker(system):
    """What is kept is told, and nobody says that it is all."""
    recording = system.start_recording('killed.syscap', '-F', '1000', '--',
                                       system.program('tests/system/burn'), '2')
    worker = system.wait_for_worker(recording)
    system.wait_for_samples('killed.syscap', 100)
    os.kill(worker, signal.SIGKILL)
    output, errors = recording.communicate(timeout=DEADLINE_S)
    check(recording.returncode == 125, f'exit status {recording.returncode}: {output}{errors}')
    check('Recorded' in errors and 'none lost' not in output + errors, output + errors)


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
    system = System(4)
    with system.case('a busy machine at 1000 Hz loses nothing in any stage'):
        test_busy_machine(system)
    with system.case('a worker stopped for three seconds leaves a ledger that adds up'):
        system.measure(test_stopped_worker)
    with system.case('of a worker that was killed nobody says that nothing is lost'):
        test_killed_worker(system)
    case = f'{LARGE_LIBRARY[0]} is loaded without a loss, and stacks in it are whole'
    if find_library(LARGE_LIBRARY[0]):
        with system.case(case):
            system.measure(test_large_library)
    else:
        system.skip(case, f'{LARGE_LIBRARY[0]} is not installed')
    system.finish()


main()
