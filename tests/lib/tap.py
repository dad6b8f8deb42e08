# SPDX-License-Identifier: LGPL-2.1-or-later
"""A test program in Python: numbered cases, printed as TAP."""

import contextlib
import sys
import traceback

DEADLINE_S = 300  # only so that a hang ends
N_TRIES = 4  # of what others can disturb


class Fault(AssertionError):
    """What nobody else on the machine can cause: once is too often."""


class Skip(Exception):
    """What a case needs cannot be had here."""


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
        except Skip as reason:
            print(f'ok {self.n_done} - {name} # SKIP {reason}', flush=True)
        except Exception as error:  # whatever it is, the case has failed
            self.n_failed += 1
            self.note(error if isinstance(error, AssertionError) else traceback.format_exc())
            print(f'not ok {self.n_done} - {name}', flush=True)
        else:
            print(f'ok {self.n_done} - {name}', flush=True)

    def measure(self, test, *arguments):
        """A test whose figures others on the machine can disturb: what is wrong with us is wrong each time, and a fault
        is not tried again."""
        for _ in range(N_TRIES - 1):
            try:
                return test(self, *arguments)
            except Fault:
                raise
            except AssertionError as error:
                self.note(f'once more: {error}')
        return test(self, *arguments)

    def skip(self, name, reason):
        self.n_done += 1
        print(f'ok {self.n_done} - {name} # SKIP {reason}', flush=True)

    def finish(self):
        sys.exit(1 if self.n_failed or self.n_done != self.n_cases else 0)


def check(condition, text, error=AssertionError):
    if not condition:
        raise error(text)
