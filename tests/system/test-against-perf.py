#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sonde's stacks and shares against perf's on the same program: test-against-perf.py BUILD"""

import collections
import re
import shutil

from system import System, check

ROUNDS = '12000'
RUNS = 4  # of each in turn: a program is not equally fast each time
TOP = 5
TOLERANCE = 3.0  # percentage points


class Profile:
    """Stacks of names, leaf first, of the program in user mode."""

    def __init__(self, stacks):
        self.stacks = stacks
        check(len(stacks) > 1000, f'{len(stacks)} samples are too few')

    def share_reaching(self, function):
        return 100 * sum(function in stack for stack in self.stacks) / len(self.stacks)

    def shares(self):
        counts = collections.Counter(stack[0] for stack in self.stacks)
        return {name: 100 * n / len(self.stacks) for name, n in counts.items()}


def cut_to_main(stacks):
    """Without what comes before main() and behind it: the slower the machine, the more of that is sampled."""
    inside = [index for index, stack in enumerate(stacks) if 'main' in stack]
    return stacks[inside[0]:inside[-1] + 1] if inside else []


def profile_with_perf(system):
    data = system.path('perf.data')
    system.run('perf', 'record', '-q', '--call-graph', 'dwarf,16384', '-e', 'cpu-clock:u', '-F', '1000',
               '-o', data, '--', system.program('tests/system/recurse'), ROUNDS)
    text = system.run('perf', 'script', '--no-inline', '-i', data, '-F', 'comm,pid,ip,sym,dso')
    stacks = []
    for block in text.strip().split('\n\n'):
        lines = block.split('\n')
        if lines[0].startswith('recurse') and len(lines) > 1:
            stacks.append([re.match(r'\s*[0-9a-f]+ (\S+)', line)[1] for line in lines[1:]])
    return stacks


def profile_with_sonde(system):
    capture, _ = system.record('recurse.syscap', '-F', '1000', '--event', 'cpu-clock', '--',
                               system.program('tests/system/recurse'), ROUNDS)
    pids = collections.Counter(sample.pid for sample in capture.samples)
    pid = pids.most_common(1)[0][0]
    stacks = [capture.stack(sample) for sample in capture.samples if sample.pid == pid]
    # perf was asked for user mode, and a [kernel] leaf has no counterpart there.
    return [stack for stack in stacks if stack and stack[0] != '[kernel]']


def main():
    system = System(3)
    if not shutil.which('perf'):
        for name in ('perf reads stacks', 'stacks reach main', 'shares agree'):
            system.skip(name, 'perf is not installed: Debian calls it linux-perf')
        system.finish()

    perf = sonde = None
    with system.case('both profile the program'):
        runs = [(profile_with_perf(system), profile_with_sonde(system)) for _ in range(RUNS)]
        perf = Profile(sum((cut_to_main(theirs) for theirs, _ in runs), []))
        sonde = Profile(sum((cut_to_main(ours) for _, ours in runs), []))
        system.note(f'perf {len(perf.stacks)} samples, sonde {len(sonde.stacks)} samples')

    with system.case('as many stacks as with perf reach main'):
        check(perf and sonde, 'there is no profile')
        system.note(f'perf {perf.share_reaching("main"):.2f} %, '
                    f'sonde {sonde.share_reaching("main"):.2f} %')
        check(sonde.share_reaching('main') >= perf.share_reaching('main'), 'perf reaches main more often')

    with system.case(f'the top {TOP} functions have the same shares'):
        check(perf and sonde, 'there is no profile')
        ours, theirs = sonde.shares(), perf.shares()
        top = sorted(theirs, key=theirs.get, reverse=True)[:TOP]
        for name in top:
            system.note(f'{name}: perf {theirs[name]:.1f} %, sonde {ours.get(name, 0):.1f} %')
        check(all(abs(theirs[name] - ours.get(name, 0)) <= TOLERANCE for name in top),
              f'a share differs by more than {TOLERANCE} percentage points')

    system.finish()


main()
