#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a recording of each heap event of real programs costs, beside heaptrack's: heap-real.py BUILD MEMORY_READER LIBRARY

CPU time of the program and of all that the recording starts, up to the whole file, less that of the program alone; the least of runs
that take turns. Of wall time only the ratio to a run that drops what it cannot take."""

import collections
import ctypes
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

N_REPEATS = 3
SKIPPED = 77  # what meson takes for "skipped"
PR_SET_CHILD_SUBREAPER = 36
WAIT_US = 10_000_000

BUILD, READER, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:4])
TREES = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'xml-trees.py')
N_TREES = 8
PERL = 'my %h; $h{"key $_"} = [$_, "value $_"] for 1..150000; print scalar (keys %h), "\\n"'
CXX = '\n'.join(f'#include <{name}>' for name in ('algorithm', 'filesystem', 'iostream', 'ranges', 'regex')) + '''
int main (int argc, char **argv) { return std::regex_match (argv[0], std::regex ("(a|b)*")); }
'''

Run = collections.namedtuple('Run', 'cpu_s wall_s output')


def run(command, environment):
    """Its run, and that of all it has started: who is left behind comes to us."""
    with tempfile.TemporaryFile('w+') as out:
        started = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment)
        cpu_s = 0
        wall_s = None
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            cpu_s += usage.ru_utime + usage.ru_stime
            if pid == child.pid:
                wall_s = time.monotonic() - started
                child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        output = out.read()
    if child.returncode:
        sys.exit(f'{" ".join(command)}: exit status {child.returncode}\n{output[-2000:]}')
    return Run(cpu_s, wall_s, output)


class Program:
    """One to be recorded, and what its runs came to."""

    def __init__(self, name, command, **variables):
        self.name = name
        self.command = command
        self.environment = {'PATH': os.environ['PATH'], 'HOME': os.environ.get('HOME', '/'), 'LC_ALL': 'C', **variables,
                            'SONDE_BROKER': f'{BUILD}/daemon/broker/sonde-broker'}
        self.runs = collections.defaultdict(list)
        self.sizes = {}
        self.n_events = self.n_lost = 0
        result = run([READER, f'--library={LIBRARY}', '--counts', f'--wait={WAIT_US}', '--', *command], self.environment)
        numbers = {key: int(value) for key, value in re.findall(r'\b(\w+)=(\d+)', result.output)}
        self.ring_bytes = numbers['bytes'] / numbers['frames']

    def run_bare(self, path):
        return run(self.command, self.environment)

    def record(self, path, *options):
        return run([f'{BUILD}/client/sondectl', 'record', '--embedded', f'--sonded={BUILD}/daemon/control/sonded',
                    f'--worker={BUILD}/daemon/capture/sonde-capture', '--event=none', '--memory', *options, '-o', path, '--', *self.command],
                   self.environment)

    def run_sonde(self, path):
        result = self.record(path)
        account = subprocess.run([f'{BUILD}/client/sondectl', 'verify', path], capture_output=True, text=True, check=False).stdout
        produced, recorded = (int(re.search(rf'events-{word} (\d+)', account)[1]) for word in ('produced', 'recorded'))
        self.n_events = recorded
        self.n_lost += produced - recorded
        self.sizes['sonde'] = os.path.getsize(path)
        return result

    def run_heaptrack(self, path):
        result = run(['heaptrack', '-o', path, *self.command], self.environment)
        self.sizes['heaptrack'] = sum(file.stat().st_size for file in pathlib.Path(path).parent.iterdir())
        return result

    def run_dropping(self, path):
        return self.record(path, '--memory-wait=0')

    def take_turn(self):
        """Each kind of run once, in a folder that is gone then: a capture is large."""
        for kind in ('bare', 'sonde', 'heaptrack', 'dropping'):
            with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder:
                self.runs[kind].append(getattr(self, f'run_{kind}')(f'{folder}/heap'))

    def least(self, kind, key):
        return min(getattr(run, key) for run in self.runs[kind])

    def report(self):
        """Prints it; the ratios."""
        bare_s = self.least('bare', 'cpu_s')
        added = {kind: self.least(kind, 'cpu_s') - bare_s for kind in ('sonde', 'heaptrack')}
        ratios = {'cost': added['sonde'] / added['heaptrack'], 'size': self.sizes['sonde'] / self.sizes['heaptrack'],
                  'wall': self.least('sonde', 'wall_s') / self.least('dropping', 'wall_s')}
        print(f'{self.name}: {self.n_events} events, {self.n_lost} lost in {N_REPEATS} runs, {self.ring_bytes:.1f} bytes of ring an event')
        print(f'  CPU {bare_s:.3f} s alone; added {added["sonde"]:.3f} s, {added["sonde"] / self.n_events * 1e9:.0f} ns an event; '
              f'heaptrack {added["heaptrack"]:.3f} s, {added["heaptrack"] / self.n_events * 1e9:.0f} ns')
        print(f'  wall {self.least("bare", "wall_s"):.2f} s alone, {self.least("sonde", "wall_s"):.2f} s, '
              f'{self.least("dropping", "wall_s"):.2f} s when it does not wait, heaptrack {self.least("heaptrack", "wall_s"):.2f} s')
        print(f'  file {self.sizes["sonde"] / 1e6:.2f} MB, heaptrack {self.sizes["heaptrack"] / 1e6:.2f} MB')
        print(f'  cost_x={ratios["cost"]:.3f} size_x={ratios["size"]:.3f} wall_x={ratios["wall"]:.2f}', flush=True)
        return ratios


def make_programs(folder):
    """What of it is installed."""
    programs = [Program('xml-trees', [sys.executable, '-S', '-B', TREES, str(N_TREES)], PYTHONMALLOC='malloc', PYTHONHASHSEED='0')]
    if shutil.which('g++'):
        source = f'{folder}/headers.ii'
        compiler = subprocess.run(['g++', '-print-prog-name=cc1plus'], capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(['g++', '-std=c++20', '-E', '-x', 'c++', '-', '-o', source], input=CXX, text=True, check=True)
        programs.append(Program('cc1plus', [compiler, '-quiet', '-fpreprocessed', '-std=c++20', '-O0', source, '-o', f'{folder}/headers.s']))
    else:
        print('without cc1plus: g++ is not installed')
    if shutil.which('perl'):
        programs.append(Program('perl', ['perl', '-e', PERL], PERL_HASH_SEED='0'))
    else:
        print('without perl: it is not installed')
    return programs


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    if not shutil.which('heaptrack'):
        print('skipped: heaptrack is not installed')
        return SKIPPED
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix='sonde-bench-') as folder:
        programs = make_programs(folder)
        for _ in range(N_REPEATS):
            for program in programs:
                program.take_turn()
        ratios = {program.name: program.report() for program in programs}
    each = ' '.join(f'{name.replace("-", "_")}_cost_x={ratio["cost"]:.3f}' for name, ratio in ratios.items())
    print(f'bench heap-real cost_x={mean(ratio["cost"] for ratio in ratios.values()):.3f} {each} '
          f'size_x={max(ratio["size"] for ratio in ratios.values()):.3f} lost={sum(program.n_lost for program in programs)} '
          f'ring_bytes={max(program.ring_bytes for program in programs):.1f} '
          f'wall_x={max(ratio["wall"] for ratio in ratios.values()):.2f}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
