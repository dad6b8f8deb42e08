#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks of programs that come, change and go in every way: test-unwinding.py BUILD"""

import collections
import os
import re
import shutil
import subprocess

from capture import MARKERS
from system import Fault, System, check

FREQUENCY = 1000
MILLISECONDS = 300  # of CPU time in each part of a program
MIN_SHARE = 0.99
PLAIN = ('main', 'plain_outer', 'plain_middle', 'plain_leaf')


def is_in_order(stack, names):
    """Whether names, outermost first, are in the stack, leaf first, in this order."""
    rest = iter(reversed(stack))
    return all(name in rest for name in names)


class Recording:
    def __init__(self, system, name, *command, prefix=()):
        self.system = system
        self.capture, self.output = system.record(f'{name}.syscap', '-F', str(FREQUENCY), '--',
                                                  *command, prefix=prefix)
        self.stacks = [self.capture.stack(sample) for sample in self.capture.samples]

    def with_leaf(self, leaf):
        return [stack for stack in self.stacks if leaf in stack]

    def check_stacks(self, names, milliseconds=MILLISECONDS, end=None):
        """Those with the last of names have all of them in order, and the right end. There are at
        least half as many as the CPU time lets expect."""
        stacks = self.with_leaf(names[-1])
        good = [stack for stack in stacks if is_in_order(stack, names)
                and (stack[-1] == end if end else stack[-1] not in MARKERS)]
        self.system.note(f'{names[-1]}: {len(good)} of {len(stacks)} stacks are right, '
                         f'{len(self.stacks)} in all')
        check(len(stacks) >= milliseconds * FREQUENCY / 1000 / 2, f'too few samples in {names[-1]}')
        if len(good) < MIN_SHARE * len(stacks):
            wrong = collections.Counter(' '.join(map(str, stack)) for stack in stacks
                                        if stack not in good)
            raise AssertionError('\n'.join(f'wrong, {n} times: {stack}'
                                           for stack, n in wrong.most_common(5)))

    def check_apart(self, *groups):
        """No stack has names of two groups: they were never there together."""
        for stack in self.stacks:
            found = [group for group in groups if any(name in group for name in stack)]
            check(len(found) < 2, f'names of two programs in one stack: {stack}', Fault)


def chain_names(letter):
    return ('main', f'{letter}_outer', f'{letter}_middle', f'{letter}_leaf')


def test_libraries(system, path):
    n_rounds = 12
    recording = Recording(system, 'libraries', path('libraries'), str(n_rounds), '30',
                          path('librun-a.so'), path('librun-b.so'))
    n_same = int(recording.output.split()[0])
    system.note(f'{n_same} of {n_rounds} times the second library was where the first had been')
    check(n_same > n_rounds / 2, 'the libraries did not land at the same address')
    first = ('phase_first', 'run', 'a_outer', 'a_leaf')
    second = ('phase_second', 'run', 'b_outer', 'b_leaf')
    recording.check_stacks(('main',) + first, n_rounds * 30)
    recording.check_stacks(('main',) + second, n_rounds * 30)
    recording.check_apart(('phase_first', 'a_outer', 'a_leaf'),
                          ('phase_second', 'b_outer', 'b_leaf', 'b_padding'))


def test_exec_chain(system, path):
    recording = Recording(system, 'chain', path('chain-a'), str(MILLISECONDS),
                          'exec', path('chain-b'), str(MILLISECONDS),
                          'exec', path('chain-c'), str(MILLISECONDS))
    for letter in 'abc':
        recording.check_stacks(chain_names(letter))
    recording.check_apart(*(chain_names(letter)[1:] for letter in 'abc'))
    check(len({sample.pid for sample in recording.capture.samples
               if 'main' in recording.capture.stack(sample)}) == 1, 'that was not one process')


def test_fork_tree(system, path):
    recording = Recording(system, 'fork', path('odd-stacks'), 'fork', '60')
    recording.check_stacks(('main', 'grow', 'grow', 'grow', 'grow', 'middle', 'leaf'), 8 * 60)
    n_processes = len({sample.pid for sample in recording.capture.samples
                       if 'leaf' in recording.capture.stack(sample)})
    check(n_processes == 8, f'{n_processes} processes did the work')


