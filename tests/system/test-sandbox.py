#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What becomes of a session whose worker goes astray: test-sandbox.py BUILD"""

import os

from system import DEADLINE_S, System, check


def make_worker(system, name, environment):
    """The built one with something in its environment."""
    path = system.path(name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f"#!/bin/sh\n{environment} exec {system.program('daemon/capture/sonde-capture')} \"$@\"\n")
    os.chmod(path, 0o755)
    return path


def main():
    system = System(2)
    burn = system.program('tests/system/burn')

    with system.case('a worker that opens a file ends its session, which says so'):
        library = system.program('tests/system/libopen-in-uname.so')
        worker = make_worker(system, 'opener', f'LD_PRELOAD={library}')
        recording = system.start_recording('opener.syscap', '--', burn, '0.2', worker=worker)
        _, errors = recording.communicate(timeout=DEADLINE_S)
        system.note(errors)
        check(recording.returncode == 125, f'exit status {recording.returncode}')
        check('system call that it may not make: openat' in errors, 'the call is not named')

    with system.case('the next session has a worker as it should be'):
        capture, _ = system.record('next.syscap', '--', burn, '0.2')
        check(capture.counts['SAMPLE'] > 100, f"only {capture.counts['SAMPLE']} samples")

    system.finish()


main()
