#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a traced call costs: trace.py TRACER PROGRAM…

Loads of next to nothing, built without and with -finstrument-functions; the second one with glibc's own hooks, with the
tracer that has no region (idle), with one in each of its modes, and below uftrace. The same with -mfentry, and by clang
without and with sleds, and with LLVM's own runtime for these, in its profiling mode and its flight data recorder, where
there are such programs. ns of entry and exit together, the least of some interleaved turns, for what disturbs a program
only makes it slower. Ratios are of what a call takes above one that is not traced.
"""
import ctypes
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from trie_region import EPOCH_AT, MODE_AT, MODES, N_SWITCHES_AT, count_slabs, make_region  # noqa: E402

CALLS, CALLS_OF_OTHERS = 10_000_000, 1_000_000
TURNS = 5
FORMS = ('flat', 'deep', 'wide')
N_SWITCHES = 40
SYS_FUTEX, FUTEX_WAKE = 202, 1


def measure(command, form, calls, environment=(), fds=()):
    """What the load prints, ns a call."""
    output = subprocess.run([*command, form, str(calls)], env=dict(os.environ) | dict(environment), pass_fds=fds, check=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return float(output)


def run_traced(program, form, tracer=None, mode=None):
    environment = {'LD_PRELOAD': tracer} if tracer else {}
    fds = ()
    if mode:
        fds = (make_region(mode),)
        environment['SONDE_TRACE_FD'] = str(fds[0])
    ns = measure([program], form, CALLS, environment, fds)
    slabs = count_slabs(fds[0]) if fds else 0
    for fd in fds:
        os.close(fd)
    if mode and slabs < 2:
        sys.exit(f'{program} was not traced')
    return ns


def run_uftrace(program, form):
    folder = tempfile.mkdtemp(prefix='sonde-bench-')
    try:
        ns = measure(['uftrace', 'record', '--no-libcall', '-d', f'{folder}/data', '--', program], form, CALLS_OF_OTHERS)
        if sum(entry.stat().st_size for entry in os.scandir(f'{folder}/data')) < CALLS_OF_OTHERS:
            sys.exit('uftrace recorded nothing')
    finally:
        shutil.rmtree(folder)
    return ns


def run_xray(program, form, mode):
    return measure([program], form, CALLS_OF_OTHERS, {'TRACE_XRAY_MODE': mode})


def sum_cpu_ns(pid):
    total = 0
    for thread in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{thread}/schedstat', encoding='ascii') as file:
            total += int(file.read().split()[0])
    return total


def measure_switches(program, tracer):
    """(ms, ms) of processor time that switching the sleds of a program that sleeps on and off takes in it, the least."""
    libc = ctypes.CDLL(None)
    fd = make_region('off')
    least = [1e9, 1e9]
    with mmap.mmap(fd, 4096) as header, \
            subprocess.Popen([program], env=dict(os.environ) | {'LD_PRELOAD': tracer, 'SONDE_TRACE_FD': str(fd)},
                             pass_fds=(fd,), stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        epoch = ctypes.c_uint32.from_buffer(header, EPOCH_AT)
        for turn in range(N_SWITCHES):
            time.sleep(.02)
            before = sum_cpu_ns(process.pid)
            n_switches = struct.unpack_from('<I', header, N_SWITCHES_AT)[0]
            struct.pack_into('<I', header, MODE_AT, MODES['auto' if turn % 2 == 0 else 'off'])
            epoch.value += 1
            libc.syscall(SYS_FUTEX, ctypes.byref(epoch), FUTEX_WAKE, 1, None, None, 0)
            end = time.monotonic() + 10
            while struct.unpack_from('<I', header, N_SWITCHES_AT)[0] == n_switches:
                if time.monotonic() > end:
                    process.kill()
                    sys.exit('sleds were not switched')
                time.sleep(.002)
            time.sleep(.005)
            least[turn % 2] = min(least[turn % 2], (sum_cpu_ns(process.pid) - before) / 1e6)
        del epoch
        process.kill()
    os.close(fd)
    return least


def list_kinds(tracer, programs):
    """{what is measured: (how, with what)}"""
    instrumented = programs['instrumented']
    kinds = {'bare': (run_traced, programs['bare']), 'glibc': (run_traced, instrumented),
             'idle': (run_traced, instrumented, tracer)}
    kinds |= {mode: (run_traced, instrumented, tracer, mode) for mode in ('count', 'auto', 'exact')}
    if shutil.which('uftrace'):
        kinds['uftrace'] = run_uftrace, instrumented
    if 'fentry' in programs:
        kinds |= {'fentry idle': (run_traced, programs['fentry'], tracer), 'fentry': (run_traced, programs['fentry'], tracer, 'auto')}
    if 'sleds' in programs:
        kinds |= {'clang': (run_traced, programs['clang']), 'sled idle': (run_traced, programs['sleds'], tracer)}
        kinds |= {f'sled {mode}': (run_traced, programs['sleds'], tracer, mode) for mode in ('count', 'auto', 'exact')}
    if 'xray' in programs:
        kinds |= {'XRay': (run_xray, programs['xray'], 'xray-profiling'), 'XRay FDR': (run_xray, programs['xray'], 'xray-fdr')}
    return kinds


def main():
    tracer, *programs = sys.argv[1:]
    programs = {os.path.basename(program).removeprefix('trace-'): program for program in programs}
    kinds = list_kinds(tracer, programs)
    least = {}
    for _ in range(TURNS):
        for form in FORMS:
            for kind, (run, program, *rest) in kinds.items():
                ns = run(program, form, *rest)
                least[kind, form] = min(least.get((kind, form), ns), ns)
    print('ns a call        flat    deep    wide')
    for kind in kinds:
        print(f'{kind:12}' + ''.join(f'{least[kind, form]:8.1f}' for form in FORMS))

    keys = {'auto_flat_ns': least['auto', 'flat'], 'auto_deep_ns': least['auto', 'deep'], 'auto_wide_ns': least['auto', 'wide'],
            'exact_flat_ns': least['exact', 'flat'], 'idle_ns': least['idle', 'flat'] - least['glibc', 'flat']}
    if 'fentry' in programs:
        keys['fentry_flat_ns'] = least['fentry', 'flat']
    if 'sleds' in programs:
        keys |= {'sled_flat_ns': least['sled auto', 'flat'], 'sled_deep_ns': least['sled auto', 'deep'],
                 'sled_wide_ns': least['sled auto', 'wide'],
                 'sled_idle_ns': least['sled idle', 'flat'] - least['clang', 'flat']}
        keys['attach_ms'], keys['detach_ms'] = measure_switches(programs['many'], tracer)
    # Of others: how many times as much they take.
    for key, other, mine, bare in (('uftrace', 'uftrace', 'auto', 'bare'), ('exact_uftrace', 'uftrace', 'exact', 'bare'),
                                   ('xray', 'XRay', 'sled auto', 'clang'), ('exact_xray', 'XRay', 'sled exact', 'clang'),
                                   ('fdr', 'XRay FDR', 'sled auto', 'clang')):
        for form in FORMS if other in kinds else ():
            suffix = '' if form == 'flat' else f'_{form}'
            keys[f'{key}{suffix}_x'] = (least[other, form] - least[bare, form]) / (least[mine, form] - least[bare, form])
    print('bench trace ' + ' '.join(f'{key}={value:.2f}' for key, value in keys.items()))


main()
