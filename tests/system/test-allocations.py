#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A worker that has seen a program allocates nothing for its samples: test-allocations.py BUILD"""

import bisect
import os
import struct
import time

from capture import LOSSES
from system import System, check

FREQUENCY = 4000
WARM_SECONDS = 3  # until each function of the programs was seen
N_WINDOWS = 4     # of which the one with the fewest judges: what each sample cost would cost it in all of them
SECONDS = 2       # of each
SLACK_SECONDS = 3


def read_count(path):
    with open(path, 'rb') as file:
        return struct.unpack('<Q', file.read(8))[0]


def count_allocations(system, name, *arguments):
    """Allocations of the whole worker for each sample, in the window that has the fewest."""
    counter, worker = system.path(f'{name}.counter'), system.path(f'{name}.worker')
    with open(counter, 'wb') as file:
        file.write(bytes(8))
    with open(worker, 'w', encoding='utf-8') as file:
        file.write(f"#!/bin/sh\nLD_PRELOAD={system.program('tests/system/libcount-allocations.so')} "
                   f"ALLOCATIONS_FILE={counter} exec {system.program('daemon/capture/sonde-capture')} \"$@\"\n")
    os.chmod(worker, 0o755)
    recording = system.start_recording(f'{name}.syscap', '-F', str(FREQUENCY), *arguments, worker=worker)
    looks = []
    for seconds in (WARM_SECONDS, *[SECONDS] * N_WINDOWS):
        time.sleep(seconds)
        looks.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC), read_count(counter)))
    capture, _ = system.finish_recording(recording, f'{name}.syscap')
    times = sorted(sample.time_ns for sample in capture.samples)
    windows = []
    for (begin, before), (end, after) in zip(looks, looks[1:]):
        windows.append((after - before, bisect.bisect_left(times, end) - bisect.bisect_left(times, begin)))
    lost = sum(capture.ledger[name] for name in LOSSES)
    system.note(', '.join(f'{n} allocations during {samples} samples' for n, samples in windows)
                + f'; {looks[0][1]} before; {lost} samples lost')
    check(looks[0][1] > 0, 'the allocations were not counted')
    shares = [n / samples for n, samples in windows if samples > SECONDS * FREQUENCY / 10]
    check(shares, 'too few samples')
    return min(shares)


def main():
    system = System(2)
    seconds = WARM_SECONDS + N_WINDOWS * SECONDS + SLACK_SECONDS
    with system.case('samples of one program cost no allocation'):
        share = count_allocations(system, 'one', '--', system.program('tests/system/burn'), str(seconds))
        # None, but to wait for a reader that is late, when others have the CPU, takes a few.
        check(share <= 1 / 1000, 'there were some')

    with system.case('samples of several programs and the kernel cost no allocation'):
        commands = (f"{system.program('tests/system/burn')} {seconds}",
                    f'timeout {seconds} dd if=/dev/zero of=/dev/null bs=64k',
                    f'timeout {seconds} python3 -c "while True: sorted(map(str, range(100)))"')
        share = count_allocations(system, 'several', '--kernel', '--', 'sh', '-c', ' & '.join(commands) + ' & wait')
        # The kernel always has another function that was never seen before: its name has to be remembered.
        check(share <= 1 / 100, 'there were more than for new functions')
    system.finish()


main()
