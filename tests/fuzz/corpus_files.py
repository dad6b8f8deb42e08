# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes seeds: one file each in tests/fuzz/corpus/TARGET."""
import os
import sys


def write(target, seeds):
    """seeds: name → bytes. The folder is the script's first argument, or the one in the checkout."""
    corpus = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus')
    os.makedirs(os.path.join(corpus, target), exist_ok=True)
    for name, data in seeds.items():
        with open(os.path.join(corpus, target, name), 'wb') as file:
            file.write(data)
