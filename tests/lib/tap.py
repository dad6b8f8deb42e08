# SPDX-License-Identifier: LGPL-2.1-or-later
"""A test program in Python: numbered cases, printed as TAP."""

import contextlib
import subprocess
import sys


class Tap:
    def __init__(self, n_cases):
        print(f'1..{n_cases}', flush=True)
        self.n_cases = n_cases
        self.n_done = self.n_failed = 0

    def note(self, text):
        for line in str(text).splitlines():
            print(f'# {line}', flush=True)

    @contextlib.contextmanager
    def case(self, name):
        """The case fails if its block raises; check() raises with a sentence."""
        self.n_done += 1
        try:
            yield
        except (AssertionError, LookupError, OSError, TypeError, ValueError,
                subprocess.SubprocessError) as error:
            self.n_failed += 1
            self.note(error)
            print(f'not ok {self.n_done} - {name}', flush=True)
        else:
            print(f'ok {self.n_done} - {name}', flush=True)

    def skip(self, name, reason):
        self.n_done += 1
        print(f'ok {self.n_done} - {name} # SKIP {reason}', flush=True)

    def finish(self):
        sys.exit(1 if self.n_failed or self.n_done != self.n_cases else 0)


def check(condition, text):
    if not condition:
        raise AssertionError(text)
