#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session of many processes and libraries keeps nothing of them: test-long-run.py BUILD"""

import os
import select
import time

from capture import MARKERS
from system import DEADLINE_S, System, check, find_descendant

N_PROCESSES = 10000
N_LOADS = 2000
FREQUENCY = 2500         # a process gets its first sample a period after its start
MILLISECONDS = 300       # of CPU time of the processes that are compared
# What a quarter of the processes may add to a program: the places that each had of its own, and a few bytes for each
# address that is named in the end.
PROCESS_BYTES = 300
ADDRESS_BYTES = 8
ALLOCATOR_BYTES = 1 << 19
SETTLE_SECONDS = 4.5     # for what is in the rings, and for processes that are over to be dropped


def read_status(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as status:
        values = dict(line.split(':', 1) for line in status)
    return {key: int(values[key].split()[0]) for key in ('VmRSS', 'RssAnon', 'RssFile', 'RssShmem')} \
        | {'fds': len(os.listdir(f'/proc/{pid}/fd'))}


def record(system):
    """The capture, and the state of both programs after each quarter."""
    fifos = [system.path(name) for name in ('say', 'hear')]
    for fifo in fifos:
        os.mkfifo(fifo)
    folder = 'tests/system/unwinding'
    recording = system.start_recording(
        'long.syscap', '-F', str(FREQUENCY), '--', system.program(f'{folder}/many'), str(N_PROCESSES),
        str(N_LOADS), *fifos, *(system.program(f'{folder}/librun-{name}.so') for name in 'ab'),
        system.program(f'{folder}/stacks'), str(MILLISECONDS))
    states = []
    # Both ways, so that opening waits for nobody.
    with open(fifos[0], 'r+b', buffering=0) as say, open(fifos[1], 'r+b', buffering=0) as hear:
        for stage in ('1', '2', '3', '4'):
            check(select.select([say], [], [], DEADLINE_S)[0], 'the program never came that far')
            check(say.read(100).decode().strip() == stage, 'it is elsewhere')
            time.sleep(SETTLE_SECONDS)
            states.append({name: read_status(find_descendant(recording.pid, name))
                           for name in ('sonde-capture', 'sonded')} | {'time_ns': time.monotonic_ns()})
            system.note(f'quarter {stage}: {states[-1]}')
            hear.write(b'go\n')
    capture, _ = system.finish_recording(recording, 'long.syscap')
    return capture, states


def measure_growth(capture, before, after, name):
    """In bytes, how much it grew and how much is allowed."""
    addresses = {(sample.pid, address) for sample in capture.samples
                 if before['time_ns'] < sample.time_ns < after['time_ns'] for address in sample.addresses}
    allowed = PROCESS_BYTES * N_PROCESSES // 4 + ADDRESS_BYTES * len(addresses) + ALLOCATOR_BYTES
    return 1024 * (after[name]['VmRSS'] - before[name]['VmRSS']), allowed


def check_growth(system, capture, states, name):
    """What is kept of processes is more after each quarter. What was needed for a moment, more on a busy machine,
    stays with the allocator, but is there for the next quarter."""
    check(states and capture, 'there is no recording')
    growths = [measure_growth(capture, before, after, name) for before, after in zip(states, states[1:])]
    for grown, allowed in growths:
        system.note(f'{name}: {grown >> 10} KiB more, {allowed >> 10} allowed')
    check(any(grown < allowed for grown, allowed in growths), f'{name} grows with each quarter')


def share_of_whole(capture, samples):
    return sum(capture.stack(sample)[-1] not in MARKERS for sample in samples) / max(1, len(samples))


def main():
    system = System(5)
    capture, states = None, None
    with system.case(f'{N_PROCESSES} processes and {N_LOADS} libraries are recorded'):
        capture, states = record(system)
        check(capture.counts['EXIT'] >= N_PROCESSES, f"only {capture.counts['EXIT']} ended")
        ledger = capture.ledger
        system.note(f"{ledger['produced']} samples produced, {ledger['recorded']} recorded")

    with system.case('the worker does not grow'):
        check_growth(system, capture, states, 'sonde-capture')

    with system.case('the daemon does not grow'):
        check_growth(system, capture, states, 'sonded')

    with system.case('neither keeps descriptors'):
        check(states, 'there is no recording')
        for name in ('sonde-capture', 'sonded'):
            counts = [state[name]['fds'] for state in states]
            # A file that all of them run is opened once, whenever a sample shows it first.
            check(any(after <= before for before, after in zip(counts, counts[1:])), f'{name} has {counts}')

    with system.case('the last process has stacks as whole as the first'):
        check(capture, 'there is no recording')
        by_pid = {}
        for sample in capture.samples:
            if 'plain_leaf' in capture.stack(sample):
                by_pid.setdefault(sample.pid, []).append(sample)
        check(len(by_pid) == 2, f'{len(by_pid)} processes worked')
        first, last = by_pid.values()
        shares = [share_of_whole(capture, samples) for samples in (first, last)]
        tenth = len(capture.samples) // 10
        ends = [share_of_whole(capture, samples)
                for samples in (capture.samples[:tenth], capture.samples[-tenth:])]
        system.note(f'first {len(first)} samples, {100 * shares[0]:.1f} % whole; '
                    f'last {len(last)}, {100 * shares[1]:.1f} %')
        system.note(f'of all processes, first tenth {100 * ends[0]:.1f} %, last {100 * ends[1]:.1f} %')
        check(min(len(first), len(last)) >= MILLISECONDS * FREQUENCY / 1000 / 2, 'too few samples')
        check(shares[1] >= shares[0] - 0.01 and shares[1] >= 0.99, 'the last is worse')
    system.finish()


main()