def test_pid_reuse(system, path, namespace):
    """The recorder is in the namespace, too: pids are those that it sees."""
    script = '''
        for i in 1 2; do
            sh -c 'echo $$' > "$4"
            echo $(($(cat "$4") + 20)) > /proc/sys/kernel/ns_last_pid
            "$1" "$3" & echo "pid $!"; wait
            echo $(($(cat "$4") + 20)) > /proc/sys/kernel/ns_last_pid
            "$2" "$3" & echo "pid $!"; wait
        done'''
    recording = Recording(system, 'reuse', 'sh', '-c', script, 'sh', path('chain-a'), path('chain-b'),
                          str(MILLISECONDS), system.path('pid'), prefix=namespace)
    pids = [line.split()[1] for line in recording.output.splitlines() if line.startswith('pid ')]
    system.note(f'pids {" ".join(pids)}')
    check(pids[0] == pids[1] and pids[2] == pids[3], 'no pid was used twice')
    for letter in 'ab':
        recording.check_stacks(chain_names(letter), 2 * MILLISECONDS)
    recording.check_apart(*(chain_names(letter)[1:] for letter in 'ab'))


def test_deleted(system, path):
    program = shutil.copy(path('stacks'), system.path('deleted'))
    Recording(system, 'deleted', program, str(MILLISECONDS), 'unlink').check_stacks(PLAIN)
    check(not os.path.exists(program), 'it is still there')


def test_replaced(system, path):
    program = shutil.copy(path('stacks'), system.path('replaced'))
    other = shutil.copy(path('chain-b'), system.path('other'))
    recording = Recording(system, 'replaced', program, str(MILLISECONDS), 'replace', other)
    recording.check_stacks(PLAIN)
    recording.check_apart(PLAIN[1:], chain_names('b')[1:])
    check(not os.path.exists(other), 'it was not replaced')


def test_namespace(system, path, namespace):
    folder = system.path('hidden')
    os.makedirs(folder, exist_ok=True)
    script = 'mount -t tmpfs tmpfs "$1" && cp "$2" "$1/program" && "$1/program" "$3"'
    recording = Recording(system, 'namespace', *namespace, 'sh', '-c', script, 'sh', folder,
                          path('stacks'), str(MILLISECONDS))
    check(not os.listdir(folder), 'the program can be reached from outside')
    recording.check_stacks(PLAIN)


def test_stripped(system, path, program):
    """Its functions have the names of places, which a file with symbols explains."""
    addresses = {match[2]: int(match[1], 16) for match in
                 re.finditer(r'^(\w+) [tT] (\w+)$', system.run('nm', path(program)), re.M)}
    recording = Recording(system, f'{program}-stripped', path(f'{program}-stripped'), str(MILLISECONDS))
    recording.check_stacks([f'{program}-stripped+{addresses[name]:#x}' for name in PLAIN])


def test_names(system, path, program):
    Recording(system, program, path(program), str(MILLISECONDS)).check_stacks(PLAIN)


def test_no_frame_pointer(system, path):
    recording = Recording(system, 'no-frame-pointer', path('odd-stacks'), 'no-frame-pointer',
                          str(MILLISECONDS))
    recording.check_stacks(('call_without_frame_pointer', 'middle', 'leaf'), end='[no unwind data]')
    check(not any('main' in stack for stack in recording.with_leaf('leaf')), 'main was guessed')


def test_odd(system, path, kind, names, milliseconds=MILLISECONDS, end=None):
    recording = Recording(system, kind, path('odd-stacks'), kind, str(MILLISECONDS))
    recording.check_stacks(names + ('middle', 'leaf'), milliseconds, end)


def test_deep(system, path, program, depth, end):
    recording = Recording(system, program, path(program), str(MILLISECONDS))
    recording.check_stacks(depth * ('descend',) + ('leaf',), end=end)
    return recording


def test_frame_pointers(system, path):
    """All 61 frames, of which the copy has a fourth, and what calls main()."""
    recording = test_deep(system, path, 'deep-frame-pointers', 61, None)
    outer = {tuple(stack[stack.index('main'):]) for stack in recording.with_leaf('leaf')}
    check(len(outer) == 1, f'{outer}')


