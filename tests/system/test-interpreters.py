#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks of interpreted programs show the programs' own functions: test-interpreters.py BUILD HAS-PROGRAM"""

import ast
import collections
import os
import re
import subprocess
import sys

from system import System, check

import capture as reader

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(FOLDER, 'call-tree.py')
FREQUENCY = 2000
SECONDS = 8
MIN_SAMPLES = 5000
RIGHT = 0.99      # of the complete stacks
NAMED = 0.99      # of samples that run interpreted code: not before the worker has met it
FRAME = re.compile(r'^(?P<name>.*) \((?P<file>call-tree\.py|generated\.py)(?::(?P<line>\d+))?\)$')
# Others of the same name are in the libraries that it uses.
NATIVE = ('c_alpha', 'c_beta', 'c_gamma')

# Function: who calls it.
CALLERS = {
    'main': '<module>', 'turn': 'main',
    'through_c': 'turn', 'c_alpha': 'through_c', 'outer_back': 'c_alpha', 'c_beta': 'outer_back',
    'middle_back': 'c_beta', 'c_gamma': 'middle_back', 'inner_back': 'c_gamma', 'leaf_of_callbacks': 'inner_back',
    'through_re': 'turn', 'replacement': 'through_re', 'leaf_of_replacing': 'replacement',
    'leaf_of_replacing.<locals>.<genexpr>': 'leaf_of_replacing',
    'through_sorted': 'turn', 'sort_key': 'through_sorted', 'sort_key.<locals>.<listcomp>': 'sort_key',
    'through_reduce': 'turn', 'join_two': 'through_reduce',
    'through_generator': 'turn', 'numbers': 'through_generator', 'leaf_of_generator': 'numbers',
    'through_objects': 'turn', 'Odd.computed': 'through_objects', 'Odd.__getattr__': 'through_objects',
    'Odd.found': 'Odd.__getattr__',
    'through_recursion': 'turn', 'descend': 'through_recursion', 'bottom': 'descend',
    'through_exec': 'turn', 'generated': 'through_exec', 'made': 'generated',
}
# Before 3.11 code objects know their own name alone.
SHORT = {name.rpartition('.')[2]: caller.rpartition('.')[2] for name, caller in CALLERS.items()}
ROOTS = ('<module>', 'compress', 'Odd')  # of a thread; a class body runs in the module


def name_of(function):
    """What of a stack's frame the tree has, or None."""
    if function in NATIVE:
        return function, None
    match = FRAME.match(function or '')
    if not match:
        return None
    name = match['name']
    if match['file'] == 'generated.py' and name == '<module>':
        name = 'generated'
    return name, match


def judge(names, callers):
    """Why the path, outermost first, is none of the tree, or None."""
    if not names:
        return None
    if names[0] not in ROOTS:
        return f'begins with {names[0]}'
    for caller, name in zip(names, names[1:]):
        if name in ROOTS and name != 'compress':
            continue
        if callers.get(name) != caller and not (name == caller == 'descend'):
            return f'{name} is called by {caller}'
    return None


