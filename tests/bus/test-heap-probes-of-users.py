#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes of a user's own programs, through the service: test-heap-probes-of-users.py SOURCE BUILD"""

import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from leftovers import make_folder  # noqa: E402
from service import DEADLINE_S, Service  # noqa: E402
from tap import check  # noqa: E402

INTERVAL = 65536
SECONDS = 3


def record(service, user, program, recorded_by):
    """Of that program of the user: (what record printed, the capture, what the program counted)."""
    probed = service.start(user, program, str(INTERVAL), '2', stdin=subprocess.PIPE)
    capture = os.path.join(service.make_folder(recorded_by), 'user.syscap')
    try:
        time.sleep(0.5)
        result = service.run(recorded_by, os.path.join(service.build, 'client/sondectl'), 'record', '--service', '--memory=sampled',
                             f'--memory-interval={INTERVAL}', '--event=none', '--stack-size=2048', '-p', str(probed.pid), '-d', str(SECONDS),
                             '-o', capture)
        # The broker lets go of them as it ends.
        time.sleep(1)
    finally:
        output, _ = probed.communicate(timeout=DEADLINE_S)
    return result, capture, tuple(map(int, output.split()))[1:]


def test_own(service, folder):
    """He proves that he may look into it; what a hit tells he could read himself."""
    user = service.next_user()
    program = shutil.copy(os.path.join(service.build, 'tests/system/probed'), folder)
    result, capture, count = record(service, user, program, user)
    check(result.returncode == 0, result.stdout + result.stderr)
    if 'not followed' in result.stdout + result.stderr:
        return 'the kernel is not asked about files here, or has no uprobes of a single process'
    heap = json.loads(service.run(user, os.path.join(service.build, 'client/sondectl'), 'heap', '--json', capture).stdout)
    check(abs(heap['allocated']['bytes'] / count[1] - 1) < 0.3, f"{heap['allocated']} of {count}")
    check(count[4] == 0, 'the probes are traced, still')
    return None


def test_others(service, folder):
    """Another's are refused as all of his is."""
    program = shutil.copy(os.path.join(service.build, 'tests/system/probed'), folder)
    result, _, count = record(service, service.next_user(), program, service.next_user())
    check(result.returncode != 0, result.stdout + result.stderr)
    check(count[0] == 0, f'they were traced: {count}')


def main():
    service = Service(2)
    folder = make_folder('sonde-probes-')
    os.chmod(folder, 0o755)
    for name, test in (("a user's own are followed", test_own), ("another's are not", test_others)):
        why = None
        with service.case(name):
            why = test(service, folder)
        if why:
            service.note(why)
    service.finish()


if __name__ == '__main__':
    main()
