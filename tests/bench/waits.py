#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an account of waits adds to a switch of threads, beside samples alone and perf record: waits.py BUILD"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from system import find_obstacle  # noqa: E402

N_BOUNCES = 100_000
N_ROUNDS = 7
SKIPPED = 77  # what meson takes for "skipped"


def run(command, environment=None):
    """Nanoseconds of the program's CPU time a switch, and what else was said."""
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    match = re.search(r'^(\d+) (\d+)$', result.stdout, re.M)
    if result.returncode or not match:
        sys.exit(f'{command}: exit status {result.returncode}\n{result.stdout}{result.stderr}')
    return int(match[2]) / int(match[1]), result.stderr


def main():
    build = sys.argv[1]
    obstacle = find_obstacle()
    if obstacle:
        print(obstacle)
        sys.exit(SKIPPED)
    program = [f'{build}/tests/system/thread-times', 'bounce', str(N_BOUNCES)]
    environment = os.environ | {'SONDE_BROKER': f'{build}/daemon/broker/sonde-broker'}
    with tempfile.TemporaryDirectory() as folder:
        record = [f'{build}/client/sondectl', 'record', '--embedded', f'--sonded={build}/daemon/control/sonded',
                  f'--worker={build}/daemon/capture/sonde-capture', '-o', f'{folder}/x.syscap']
        kinds = {'bare': program, 'samples': [*record, '--', *program], 'times': [*record, '--waits=times', '--', *program]}
        if shutil.which('perf'):
            kinds['perf'] = ['perf', 'record', '--switch-events', '-e', 'dummy:u', '-o', f'{folder}/perf.data', '--', *program]
        found = {kind: [] for kind in kinds}
        n_lost = 0
        for _ in range(N_ROUNDS):  # what disturbs one disturbs all
            for kind, command in kinds.items():
                ns, said = run(command, environment)
                found[kind].append(ns)
                lost = re.search(r'Lost: ([\d,]+) switches', said) if kind == 'times' else None
                n_lost += int(lost[1].replace(',', '')) if lost else 0
    for kind, values in found.items():
        print(f'{kind}: {statistics.median(values):.0f} ns of CPU time a switch, {min(values):.0f} at least')
    added = statistics.median(times - samples for times, samples in zip(found['times'], found['samples']))
    print(f'bench waits switch_ns={added:.0f} lost={n_lost}')


main()
