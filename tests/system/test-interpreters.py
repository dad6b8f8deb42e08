#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks of interpreted programs show the programs' own functions: test-interpreters.py BUILD HAS-PROGRAM RELEASES

RELEASES has the folders of tests/lib/get-release.sh, or is empty.

With SONDE_TEST_LONG=1 some 100,000 samples are judged; SONDE_TEST_SECONDS is for machines that are slow."""

import collections
import os
import shutil
import signal
import subprocess
import sys
import time

from system import DEADLINE_S, System, check, find_release

import capture as reader
from call_tree import CALLERS, PROGRAM, SHORT, THREAD_ROOT, check_lines, function_lines, judge, name_of

IS_LONG = bool(os.environ.get('SONDE_TEST_LONG'))
FREQUENCY = 4000 if IS_LONG else 2000
SECONDS = int(os.environ.get('SONDE_TEST_SECONDS', '100' if IS_LONG else '8'))
MIN_SAMPLES = 2000  # on a machine that others use, too
RIGHT = 0.99      # of the complete stacks
NAMED = 0.99      # of samples that run interpreted code: not before the worker has met it


# Of other releases of Debian.
PYTHONS = {'trixie': 'python3.13', 'sid': 'python3.14'}


def judge_stacks(system, capture, command):
    """What there is to say of all of them."""
    lines = function_lines(PROGRAM)
    callers = CALLERS if has_qualified_names(command) else SHORT
    sums = collections.Counter()
    wrong, seen = collections.Counter(), set()
    for sample in capture.samples:
        stack = capture.stack(sample)
        found = [entry for entry in map(name_of, reversed(stack)) if entry]
        path = [name for name, _ in found]
        seen.update(path)
        sums['with'] += bool(path)
        sums['of thread'] += bool(path) and sample.tid != sample.pid
        # One that has let others run beside the one that runs: neither has anything of the other's.
        sums['of the other thread'] += bool(path) and (path[0] == THREAD_ROOT) != (sample.tid != sample.pid)
        sums['unnamed'] += '[unnamed function]' in stack
        sums['interpreter alone'] += not path and '_PyEval_EvalFrameDefault' in stack
        if any(function in reader.MARKERS for function in stack) or '[unnamed function]' in stack:
            continue
        sums['complete'] += bool(path)
        why = judge(path, callers)
        if why:
            sums['wrong'] += 1
            wrong[why] += 1
        for fault in filter(None, (check_lines(lines, name, match) for name, match in found)):
            sums['lines'] += 1
            wrong[fault] += 1
    system.note(f'{len(capture.samples)} samples: {dict(sums)}')
    for why, count in wrong.most_common(8):
        system.note(f'{count}: {why}')
    check(sums['wrong'] <= (1 - RIGHT) * sums['complete'], 'stacks are wrong')
    check(not sums['lines'], 'lines are outside of their functions')
    check(not sums['of the other thread'], 'stacks begin as those of another thread')
    return sums, seen


def start_tree(system, name, command, seconds, *options):
    files = [PROGRAM, system.program('tests/system/libcall-tree.so')]
    if command[0] == 'chroot':
        files = ['/' + os.path.relpath(shutil.copy(file, os.path.join(command[1], 'tmp')), command[1]) for file in files]
    return system.start_recording(name, *options, '--', *command, *files, str(seconds))


def check_stacks(system, command):
    recording = start_tree(system, 'tree.syscap', command, SECONDS, '-F', str(FREQUENCY))
    capture, _ = system.finish_recording(recording, 'tree.syscap', timeout=DEADLINE_S + SECONDS)
    sums, seen = judge_stacks(system, capture, command)
    check(sums['complete'] >= MIN_SAMPLES, 'too few samples')
    check(sums['with'] >= NAMED * (sums['with'] + sums['interpreter alone']), 'the interpreter is shown and not its program')
    check(sums['of thread'] > 100, 'the thread that lets others run shows nothing')
    missing = {name.rpartition('.')[2] for name in CALLERS} - {name.rpartition('.')[2] for name in seen}
    missing -= {'<listcomp>', '<genexpr>'}  # which some versions have inlined
    check(not missing, f'not seen: {missing}')


def check_losses(system, command):
    """A walk is small and finds room where its sample does not."""
    recording = start_tree(system, 'lost.syscap', command, 6, '-F', '5000', '--stack-size', '65280')
    worker = system.wait_for_worker(recording)
    system.wait_for_samples('lost.syscap', 100)
    for _ in range(4):
        os.kill(worker, signal.SIGSTOP)
        time.sleep(0.7)
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.3)
    capture, _ = system.finish_recording(recording, 'lost.syscap')
    system.note(f"{capture.ledger['produced']} samples made, {capture.ledger['lost-kernel']} lost")
    sums, _ = judge_stacks(system, capture, command)
    check(capture.ledger['lost-kernel'] > 100, 'nothing was lost')
    check(sums['unnamed'] <= 0.01 * sums['with'], 'names were lost for good')


def has_qualified_names(command):
    version = subprocess.run([*command, '-c', 'import sys; print(sys.version_info >= (3, 11))'],
                             capture_output=True, text=True, check=True)
    return version.stdout.strip() == 'True'


def check_off(system, command):
    capture, _ = system.record('off.syscap', '--interpreters', 'no', '--', *command, '-c', 'sum(i * i for i in range(5000000))')
    check(any('_PyEval_EvalFrameDefault' in capture.stack(sample) for sample in capture.samples),
          'the interpreter is not shown')
    check(not any('<genexpr>' in name for name in capture.jit_names.values()), 'its program is shown')


def check_fork(system, command):
    script = ('import os\n'
              'def in_parent(n): return sum(i for i in range(n))\n'
              'def in_child(n): return sum(i for i in range(n))\n'
              'if os.fork() == 0:\n    in_child(6000000)\n    os._exit(0)\n'
              'in_parent(6000000)\nos.wait()\n')
    capture, _ = system.record('fork.syscap', '--', *command, '-c', script)
    found = collections.defaultdict(collections.Counter)
    for sample in capture.samples:
        for name in filter(None, capture.stack(sample)):
            if name.startswith(('in_parent (', 'in_child (')):
                found[name.split(' ')[0]][sample.pid] += 1
    system.note(f'by process: {dict(found)}')
    check(len(found['in_parent']) == 1 and len(found['in_child']) == 1, 'each is in one process')
    check(set(found['in_parent']) != set(found['in_child']), 'they are in different ones')


def check_exec(system, command):
    """The same process runs one interpreter after another."""
    script = ('import os, sys\n'
              'def before(n): return sum(i for i in range(n))\n'
              'before(3000000)\n'
              'os.execv(sys.executable, [sys.executable, "-c", '
              '"def after(n): return sum(i for i in range(n))\\nafter(3000000)"])\n')
    capture, _ = system.record('exec.syscap', '--', *command, '-c', script)
    order = [name.split(' ')[0] for sample in capture.samples for name in filter(None, capture.stack(sample))
             if name.startswith(('before (', 'after ('))]
    check('before' in order and 'after' in order, f'{len(order)} samples show one of them')
    check(order == sorted(order, reverse=True), 'what ran before comes first')


def main():
    python = [os.environ.get('SONDE_TEST_PYTHON', '/usr/bin/python3')]
    cases = [('stacks have the functions of a Python program where they belong, each of them', check_stacks, python),
             ('what a worker that sleeps has missed makes no other stack wrong', check_losses, python),
             ('the option interpreters leaves them out', check_off, python),
             ('a process that was forked has its own', check_fork, python),
             ('one that executes another program shows that one', check_exec, python)]
    for release, name in PYTHONS.items():
        root = find_release(sys.argv[3], release)
        cases.append((f'stacks of {name} of {release} have them, too', check_stacks, ['chroot', root, name] if root else None))
    system = System(len(cases))
    for name, run, command in cases:
        if sys.argv[2] != 'true' or not command:
            system.skip(name, 'built without the BPF program' if command else 'that release is not here')
            continue
        with system.case(name):
            system.measure(run, command)
    system.finish()


main()
