#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The heap of real programs, through sonded and its worker into captures: test-heap.py BUILD HEAP_LOAD"""

import array
import collections
import json
import os
import re
import subprocess
import sys

from system import DEADLINE_S, Fault, System, check

N_PAIRS = 500_000
N_EVENTS = 2 * N_PAIRS
WAIT = '--memory-wait=1000000'
N_KILLS = 100
COUNTED_BYTES = '4321'  # of the blocks of counted
# What a program allocates by itself: the buffer of its standard output.
MAX_OTHER_EVENTS = 8
SQL = '''create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<50000)
insert into t select x from c; select sum(a) from t;'''


def record(system, name, *arguments):
    """(frames by type, {quantity: number} of the ledger, of the events of programs)"""
    process = system.start_recording(name, '--event=none', *arguments)
    output, errors = process.communicate(timeout=DEADLINE_S)
    check(process.returncode == 0, f'record: exit status {process.returncode}\n{output}{errors}', Fault)
    ledger = re.search(r'^events +ok +events-produced (\d+) = events-recorded (\d+) \+ events-lost-ring (\d+)',
                       system.sondectl('verify', system.path(name)), re.M)
    check(ledger, 'no account of events', Fault)
    return system.dump_counts(name), dict(zip(('produced', 'recorded', 'lost'), map(int, ledger.groups())))


