# SPDX-License-Identifier: LGPL-2.1-or-later
"""Removes what a test has made when it ends, also when it fails or is interrupted: its folder, and who runs below it."""

import atexit
import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile


def descendants(pid):
    """The pids of its children, of theirs, and so on."""
    found = []
    for children in pathlib.Path(f'/proc/{pid}/task').glob('*/children'):
        with contextlib.suppress(OSError):  # it has gone
            for child in map(int, children.read_text(encoding='ascii').split()):
                found += [child, *descendants(child)]
    return found


def clean_up(folder):
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def make_folder(prefix):
    """The path of a new one, for the one test that this process is."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(clean_up, folder)
    # As Meson ends a test whose time is up.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return folder
