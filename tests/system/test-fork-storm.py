#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that come and go faster than anybody could look at them, with the same numbers again and
again: test-fork-storm.py BUILD. SONDE_TEST_LONG=1 makes it last a minute."""

import collections
import os
import re
import subprocess
import time

from system import System, check, find_descendant

KINDS = {'red', 'blue', 'alpha', 'beta'}
IS_LONG = os.environ.get('SONDE_TEST_LONG') == '1'
STORM_S = 60 if IS_LONG else 10
QUIET_S = 3          # of fork-storm, before and after
MIN_SAMPLES = 100000 if IS_LONG else 20000
MIN_RATE = 10000     # processes a second
MAX_GROWTH_KIB = 48 * 1024  # what names for processes that are over may take


def memory_kib(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as status:
        return int(re.search(r'VmRSS:\s*(\d+)', status.read())[1])


def follow_memory(storm):
    """The worker's memory before and after the storm, KiB, and its largest. The storm is over when it
    has printed what it made."""
    deadline = time.monotonic() + 30
    while (worker := find_descendant(storm.pid, 'sonde-capture')) is None:
        check(time.monotonic() < deadline, 'there is no worker')
        time.sleep(0.05)
    time.sleep(QUIET_S / 2)
    before = memory_kib(worker)
    made = int(re.search(r'made (\d+)', storm.stdout.readline())[1])
    largest = memory_kib(worker)
    time.sleep(QUIET_S - 0.5)
    return made, before, largest, memory_kib(worker)


def start(system, name):
    """In a namespace of its own for numbers of processes: who profiles is in it, too."""
    record = (f"{system.program('client/sondectl')} record --embedded -a -F 8000 --stack-size=2048 "
              f"--sonded={system.program('daemon/control/sonded')} "
              f"--worker={system.program('daemon/capture/sonde-capture')} "
              f'-d {STORM_S + 2 * QUIET_S + 2} -o {system.path(name)}')
    storm = ' '.join([system.program('tests/system/fork-storm'), str(STORM_S),
                      system.program('tests/system/kind-alpha'), system.program('tests/system/kind-beta')])
    return subprocess.Popen(
        ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c',
         f'{record} >&2 & {storm} || exit; wait $!'],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def judge_samples(capture):
    """(right, wrong as {what: number}): the name of the process beside the functions on its stack."""
    right, wrong = 0, collections.Counter()
    for sample, meaning in zip(capture.samples, capture.meanings.of_samples):
        functions = tuple(name for name in capture.stack(sample) if name in KINDS)
        process = (meaning[0] or '').rsplit('/')[-1].removeprefix('kind-')
        if not functions:
            continue
        if set(functions) == {process}:
            right += 1
        else:
            wrong[process, functions] += 1
    return right, wrong


def test_storm(system):
    recording = start(system, 'storm.syscap')
    made, before, largest, after = follow_memory(recording)
    capture, _ = system.finish_recording(recording, 'storm.syscap', timeout=STORM_S + 120,
                                         with_meanings=True)
    forks = capture.made_by('fork-storm')
    exits = sum(count for pid, count in capture.tasks['EXIT'].items() if pid > 0)
    numbers = len(capture.tasks['EXIT'])
    right, wrong = judge_samples(capture)
    system.note(f'{made} processes, {made / STORM_S:.0f} a second, of {numbers} numbers; '
                f'{forks} FORK and {exits} EXIT frames')
    system.note(f"{len(capture.samples)} samples, {right} of known kind, {sum(wrong.values())} on a wrong one; "
                f"lost {capture.ledger['lost-kernel']}")
    system.note(f'worker: {before} KiB before, {largest} at the end of the storm, {after} after')
    check(made / STORM_S >= MIN_RATE, 'that was no storm')
    check(numbers < made / 20, 'no number was used again')
    check(not any('Lost' in text for text in capture.logs), '\n'.join(capture.logs))
    check(forks == made, f'{forks} FORK frames of {made} processes')
    check(made <= exits <= made + 10, f'{exits} EXIT frames of {made} processes and few others')
    check(not wrong, str(wrong.most_common(10)))
    check(right >= MIN_SAMPLES, f'{right} samples are too few')
    check(after <= before + MAX_GROWTH_KIB, 'the worker has kept what is over')


def main():
    system = System(1)
    with system.case('a storm of processes with numbers that come again loses none and confuses none'):
        test_storm(system)
    system.finish()


main()
