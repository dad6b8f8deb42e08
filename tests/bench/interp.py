#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the walk of an interpreter adds to a sample, by the kernel's account, and whether it is right: interp.py BUILD"""

import contextlib
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
import call_tree  # noqa: E402
from capture import MARKERS, Capture  # noqa: E402
from system import find_descendants, find_obstacle  # noqa: E402

SECONDS = 8
FREQUENCY_HZ = 2000
SKIPPED = 77  # what meson takes for "skipped"
SYS_BPF = 321  # of x86-64, where alone there are walks
BPF_ENABLE_STATS = 32


@contextlib.contextmanager
def kernel_counts():
    """How often programs run and for how long, as long as this lasts; the two clocks that it reads are in it."""
    attributes = (ctypes.c_uint32 * 1)(0)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_BPF, BPF_ENABLE_STATS, attributes, ctypes.sizeof(attributes))
    if fd < 0:
        print(f'the kernel does not count: {os.strerror(ctypes.get_errno())}')
        sys.exit(SKIPPED)
    yield
    os.close(fd)


def read_runs(recording):
    """Runs and nanoseconds, of the programs that the recording's broker has; None before there is one."""
    for pid in find_descendants(recording.pid, 'sonde-broker'):
        for path in pathlib.Path(f'/proc/{pid}/fdinfo').iterdir():
            with contextlib.suppress(OSError):
                text = path.read_text(encoding='ascii')
                if 'prog_type:\t7\n' in text:  # BPF_PROG_TYPE_PERF_EVENT
                    return tuple(int(re.search(rf'^{key}:\s+(\d+)$', text, re.M)[1]) for key in ('run_cnt', 'run_time_ns'))
    return None


def record(build, folder, *command):
    """Its capture, and microseconds a run."""
    path = os.path.join(folder, 'x.syscap')
    environment = os.environ | {'SONDE_BROKER': f'{build}/daemon/broker/sonde-broker'}
    recording = subprocess.Popen([f'{build}/client/sondectl', 'record', '--embedded', f'--sonded={build}/daemon/control/sonded',
                                  f'--worker={build}/daemon/capture/sonde-capture', '-F', str(FREQUENCY_HZ), '-o', path, '--',
                                  *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    runs = None
    while recording.poll() is None:
        runs = read_runs(recording) or runs
        time.sleep(0.1)
    if recording.returncode or not runs or not runs[0]:
        sys.exit(f'{command}: exit status {recording.returncode}, runs {runs}\n{recording.stderr.read()}')
    return Capture(path), runs[1] / runs[0] / 1000


def count_right(capture):
    """Per cent of the complete stacks that have functions of the program."""
    n_complete = n_right = 0
    for sample in capture.samples:
        stack = capture.stack(sample)
        path = [found[0] for found in map(call_tree.name_of, reversed(stack)) if found]
        if path and not any(function in MARKERS for function in stack):
            n_complete += 1
            n_right += call_tree.judge(path, call_tree.CALLERS) is None
    print(f'{len(capture.samples)} samples, {n_complete} complete with functions, {n_right} right')
    return 100 * n_right / max(n_complete, 1)


def main():
    build = sys.argv[1]
    obstacle = find_obstacle()
    if obstacle:
        print(obstacle)
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder, kernel_counts():
        capture, added_us = record(build, folder, '/usr/bin/python3', call_tree.PROGRAM,
                                   f'{build}/tests/system/libcall-tree.so', str(SECONDS))
        right_pct = count_right(capture)
        _, idle_us = record(build, folder, f'{build}/tests/system/burn', str(SECONDS))
    print(f'bench interp right_pct={right_pct:.2f} added_us={added_us:.2f} idle_us={idle_us:.2f}')


main()
