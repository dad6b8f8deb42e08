#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session of many processes and libraries keeps nothing of them: test-long-run.py BUILD"""

import os
import select
import time

from capture import MARKERS
from system import System, check, find_descendant

N_PARTS = 4
N_PROCESSES = 2500       # of each part
N_LOADS = 500
FREQUENCY = 2500         # a process gets its first sample a period after its start
MILLISECONDS = 300       # of CPU time of the processes that are compared
# Of each program in a part. It is not nothing, since each process has addresses of its own, which are named in the
# end. What is kept of processes is kept in every part; what the allocator keeps of a moment when much was to be done,
# because the machine had other things to do, comes in one of them. So the part with the least growth judges.
MAX_GROWTH_KIB = 0.6 * N_PROCESSES
SETTLE_SECONDS = 4.5     # for what is in the rings, and for processes that are over to be dropped
DEADLINE_S = 300


def read_status(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as status:
        values = dict(line.split(':', 1) for line in status)
    return {key: int(values[key].split()[0]) for key in ('VmRSS', 'RssAnon', 'RssFile', 'RssShmem')} \
        | {'fds': len(os.listdir(f'/proc/{pid}/fd'))}


def record(system):
    """The capture, and the state of both programs after each part."""
    fifos = [system.path(name) for name in ('say', 'hear')]
    for fifo in fifos:
        os.mkfifo(fifo)
    folder = 'tests/system/unwinding'
    recording = system.start_recording(
        'long.syscap', '-F', str(FREQUENCY), '--', system.program(f'{folder}/many'), str(N_PARTS),
        str(N_PROCESSES), str(N_LOADS), *fifos, *(system.program(f'{folder}/librun-{name}.so') for name in 'ab'),
        system.program(f'{folder}/stacks'), str(MILLISECONDS))
    states = []
    # Both ways, so that opening waits for nobody.
    with open(fifos[0], 'r+b', buffering=0) as say, open(fifos[1], 'r+b', buffering=0) as hear:
        for part in range(1, N_PARTS + 1):
            check(select.select([say], [], [], DEADLINE_S)[0], 'the program never came that far')
            check(int(say.read(100)) == part, 'the program is elsewhere')
            time.sleep(SETTLE_SECONDS)
            states.append({name: read_status(find_descendant(recording.pid, name))
                           for name in ('sonde-capture', 'sonded')})
            system.note(f'{part}: {states[-1]}')
            hear.write(b'go\n')
    capture, _ = system.finish_recording(recording, 'long.syscap')
    return capture, states


def check_growth(states, name):
    sizes = [state[name]['VmRSS'] for state in states]
    growth = [after - before for before, after in zip(sizes, sizes[1:])]
    check(min(growth) < MAX_GROWTH_KIB, f'it has {sizes} KiB')


def share_of_whole(capture, samples):
    return sum(capture.stack(sample)[-1] not in MARKERS for sample in samples) / max(1, len(samples))


def main():
    system = System(5)
    capture, states = None, None
    with system.case(f'{N_PARTS * N_PROCESSES} processes and {N_PARTS * N_LOADS} libraries are recorded'):
        capture, states = record(system)
        check(capture.counts['EXIT'] >= N_PARTS * N_PROCESSES, f"only {capture.counts['EXIT']} ended")
        ledger = capture.ledger
        system.note(f"{ledger['produced']} samples produced, {ledger['recorded']} recorded")

    with system.case('the worker does not grow'):
        check(states, 'there is no recording')
        check_growth(states, 'sonde-capture')

    with system.case('the daemon does not grow'):
        check(states, 'there is no recording')
        check_growth(states, 'sonded')

    with system.case('neither keeps descriptors'):
        check(states, 'there is no recording')
        for name in states[0]:
            n_fds = [state[name]['fds'] for state in states]
            check(n_fds[-1] <= n_fds[0] + 2, f'{name} had {n_fds}')

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
