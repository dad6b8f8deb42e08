#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A processor that goes off and comes back, and a wall clock that is set: vm-clock-and-cpus.py BUILD.
Changes the machine that it runs on: for a virtual one of its own, with two processors or more. As
root."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from system import System, check  # noqa: E402

CPU = 1
ONLINE = f'/sys/devices/system/cpu/cpu{CPU}/online'
OFF_S = 0.3, 2.5  # between two looks at the processors, and long enough to be seen off
JUMP_S = 7200


def switch(is_on):
    with open(ONLINE, 'w', encoding='ascii') as file:
        file.write('1' if is_on else '0')


def set_clock(delta_s):
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + delta_s)


def start_burner(system):
    """On that processor, wherever it is sent meanwhile."""
    burner = subprocess.Popen([system.program('tests/system/burn'), '1000'], stdout=subprocess.DEVNULL)
    os.sched_setaffinity(burner.pid, {CPU})
    return burner


def test_processor(system, off_s):
    burner = start_burner(system)
    recording = system.start_recording('cpu.syscap', '-a', '-d', str(off_s + 6))
    try:
        time.sleep(2)
        switch(False)
        time.sleep(off_s)
        switch(True)
        back_ns = time.monotonic_ns()
        os.sched_setaffinity(burner.pid, {CPU})
        capture, _ = system.finish_recording(recording, 'cpu.syscap')
    finally:
        burner.kill()
        burner.wait()
    logs = [text for text in capture.logs if text.startswith(f'Processor {CPU} was off between ')]
    after = [sample.time_ns for sample in capture.samples if sample.cpu == CPU and sample.time_ns > back_ns]
    check(after, 'no sample on the processor that came back')
    system.note(f'off for {off_s} s, sampled again after {(after[0] - back_ns) / 1e9:.2f} s: {logs}')
    check(len(logs) == 1, '\n'.join(capture.logs))


def test_clock(system):
    recording = system.start_recording('clock.syscap', '-a', '-d', '6')
    begin = time.monotonic()
    time.sleep(2)
    set_clock(JUMP_S)
    time.sleep(1)
    set_clock(-JUMP_S)
    capture, _ = system.finish_recording(recording, 'clock.syscap')
    seconds = time.monotonic() - begin
    times = [sample.time_ns for sample in capture.samples]
    logs = [text for text in capture.logs if text.startswith('The wall clock was set')]
    system.note(f'{seconds:.1f} s for a duration of 6 s; {logs}')
    check(len(logs) == 2, '\n'.join(capture.logs))
    check(max(times) - min(times) < 10e9, 'times have jumped')
    check(seconds < JUMP_S / 2, 'the duration followed the wall clock')


def main():
    system = System(len(OFF_S) + 1)
    for off_s in OFF_S:
        with system.case(f'a processor that was off for {off_s} s is sampled again'):
            test_processor(system, off_s)
    with system.case('a wall clock that is set is told of, and moves nothing'):
        test_clock(system)
    system.finish()


main()
