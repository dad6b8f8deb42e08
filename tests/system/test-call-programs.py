#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of programs of Debian's sources: test-call-programs.py BUILD SOURCES

Lua each time; zstd, sqlite3 and ninja, whose builds take minutes, where SONDE_TEST_LONG is set. Each has a sled in every
function that the compiler left. What they count themselves is what is counted of them, and self time is what samples of
the same run show."""

import collections
import concurrent.futures
import glob
import json
import math
import os
import re
import subprocess
import sys

from system import Fault, System, check
from tap import Skip

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from trie_region import SLAB, count_slabs, make_region  # noqa: E402

FLAGS = ('-O2', '-g1', '-w', '-fxray-instrument', '-fxray-instruction-threshold=1')
N_TOP, POINTS = 10, 2
N_SAMPLES, MAX_RUNS = 1000, 16
# Where each function has hooks they take several times what the program does, and no arithmetic takes them away.
LARGE_ALONE = '--trace-filter=size>=600'

LUA_SCRIPT = """
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
fib(27)
local list = {}
for i = 1, 150000 do list[i] = (i * 7919) % 150001 end
table.sort(list)
local words = {}
for word in ("the quick brown fox jumps over the lazy dog "):rep(6000):gmatch("%a+") do
  words[word] = (words[word] or 0) + 1
