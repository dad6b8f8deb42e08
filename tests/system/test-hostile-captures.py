#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who reads a capture ends, with an answer or a reason, whatever it asks for: test-hostile-captures.py BUILD

Each command is given each capture of tests/lib/hostile_captures.py, one after the other; without SONDE_TEST_LONG=1 those that
keep most of it, and of the exports one in turn. One runs on each processor. Needs no root."""

import concurrent.futures
import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import hostile_captures  # noqa: E402
from tap import Tap, check  # noqa: E402

MAX_CPU_S = 10
MAX_RSS_KIB = 1 << 20
SLOWNESS = 4  # of another machine, or a busy one
FORMATS = ['folded', 'speedscope', 'firefox', 'pprof', 'perfetto', 'chrome', 'perf-script', 'dot', 'cpuprofile',
           'heapprofile', 'heaptrack']
COMMANDS = [
    ['report', '--json', '--percent-limit=0', '{}'],
    ['flamegraph', '-o', '{out}', '{}'],
    ['diff', '--no-pager', '{}', '{}'],
    ['heap', '--json', '--percent-limit=0', '{}'],
    ['archive', '-o', '{out}', '{}'],
]
MORE = [
    ['report', '--no-pager', '{}'],
    ['report', '--no-pager', '--bottom-up', '{}'],
    ['report', '--no-pager', '--percent-limit=0', '{}'],
    ['report', '--no-pager', '--by=thread', '{}'],
    ['report', '--no-pager', '--by=process', '{}'],
    ['report', '--no-pager', '--by=module', '{}'],
    ['flamegraph', '--diff', '{}', '-o', '{out}', '{}'],
    ['flamegraph', '--svg', '-o', '{out}', '{}'],
    ['heap', '--no-pager', '{}'],
    ['heap', '--no-pager', '--diff', '{}', '{}'],
    ['verify', '{}'],
    ['dump', '{}'],
    ['dump', '--counts', '{}'],
]


class Reader:
    def __init__(self, build, folder):
        self.build = build
        self.capture = os.path.join(folder, 'hostile.syscap')
        self.out = os.path.join(folder, 'out')
        self.worst = []

    def run(self, program, *arguments, number=0):
        """Whether it succeeded; some leave their output in self.out. Those with other numbers may run at the same time."""
        out_path = f'{self.out}-{number}' if number else self.out
        command = [os.path.join(self.build, program)] + [word.replace('{out}', out_path).replace('{}', self.capture)
                                                         for word in arguments]
        keep = '--json' in arguments or program != 'client/sondectl'
        limit = MAX_CPU_S * SLOWNESS
        with open(out_path, 'wb') as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out if keep else subprocess.DEVNULL, stderr=err)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            complaint = err.read().decode()
        seconds = usage.ru_utime + usage.ru_stime
        what = ' '.join([os.path.basename(program), *arguments]).replace('{out}', 'OUT').replace('{}', 'FILE')
        self.worst.append((seconds, usage.ru_maxrss, what))
        check(process.returncode in (0, 1, 2), f'{what}: exit status {process.returncode} after {seconds:.1f} s of CPU time, '
              f'{usage.ru_maxrss >> 10} MiB\n{complaint}')
        check(usage.ru_maxrss <= MAX_RSS_KIB, f'{what} took {usage.ru_maxrss >> 10} MiB')
        check(process.returncode == 0 or complaint or arguments[0] == 'verify', f'{what}: no reason')
        return process.returncode == 0


def read_report(path):
    """Its samples; its other members, but for those of the call tree; what is not as it should be."""
    with open(path, encoding='utf-8') as file:
        report = json.load(file)
    total = sum(process['total'] for process in report['processes'])
    names = {function['name'] for function in report['functions']} | {process['comm'] for process in report['processes']}
    told = bool(set(report['truncated']) & {'nodes', 'addresses', 'function-text', 'processes', 'spaces'})
    faults = []
    if not report['total'] == report['samples'] == total:
        faults.append(f"{report['samples']} samples, {report['total']} in all, {total} in processes")
    if any(sum(node['self'] for node in process['nodes']) > process['total'] for process in report['processes']):
        faults.append('a process has less than its functions')
    if told != ('[truncated]' in names):
        faults.append(f"{report['truncated']}, and [truncated] is {'missing' if told else 'there'}")
    return total, report['truncated'], faults


def check_sums(reader, helper):
    """What was cut off is told, and is in the sums."""
    if not reader.run('client/sondectl', *COMMANDS[0]):
        return
    total, truncated, faults = helper.apply(read_report, [reader.out])
    check(not faults, '; '.join(faults))
    reader.run('tests/system/profile-file', '{}')
    with open(reader.out, encoding='utf-8') as file:
        text = file.read()
    match = re.fullmatch(r'(\d+) samples, (\d+) in trees; truncated: (.*)\n', text)
    check(match and match[1] == match[2] == str(total), text)
    check((match[3] != 'nothing') == bool(truncated), f'{match[3]}, but {truncated}')


def main():
    captures = hostile_captures.ALL
    tap = Tap(len(captures))
    # a program begins with the mark of memory of who starts it: what takes much is done elsewhere
    with tempfile.TemporaryDirectory(prefix='sonde-hostile-') as folder, \
            multiprocessing.get_context('spawn').Pool(1, maxtasksperchild=1) as helper, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as readers:
        os.environ['XDG_CACHE_HOME'] = folder
        reader = Reader(sys.argv[1], folder)
        for i, make in enumerate(captures):
            with tap.case(make.__doc__):
                helper.apply(hostile_captures.write, [make, reader.capture])
                check_sums(reader, helper)
                is_long = 'SONDE_TEST_LONG' in os.environ
                formats = FORMATS if is_long else [FORMATS[i % len(FORMATS)]]
                commands = COMMANDS[1:] + (MORE if is_long else []) + [['export', '--format', name, '{}'] for name in formats]
                for run in [readers.submit(reader.run, 'client/sondectl', *command, number=number)
                            for number, command in enumerate(commands, 1)]:
                    run.result()
            if not reader.worst:
                continue
            seconds, _, slowest = max(reader.worst)
            size, largest = max((size, what) for _, size, what in reader.worst)
            tap.note(f'{slowest}: {seconds:.1f} s; {largest}: {size >> 10} MiB')
            reader.worst.clear()
    tap.finish()


if __name__ == '__main__':
    main()
