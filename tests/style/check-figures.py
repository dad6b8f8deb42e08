#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fails on a name for two things, and tells the figures of the tree: check-figures.py SOURCE_ROOT BUILD_ROOT

The names of types come from the sources, those of functions and variables from what the compiler made of them.
"""

import collections
import json
import os
import re
import statistics
import subprocess
import sys

import tree

# Beyond these one thing has probably become two. A warning: the reader decides.
MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 150
# Below this a module with a single user is part of that user, unless it is a boundary.
MIN_MODULE_LINES = 150
# A function up to here says little by itself.
SHORT_FUNCTION_LINES = 10

PRODUCT = ('base/', 'client/', 'daemon/', 'protocol/', 'shared-ring/', 'symbols/', 'unwind/')
# The layout is clang-format's: a function's name and its braces stand in the first column.
FUNCTION = re.compile(r'^(\w+) \([^;{}]*\)\n\{.*?^\}', re.M | re.S)
TYPE = re.compile(r'^(?:typedef )?(?:struct|union|enum)\s*(\w*)\s*\{.*?^\}\s*(\w*);'
                  r'|^typedef [\w *]+\(\*(\w+)\) \(|^typedef (?!struct|union|enum)[\w *]+?(\w+);', re.M | re.S)


def find_functions(text):
    """[(first line, lines), …]"""
    text = tree.strip_code(text)
    return [(text.count('\n', 0, match.start()) + 1, match[0].count('\n') + 1) for match in FUNCTION.finditer(text)]


def find_types(text):
    """The names that are defined there, with what they stand for."""
    return {name for match in TYPE.finditer(tree.strip_code(text)) for name in match.groups() if name}


def find_users(texts):
    """By module, a source with a header: whoever else includes that."""
    users = {}
    for path, text in texts.items():
        for header in re.findall(r'^#include "([^"]+)"', text, re.M):
            if header[:-2] != path[:-2] and f'{header[:-2]}.c' in texts:
                users.setdefault(header[:-2], set()).add(path[:-2])
    return users


def check_size(path, text):
    n_lines = text.count('\n')
    if path.endswith(('.c', '.h', '.py', '.sh')) and n_lines > MAX_FILE_LINES:
        return [f'{path}: {n_lines} lines, more than {MAX_FILE_LINES}']
    return []


def check_functions(path, text):
    if not path.endswith('.c'):
        return []
    return [f'{path}:{line}: a function of {n_lines} lines' for line, n_lines in find_functions(text)
            if n_lines > MAX_FUNCTION_LINES]


def check_modules(texts):
    complaints = []
    for module, users in sorted(find_users(texts).items()):
        n_lines = texts[f'{module}.c'].count('\n')
        if n_lines < MIN_MODULE_LINES and len(users) == 1:
            complaints.append(f'{module}.c: {n_lines} lines, used by {users.pop()} alone')
    return complaints


def check_twice(places):
    """places: by name, where it is defined."""
    return [f'{name}: {" and ".join(sorted(where))}' for name, where in sorted(places.items()) if len(where) > 1]


def check_types(texts, are_private=False):
    """are_private: those that single sources have for themselves, instead of those that others see."""
    places = {}
    for path, text in texts.items():
        for name in find_types(text):
            places.setdefault(name, set()).add(path)
    return check_twice({name: where for name, where in places.items() if are_private == (
        not name.startswith('Sonde') and all(path.endswith('.c') for path in where))})


def find_symbols(root, build):
    """By name of a function or variable that other sources could mean: the sources that define it."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        sources = {command['output']: os.path.relpath(os.path.join(build, command['file']), root)
                   for command in json.load(file)}
    # A target that is not built, a fuzzer for one, has no objects.
    objects = [name for name, source in sources.items()
               if source.startswith(PRODUCT) and os.path.exists(os.path.join(build, name))]
    lines = subprocess.run(['nm', '-A', '-g', '--defined-only', *objects], cwd=build, check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    places = {}
    for line in lines:
        name, symbol = line.split(':', 1)
        kind, symbol = symbol.split()[-2:]
        # What a compiler makes for itself is weak, and a program has one main() of its own.
        if kind in 'TDBRC' and symbol != 'main':
            places.setdefault(symbol, set()).add(sources[name])
    return places


def quote(values):
    """median / p90 / max"""
    values = sorted(values) or [0]
    return f'{statistics.median(values):.0f} / {values[len(values) * 9 // 10]} / {values[-1]}'


def tell(texts):
    """A row for each folder and one for all: what references of good form are compared by."""
    rows = ['| | .c files | lines of all | lines/.c median / p90 / max | lines/function | functions <= '
            f'{SHORT_FUNCTION_LINES} | modules with one user |']
    users = find_users(texts)
    folders = collections.Counter('/'.join(path.split('/')[:2 if path.startswith('daemon/') else 1]) for path in texts)
    for folder in [*sorted(folders), '']:
        mine = {path: text for path, text in texts.items() if path.startswith(f'{folder}/' if folder else '')}
        files = [text.count('\n') for path, text in mine.items() if path.endswith('.c')]
        functions = [n_lines for path, text in mine.items() if path.endswith('.c')
                     for _, n_lines in find_functions(text)]
        modules = [by for module, by in users.items() if f'{module}.c' in mine]
        n_short = sum(n_lines <= SHORT_FUNCTION_LINES for n_lines in functions)
        rows.append(f'| {folder or "all"} | {len(files)} | {sum(text.count(chr(10)) for text in mine.values())} '
                    f'| {quote(files)} | {quote(functions)} | {100 * n_short // max(len(functions), 1)} % '
                    f'| {sum(len(by) == 1 for by in modules)} of {len(modules)} |')
    return rows


LONG_BODY = '  x ();\n' * MAX_FUNCTION_LINES
BAD = {
    'a file has an end': check_size('a/x.c', '\n' * (MAX_FILE_LINES + 1)),
    'a function has an end': check_functions('a/x.c', f'void\nf (void)\n{{\n{LONG_BODY}}}\n'),
    'braces in strings are no braces':
        check_functions('a/x.c', f'void\nf (void)\n{{\n  x ("\\\n}}", \'}}\'); /*\n}} */\n{LONG_BODY}}}\n'),
    'a small module needs two users': check_modules(
        {'a/x.c': '#include "a/x.h"\n', 'a/x.h': '', 'a/y.c': '#include "a/x.h"\n'}),
    'a struct has a name of its own': check_types(
        {'a/x.h': 'typedef struct\n{\n  int i;\n} X;\n', 'b/x.c': 'struct X\n{\n  int j;\n};\n'}),
    'a callback has a name of its own': check_types(
        {'a/x.h': 'typedef void (*X) (int i);\n', 'b/x.c': 'typedef enum\n{\n  A,\n} X;\n'}),
    'a type of a source has a name of its own': check_types(
        {'a/x.c': 'struct X\n{\n  int i;\n};\n', 'b/x.c': 'typedef enum\n{\n  A,\n} X;\n'}, are_private=True),
    'a symbol has one source': check_twice({'f': {'a/x.c', 'a/y.c'}}),
}


def check(root, tap):
    for name, complaints in BAD.items():
        tap.refuses(f'the check knows that {name}', complaints)
    tap.case('the check takes a table for no function',
             check_functions('a/x.c', f'static int x[] = {{\n{LONG_BODY}}};\n'))
    tap.case('the check takes a type that is declared and defined', check_types(
        {'a/x.h': 'typedef struct X X;\n', 'a/x.c': 'struct X\n{\n  int j;\n};\n'}))

    product = {path: tree.read(root, path) for path in tree.list_files(root)
               if path.startswith(PRODUCT) and path.endswith(('.c', '.h'))}
    tap.warn([complaint for path in tree.list_files(root) if path.endswith(('.c', '.h', '.py', '.sh'))
              for text in [tree.read(root, path)] for complaint in check_size(path, text) + check_functions(path, text)]
             + check_modules(product) + check_types(product, are_private=True)
             + check_twice(find_symbols(root, sys.argv[2])))
    for row in tell(product):
        print(f'# {row}')
    tap.case('a type that others see has a name of its own', check_types(product))


tree.main(check)
