#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A processor that goes off and comes back, and a wall clock that is set: vm-clock-and-cpus.py BUILD.
Changes the machine that it runs on: for a virtual one of its own, with two processors or more. As
root."""

import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from system import System, check, wait_until  # noqa: E402

CPU = 1
ONLINE = f'/sys/devices/system/cpu/cpu{CPU}/online'
OFF_S = 0.3, 2.5  # between two looks at the processors, and long enough to be seen off
JUMP_S = 7200
BUSY_S = 0.5  # of CPU time, which has samples whatever else goes on


def switch(is_on):
    with open(ONLINE, 'w', encoding='ascii') as file:
        file.write('1' if is_on else '0')


def set_clock(delta_s):
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + delta_s)


class Recording:
    """One of the whole machine while it is written."""

    def __init__(self, system, name):
        self.system, self.name = system, name
        self.path = pathlib.Path(system.path(name))
        self.process = system.start_recording(name, '-a')
        wait_until(lambda: self.path.exists() and self.path.stat().st_size > 0, name)
        self.wait_for_more()

    def wait_for_more(self):
        size = self.path.stat().st_size
        wait_until(lambda: self.path.stat().st_size > size, f'more of {self.name}')

    def wait_for_log(self, text, count=1):
        wait_until(lambda: self.path.read_bytes().count(text.encode()) >= count, f'"{text}"')

    def finish(self):
        self.process.send_signal(signal.SIGINT)
        capture, _ = self.system.finish_recording(self.process, self.name)
        return capture


class Burner:
    """On that processor, wherever it is sent meanwhile."""

    def __init__(self, system):
        self.process = subprocess.Popen([system.program('tests/system/burn'), '1000'], stdout=subprocess.DEVNULL)
        self.settle()

    def settle(self):
        os.sched_setaffinity(self.process.pid, {CPU})

    def seconds(self):
        """Its CPU time."""
        stat = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text(encoding='utf-8')
        return int(stat.rsplit(')', 1)[1].split()[11]) / os.sysconf('SC_CLK_TCK')

    def work(self):
        until = self.seconds() + BUSY_S
        wait_until(lambda: self.seconds() >= until, 'the next processor time')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def test_processor(system, off_s):
    told = f'Processor {CPU} was off between '
    with Burner(system) as burner:
        recording = Recording(system, 'cpu.syscap')
        burner.work()
        switch(False)
        time.sleep(off_s)
        switch(True)
        back_ns = time.monotonic_ns()
        burner.settle()
        recording.wait_for_log(told)
        burner.work()
        capture = recording.finish()
    logs = [text for text in capture.logs if text.startswith(told)]
    after = [sample.time_ns for sample in capture.samples if sample.cpu == CPU and sample.time_ns > back_ns]
    check(after, 'no sample on the processor that came back')
    system.note(f'off for {off_s} s, sampled again after {(after[0] - back_ns) / 1e9:.2f} s: {logs}')
    check(len(logs) == 1, '\n'.join(capture.logs))


def test_clock(system):
    told = 'The wall clock was set'
    recording = Recording(system, 'clock.syscap')
    begin = time.monotonic_ns()
    set_clock(JUMP_S)
    recording.wait_for_log(told)
    set_clock(-JUMP_S)
    recording.wait_for_log(told, 2)
    capture = recording.finish()
    seconds = (time.monotonic_ns() - begin) / 1e9
    times = [sample.time_ns for sample in capture.samples]
    logs = [text for text in capture.logs if text.startswith(told)]
    system.note(f'within {seconds:.1f} s: {logs}')
    check(len(logs) == 2, '\n'.join(capture.logs))
    check(max(times) - min(times) < JUMP_S / 2 * 1e9, 'times have jumped')


def main():
    system = System(len(OFF_S) + 1)
    for off_s in OFF_S:
        with system.case(f'a processor that was off for {off_s} s is sampled again'):
            test_processor(system, off_s)
    with system.case('a wall clock that is set is told of, and moves nothing'):
        test_clock(system)
    system.finish()


main()
