#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks of programs in other languages than Python show their functions: test-runtimes.py BUILD HAS-PROGRAM RELEASES

RELEASES has the folders of tests/lib/get-release.sh, or is empty.

With SONDE_TEST_LONG=1 some 100,000 samples of each are judged; SONDE_TEST_SECONDS is for machines that are slow."""

import collections
import os
import re
import shutil
import sys

from system import System, check, find_release

import capture as reader
import runtime_trees

IS_LONG = bool(os.environ.get('SONDE_TEST_LONG'))
FREQUENCY = 4000 if IS_LONG else 2000
SECONDS = int(os.environ.get('SONDE_TEST_SECONDS', '100' if IS_LONG else '6'))
MIN_SAMPLES = 1500  # on a machine that others use, too
RIGHT = 0.995       # of the complete stacks
NAMED = 0.99        # of samples that run interpreted code: not before the worker has met it

TREES = (runtime_trees.PHP, *runtime_trees.PHPS, runtime_trees.RUBY, *runtime_trees.RUBIES)
# In one process after the fork each; and another interpreter after that.
FORKS = {
    'php': '$work = fn($n) => array_sum(array_map(fn($i) => $i * $i, range(1, $n)));'
           'function in_parent($work) { for ($i = 0; $i < 400; $i++) $work(20000); }'
           'function in_child($work) { for ($i = 0; $i < 400; $i++) $work(20000); }'
           'if (pcntl_fork() == 0) { in_child($work); exit; } in_parent($work); pcntl_wait($status);',
    'ruby': 'def in_parent(n) = (1..n).map { |i| i * i }.sum\ndef in_child(n) = (1..n).map { |i| i * i }.sum\n'
            'child = fork { 40.times { in_child(20000) } }\n40.times { in_parent(20000) }\nProcess.wait(child)',
}
EXECS = {
    'php': 'function before($n) { $t = 0; while ($n-- > 0) $t += $n; return $t; } before(6000000);'
           'pcntl_exec("/usr/bin/python3", ["-c", "def after(n): return sum(i for i in range(n))\nafter(3000000)"]);',
    'ruby': 'def before(n) = (1..n).sum { |i| i * 3 }\nbefore(3000000)\n'
            'exec("/usr/bin/python3", "-c", "def after(n): return sum(i for i in range(n))\nafter(3000000)")',
}
RUN = {'php': '-r', 'ruby': '-e'}


def find_command(tree):
    """What runs its program, as words; None: it is not here."""
    if not tree.release:
        program = os.environ.get(f'SONDE_TEST_{tree.language.upper()}') or next(filter(None, map(shutil.which, tree.programs)), None)
        return [program] if program else None
    root = find_release(sys.argv[3], tree.release)
    return ['chroot', root, *tree.programs] if root else None


def place_program(tree, command):
    """Where what it runs has the tree's program."""
    if not tree.release:
        return tree.program
    shutil.copy(tree.program, os.path.join(command[1], 'tmp'))
    return f'/tmp/{os.path.basename(tree.program)}'


def is_bare(stack, tree):
    """The interpreter is shown and not its program."""
    return tree.evaluator in stack and not any((function or '').endswith(f'[{tree.language}]') for function in stack)


