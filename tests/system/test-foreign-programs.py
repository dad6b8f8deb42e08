#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The heap of programs that are not as their profiler, below record --memory: test-foreign-programs.py BUILD

What is recorded is exact; what is not is told of by name, in the capture and in the summary, and verify fails.
"""

import os
import re
import subprocess

from system import DEADLINE_S, Fault, System, check

WIDE = 'shared-ring/collector/memory/libsonde-memory.so'
NARROW = 'shared-ring/collector/memory/i386/libsonde-memory.so'
LIBDIRS = {WIDE: ['lib/x86_64-linux-gnu', 'lib64', 'lib/aarch64-linux-gnu'], NARROW: ['lib/i386-linux-gnu', 'lib32']}
N_BLOCKS, N_BYTES, KEPT = 1000, 500500, 777


def find_obstacle(system):
    """Why there is no 32-bit program to record."""
    if not os.path.exists(system.program(NARROW)):
        return 'no compiler for 32-bit programs was there'
    try:
        subprocess.run([system.program('tests/system/blocks-32-bit')], check=True, env={})
    except (OSError, subprocess.CalledProcessError) as error:
        return f'no 32-bit programs here: {error}'
    return None


def install(system, *libraries):
    """A path for LD_PRELOAD by which each kind of program finds its own."""
    folder = system.path(f'preload-{len(libraries)}')
    for library in libraries:
        for libdir in LIBDIRS[library]:
            os.makedirs(os.path.join(folder, libdir, 'sonde'))
            os.symlink(os.path.abspath(system.program(library)), os.path.join(folder, libdir, 'sonde/libsonde-memory.so'))
    return os.path.join(folder, '$LIB/sonde/libsonde-memory.so')


def record(system, name, *command):
    """What record printed, and what verify did, which may fail."""
    process = system.start_recording(name, '--event=none', '--memory', '--memory-wait=1000000', '--', *command)
    output, errors = process.communicate(timeout=DEADLINE_S)
    check(process.returncode == 0, f'record: exit status {process.returncode}\n{output}{errors}', Fault)
    verify = subprocess.run([system.program('client/sondectl'), 'verify', system.path(name)], capture_output=True, text=True,
                            timeout=DEADLINE_S, check=False)
    return output + errors, verify


def check_sums(text):
    sums = {line: tuple(int(number.replace(',', '')) for number in re.search(rf'^{line} +([\d,]+) bytes? .*in ([\d,]+) block', text, re.M).groups())
            for line in ('Allocated', 'Not freed')}
    check(sums == {'Allocated': (N_BYTES, N_BLOCKS), 'Not freed': (KEPT, 1)}, sums)


def test_narrow(system):
    os.environ['SONDE_MEMORY_LIBRARY'] = install(system, WIDE, NARROW)
    output, verify = record(system, 'narrow.syscap', system.program('tests/system/blocks-32-bit'))
    check(verify.returncode == 0 and 'none lost' in output and 'ld.so' not in output, f'{output}{verify.stdout}')
    text = system.sondectl('heap', '--fold-recursion=no', '--percent-limit=0', system.path('narrow.syscap'))
    check_sums(text)
    names = re.findall(r'^ *[\d.]+%.*?  ([a-z]\w+)  \S*blocks\.c:\d+$', text, re.M)
    check(names.count('go_deeper') >= 10 and 'main' in names and 'allocate_block' in names, text)


def test_both(system):
    """A 64-bit shell, and children of both kinds."""
    wide, narrow = (system.program(f'tests/system/blocks{suffix}') for suffix in ('', '-32-bit'))
    output, verify = record(system, 'both.syscap', 'sh', '-c', f'{wide}; {narrow}; :')
    check(verify.returncode == 0 and 'ld.so' not in output, f'{output}{verify.stdout}')
    text = system.sondectl('heap', '--percent-limit=0', system.path('both.syscap'))
    check(re.search(r' blocks \(pid', text) and re.search(r' blocks-32-bit \(pid', text), text)


def test_threads(system):
    """More than there are rings of their own, which then share some."""
    n_threads, n_pairs = 100, 1000
    output, verify = record(system, 'threads.syscap', system.program('tests/system/leave-32-bit'), 'exit', str(n_threads), str(n_pairs))
    check(verify.returncode == 0 and 'none lost' in output, f'{output}{verify.stdout}')
    n_events = system.dump_counts('threads.syscap')['HEAP_LOG_EVENT']
    check(n_events >= 2 * n_threads * n_pairs, f'{n_events} events')


def check_told(system, name, output, verify, word, said):
    check(verify.returncode != 0 and word in verify.stdout, f'verify: {verify.stdout}')
    check(re.search(rf'^Lost: 1 .*{said}', output, re.M) and 'none lost' not in output, output)
    dump = system.sondectl('dump', system.path(name))
    check(re.search(rf'LOG .*Missing: process \d+ \([\w-]+\) .*{word}', dump), 'no LOG frame')


def test_without_library(system):
    os.environ['SONDE_MEMORY_LIBRARY'] = install(system, WIDE)
    program = system.program('tests/system/blocks-32-bit')
    output, verify = record(system, 'without.syscap', 'sh', '-c', f'{program}; :')
    check_told(system, 'without.syscap', output, verify, 'is a 32-bit program', '32-bit')
    process = system.start_recording('refused.syscap', '--memory', '--', program)
    _, errors = process.communicate(timeout=DEADLINE_S)
    check(process.returncode == 125 and 'it is a 32-bit program' in errors, errors)


def test_static(system):
    program = system.program('tests/system/blocks-static')
    output, verify = record(system, 'static.syscap', 'sh', '-c', f'{program}; :')
    check_told(system, 'static.syscap', output, verify, 'is statically linked', 'statically linked')


def test_environment(system):
    program = system.program('tests/system/blocks')
    output, verify = record(system, 'bare.syscap', 'sh', '-c', f'env -i {program}; :')
    check_told(system, 'bare.syscap', output, verify, 'loaded no libsonde-memory', 'loaded no')


def main():
    system = System(6)
    os.environ['SONDE_MEMORY_LIBRARY'] = system.program(WIDE)
    with system.case('a static child is told of'):
        test_static(system)
    with system.case('a child without the environment is told of'):
        test_environment(system)
    obstacle = find_obstacle(system)
    for name, test in (('a 32-bit program has exact sums and its functions', test_narrow),
                       ('one environment serves programs of both kinds', test_both),
                       ('of 100 threads of a 32-bit program nothing is lost', test_threads),
                       ('a 32-bit child without a library for it is told of', test_without_library)):
        if obstacle:
            system.skip(name, obstacle)
            continue
        with system.case(name):
            test(system)
    system.finish()


if __name__ == '__main__':
    main()
