#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fails on a missing licence, a sentence that does not say what a file is, or a leftover: check-source.py SOURCE_ROOT"""

import os
import re

import tree

LICENCE = 'SPDX-License-Identifier: LGPL-2.1-or-later'
# Prose, pictures and data carry no licence line: LICENSE covers them.
NO_LICENCE = ('.md', '.json', '.syscap', '.bin', '.png')
NO_LICENCE_FILES = {'LICENSE', '.gitignore', '.clang-format', '.editorconfig'}
# Inputs of the fuzzers are whatever they must be.
NOT_SOURCE = ('tests/fuzz/corpus/',)

# Whose sentences are not settled yet: a warning.
UNSETTLED = ('tests/bus/',)

# In two pieces each, so that this file passes.
LEFTOVERS = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b|\bfor' r' now\b|^(?:<{7}|>{7}) ')


def is_source(path):
    return not path.startswith(NOT_SOURCE)


def check_licence(path, text):
    if not is_source(path) or path.endswith(NO_LICENCE) or path in NO_LICENCE_FILES:
        return []
    # What Debian's tools read has forms of its own, and debian/copyright.
    if path.startswith('debian/') and not text.startswith('#!'):
        return []
    if LICENCE not in '\n'.join(text.split('\n')[:5]):
        return [f'{path}: no "{LICENCE}" at the top']
    return []


def check_sentence(path, text):
    """The second line of C says in one sentence what the file does; of a source with a header the header says it."""
    if not path.endswith(('.c', '.h')) or re.match(rf'/\*.*\*/\n(#include "config.h"\n\n)?#include "{path[:-2]}.h"\n', text):
        return []
    if not re.match(r'/\*.*\*/\n/\* [A-Z\w]', text):
        return [f'{path}: no sentence after the licence line']
    return []


def check_mechanism(path, text):
    """The sentence names the mechanism first, its purpose second, and stands once."""
    sentence = re.match(r'/\*.*\*/\n/\* (\w+)', text)
    if not path.endswith(('.c', '.h')) or not sentence:
        return []
    if sentence[1] in ('How', 'What', 'When', 'Where', 'Whether', 'Which', 'Who', 'Whose'):
        return [f'{path}: the sentence begins with {sentence[1]} and not with the mechanism']
    if path.endswith('.c') and re.search(rf'^#include "{path[:-2]}.h"$', text, re.M):
        return [f'{path}: the sentence is that of the header']
    return []


def check_leftovers(path, text):
    if not is_source(path) or path == 'LICENSE':
        return []
    return [f'{path}:{number}: "{match[0]}"'
            for number, line in enumerate(text.split('\n'), 1)
            for match in LEFTOVERS.finditer(line)]


def check_folder(name):
    return [] if name in tree.FOLDERS else [f'{name}: not a folder of the design']


BAD = {
    'a file needs a licence': check_licence('a/x.c', '/* A file. */\n'),
    'a script needs a licence': check_licence('tools/x.sh', '#!/bin/bash\nset -e\n'),
    'a header needs a sentence': check_sentence('a/x.h', f'/* {LICENCE} */\n#pragma once\n'),
    'a sentence names the mechanism': check_mechanism('a/x.h', f'/* {LICENCE} */\n/* What it does. */\n'),
    'a sentence stands once': check_mechanism('a/x.c', f'/* {LICENCE} */\n/* Does it. */\n#include "a/x.h"\n'),
    'a source needs a sentence': check_sentence('a/x.c', f'/* {LICENCE} */\n#include <stdio.h>\n'),
    'work is finished': check_leftovers('a/x.c', '/* TO' 'DO: more */\n'),
    'nothing is provisional': check_leftovers('docs/x.md', 'It does this for' ' now.\n'),
    'merges are finished': check_leftovers('a/x.py', '<<<<' '<<< HEAD\n'),
    'folders are those of the design': check_folder('misc'),
}


def check(root, tap):
    for name, complaints in BAD.items():
        tap.refuses(f'the check knows that {name}', complaints)
    texts = {}
    for path in tree.list_files(root):
        try:
            texts[path] = tree.read(root, path)
        except UnicodeDecodeError:
            if is_source(path):
                texts[path] = ''
    for name, judge in (('every file has its licence line', check_licence),
                        ('every source says in a sentence what it is', check_sentence),
                        ('nothing is left over', check_leftovers)):
        tap.case(name, [complaint for path, text in texts.items() for complaint in judge(path, text)])
    tap.case('sentences name the mechanism, once', [complaint for path, text in texts.items()
                                                    if not path.startswith(UNSETTLED)
                                                    for complaint in check_mechanism(path, text)])
    tap.warn([complaint for path, text in texts.items() if path.startswith(UNSETTLED)
              for complaint in check_mechanism(path, text)])
    tap.case('every folder is known',
             [complaint for name in tree.list_folders(root) for complaint in check_folder(name)])
    tap.case('scripts can be run',
             [f'{path}: not executable' for path, text in texts.items()
              if text.startswith('#!') and not os.access(os.path.join(root, path), os.X_OK)])


tree.main(check)
