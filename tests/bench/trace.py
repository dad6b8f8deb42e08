#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a traced call costs: trace.py TRACER PROGRAM…

Loads of next to nothing, built without and with -finstrument-functions; the second one with glibc's own hooks, with the
tracer that has no region (idle), and with one in each of its modes. The same with -mfentry, and by clang without and with
sleds, where there are such programs. ns of entry and exit together, the least of some turns, for what disturbs a program
only makes it slower.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from trie_region import MODES, count_slabs, make_region  # noqa: E402

CALLS = 10_000_000
TURNS = 5
def run(program, form, tracer=None, mode=None):
    environment = dict(os.environ)
    fds = ()
    if tracer:
        environment['LD_PRELOAD'] = tracer
    if mode:
        fds = (make_region(mode),)
        environment['SONDE_TRACE_FD'] = str(fds[0])
    output = subprocess.run([program, form, str(CALLS)], env=environment, pass_fds=fds, check=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    slabs = count_slabs(fds[0]) if fds else 0
    for fd in fds:
        os.close(fd)
    if mode and slabs < 2:
        sys.exit(f'{program} was not traced')
    return float(output)


def main():
    tracer, *programs = sys.argv[1:]
    programs = {os.path.basename(program).removeprefix('trace-'): program for program in programs}
    instrumented = programs['instrumented']
    kinds = {'bare': (programs['bare'],), 'glibc': (instrumented,), 'idle': (instrumented, tracer)}
    kinds |= {mode: (instrumented, tracer, mode) for mode in MODES}
    if 'fentry' in programs:
        kinds |= {'fentry idle': (programs['fentry'], tracer), 'fentry': (programs['fentry'], tracer, 'auto')}
    if 'sleds' in programs:
        kinds |= {'clang': (programs['clang'],), 'sled idle': (programs['sleds'], tracer)}
        kinds |= {f'sled {mode}': (programs['sleds'], tracer, mode) for mode in MODES}
    least = {}
    for _ in range(TURNS):
        for form in ('flat', 'deep', 'wide'):
            for kind, (program, *rest) in kinds.items():
                ns = run(program, form, *rest)
                least[kind, form] = min(least.get((kind, form), ns), ns)
    print('ns a call        flat    deep    wide')
    for kind in kinds:
        print(f'{kind:12}' + ''.join(f'{least[kind, form]:8.1f}' for form in ('flat', 'deep', 'wide')))
    others = ''
    if 'fentry' in programs:
        others += f' fentry_flat_ns={least["fentry", "flat"]:.1f}'
    if 'sleds' in programs:
        others += (f' sled_flat_ns={least["sled auto", "flat"]:.1f}'
                   f' sled_idle_ns={least["sled idle", "flat"] - least["clang", "flat"]:.2f}')
    print('bench trace'
          f' auto_flat_ns={least["auto", "flat"]:.1f} auto_deep_ns={least["auto", "deep"]:.1f}'
          f' auto_wide_ns={least["auto", "wide"]:.1f} exact_flat_ns={least["exact", "flat"]:.1f}'
          f' idle_ns={least["idle", "flat"] - least["glibc", "flat"]:.2f}{others}')


main()
