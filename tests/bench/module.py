#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How soon a very large library can be unwound, and whether that loses samples: module.py BUILD"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from capture import LOSSES, Capture  # noqa: E402
from system import LARGE_LIBRARY, find_library, find_obstacle  # noqa: E402

N_REPEATS = 5
FREQUENCY_HZ = 1000
MILLISECONDS = 500  # of CPU time before the library comes, and in it
SKIPPED = 77        # what meson takes for "skipped"


def run_load(build, library):
    """{'cold' or 'warm': {unit: figure}}, of reading its unwind data from the disk or from memory."""
    output = subprocess.run([f'{build}/tests/bench/bench-module', library], capture_output=True, text=True,
                            check=True).stdout
    return {line.split()[0]: {key: float(value) for key, value in re.findall(r'(\w+)=([\d.]+)', line)}
            for line in output.splitlines()}


def run_session(build, path):
    """Samples that a session lost in which a program loads the library."""
    subprocess.run(
        [f'{build}/client/sondectl', 'record', '--embedded', f'--sonded={build}/daemon/control/sonded',
         f'--worker={build}/daemon/capture/sonde-capture', '-o', path, '-F', str(FREQUENCY_HZ), '--',
         f'{build}/tests/system/unwinding/large-library', str(MILLISECONDS), *LARGE_LIBRARY],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    ledger = Capture(path).ledger
    return ledger['produced'], sum(ledger[name] for name in LOSSES)


def main():
    build = sys.argv[1]
    library = find_library(LARGE_LIBRARY[0])
    obstacle = find_obstacle() or (None if library else f'{LARGE_LIBRARY[0]} is not installed')
    if obstacle:
        print(f'skipped: {obstacle}')
        return SKIPPED
    costs = run_load(build, library)
    with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder:
        sessions = [run_session(build, f'{folder}/{i}.syscap') for i in range(N_REPEATS)]
    for where, cost in costs.items():
        print(f"{library}, {where}: {cost['cpu_ms']:.1f} ms of CPU (at worst {cost['worst_cpu_ms']:.1f}), "
              f"{cost['wall_ms']:.1f} ms until it is ready")
    lost = sum(lost for _, lost in sessions)
    print(f'{N_REPEATS} sessions at {FREQUENCY_HZ} Hz: {sum(n for n, _ in sessions)} samples, {lost} lost')
    print(f"bench module ready_cpu_ms={max(cost['cpu_ms'] for cost in costs.values()):.2f} lost={lost}")
    return 0


sys.exit(main())