def load(n_threads=1):
    return '--', os.path.abspath(sys.argv[2]), str(N_PAIRS // n_threads), '18', str(n_threads)


def test_wait(system):
    counts, ledger = record(system, 'wait.syscap', '--memory', WAIT, *load(2))
    system.note(ledger)
    check(ledger['lost'] == 0 and 0 <= ledger['recorded'] - N_EVENTS <= MAX_OTHER_EVENTS, ledger)
    check(counts['HEAP_LOG_EVENT'] == ledger['recorded'], f"{counts['HEAP_LOG_EVENT']} frames")


def test_default(system):
    """It waits, for a fair part of its time; what was asked for is what is recorded."""
    for name, options, wanted in (('default', (), 100000), ('never', ('--memory-wait=0',), 0)):
        _, ledger = record(system, f'{name}.syscap', '--memory', *options, *load()[:2], '1000', '18', '1')
        check(ledger['lost'] + ledger['recorded'] == ledger['produced'], ledger)
        check(rf'\nmemory-wait={wanted}\n' in system.sondectl('dump', system.path(f'{name}.syscap')), f'{name}: the METADATA')


def test_drop(system):
    counts, ledger = record(system, 'drop.syscap', '--memory', '--memory-wait=0', *load())
    system.note(ledger)
    check(ledger['lost'] + ledger['recorded'] == ledger['produced'], ledger)
    check(0 <= ledger['produced'] - N_EVENTS <= MAX_OTHER_EVENTS, f'the program made {N_EVENTS}: {ledger}')
    check(counts['HEAP_LOG_EVENT'] == ledger['recorded'], f"{counts['HEAP_LOG_EVENT']} frames")


def test_sampled(system):
    """Blocks of 64 bytes, one of 8192 bytes: within five standard deviations."""
    counts, ledger = record(system, 'sampled.syscap', '--memory=sampled', '--memory-interval=8192', WAIT, *load())
    expected = 2 * N_PAIRS * 64 / 8192
    system.note(f'{ledger}, {expected:.0f} expected')
    check(ledger['lost'] == 0 and abs(counts['HEAP_LOG_EVENT'] - expected) < 2 * 5 * (expected / 2) ** 0.5, ledger)


def test_agreement(system):
    command = ('sqlite3', ':memory:', SQL)
    record(system, 'sqlite.syscap', '--memory', WAIT, '--', *command)
    text = system.sondectl('heap', system.path('sqlite.syscap'))
    allocated, live = (re.search(rf'^{line} +([\d,]+) bytes .*in ([\d,]+) blocks', text, re.M).groups()
                       for line in ('Allocated', 'Not freed'))
    valgrind = subprocess.run(('valgrind', '--run-libc-freeres=no', *command), capture_output=True, text=True,
                              timeout=DEADLINE_S, check=True).stderr
    total = re.search(r'usage: ([\d,]+) allocs, [\d,]+ frees, ([\d,]+) bytes', valgrind).groups()
    at_exit = re.search(r'in use at exit: ([\d,]+) bytes in ([\d,]+) blocks', valgrind).groups()
    system.note(f'{allocated[1]} blocks of {allocated[0]} bytes, {live[0]} bytes left')
    check(allocated == total[::-1], f'{allocated}, but {total} for valgrind')
    check(live == at_exit, f'{live} left, but {at_exit} for valgrind')


def sums_of(system, name):
    """What a capture's heap was, by stack, but for times and numbers of processes; and its call trees, as they are exported."""
    heaps, exports = {}, {}
    for view in None, '--peak', '--leaks', '--temporary', '--cross-thread':
        heap = json.loads(system.sondectl('heap', '--json', '--flat', '-l', '0', *([view] if view else []), system.path(name)))
        heaps[view] = [heap[key] for key in ('events', 'allocated', 'freed', 'left', 'peak', 'temporary', 'cross-thread', 'inherited',
                                             'inexact', 'total')]
        heaps[view] += sorted((row['name'], row['module'], row['self'], row['total'], row['beside']) for row in heap['rows'])
    for form in 'folded', 'dot':
        for unit in 'bytes', 'blocks':
            text = system.sondectl('export', f'--format={form}', f'--unit={unit}', system.path(name))
            check('sqlite3' in text, f'{form}: {text[:500]}')
            exports[form, unit] = sorted(re.sub(r'sqlite3[- ](\d+|\(pid \d+\))', 'sqlite3', text).splitlines())
    return heaps, exports


def test_log(system):
    """One program, with frames, with the log and with sums: nothing but the size of the file differs."""
    seen = {}
    for detail in 'events', 'log', 'sums':
        name = f'detail-{detail}.syscap'
        counts, ledger = record(system, name, '--memory', f'--memory-detail={detail}', WAIT, '--', 'sqlite3', ':memory:', SQL)
        check(ledger['lost'] == 0, f'{detail}: {ledger}')
        check(rf'\nmemory-detail={detail}\n' in system.sondectl('dump', system.path(name)), f'{detail}: the METADATA')
        check(('ALLOCATION' in counts) == (detail == 'events'), f'{detail}: {counts}')
        size_bytes = os.path.getsize(system.path(name))
        seen[detail] = ledger, *sums_of(system, name), size_bytes
        system.note(f'{detail}: {ledger}, {size_bytes} bytes')
    for detail in 'log', 'sums':
        check(seen[detail][:2] == seen['events'][:2], f"{detail}: {seen[detail][:2]}, not {seen['events'][:2]}"[:4000])
        check(seen[detail][3] * 10 < seen['events'][3], f'{detail} is large')
    check(seen['log'][2] == seen['events'][2], f"{seen['log'][2]}, not {seen['events'][2]}"[:4000])
    # Those of sums are read in the order of time: some more places have names, or fewer.
    for unit in 'bytes', 'blocks':
        exported = sum(int(line.rpartition(' ')[2]) for line in seen['sums'][2]['folded', unit])
        check(exported == seen['sums'][1][None][1][unit], f'{exported} {unit} in an export of sums')


def test_log_of_children(system):
    """Forks, execs and threads: what each did is under the name that it had then, and verify agrees."""
    load_program = os.path.abspath(sys.argv[2])
    command = f"sqlite3 :memory: 'select 1' & sqlite3 :memory: 'select 2'; wait; exec {load_program} 1000 18 4"
    for detail in 'log', 'sums':
        name = f'{detail}-children.syscap'
        _, ledger = record(system, name, '--memory', f'--memory-detail={detail}', WAIT, '--', 'bash', '-c', command)
        check(ledger['lost'] == 0 and ledger['recorded'] > 8000, ledger)
        text = system.sondectl('heap', '--by=process', '--percent-limit=0', system.path(name))
        names = sorted(re.findall(r'%  +[^%]*  (\S+) \(pid \d+\)$', text, re.M))
        system.note(f'{detail}: {ledger}, heaps of {names}')
        check(names.count('sqlite3') == 2 and 'heap-load' in names and 'bash' in names and '?' not in names, text[:2000])


def test_log_of_a_fork(system):
    """What a child frees at once is its parent's, as the kernel's records say: the log waits for these."""
    program = '''import os, time
x = [bytearray(1000) for i in range(2000)]
time.sleep(0.5)
if os.fork() == 0:
    del x
    time.sleep(0.5)
    os._exit(0)
os.wait()'''
    for i, detail in enumerate(('log', 'log', 'log', 'sums')):
        name = f'log-fork-{i}.syscap'
        _, ledger = record(system, name, '--memory', f'--memory-detail={detail}', WAIT, '--', '/usr/bin/python3', '-S', '-c', program)
        heap = json.loads(system.sondectl('heap', '--json', system.path(name)))
        system.note(f"{ledger}, inherited {heap['inherited']}, {heap['inexact']}")
        check(ledger['lost'] == 0 and ledger['recorded'] > 6000, ledger)
        check(heap['inexact']['unknown-freed'] == 0, heap['inexact'])


def test_sums(system):
    """Threads that free each other's blocks, resize and leave some, in a parent and a child: as the log has them."""
    program = '''import os, queue, threading
blocks = queue.Queue()
def take():
    while (block := blocks.get()) is not None:
        block.extend(bytes(5000))
        del block
def work():
    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    for i in range(3000):
        blocks.put(bytearray(600 + i % 100 * 8))
    for taker in takers:
        blocks.put(None)
    for taker in takers:
        taker.join()
work()
if (child := os.fork()) == 0:
    kept = [bytearray(700) for _ in range(1000)]
    os._exit(0)
os.waitpid(child, 0)'''
    heaps = {}
    for detail in 'log', 'sums':
        name = f'threads-{detail}.syscap'
        _, ledger = record(system, name, '--memory', f'--memory-detail={detail}', WAIT, '--', '/usr/bin/python3', '-S', '-c', program)
        check(ledger['lost'] == 0, ledger)
        heaps[detail] = json.loads(system.sondectl('heap', '--json', system.path(name)))
        text = system.sondectl('verify', system.path(name))
        check(detail == 'log' or re.search(r'^heap sums +ok .* stacks$', text, re.M), text)
    for key in 'events', 'allocated', 'freed', 'left', 'peak', 'temporary', 'cross-thread', 'inherited':
        system.note(f"{key}: log {heaps['log'][key]}, sums {heaps['sums'][key]}")
    # Which thread gets which block is the system's to decide, and what queue and threads allocate for that.
    for key in 'allocated', 'freed', 'left':
        for unit in 'bytes', 'blocks':
            one, other = heaps['log'][key][unit], heaps['sums'][key][unit]
            check(abs(one - other) <= 0.05 * one, f'{key}: {one} {unit} of the log, {other} of sums')
    heap = heaps['sums']
    check(heap['cross-thread']['blocks'] > 0 and heap['left']['blocks'] >= 1000 and heap['inherited']['blocks'] > 0, heap['left'])
    check(heap['allocated']['bytes'] - heap['freed']['bytes'] == heap['left']['bytes'], heap['freed'])
    check(not any(heap['inexact'].values()), heap['inexact'])


def test_moments_of_sums(system):
    """What was live at a moment is what the last sums before it say; heaptrack's file has to have events."""
    name = system.path('detail-sums.syscap')
    graph = json.loads(system.sondectl('heap', '--json', '--graph', name))
    check(max(graph['graph']) == graph['peak']['bytes'], f"{max(graph['graph'])}, not {graph['peak']}")
    diff = json.loads(system.sondectl('heap', '--json', '--diff', 'peak', 'end', name))
    check((diff['before'], diff['after']) == (graph['peak'], graph['left']), f"{diff['before']}, {diff['after']}")
    for export, expected in (('heaptrack', 'needs each of them'), ('folded', 'has no samples')):
        result = subprocess.run([system.program('client/sondectl'), 'export', f'--format={export}', '-o', system.path('none'), name],
                                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(result.returncode == 1 and expected in result.stderr and 'sums of heap events' in result.stderr, result.stderr)


def test_children(system):
    """A shell, two of its children, and the program that takes its place."""
    load_program = os.path.abspath(sys.argv[2])
    command = f"sqlite3 :memory: 'select 1' & sqlite3 :memory: 'select 2'; wait; exec {load_program} 1000 1 1"
    process = system.start_recording('children.syscap', '--event=none', '--memory', WAIT, '--', 'bash', '-c', command)
    capture, _ = system.finish_recording(process, 'children.syscap')
    names = {name for _, name in capture.processes}
    system.note(f"{capture.n_logged} events of {sorted(names)}")
    check(capture.n_logged > 2000, 'too few events')
    check(sum('sqlite3' in name for _, name in capture.processes) >= 2, names)
    # What each did is under the name that it had then: before an exec, and behind it.
    text = system.sondectl('heap', '--by=process', '--percent-limit=0', system.path('children.syscap'))
    names = sorted(re.findall(r'%  +[^%]*  (\S+) \(pid \d+\)$', text, re.M))
    system.note(f'heaps of {names}')
    check(names.count('sqlite3') == 2 and 'heap-load' in names and 'bash' in names and '?' not in names, text[:2000])


def test_end(system):
    """20 rings that are nearly full are read to their last frame, however their program ends."""
    n_threads, n_pairs = 20, 20_000
    program = system.program('tests/system/leave')
    for way in 'exit', 'exec', 'kill':
        # The command is the shell: one that is killed would end the recording with its signal.
        counts, ledger = record(system, f'{way}.syscap', '--memory', WAIT, '--', 'sh', '-c',
                                f'{program} {way} {n_threads} {n_pairs}; :')
        system.note(f'{way}: {ledger}')
        check(ledger['lost'] == 0 and ledger['recorded'] >= 2 * n_threads * n_pairs, f'{way}: {ledger}')
        check(counts['HEAP_LOG_EVENT'] == ledger['recorded'], f"{way}: {counts['HEAP_LOG_EVENT']} frames")


# Half of them are killed when they have done something at least.
KILLER = '''import os, random, subprocess, sys, time
for i in range(int(sys.argv[3])):
    path = os.path.join(sys.argv[2], str(i))
    process = subprocess.Popen([sys.argv[1], path, "70" if i % 3 == 0 else "3"])
    while not os.path.exists(path) or (i % 2 and not any(open(path, "rb").read())):
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.05))
    process.kill()
    process.wait()
    os.rename(path, f"{path}-{process.pid}")
'''


def test_kills(system):
    """Processes are killed at any moment: what malloc() and free() had done by then is in the capture."""
    folder = system.path('killed')
    os.makedirs(folder, exist_ok=True)
    _, ledger = record(system, 'killed.syscap', '--memory', WAIT, '--', '/usr/bin/python3', '-S', '-c', KILLER,
                       system.program('tests/system/counted'), folder, str(N_KILLS))
    recorded = collections.defaultdict(lambda: [0, 0])
    live = set()
    for pid, address, size in re.findall(r'^ *ALLOCATION .*pid=(\d+) .*address=(\w+) size=(\d+)',
                                         system.sondectl('dump', system.path('killed.syscap')), re.M):
        if size == COUNTED_BYTES:
            live.add((pid, address))
            recorded[pid][0] += 1
        elif size == '0' and (pid, address) in live:
            live.remove((pid, address))
            recorded[pid][1] += 1
    n_done = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), 'rb') as file:
            counts = array.array('Q', file.read())
        of = name.partition('-')[2]
        for kind, done in enumerate((sum(counts[::2]), sum(counts[1::2]))):
            n_done += done
            check(done <= recorded[of][kind] <= done + len(counts) // 2, f'{name}: {recorded[of]}, {counts}')
    system.note(f'{len(os.listdir(folder))} killed, {n_done} events done: {ledger}')
    check(ledger['lost'] == 0 and n_done > 0 and len(os.listdir(folder)) == N_KILLS, ledger)


def main():
    system = System(13)
    os.environ['SONDE_MEMORY_LIBRARY'] = system.program('shared-ring/collector/memory/libsonde-memory.so')
    with system.case('with the wait no event is lost'):
        system.measure(test_wait)
    with system.case('by default it waits'):
        system.measure(test_default)
    with system.case('without it what is lost is counted by the program'):
        system.measure(test_drop)
    with system.case('what a program leaves in its rings is taken, however it ends'):
        system.measure(test_end)
    with system.case('of programs that are killed nothing is lost that was done'):
        system.measure(test_kills)
    with system.case('samples are as many as they should be'):
        system.measure(test_sampled)
    with system.case('sondectl heap agrees with valgrind'):
        system.measure(test_agreement)
    with system.case('a log and sums say what frames say'):
        system.measure(test_log)
    with system.case('log and sums know whose blocks a child frees'):
        system.measure(test_log_of_a_fork)
    with system.case('log and sums have children under their names'):
        system.measure(test_log_of_children)
    with system.case('sums are those of the log, of threads and of a child'):
        system.measure(test_sums)
    with system.case('of sums there are moments, but no events'):
        test_moments_of_sums(system)
    with system.case('children have heaps of their own'):
        system.measure(test_children)
    system.finish()


if __name__ == '__main__':
    main()
