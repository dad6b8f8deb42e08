# SPDX-License-Identifier: LGPL-2.1-or-later
"""Judges stacks of call-tree.py: each function has one caller there."""

import ast
import os
import re

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'call-tree.py')
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
THREAD_ROOT = 'compress'
ROOTS = ('<module>', THREAD_ROOT, 'Odd')  # a class body runs in the module


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
        if name in ROOTS and name != THREAD_ROOT:
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