end
for i = 1, 100000 do math.floor(i / 3) end
local parts = {}
for i = 1, 100000 do parts[#parts + 1] = tostring(i) end
print(#table.concat(parts))
"""

SQL_SCRIPT = """
CREATE TABLE t (a INTEGER, b TEXT);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
  INSERT INTO t SELECT i * 7919 % 100003, 'text ' || i FROM n;
CREATE INDEX u ON t (a);
SELECT sum(abs(a)) FROM t;
SELECT count(*) FROM t x JOIN t y ON x.a = y.a WHERE x.b LIKE '%7%';
SELECT b, count(*) FROM t GROUP BY a % 100, b ORDER BY 2 DESC, 1 LIMIT 3;
"""


class Programs(System):
    def __init__(self, n_cases):
        super().__init__(n_cases)
        self.tracer = self.program('shared-ring/collector/tracer/libsonde-tracer.so')
        os.environ['SONDE_TRACER_LIBRARY'] = self.tracer
        self.sources = sys.argv[2] if len(sys.argv) > 2 else ''

    def source(self, *path):
        if not self.sources:
            raise Skip('tests/lib/get-sources.sh got no sources')
        return os.path.join(self.sources, *path)

    def write(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)
        return self.path(name)

    def compile(self, name, sources, *flags, compiler='clang', libraries=()):
        """Each file by itself, as many at a time as there are processors."""
        folder = self.path(f'{name}.objects')
        os.mkdir(folder)
        objects = [os.path.join(folder, f'{i}-{os.path.basename(source)}.o') for i, source in enumerate(sources)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda pair: self.run(compiler, *FLAGS, *flags, '-c', pair[0], '-o', pair[1]),
                          zip(sources, objects)))
        self.run(compiler, *objects, '-o', self.path(name), *libraries)
        return self.path(name)


# --- the programs: each returns (command line, what it says of its own counts: {glob of functions: calls}) ---

def make_lua(system):
    source = system.source('lua5.4', 'src')
    header = system.path('lua5.4-deb-multiarch.h')
    with open(header, 'w', encoding='utf-8') as file:
        file.write('#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"\n')
    files = [file for file in sorted(glob.glob(f'{source}/*.c')) if os.path.basename(file) != 'luac.c']
    program = system.compile('lua', files, '-DLUA_USE_POSIX', '-I', source, '-I', system.folder, libraries=('-lm',))
    return [program, system.write('load.lua', LUA_SCRIPT)], lambda _: {'math_floor': 100000}


def make_zstd(system):
    source = system.source('libzstd')
    files = [file for folder in ('lib/common', 'lib/compress', 'lib/decompress', 'lib/dictBuilder', 'programs')
             for file in sorted(glob.glob(f'{source}/{folder}/*.c'))]
    program = system.compile('zstd', files, '-DZSTD_DISABLE_ASM=1', '-DZSTD_MULTITHREAD', '-I', f'{source}/lib',
                             '-I', f'{source}/lib/common', libraries=('-pthread',))
    # Text, of the same bytes each time.
    with open(system.path('text'), 'wb') as file:
        for path in sorted(glob.glob(f'{source}/lib/**/*.[ch]', recursive=True)):
            with open(path, 'rb') as one:
                file.write(one.read())
        size = file.tell()
    # One call for each block of 128 KiB.
    return ([program, '-9', '--single-thread', '--no-asyncio', '-q', '-f', '-o', '/dev/null', system.path('text')],
            lambda _: {'ZSTD_compressBlock_lazy2_*': math.ceil(size / (128 << 10))})


def make_sqlite(system):
    folder = system.path('sqlite3.build')
    system.run('cp', '-r', system.source('sqlite3'), folder)
    system.run('sh', '-c', f'cd {folder} && ./configure --disable-tcl --disable-readline --disable-editline && make sqlite3.c shell.c')
    program = system.compile('sqlite3', [f'{folder}/sqlite3.c', f'{folder}/shell.c'], '-I', folder,
                             '-DSQLITE_OMIT_LOAD_EXTENSION', '-DSQLITE_THREADSAFE=0', libraries=('-lm',))
    return [program, ':memory:', f'.read {system.write("load.sql", SQL_SCRIPT)}'], lambda _: {'absFunc': 100000}


def make_ninja(system):
    left_out = re.compile(r'_test\.cc|perftest|win32|/test\.cc|msvc|browse|\.in\.cc|collision|includes_norm')
    files = [file for file in sorted(glob.glob(system.source('ninja-build', 'src', '*.cc'))) if not left_out.search(file)]
    program = system.compile('ninja', files, '-std=c++14', compiler='clang++', libraries=('-pthread',))
    lines = ['rule r', '  command = true $in $out', 'build in: phony']
    lines += [f'build out/{i}: r in' + (f' | out/{i // 10}' if i else '') for i in range(20000)]
    system.write('build.ninja', '\n'.join(lines) + '\n')

    def read_counts(output):
        metrics = {match[1].strip(): int(match[2]) for match in re.finditer(r'^(.+?)\t\s*(\d+) *\t', output, re.M)}
        return {'Builder::StartEdge': metrics['StartEdge'], 'Builder::FinishCommand': metrics['FinishCommand'],
                'RealDiskInterface::Stat': metrics['node stat']}

    return [program, '-C', system.folder, '-n', '--quiet', '-d', 'stats'], read_counts


# --- what is true of each ---

def read_functions(system, name):
    shown = json.loads(system.sondectl('calls', '--json', '--paths', system.path(name)))
    functions = collections.defaultdict(lambda: [0, 0])
    for row in shown['functions']:
        functions[row['name']][0] += row['calls']
        functions[row['name']][1] += row.get('self_ns', 0)
    return shown, functions


def record(system, name, command, *options):
    """What the program printed. No other takes its processor: its calls are clocked, samples are not of waits."""
    process = system.start_recording(name, *options, '--', 'chrt', '-f', '1', *command)
    output, errors = process.communicate()
    check(process.returncode == 0, f'record: exit status {process.returncode}\n{output}{errors}', Fault)
    system.sondectl('verify', system.path(name))
    return output


def matches(pattern, name):
    return re.fullmatch(re.escape(pattern).replace(r'\*', '.*'), re.sub(r'\(.*', '', name)) is not None


def test_counts(system, name, command, read_counts):
    output = record(system, f'{name}.syscap', command, '--event=none', '--trace=auto')
    shown, functions = read_functions(system, f'{name}.syscap')
    for pattern, calls in read_counts(output).items():
        counted = sum(row[0] for function, row in functions.items() if matches(pattern, function))
        check(counted == calls, f'{pattern}: {counted} calls instead of {calls}', Fault)
    for loss in ('lost_budget', 'lost_depth', 'lost_threads', 'lost_interrupted', 'partial_processes', 'refused_places'):
        check(shown[loss] == 0, f'{loss}: {shown[loss]}', Fault)
    return shown['calls'], len(shown['paths'])


def run_bare(system, command, mode):
    """(CPU seconds, bytes of the region) in a mode; None: with sleds that are off"""
    environment = dict(os.environ)
    fds = ()
    if mode:
        fds = (make_region(mode),)
        environment |= {'LD_PRELOAD': system.tracer, 'SONDE_TRACE_FD': str(fds[0])}
    process = subprocess.Popen(command, env=environment, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == 0, f'{command[0]}: exit status {process.returncode}', Fault)
    size = count_slabs(fds[0]) * SLAB if fds else 0
    for fd in fds:
        os.close(fd)
    return usage.ru_utime + usage.ru_stime, size


def note_costs(system, name, command, calls, paths):
    least, sizes = {}, {}
    for _ in range(3):
        for mode in (None, 'auto', 'exact'):
            seconds, sizes[mode] = run_bare(system, command, mode)
            least[mode] = min(least.get(mode, seconds), seconds)
    system.note(f'{name}: {calls} calls, {paths} paths, {sizes["auto"] >> 10} KiB of memory ({sizes["exact"] >> 10} exact), '
                f'{least[None]:.2f} s; traced {least["auto"] / least[None]:.1f} times that, exactly {least["exact"] / least[None]:.1f}')


def sum_samples(system, name, functions):
    """Samples by the innermost function that is traced, those in hooks left out."""
    samples = collections.Counter()
    for line in system.sondectl('export', '-f', 'folded', system.path(name)).splitlines():
        stack, n = line.rsplit(' ', 1)
        stack = stack.split(';')
        if any(function.startswith('sonde_') for function in stack):
            continue
        innermost = next((function for function in reversed(stack) if function in functions), None)
        if innermost:
            samples[innermost] += int(n)
    return samples


def test_agreement(system, name, command, *options):
    calls, samples = collections.Counter(), collections.Counter()
    for _ in range(MAX_RUNS):
        record(system, f'{name}-both.syscap', command, '--event=cpu-clock', '--frequency=2000', '--stack-size=8192', '--trace=exact', *options)
        _, functions = read_functions(system, f'{name}-both.syscap')
        calls.update({function: row[1] for function, row in functions.items()})
        samples.update(sum_samples(system, f'{name}-both.syscap', functions))
        if sum(samples.values()) >= N_SAMPLES:
            break
    n_samples, self_ns = sum(samples.values()), sum(calls.values())
    check(n_samples >= N_SAMPLES, f'{n_samples} samples')
    differences = [(function, calls[function] / self_ns * 100, n / n_samples * 100)
                   for function, n in samples.most_common(N_TOP)]
    for function, traced, sampled in differences:
        # Samples are drawn: two standard deviations of their share.
        chance = 200 * math.sqrt(sampled / 100 * (1 - sampled / 100) / n_samples)
        check(abs(traced - sampled) <= POINTS + chance, f'{function}: {traced:.1f} % of the time of calls, '
              f'{sampled:.1f} % of {n_samples} samples')
    largest = max(differences, key=lambda row: abs(row[1] - row[2]))
    system.note(f'{name}: of its top {len(differences)} functions {largest[0]} differs most: {largest[1]:.1f} % by calls, '
                f'{largest[2]:.1f} % of {n_samples} samples')


def main():
    programs = [('lua', make_lua, (LARGE_ALONE,))]
    if os.environ.get('SONDE_TEST_LONG'):
        programs += [('zstd', make_zstd, ()), ('sqlite3', make_sqlite, (LARGE_ALONE,)), ('ninja', make_ninja, (LARGE_ALONE,))]
    system = Programs(2 * len(programs))
    for name, make, options in programs:
        made = None
        with system.case(f'{name}: what it counts itself is what is counted'):
            made = make(system)
            costs = test_counts(system, name, *made)
            note_costs(system, name, made[0], *costs)
        with system.case(f'{name}: self time is what samples of the same run show'):
            if made is None:
                raise Skip('it could not be built')
            system.measure(test_agreement, name, made[0], *options)
    system.finish()


main()