def test_no_frame_pointers(system, path):
    recording = test_deep(system, path, 'deep', 10, '[stack truncated]')
    check(not any('descend' in stack and 'main' in stack for stack in recording.stacks), 'main was guessed')


def test_threads(system, path, program):
    Recording(system, program, path(program), str(MILLISECONDS)).check_stacks(('thread_main', 'middle', 'leaf'),
                                                                              4 * MILLISECONDS)


def find_namespace():
    """The command that makes pid and mount namespaces, and why there is none."""
    command = ['unshare', '--mount', '--pid', '--fork', '--mount-proc']
    script = 'test -w /proc/sys/kernel/ns_last_pid && mount -t tmpfs tmpfs /mnt'
    try:
        result = subprocess.run(command + ['sh', '-c', script], capture_output=True, text=True,
                                check=False)
    except OSError as error:
        return command, f'unshare: {error.strerror}'
    return command, None if result.returncode == 0 else f'no namespaces here: {result.stderr.strip()}'


def find_program(path, program, kind):
    """Why there is none of that kind to record."""
    try:
        subprocess.run([path(program), '0'], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f'no {kind} programs here: {error}'
    return None


def main():
    system = System(23)
    namespace, obstacle = find_namespace()

    def path(name):
        return system.program(f'tests/system/unwinding/{name}')

    for name, test, arguments in (
            ('libraries that take turns at one address are not mixed up', test_libraries, ()),
            ('each program of an exec chain has its own names', test_exec_chain, ()),
            ('every process of a fork tree has whole stacks', test_fork_tree, ()),
            ('a pid used again is another process', test_pid_reuse, (namespace,)),
            ('a program deleted while it runs has its names', test_deleted, ()),
            ('a program replaced while it runs has its old names', test_replaced, ()),
            ('a program in namespaces of its own is found', test_namespace, (namespace,)),
            ('a stripped program has whole stacks of places', test_stripped, ('stacks',)),
            ('code without unwind data and frame pointer ends a stack', test_no_frame_pointer, ()),
            ('code without unwind data but with frame pointer does not', test_odd,
             ('frame-pointer', ('main', 'call_with_frame_pointer'))),
            ('frame pointers lead on where the dump ends', test_frame_pointers, ()),
            ('and are not believed where there are none', test_no_frame_pointers, ()),
            ('a vfork child has the whole stack of its parent', test_odd,
             ('vfork', ('main', 'run_vfork'))),
            ('a signal handler is on top of what it interrupted', test_odd,
             ('signal', ('main', 'run_signal', 'on_signal'))),
            ('a signal stack ends where the dump ends, and says so', test_odd,
             ('alternate', ('on_signal',), MILLISECONDS, '[stack truncated]')),
            ('threads have whole stacks', test_odd, ('threads', ('thread_main',), 4 * MILLISECONDS)),
            ('a coroutine has the whole of its own stack', test_odd, ('coroutine', ('coroutine_main',))),
    ):
        if namespace in arguments and obstacle:
            system.skip(name, obstacle)
            continue
        with system.case(name):
            system.measure(test, path, *arguments)

    for name, test, program, kind in (
            ('a 32-bit program has whole stacks', test_stripped, 'stacks-32-bit', '32-bit'),
            ('a 32-bit program has its names', test_names, 'stacks-32-bit', '32-bit'),
            ('a static program of musl has whole stacks', test_names, 'stacks-musl', 'musl'),
            ('a program of musl and its library has whole stacks', test_names, 'stacks-musl-dynamic', 'musl'),
            ('threads of musl have whole stacks', test_threads, 'threads-musl', 'musl'),
    ):
        obstacle = find_program(path, program, kind)
        if obstacle:
            system.skip(name, obstacle)
            continue
        with system.case(name):
            system.measure(test, path, program)

    with system.case('static-pie and non-zero base make no difference'):
        for variant in ('stacks-static-pie', 'stacks-based'):
            Recording(system, variant, path(variant), str(MILLISECONDS)).check_stacks(PLAIN)
    system.finish()


main()