def function_lines(path):
    """Name: first and last line, of functions by their own name."""
    with open(path, encoding='utf-8') as file:
        tree = ast.parse(file.read())
    return {node.name: (min([node.lineno] + [decorator.lineno for decorator in node.decorator_list]), node.end_lineno)
            for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def check_lines(lines, name, match):
    if not match or match['file'] != 'call-tree.py' or name not in lines or not match['line']:
        return None
    first, last = lines[name]
    return None if first <= int(match['line']) <= last else f'{name} at line {match["line"]}'


def check_stacks(system, python):
    capture, _ = system.record('tree.syscap', '-F', str(FREQUENCY), '--', python, PROGRAM,
                               system.program('tests/system/libcall-tree.so'), str(SECONDS))
    lines = function_lines(PROGRAM)
    callers = CALLERS if has_qualified_names(python) else SHORT
    wrong, wrong_lines = collections.Counter(), collections.Counter()
    n_complete = n_with = n_evaluators = 0
    seen = set()
    threads = collections.Counter()
    for sample in capture.samples:
        stack = capture.stack(sample)
        found = [name_of(function) for function in reversed(stack)]
        path = [entry[0] for entry in found if entry]
        n_with += bool(path)
        n_evaluators += not path and '_PyEval_EvalFrameDefault' in stack
        seen.update(path)
        threads[sample.tid == sample.pid] += bool(path)
        if any(function in reader.MARKERS for function in stack):
            continue
        n_complete += bool(path)
        why = judge(path, callers)
        if why:
            wrong[why] += 1
        for name, match in filter(None, found):
            fault = check_lines(lines, name, match)
            if fault:
                wrong_lines[fault] += 1
    right = 1 - sum(wrong.values()) / max(n_complete, 1)
    system.note(f'{len(capture.samples)} samples, {n_with} with functions of the program, {n_complete} of them '
                f'complete, {100 * right:.3f} % right, {n_evaluators} with the interpreter alone')
    for why, count in (wrong + wrong_lines).most_common(8):
        system.note(f'{count}: {why}')
    check(n_complete >= MIN_SAMPLES, 'too few samples')
    check(right >= RIGHT, f'{sum(wrong.values())} of {n_complete} stacks are wrong')
    check(not wrong_lines, 'lines are outside of their functions')
    check(n_with >= NAMED * (n_with + n_evaluators), 'the interpreter is shown and not its program')
    check(threads[False] > 100, 'the thread that lets others run shows nothing')
    return seen


def has_qualified_names(python):
    version = subprocess.run([python, '-c', 'import sys; print(sys.version_info >= (3, 11))'],
                             capture_output=True, text=True, check=True)
    return version.stdout.strip() == 'True'


def check_off(system, python):
    capture, _ = system.record('off.syscap', '--interpreters', 'no', '--', python, '-c', 'sum(i * i for i in range(5000000))')
    check(any('_PyEval_EvalFrameDefault' in capture.stack(sample) for sample in capture.samples),
          'the interpreter is not shown')
    check(not any('<genexpr>' in name for name in capture.jit_names.values()), 'its program is shown')


def check_fork(system, python):
    script = ('import os\n'
              'def in_parent(n): return sum(i for i in range(n))\n'
              'def in_child(n): return sum(i for i in range(n))\n'
              'if os.fork() == 0:\n    in_child(6000000)\n    os._exit(0)\n'
              'in_parent(6000000)\nos.wait()\n')
    capture, _ = system.record('fork.syscap', '--', python, '-c', script)
    found = collections.defaultdict(collections.Counter)
    for sample in capture.samples:
        for name in filter(None, capture.stack(sample)):
            if name.startswith(('in_parent (', 'in_child (')):
                found[name.split(' ')[0]][sample.pid] += 1
    system.note(f'by process: {dict(found)}')
    check(len(found['in_parent']) == 1 and len(found['in_child']) == 1, 'each is in one process')
    check(set(found['in_parent']) != set(found['in_child']), 'they are in different ones')


def check_exec(system, python):
    """The same process runs one interpreter after another."""
    script = ('import os, sys\n'
              'def before(n): return sum(i for i in range(n))\n'
              'before(3000000)\n'
              'os.execv(sys.executable, [sys.executable, "-c", '
              '"def after(n): return sum(i for i in range(n))\\nafter(3000000)"])\n')
    capture, _ = system.record('exec.syscap', '--', python, '-c', script)
    order = [name.split(' ')[0] for sample in capture.samples for name in filter(None, capture.stack(sample))
             if name.startswith(('before (', 'after ('))]
    check('before' in order and 'after' in order, f'{len(order)} samples show one of them')
    check(order == sorted(order, reverse=True), 'what ran before comes first')


def main():
    python = os.environ.get('SONDE_TEST_PYTHON', '/usr/bin/python3')
    system = System(5)
    if sys.argv[2] != 'true':
        for name in ('stacks', 'names', 'option', 'fork', 'exec'):
            system.skip(name, 'built without the BPF program')
        system.finish()
        return
    with system.case('stacks have the functions of a Python program where they belong'):
        seen = system.measure(check_stacks, python)
    with system.case('each function of the program was seen'):
        missing = {name.rpartition('.')[2] for name in CALLERS} - {name.rpartition('.')[2] for name in seen}
        missing -= {'<listcomp>', '<genexpr>'}  # which some versions have inlined
        check(not missing, f'not seen: {missing}')
    with system.case('the option interpreters leaves them out'):
        system.measure(check_off, python)
    with system.case('a process that was forked has its own'):
        system.measure(check_fork, python)
    with system.case('one that executes another program shows that one'):
        system.measure(check_exec, python)
    system.finish()


main()
