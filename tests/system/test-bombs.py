#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that maps files made to exhaust who unwinds through them: test-bombs.py BUILD"""

import collections
import os
import threading

import elf_bombs
from capture import CONTEXTS, LOSSES, MARKERS
from system import System, check, find_descendant, find_library

FREQUENCY = 1000
MILLISECONDS = 100  # of CPU time in each file
MUTANT_MILLISECONDS = 10
N_MUTANTS = 100
BESIDE_MILLISECONDS = 1500  # of the programs beside it
MAX_GROWTH_KIB = 96 * 1024  # of the module store, mostly: SONDE_MODULE_STORE_MAX_BYTES
MAX_DEPTH = 256 + 1  # frames, and why there are no more
PLAIN = ('plain_leaf', 'plain_middle', 'plain_outer', 'main')


class Peak:
    """The most memory that a recording's worker has, looked at until it ends."""

    def __init__(self, recording):
        self.recording = recording
        self.kib = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self):
        worker = None
        while not self.done.wait(0.01):
            worker = worker or find_descendant(self.recording.pid, 'sonde-capture')
            try:
                with open(f'/proc/{worker}/status', encoding='utf-8') as status:
                    peak = [line for line in status if line.startswith('VmHWM:')]
            except OSError:
                continue
            self.kib = max([self.kib] + [int(line.split()[1]) for line in peak])

    def stop(self):
        self.done.set()
        self.thread.join()
        return self.kib


def write_bombs(system, bombs):
    """What run-files is to be told of them."""
    arguments = []
    for i, (_, bomb) in enumerate(bombs):
        path = system.path(f'bomb-{i}')
        with open(path, 'wb') as file:
            file.write(bomb.data)
        arguments += [path, str(bomb.offset), str(bomb.cut)]
    return arguments


def count_plain(stacks):
    """(right, all) of the stacks of the program that is no bomb."""
    mine = [stack for stack in stacks if 'plain_leaf' in stack]
    right = [stack for stack in mine if tuple(name for name in stack if name in PLAIN) == PLAIN
             and stack[-1] not in MARKERS]
    return len(right), len(mine)


def check_plain(system, what, stacks):
    n_right, n_all = count_plain(stacks)
    system.note(f'{what}: {n_right} of {n_all} stacks are right')
    check(n_all >= BESIDE_MILLISECONDS * FREQUENCY / 1000 / 2, f'{what}: too few samples')
    check(n_right >= 0.99 * n_all, f'{what}: some are wrong')


def record_beside(system, unwind, *command):
    """The command and a program in one session, the program alone in another: the two captures and
    the peaks of their workers."""
    stacks = [system.program('tests/system/unwinding/stacks'), str(BESIDE_MILLISECONDS)]
    options = ('-F', str(FREQUENCY), f'--unwind={unwind}', '--')
    recordings = {
        'bombs.syscap': system.start_recording('bombs.syscap', *options, 'sh', '-c',
                                               '"$0" "$1" & shift; "$@"; result=$?; wait; exit $result',
                                               *stacks, *command),
        'beside.syscap': system.start_recording('beside.syscap', *options, *stacks)}
    peaks = [Peak(recording) for recording in recordings.values()]
    try:
        captures = [system.finish_recording(recording, name)[0] for name, recording in recordings.items()]
    finally:
        kib = [peak.stop() for peak in peaks]
    return captures, kib


def note_ends(system, capture, bombs):
    """How the stacks of each file ended; the number of samples in each."""
    ends = [collections.Counter() for _ in bombs]
    for sample in capture.samples:
        stack = capture.stack(sample)
        leaf = next((address for address in sample.addresses if address < CONTEXTS), 0)
        index = (leaf - elf_bombs.BASE) // elf_bombs.STEP
        if 0 <= index < len(bombs):
            ends[index][stack[-1] if stack[-1] in MARKERS else 'whole'] += 1
            check(len(stack) <= MAX_DEPTH, f'{len(stack)} frames')
    if len(bombs) <= len(elf_bombs.MAKERS):
        for (name, _), counts in zip(bombs, ends):
            system.note(f'{name}: ' + ', '.join(f'{n} {end}' for end, n in counts.items()))
    else:
        system.note(f'{len(bombs)} files: ' + ', '.join(f'{n} {end}' for end, n in sum(ends, collections.Counter()).items()))
    return [sum(counts.values()) for counts in ends]


def test_bombs(system, unwind, bombs, milliseconds):
    (capture, beside), (bombs_kib, beside_kib) = record_beside(
        system, unwind, system.program('tests/system/run-files'), str(milliseconds), str(elf_bombs.BASE),
        str(elf_bombs.STEP), *write_bombs(system, bombs))
    system.note(f'worker: {bombs_kib} KiB at most, of the session beside it {beside_kib} KiB')
    n_samples = note_ends(system, capture, bombs)
    check(min(n_samples) * 4 >= milliseconds * FREQUENCY / 1000, 'a file has too few samples')
    check_plain(system, 'in the same session', [capture.stack(sample) for sample in capture.samples])
    check_plain(system, 'in another session', [beside.stack(sample) for sample in beside.samples])
    for what, ledger in (('the session', capture.ledger), ('the other session', beside.ledger)):
        lost = {name: ledger[name] for name in LOSSES if ledger[name]}
        check(not lost, f'{what} lost {lost}')
    check(beside_kib and bombs_kib < beside_kib + MAX_GROWTH_KIB, 'the worker grew')


def main():
    cases = [(f'{what} cost a worker that unwinds by {unwind} little', unwind, what)
             for unwind in ('dwarf', 'libdwfl') for what in ('bombs', 'mutants')]
    system = System(len(cases))
    library = find_library('libz.so.1')
    for name, unwind, what in cases:
        if os.uname().machine != 'x86_64':
            system.skip(name, 'their unwind data is x86-64\'s')
        elif what == 'bombs':
            with system.case(name):
                system.measure(test_bombs, unwind, elf_bombs.make_all(), MILLISECONDS)
        else:
            with system.case(name):
                system.measure(test_bombs, unwind, elf_bombs.make_mutants(library, N_MUTANTS), MUTANT_MILLISECONDS)
    system.finish()


main()
