#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a recording of a busy machine costs, beside perf record's: record.py BUILD"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from capture import LOSSES, Capture  # noqa: E402
from system import find_descendant, find_descendants, find_obstacle  # noqa: E402

N_REPEATS = 3
SECONDS = 8
SETTLE_SECONDS = 0.5
SKIPPED = 77  # what meson takes for "skipped"
FREQUENCY_HZ = 1000
STACK_BYTES = 16384
RING = '[perf_event]'


def read_cpu_seconds(pid):
    """Of all threads, in the kernel's ns rather than the ticks of /proc/PID/stat."""
    total_ns = 0
    for path in pathlib.Path(f'/proc/{pid}/task').glob('*/schedstat'):
        with contextlib.suppress(OSError):
            total_ns += int(path.read_text(encoding='ascii').split()[0])
    return total_ns / 1e9


def read_resident_mib(pid):
    """Without the rings, which some kernels count and others do not."""
    total_kib = 0
    in_ring = False
    for line in pathlib.Path(f'/proc/{pid}/smaps').read_text(encoding='utf-8', errors='replace').splitlines():
        name, *values = line.split()
        if not name.endswith(':'):
            in_ring = line.endswith(RING)
        elif name == 'Rss:' and not in_ring:
            total_kib += int(values[0])
    return total_kib / 1024


def read_ring_mib(path):
    """Of all CPUs, as the capture says: it may be less than is wanted, for want of lockable memory."""
    with open(path, 'rb') as file:
        text = file.read(1 << 20)
    return sum(int(re.search(key + rb'=(\d+)', text)[1]) for key in (b'sample-ring-bytes', b'sideband-ring-bytes')
               ) * os.cpu_count() / (1 << 20)


@contextlib.contextmanager
def busy_cpus(build):
    """One program on each CPU, 30 frames deep, so that none is ever idle."""
    programs = [subprocess.Popen(['taskset', '-c', str(cpu), f'{build}/tests/bench/bench-deep', '100000000'],
                                 stdout=subprocess.DEVNULL) for cpu in os.sched_getaffinity(0)]
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def end(process):
    process.send_signal(signal.SIGINT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def find_worker(recorder):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        worker, daemon = (find_descendant(recorder.pid, name) for name in ('sonde-capture', 'sonded'))
        if worker and daemon:
            return worker, daemon
        time.sleep(0.01)
    raise RuntimeError('there is no worker')


def follow_to_end(recorder, worker):
    """CPU seconds of the worker until it exits: the names of functions are looked up at the end."""
    seconds = 0
    recorder.send_signal(signal.SIGINT)
    while (now := read_cpu_seconds(worker)) > 0:
        seconds = now
        time.sleep(0.005)
    recorder.wait()
    return seconds


def run_sonde(build, path):
    recorder = subprocess.Popen(
        [f'{build}/client/sondectl', 'record', '--embedded', f'--sonded={build}/daemon/control/sonded',
         f'--worker={build}/daemon/capture/sonde-capture', '-o', path, '--event=cpu-clock', '-F',
         str(FREQUENCY_HZ), '-a'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    worker, daemon = find_worker(recorder)
    time.sleep(SECONDS)
    rss_mib = read_resident_mib(worker)
    result = {'worker': read_cpu_seconds(worker), 'sonded': read_cpu_seconds(daemon),
              'brokers': sum(read_cpu_seconds(broker) for broker in find_descendants(recorder.pid, 'sonde-broker')),
              'sondectl': read_cpu_seconds(recorder.pid), 'rss_mib': rss_mib}
    result['naming'] = follow_to_end(recorder, worker) - result['worker']
    result['rings_mib'] = read_ring_mib(path)
    capture = Capture(path)
    result['samples'] = capture.ledger['recorded']
    result['losses'] = {name: capture.ledger[name] for name in LOSSES if capture.ledger[name]}
    result['lost'] = sum(result['losses'].values())
    return result


def run_perf(path):
    """-B: no look at the file for build ids in the end, which would add to what it uses."""
    recorder = subprocess.Popen(
        ['perf', 'record', '-q', '-B', '-N', '--call-graph', f'dwarf,{STACK_BYTES}', '--event=cpu-clock', '-F',
         str(FREQUENCY_HZ), '-a', '-o', path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    time.sleep(SECONDS)
    rss_mib = read_resident_mib(recorder.pid)
    seconds = end(recorder)
    samples = os.path.getsize(path) // STACK_BYTES
    os.unlink(path)
    return {'cpu': seconds, 'rss_mib': rss_mib, 'samples': samples}


def median(results, key):
    return statistics.median(result[key] for result in results)


def report(ours, theirs):
    n_samples, n_theirs = median(ours, 'samples'), median(theirs, 'samples')
    worker, brokers, perf = median(ours, 'worker'), median(ours, 'brokers'), median(theirs, 'cpu')
    ratio = (worker + brokers) / perf
    # On a machine that others use as well perf loses a part of its samples, which is no saving.
    sample_ratio = ((worker + brokers) / n_samples) / (perf / n_theirs)
    print(f'medians of {N_REPEATS} times {SECONDS} s, {FREQUENCY_HZ} Hz, {STACK_BYTES} bytes of stack, '
          f'{os.cpu_count()} busy CPUs')
    print(f'  perf record    {perf:.3f} s of CPU, {perf / n_theirs * 1e6:5.1f} µs a sample of {n_theirs:.0f}, '
          f'{median(theirs, "rss_mib"):.1f} MiB beside its rings')
    print(f'  sonde-capture  {worker:.3f} s of CPU, {worker / n_samples * 1e6:5.1f} µs a sample of {n_samples:.0f}, '
          f'{median(ours, "rss_mib"):.1f} MiB beside {median(ours, "rings_mib"):.1f} MiB of rings')
    print(f'  sonde-broker   {brokers:.3f} s of CPU, the spare one with it')
    print(f'  apart: sonded {median(ours, "sonded"):.3f} s, sondectl {median(ours, "sondectl"):.3f} s, '
          f'names in the end {median(ours, "naming"):.3f} s')
    for run in ours:
        print(f'  {run["samples"]} samples, rings of {run["rings_mib"]:.1f} MiB, losses {run["losses"] or "none"}')
    print(f'bench record cpu_x={ratio:.3f} sample_cpu_x={sample_ratio:.3f} lost={sum(run["lost"] for run in ours)} '
          f'rss_mib={max(run["rss_mib"] for run in ours):.1f}')


def main():
    build = sys.argv[1]
    obstacle = find_obstacle() or (None if shutil.which('perf') else 'perf is not installed')
    if obstacle:
        print(f'skipped: {obstacle}')
        return SKIPPED
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder, busy_cpus(build):
        for i in range(N_REPEATS):
            ours.append(run_sonde(build, f'{folder}/{i}.syscap'))
            theirs.append(run_perf(f'{folder}/perf.data'))
    report(ours, theirs)
    return 0


sys.exit(main())
