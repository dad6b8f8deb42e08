#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fails on a missing licence, an overlong file or function, a leftover: check-source.py SOURCE_ROOT"""

import os
import re

import tree

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80

LICENCE = 'SPDX-License-Identifier: LGPL-2.1-or-later'
# Prose and data carry no licence line: LICENSE covers them.
NO_LICENCE = ('.md', '.json', '.syscap', '.bin')
NO_LICENCE_FILES = {'LICENSE', '.gitignore', '.clang-format', '.editorconfig'}
# Inputs of the fuzzers are whatever they must be.
NOT_SOURCE = ('tests/fuzz/corpus/',)

# In two pieces each, so that this file passes.
LEFTOVERS = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b|\bfor' r' now\b'
                       r'|(?<![\w.])/wo' r'rk/|/tmp/(?:wt|brief|build-)|/ro' r'ot/'
                       r'|^(?:<{7}|>{7}) ')


def is_source(path):
    return not path.startswith(NOT_SOURCE)


def check_licence(path, text):
    if not is_source(path) or path.endswith(NO_LICENCE) or path in NO_LICENCE_FILES:
        return []
    if LICENCE not in '\n'.join(text.split('\n')[:5]):
        return [f'{path}: no "{LICENCE}" at the top']
    return []


def check_sentence(path, text):
    """The second line of C says in one sentence what the file is."""
    if path.endswith(('.c', '.h')) and not re.match(r'/\*.*\*/\n/\* [A-Z\w]', text):
        return [f'{path}: no sentence after the licence line']
    return []


def check_size(path, text):
    n_lines = text.count('\n')
    if path.endswith(('.c', '.h', '.py', '.sh')) and n_lines > MAX_FILE_LINES:
        return [f'{path}: {n_lines} lines, more than {MAX_FILE_LINES}']
    return []


def check_functions(path, text):
    """At depth 0 a brace behind a closing parenthesis opens a function."""
    if not path.endswith('.c'):
        return []
    complaints = []
    depth, line, start, before = 0, 1, 0, ''
    for char in tree.strip_code(text):
        if char == '{':
            if depth == 0:
                start = line if before == ')' else 0
            depth += 1
        elif char == '}':
            depth -= 1
            if depth == 0 and start and line - start + 1 > MAX_FUNCTION_LINES:
                complaints.append(f'{path}:{start}: a function of {line - start + 1} lines')
        if char == '\n':
            line += 1
        elif not char.isspace():
            before = char
    return complaints


def check_leftovers(path, text):
    if not is_source(path) or path == 'LICENSE':
        return []
    return [f'{path}:{number}: "{match[0]}"'
            for number, line in enumerate(text.split('\n'), 1)
            for match in LEFTOVERS.finditer(line)]


def check_folder(name):
    return [] if name in tree.FOLDERS else [f'{name}: not a folder of the design']


LONG_BODY = '  x ();\n' * MAX_FUNCTION_LINES
BAD = {
    'a file needs a licence': check_licence('a/x.c', '/* A file. */\n'),
    'a script needs a licence': check_licence('tools/x.sh', '#!/bin/bash\nset -e\n'),
    'a source needs a sentence': check_sentence('a/x.c', f'/* {LICENCE} */\n#include <stdio.h>\n'),
    'a file has an end': check_size('a/x.c', '\n' * (MAX_FILE_LINES + 1)),
    'a function has an end': check_functions('a/x.c', f'void\nf (void)\n{{\n{LONG_BODY}}}\n'),
    'braces in strings are no braces':
        check_functions('a/x.c', f'void\nf (void)\n{{\n  x ("}}", \'}}\'); /* }} */\n{LONG_BODY}}}\n'),
    'work is finished': check_leftovers('a/x.c', '/* TO' 'DO: more */\n'),
    'nothing is provisional': check_leftovers('docs/x.md', 'It does this for' ' now.\n'),
    'merges are finished': check_leftovers('a/x.py', '<<<<' '<<< HEAD\n'),
    'no path of one machine is named': check_leftovers('a/x.py', 'open("/wo' 'rk/x")\n'),
    'folders are those of the design': check_folder('misc'),
}


def check(root, tap):
    for name, complaints in BAD.items():
        tap.refuses(f'the check knows that {name}', complaints)
    tap.case('the check takes a table for no function',
             check_functions('a/x.c', f'static int x[] = {{\n{LONG_BODY}}};\n'))

    texts = {}
    for path in tree.list_files(root):
        try:
            texts[path] = tree.read(root, path)
        except UnicodeDecodeError:
            if is_source(path):
                texts[path] = ''
    for name, judge in (('every file has its licence line', check_licence),
                        ('every source says in a sentence what it is', check_sentence),
                        (f'no file is longer than {MAX_FILE_LINES} lines', check_size),
                        (f'no function is longer than {MAX_FUNCTION_LINES} lines', check_functions),
                        ('nothing is left over', check_leftovers)):
        tap.case(name, [complaint for path, text in texts.items() for complaint in judge(path, text)])
    tap.case('every folder is known',
             [complaint for name in tree.list_folders(root) for complaint in check_folder(name)])
    tap.case('scripts can be run',
             [f'{path}: not executable' for path, text in texts.items()
              if text.startswith('#!') and not os.access(os.path.join(root, path), os.X_OK)])


tree.main(check)
