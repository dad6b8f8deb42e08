#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that come and go faster than anybody could look at them, with the same numbers again and
again: test-fork-storm.py BUILD. SONDE_TEST_LONG=1 makes six times as many."""

import collections
import os
import re
import signal
import subprocess
import time

from system import Fault, System, check, find_descendant

KINDS = {'red', 'blue', 'alpha', 'beta'}
IS_LONG = os.environ.get('SONDE_TEST_LONG') == '1'
N_PROCESSES = 1500000 if IS_LONG else 250000
MIN_SAMPLES = 100000 if IS_LONG else 20000
REMEMBERED_S = 3     # as long as a profiler remembers who is gone
MAX_GROWTH_KIB = 48 * 1024  # what names for processes that are over may take


def memory_kib(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as status:
        return int(re.search(r'VmRSS:\s*(\d+)', status.read())[1])


def start(system, name):
    """In a namespace of its own for numbers of processes: who profiles is in it, too."""
    record = (f"{system.program('client/sondectl')} record --embedded -a -F 8000 --stack-size=2048 "
              f"--sonded={system.program('daemon/control/sonded')} "
              f"--worker={system.program('daemon/capture/sonde-capture')} -o {system.path(name)}")
    storm = ' '.join([system.program('tests/system/fork-storm'), str(N_PROCESSES),
                      system.program('tests/system/kind-alpha'), system.program('tests/system/kind-beta')])
    return subprocess.Popen(
        ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c',
         f'{record} </dev/null >&2 & {storm} || exit; wait $!'],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tell(recording):
    recording.stdin.write('.')
    recording.stdin.flush()


def record_storm(system, name):
    """The capture, how many processes there were in how many seconds, and the worker's memory before the storm, at its
    end, and when what it remembers of it has gone."""
    recording = start(system, name)
    worker = system.wait_for_worker(recording)
    system.wait_for_samples(name)
    memory = [memory_kib(worker)]
    tell(recording)
    made, seconds = re.search(r'made (\d+) processes in (\S+) s', recording.stdout.readline()).groups()
    memory.append(memory_kib(worker))
    time.sleep(REMEMBERED_S)
    memory.append(memory_kib(worker))
    os.kill(find_descendant(recording.pid, 'sondectl'), signal.SIGINT)
    tell(recording)
    capture, _ = system.finish_recording(recording, name, with_meanings=True)
    return capture, int(made), float(seconds), memory


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
    """Others may keep the worker from its rings. If the kernel has lost nothing, neither has it."""
    capture, made, seconds, (before, largest, after) = record_storm(system, 'storm.syscap')
    forks = capture.made_by('fork-storm')
    exits = sum(count for pid, count in capture.tasks['EXIT'].items() if pid > 0)
    numbers = len(capture.tasks['EXIT'])
    right, wrong = judge_samples(capture)
    system.note(f'{made} processes, {made / seconds:.0f} a second, of {numbers} numbers; '
                f'{forks} FORK and {exits} EXIT frames')
    system.note(f"{len(capture.samples)} samples, {right} of known kind, {sum(wrong.values())} on a wrong one; "
                f"lost {capture.ledger['lost-kernel']}")
    system.note(f'worker: {before} KiB before, {largest} at the end of the storm, {after} after')
    check(numbers < made / 20, 'no number was used again')
    check(seconds * numbers / made < REMEMBERED_S, 'that was no storm: numbers came again when they were forgotten')
    check(not any('Lost' in text for text in capture.logs), '\n'.join(capture.logs))
    check(capture.ledger['stream-lost'] == 0, 'sondectl was too slow')
    check(forks == made, f'{forks} FORK frames of {made} processes', Fault)
    check(made <= exits <= made + 10, f'{exits} EXIT frames of {made} processes and few others', Fault)
    check(not wrong, str(wrong.most_common(10)), Fault)
    check(right >= MIN_SAMPLES, f'{right} samples are too few')
    check(after <= before + MAX_GROWTH_KIB, 'the worker has kept what is over')


def main():
    system = System(1)
    with system.case('a storm of processes with numbers that come again loses none and confuses none'):
        system.measure(test_storm)
    system.finish()


main()
