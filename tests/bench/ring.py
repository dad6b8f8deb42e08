#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ring benchmark, and beside it LTTng-UST with events of as many bytes: ring.py BENCH_RING [LTTNG_LOAD]

LTTng's session daemon is one of our own, of a user without rights if we are root, and its consumer empties the buffers into
files. Of its events only what they cost the program is counted; of ours also what they cost the reader, if that is more."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

N_EVENTS = 500_000
N_TRIES = 5
NOBODY = 65534
START_S = 60
TOOLS = ('lttng-sessiond', 'lttng')


class Session:
    """A tracing session in a folder of its own."""

    def __init__(self, folder, load):
        self.folder = folder
        self.load = os.path.join(folder, 'load')
        shutil.copy(load, self.load)
        self.environment = os.environ | {'LTTNG_HOME': folder, 'HOME': folder}
        self.drop = {}
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
            self.drop = {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}
        self.daemon = subprocess.Popen(('lttng-sessiond', '--no-kernel'), env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.drop)

    def run(self, *command, is_needed=True):
        result = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                check=False, **self.drop)
        if is_needed and result.returncode:
            raise RuntimeError(f'{" ".join(command)}: {result.stdout}{result.stderr}')
        return result

    def wait(self):
        """Until the daemon answers."""
        deadline = time.monotonic() + START_S
        while self.run('lttng', '-n', 'list', is_needed=False).returncode:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError('lttng-sessiond does not answer')
            time.sleep(0.05)

    def measure(self):
        """(ns of CPU time of an event, events that were discarded), the median of some tries."""
        self.wait()
        self.run('lttng', '-n', 'create', 'bench', '-o', os.path.join(self.folder, 'trace'))
        self.run('lttng', '-n', 'enable-channel', '-u', '--subbuf-size=1M', '--num-subbuf=8', 'channel')
        self.run('lttng', '-n', 'enable-event', '-u', '-c', 'channel', 'sonde_bench:*')
        self.run('lttng', '-n', 'start')
        tries = [float(re.search(r'event_ns=([\d.]+)', self.run(self.load, str(N_EVENTS)).stdout).group(1))
                 for _ in range(N_TRIES)]
        self.run('lttng', '-n', 'stop')
        discarded = re.search(r'Discarded events: (\d+)', self.run('lttng', '-n', 'status').stdout)
        self.run('lttng', '-n', 'destroy')
        return statistics.median(tries), int(discarded.group(1))

    def end(self):
        self.daemon.terminate()
        self.daemon.wait()


def measure_lttng(load):
    """Keys for the last line."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if not load or missing:
        print(f'LTTng-UST is not measured: {"liblttng-ust-dev" if not load else missing[0]} is not installed')
        return 'lttng_mframes_per_s=no-lttng'
    with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder:
        session = Session(folder, load)
        try:
            event_ns, discarded = session.measure()
        finally:
            session.end()
    print(f'LTTng-UST: {event_ns:.1f} ns of CPU time an event of 64 bytes, {discarded} of {N_TRIES * N_EVENTS} discarded')
    return f'lttng_mframes_per_s={1000 / event_ns:.1f} lttng_discarded={discarded}'


def main():
    result = subprocess.run(sys.argv[1], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f'{sys.argv[1]}: exit status {result.returncode}\n{result.stdout}{result.stderr}')
    lines = result.stdout.splitlines()
    print('\n'.join(lines[:-1]))
    print(f'{lines[-1]} {measure_lttng(sys.argv[2] if len(sys.argv) > 2 else None)}')


if __name__ == '__main__':
    main()
