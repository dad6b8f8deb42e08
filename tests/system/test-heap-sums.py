#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The heap of real programs against valgrind, massif and heaptrack: test-heap-sums.py BUILD

All count what a program asks its allocator for, so the sums are the same, byte for byte: python3 with its own allocator, whose
arenas are then what is counted. heaptrack brings libstdc++ into each program, whose initialisation allocates one block, and that is
freed when the program ends: for heaptrack it is temporary, as pair 0 behind any free is. What it takes for temporary otherwise is what
it reads in an export. python3, git and gawk copy their environment: it has as many variables and bytes with each tool, filled up by
some of ours. The compiler has a table of 32,768 bytes for each 16 MiB of addresses that its memory lies in: how many there are depends
on where the kernel maps it, and there, and there alone, that many more or less are right.
"""

import glob
import json
import os
import re
import shutil
import subprocess
from xml.etree import ElementTree

import heaptrack
from system import DEADLINE_S, System, check

WAIT_US = '1000000'

SQL = ('create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) insert into t '
       'select x, hex(x) from c; select count(*), sum(length(b)) from t; create index i on t(b);')
PYTHON = 'x = [str(i) * 3 for i in range(5000)]; y = {a: len(a) for a in x}; z = [[a] for a in x]; print(len(y), len(z))'

AWK = 'BEGIN { for (i = 0; i < 5000; i++) words[i] = i " words"; for (name in ENVIRON) n++; print length (words), n }'
LUA = 'local words = {} for i = 1, 5000 do words[i] = { i, tostring (i) } end print (#words)'
COMPILER = subprocess.run(['g++', '-print-prog-name=cc1plus'], capture_output=True, text=True, check=False).stdout.strip() \
    if shutil.which('g++') else 'cc1plus'
SOURCE = '''template <int N> struct Sum { static const int value = N + Sum<N - 1>::value; };
template <> struct Sum<0> { static const int value = 0; };
int f () { return Sum<200>::value; }
'''
TABLE_BYTES = 32768

# name: command, environment, whether heaptrack is asked
PROGRAMS = {
    'sqlite3': (['sqlite3', ':memory:', SQL], {}, True),
    'python3': (['/usr/bin/python3', '-S', '-c', PYTHON], {'PYTHONHASHSEED': '0'}, True),
    'xz': (['xz', '--test', 'text.xz'], {}, True),
    'git': (['git', '-C', 'repository', 'log', '--stat', '--format=%T'], {}, True),
    'lua': (['lua5.4', '-e', LUA], {}, True),
    'gawk': (['gawk', AWK], {}, True),
    # what initialises it is not told from what heaptrack brings along
    'cc1plus': ([COMPILER, '-quiet', '-O1', 'source.cc', '-o', 'source.s'], {}, False),
}
HISTORY = '''git init -q -b main repository && cd repository && git config user.name Test && git config user.email test@example.org
for i in 1 2 3 4 5 6; do seq $i $((i * 500)) >file$i; git add .; git commit -q -m "change $i"; done'''


def environment_of(system, variables):
    """The same for all: programs allocate for what is in it."""
    return {'PATH': os.environ['PATH'], 'HOME': system.folder, 'LC_ALL': 'C', 'PYTHONDONTWRITEBYTECODE': '1', **variables}


def run_tool(system, arguments, variables):
    result = subprocess.run(arguments, env=environment_of(system, variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False)
    check(result.returncode == 0, f'{arguments[0]}: exit status {result.returncode}\n{result.stderr}')
    return result.stdout


def valgrind(*options):
    """Not the script of that name, which has another environment."""
    return [shutil.which('valgrind.bin') or 'valgrind', *options]


def memcheck(system):
    return valgrind('--leak-check=no', '--run-libc-freeres=no', '--run-cxx-freeres=no', f"--log-file={system.path('memcheck')}")


def massif(system):
    return valgrind('--tool=massif', '--peak-inaccuracy=0.0', '--max-snapshots=1000', f"--massif-out-file={system.path('massif')}")


def fill_up(system, variables):
    """{tool: further variables}, by which all that a tool runs has as large an environment."""
    tell = ['env', '-0']
    seen = {'sonde': record(system, 'env.syscap', tell, variables)[1],
            'memcheck': run_tool(system, [*memcheck(system), *tell], variables),
            'massif': run_tool(system, [*massif(system), *tell], variables),
            'heaptrack': heaptrack.run('heaptrack', '-o', system.path('heaptrack'), *tell, env=environment_of(system, variables))}
    for path in glob.glob(f"{glob.escape(system.path('heaptrack'))}.*"):
        os.unlink(path)
    lengths = {}
    for tool, output in seen.items():
        # before and behind them may be what the tool prints
        entries = [entry.rpartition('\n')[2] for entry in output.split('\0')[:-1]]
        check(len(entries) >= len(environment_of(system, variables)), f'{tool}: {output}')
        lengths[tool] = [len(entry) for entry in entries]
    n_variables = 1 + max(map(len, lengths.values()))
    fillings = {}
    for tool, length in lengths.items():
        fillings[tool] = [f'FILLING_{i}=' for i in range(n_variables - len(length))]
        length += map(len, fillings[tool])
    n_bytes = max(map(sum, lengths.values()))
    for tool, filling in fillings.items():
        filling[0] += 'x' * (n_bytes - sum(lengths[tool]))
    return {tool: {**variables, **dict(one.split('=') for one in filling)} for tool, filling in fillings.items()}


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def number(text):
    return int(text.replace(',', ''))


def run_memcheck(system, command, variables):
    """Allocated (bytes, blocks), freed blocks, left (bytes, blocks)."""
    run_tool(system, [*memcheck(system), *command], variables)
    log = read(system.path('memcheck'))
    left = re.search(r'in use at exit: ([\d,]+) bytes in ([\d,]+) blocks', log)
    usage = re.search(r'total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes', log)
    return ((number(usage[3]), number(usage[1])), number(usage[2]), (number(left[1]), number(left[2])))


def run_massif(system, command, variables):
    """Bytes at the peak: the largest of its snapshots, of which it takes one whenever there is a new peak."""
    run_tool(system, [*massif(system), *command], variables)
    return max(int(size) for size in re.findall(r'^mem_heap_B=(\d+)$', read(system.path('massif')), re.M))


def run_heaptrack(system, command, variables):
    """Its sums, without what it brings along."""
    path = heaptrack.record(system.path('heaptrack'), *command, env=environment_of(system, variables))
    sums = heaptrack.read_sums(path)
    for cost in heaptrack.COSTS:
        sums[cost] -= sum(number for stack, number in heaptrack.read_stacks(path, cost).items()
                          if any('call_init' in frame for frame in stack))
    os.unlink(path)
    return sums


def record(system, name, command, variables, detail='events'):
    library = system.program('shared-ring/collector/memory/libsonde-memory.so')
    settings = [f'{key}={value}' for key, value in environment_of(system, variables).items()]
    return system.record(name, '--event=none', '--memory', f'--memory-detail={detail}', f'--memory-wait={WAIT_US}', '--', *command,
                         prefix=('env', '-i', f'SONDE_MEMORY_LIBRARY={library}', *settings))


def record_heap(system, name, command, variables, detail='events'):
    """What sondectl heap says in JSON."""
    record(system, name, command, variables, detail)
    return json.loads(system.sondectl('heap', '--json', system.path(name)))


def read_export(system, name, heap):
    """What heaptrack reads in it, which is what sondectl heap tells but for what is temporary."""
    path = system.path(f'{name}.heaptrack')
    system.sondectl('export', '--format=heaptrack', '-o', path, system.path(f'{name}.syscap'))
    sums = heaptrack.read_sums(path)
    expected = {'allocations': heap['allocated']['blocks'], 'leaked': heap['left']['bytes'], 'peak': heap['peak']['bytes']}
    check(expected.items() <= sums.items(), f'an export has {sums}, not {expected}')
    return sums


def pair(amount):
    return amount['bytes'], amount['blocks']


def check_equal(what, sums, expected, n_tables=0):
    """@sums: (bytes, blocks); with so many tables of the compiler more"""
    check(tuple(sums) == (expected[0] + n_tables * TABLE_BYTES, expected[1] + n_tables),
          f'{what}: {sums}, not {expected}; {n_tables} tables')


def compare_program(system, name):
    command, variables, asks_heaptrack = PROGRAMS[name]
    filled = fill_up(system, variables)
    names = {'events': name, 'log': f'{name}-log', 'sums': f'{name}-sums'}
    heaps = {detail: record_heap(system, f'{names[detail]}.syscap', command, filled['sonde'], detail) for detail in names}
    allocated, n_freed, left = run_memcheck(system, command, filled['memcheck'])
    peak = run_massif(system, command, filled['massif'])
    recorded = run_heaptrack(system, command, filled['heaptrack']) if asks_heaptrack else None
    exported = {detail: read_export(system, names[detail], heap) for detail, heap in heaps.items() if detail != 'sums'}
    heap = heaps['events']
    print(f"# {name}: allocated {pair(heap['allocated'])}, valgrind {allocated}; left {pair(heap['left'])}, "
          f"valgrind {left}; peak {heap['peak']['bytes']}, massif {peak}; temporary {heap['temporary']['blocks']}; "
          f"heaptrack {recorded}, of an export {exported['events']}")
    for detail, heap in heaps.items():
        is_compiler = name == 'cc1plus'
        n_tables = heap['left']['blocks'] - left[1] if is_compiler else 0
        check(not any(heap['inexact'].values()), f"{detail} is not exact: {heap['inexact']}")
        check_equal(f'{detail}: allocated', pair(heap['allocated']), allocated, n_tables)
        check_equal(f'{detail}: left', pair(heap['left']), left, n_tables)
        check(heap['freed']['blocks'] == n_freed, f"{detail}: freed: {heap['freed']}, not {n_freed}")
        away = heap['peak']['bytes'] - peak
        check(away == 0 or (is_compiler and away % TABLE_BYTES == 0), f"{detail}: peak: {heap['peak']}, not {peak}")
        check(pair(heap['temporary']) == pair(heaps['events']['temporary']), f'{detail}: temporary: {heap["temporary"]}')
        # Sums have no events.
        check(recorded is None or exported.get(detail, recorded) == recorded, f'{detail}: heaptrack: {exported.get(detail)}, not {recorded}')


def test_views(system):
    """The call trees add up to the sums, each in both units."""
    for option, member in (('--peak', 'peak'), ('--leaks', 'left'), ('--temporary', 'temporary')):
        for unit, key in (('bytes', 'bytes'), ('count', 'blocks')):
            heap = json.loads(system.sondectl('heap', '--json', '-l', '0', option, '--unit', unit, system.path('sqlite3.syscap')))
            n_nodes = sum(node['self'] for process in heap['processes'] for node in process['nodes'])
            check(heap['total'] == heap[member][key] == n_nodes, f'{option} --unit {unit}: {heap["total"]}, {heap[member]}, {n_nodes}')


def test_graph(system):
    """The largest point is the peak, and the picture is whole."""
    svg = system.path('heap.svg')
    heap = json.loads(system.sondectl('heap', '--json', '--graph', '--svg', svg, system.path('sqlite3.syscap')))
    check(max(heap['graph']) == heap['peak']['bytes'], f"{max(heap['graph'])} is not {heap['peak']}")
    check(ElementTree.parse(svg).getroot().tag.endswith('svg'), 'no SVG')


def test_children(system):
    """A shell forks for one xz and executes another itself; they do not live at the same time."""
    heap = record_heap(system, 'children.syscap', ['sh', '-c', 'xz --test text.xz; exec xz --test text.xz'], {})
    single, _, _ = run_memcheck(system, ['xz', '--test', 'text.xz'], {})
    of_shell = [mine - 2 * one for mine, one in zip(pair(heap['allocated']), single)]
    print(f"# shell and two xz: {heap['allocated']}, one xz by valgrind: {single}; peak {heap['peak']}")
    check(not any(heap['inexact'].values()), f"not exact: {heap['inexact']}")
    check(0 < of_shell[0] < 100000 and 0 < of_shell[1] < 1000, f'that leaves {of_shell} for the shell')
    check(heap['peak']['bytes'] < single[0] * 1.5, 'the second one began after the first had ended')
    names = {process['comm'] for process in heap['processes']}
    check('xz' in names, f'processes: {names}')


def main():
    system = System(3 + len(PROGRAMS))
    os.chdir(system.folder)
    with open('text.xz', 'wb') as file:
        subprocess.run(['xz', '-c', '/usr/share/common-licenses/GPL-3'], stdout=file, check=True)
    system.run('sh', '-c', HISTORY)
    with open('source.cc', 'w', encoding='utf-8') as file:
        file.write(SOURCE)
    with open('source.s', 'w', encoding='utf-8'):
        pass  # it remembers the whole path of one that is there
    for name, (command, _, _) in PROGRAMS.items():
        if not shutil.which(command[0]):
            system.skip(f'{name} allocates what valgrind, massif and heaptrack see', 'it is not installed')
            continue
        with system.case(f'{name} allocates what valgrind, massif and heaptrack see'):
            system.measure(compare_program, name)
    with system.case('call trees add up to the sums'):
        test_views(system)
    with system.case('the graph reaches the peak'):
        test_graph(system)
    with system.case('children have heaps of their own'):
        system.measure(test_children)
    system.finish()


main()
