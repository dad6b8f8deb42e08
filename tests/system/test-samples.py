#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples are all there, and other readers see what ours sees: test-samples.py BUILD [SYSPROF-COUNT SYSPROF-DIRECTORY]"""

import glob
import os
import re
import subprocess
import sys

from system import System, check, read_counts, read_seconds

FREQUENCY = 1000
TOLERANCE = 0.05


def check_count(system, capture, seconds):
    expected = FREQUENCY * seconds
    system.note(f'{seconds:.3f} s of CPU time, {capture.counts["SAMPLE"]} samples: '
                f'{100 * capture.counts["SAMPLE"] / expected:.1f} %')
    check(abs(capture.counts['SAMPLE'] - expected) <= TOLERANCE * expected,
          f'{expected:.0f} samples were to be expected')


def test_user_time(system):
    capture, output = system.record('burn.syscap', '-F', str(FREQUENCY), '--', system.program('tests/system/burn'), '10')
    check_count(system, capture, read_seconds(output))
    return capture


def test_kernel_time(system):
    # dd tells nothing of its CPU time, the shell does.
    script = 'timeout 5 dd if=/dev/zero of=/dev/null bs=1M 2>/dev/null; times'
    capture, output = system.record('dd.syscap', '-F', str(FREQUENCY), '--', 'sh', '-c', script)
    numbers = re.findall(r'(\d+)m([\d.]+)s', output)
    seconds = sum(60 * int(minutes) + float(rest) for minutes, rest in numbers)
    check_count(system, capture, seconds)
    in_kernel = sum('[kernel]' in capture.stack(sample) for sample in capture.samples)
    system.note(f'{in_kernel} of {capture.counts["SAMPLE"]} samples are in the kernel')
    check(in_kernel > capture.counts['SAMPLE'] / 2, 'dd spends its time in the kernel')


def test_merge(system, counts):
    """Frames of the second capture are written over older bytes, which stay in their padding."""
    tool = os.path.join(sys.argv[3], 'usr/bin/sysprof-cli')
    libraries = os.pathsep.join(glob.glob(os.path.join(sys.argv[3], 'usr/lib/*')))
    with open(system.path('merged.syscap'), 'wb') as merged:
        subprocess.run([tool, '--merge'] + 2 * [system.path('burn.syscap')], stdout=merged, check=True,
                       env=dict(os.environ, LD_LIBRARY_PATH=libraries))
    found = system.dump_counts('merged.syscap')
    # it gives names that are equal one number, so it has fewer frames of them
    twice = {kind: 2 * n for kind, n in counts.items() if kind != 'JITMAP'}
    check({kind: n for kind, n in found.items() if kind != 'JITMAP'} == twice, f'sondectl says {found}')


def main():
    system = System(5)
    with system.case('ten seconds of user time give ten thousand samples'):
        capture = system.measure(test_user_time)

    with system.case('sondectl counts the frames that are in the file'):
        counts = system.dump_counts('burn.syscap')
        system.note(', '.join(f'{kind} {n}' for kind, n in sorted(capture.counts.items())))
        check(capture.counts == counts, f'sondectl says {counts}')

    name = "Debian's libsysprof counts them too"
    if len(sys.argv) < 3:
        system.skip(name, 'libsysprof-capture is not there: tools/test.sh gets it')
    else:
        with system.case(name):
            counts = read_counts(system.run(sys.argv[2], system.path('burn.syscap')))
            check(capture.counts == counts, f'libsysprof says {counts}')

    name = "what Debian's Sysprof merges is read to its end"
    if len(sys.argv) < 4:
        system.skip(name, 'sysprof is not there: tools/test.sh gets it')
    else:
        with system.case(name):
            test_merge(system, capture.counts)

    with system.case('time in the kernel is sampled as well'):
        system.measure(test_kernel_time)

    system.finish()


main()