def check_stacks(system, tree, command):
    judge = runtime_trees.Judge(tree)
    capture, _ = system.record(f'{tree.language}.syscap', '-F', str(FREQUENCY), '--', *command, place_program(tree, command), str(SECONDS))
    sums, wrong, seen = collections.Counter(), collections.Counter(), set()
    for sample in capture.samples:
        stack = capture.stack(sample)
        found = [entry for entry in map(judge.name_of, reversed(stack)) if entry]
        path = [name for name, _ in found]
        seen.update(path)
        is_interpreted = any(match for _, match in found)
        sums['with'] += is_interpreted
        sums['interpreter alone'] += is_bare(stack, tree)
        sums['apart'] += any((function or '').startswith('[interpreter]') for function in stack)
        sums['unnamed'] += any((function or '').startswith('[unnamed') for function in stack)
        is_of_thread = is_interpreted and sample.tid != sample.pid
        sums['of thread'] += is_of_thread
        # Ruby leaves pages of a thread's stack untouched, which a copy does not cross: the list is whole all the same.
        if not is_interpreted or (any(function in reader.MARKERS for function in stack) and not is_of_thread):
            continue
        sums['complete'] += 1
        why = judge.judge(path, is_of_thread)
        if why:
            sums['wrong'] += 1
            wrong[why] += 1
        for fault in filter(None, (judge.check_line(name, match) for name, match in found)):
            sums['lines'] += 1
            wrong[fault] += 1
    report = system.sondectl('report', '--by=module', system.path(f'{tree.language}.syscap'))
    check(re.search(rf'\s{tree.language}$', report, re.M), f'no row of {tree.language}: {report}')
    right = 100 * (1 - sums['wrong'] / max(1, sums['complete']))
    system.note(f'{len(capture.samples)} samples: {dict(sums)}, {right:.3f} % right')
    for why, count in wrong.most_common(8):
        system.note(f'{count}: {why}')
    check(sums['complete'] >= MIN_SAMPLES, 'too few samples')
    check(sums['wrong'] <= (1 - RIGHT) * sums['complete'], 'stacks are wrong')
    check(not tree.thread_root or sums['of thread'] > 100, 'the thread that lets others run shows nothing')
    check(not sums['lines'], 'lines are outside of their functions')
    check(sums['with'] >= NAMED * (sums['with'] + sums['interpreter alone']), 'the interpreter is shown and not its program')
    missing = set(tree.callers) - seen - set(tree.optional)
    check(not missing, f'not seen: {missing}')


def check_fork(system, tree, command):
    capture, _ = system.record('fork.syscap', '--', *command, RUN[tree.language], FORKS[tree.language])
    found = collections.defaultdict(collections.Counter)
    for sample in capture.samples:
        for name in filter(None, capture.stack(sample)):
            if 'in_parent' in name or 'in_child' in name:
                found['in_parent' if 'in_parent' in name else 'in_child'][sample.pid] += 1
    system.note(f'by process: {dict(found)}')
    check(len(found['in_parent']) == 1 and len(found['in_child']) == 1, 'each is in one process')
    check(set(found['in_parent']) != set(found['in_child']), 'they are in different ones')


def check_exec(system, tree, command):
    """The same process runs another kind of interpreter."""
    capture, _ = system.record('exec.syscap', '--', *command, RUN[tree.language], EXECS[tree.language])
    order = [name.split(' ')[0] for sample in capture.samples for name in filter(None, capture.stack(sample))
             if name.split(' ')[0].rpartition('#')[2] in ('before', 'after')]
    check(order.count('before') > 10 and order.count('after') > 10, f'{collections.Counter(order)}: one of them is not shown')
    check(order == sorted(order, reverse=True), 'what ran before comes first')


def check_off(system, tree, command):
    capture, _ = system.record('off.syscap', '--interpreters', 'no', '--', *command, place_program(tree, command), '1')
    check(any(is_bare(capture.stack(sample), tree) for sample in capture.samples), 'the interpreter is not shown')
    check(not any(f'[{tree.language}]' in name for name in capture.jit_names.values()), 'its program is shown')


def main():
    cases = (('stacks of {} have the functions of its program where they belong', check_stacks),
             ('the option interpreters leaves out those of {}', check_off),
             ('a process of {} that was forked has its own', check_fork),
             ('one of {} that executes Python shows that', check_exec))
    # There is no Python beside it.
    planned = [(tree, name, run) for tree in TREES for name, run in cases if not (tree.release and run is check_exec)]
    system = System(len(planned))
    for tree, name, run in planned:
        command = find_command(tree)
        name = name.format(f'{tree.language} of {tree.release}' if tree.release else tree.language)
        if sys.argv[2] != 'true' or not command:
            system.skip(name, 'built without the BPF program' if command else f'no {tree.programs[0]} here')
            continue
        with system.case(name):
            system.measure(run, tree, command)
    system.finish()


main()
