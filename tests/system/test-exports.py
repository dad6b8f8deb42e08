#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other programs read what sondectl exports, to the sample: test-exports.py BUILD SOURCE"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys

from system import DEADLINE_S, System, check

PROGRAM = '''
import json
def work(n):
    return [json.dumps(list(range(100))) for _ in range(n)]
def main():
    for _ in range(60):
        work(250)
main()
'''


def install_packages(system, source):
    """Those of tests/export, at the versions in its lock file; why not, or None."""
    folder = system.path('node')
    if not shutil.which('npm'):
        return 'npm is not there'
    os.mkdir(folder)
    for name in ('package.json', 'package-lock.json'):
        shutil.copy(os.path.join(source, 'tests/export', name), folder)
    result = subprocess.run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], cwd=folder, capture_output=True,
                            text=True, timeout=DEADLINE_S, check=False)
    return None if result.returncode == 0 else 'npm ci: ' + result.stderr.strip().split('\n')[-1]


def main():
    system = System(8)
    source = sys.argv[2]
    capture, _ = system.record('x.syscap', '--counters', 'cpu,memory,process', '--', '/usr/bin/python3', '-c', PROGRAM)
    report = json.loads(system.sondectl('report', '--json', '-l', '0', system.path('x.syscap')))
    total = sum(process['total'] for process in report['processes'])
    check(total == capture.counts['SAMPLE'], 'the report has all samples')
    system.note(f'{total} samples')
    obstacle = install_packages(system, source)

    def export(form, *arguments):
        path = system.path(form)
        system.sondectl('export', '-f', form, '-o', path, *arguments, system.path('x.syscap'))
        return path

    def check_with_node(form):
        name = f'{form} is read by what others wrote, or keeps their rules'
        if obstacle:
            system.skip(name, obstacle)
            return
        with system.case(name):
            result = subprocess.run(['node', os.path.join(source, 'tests/export/check.mjs'), form, export(form)],
                                    cwd=system.path('node'), capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            check(result.returncode == 0, result.stderr)
            found = json.loads(result.stdout)
            check(found['total'] == total, f"{found['total']} samples")
            check('_PyEval_EvalFrameDefault' in found['names'], 'names are missing')

    check_with_node('speedscope')
    check_with_node('pprof')
    check_with_node('firefox')

    with system.case('folded stacks add up'):
        stacks = collections.Counter()
        with open(export('folded'), encoding='utf-8') as file:
            for line in file:
                # As flamegraph.pl: all before the last number.
                stack, weight = re.fullmatch(r'(.*)\s+?(\d+(?:\.\d*)?)\n', line).groups()
                stacks[stack] += int(weight)
        check(sum(stacks.values()) == total, f'{sum(stacks.values())} samples')
        check(len(stacks) > 10 and all(stack.count(';') >= 1 for stack in stacks), 'stacks are short')

    with system.case('perf script\'s text has as many samples'):
        with open(export('perf-script'), encoding='utf-8') as file:
            blocks = file.read().split('\n\n')[:-1]
        # As stackcollapse-perf.pl: a line for the event, then the frames.
        heads = [re.match(r'(\S.+?)\s+(\d+)/*(\d+)*\s+', block) for block in blocks]
        frames = [re.match(r'\s*(\w+)\s*(.+) \((.*)\)', line) for block in blocks for line in block.split('\n')[1:]]
        check(len(blocks) == total and all(heads) and all(frames), f'{len(blocks)} blocks')

    with system.case('the trace has samples, slices and counters'):
        with open(export('chrome'), encoding='utf-8') as file:
            trace = json.load(file)
        phases = collections.Counter(event['ph'] for event in trace['traceEvents'])
        system.note(', '.join(f'{phase} {n}' for phase, n in sorted(phases.items())))
        samples = [event for event in trace['traceEvents'] if event['ph'] == 'P']
        check(len(samples) == total, f'{len(samples)} samples')
        check(all(str(event['sf']) in trace['stackFrames'] for event in samples if 'sf' in event), 'a stack is missing')
        check(all(str(frame['parent']) in trace['stackFrames'] for frame in trace['stackFrames'].values() if 'parent' in frame),
              'a caller is missing')
        counters = {event['name'] for event in trace['traceEvents'] if event['ph'] == 'C'}
        check({'Memory/Used', 'CPU Percent/Combined'} <= counters, f'{counters}')
        check(phases['X'] > 50 and all(event['dur'] >= 0 for event in trace['traceEvents'] if event['ph'] == 'X'), 'slices')

    name = "Google's protoc takes the packets of Perfetto apart"
    if not shutil.which('protoc'):
        system.skip(name, 'protobuf-compiler is not there')
    else:
        with system.case(name):
            with open(export('perfetto'), 'rb') as file:
                text = subprocess.run(['protoc', '--decode_raw'], stdin=file, capture_output=True, text=True, check=True).stdout
            # perf_sample and track_event of TracePacket
            n_samples, n_events = text.count('\n  66 {\n'), text.count('\n  11 {\n')
            check(n_samples == total, f'{n_samples} samples')
            check(n_events > 10 and '_PyEval_EvalFrameDefault' in text, f'{n_events} values of counters')

    name = 'Graphviz draws the graph'
    if not shutil.which('dot'):
        system.skip(name, 'graphviz is not there')
    else:
        with system.case(name):
            drawing = system.run('dot', '-Tsvg', export('dot'))
            check('_PyEval_EvalFrameDefault' in drawing and '</svg>' in drawing, 'nothing is drawn')

    system.finish()


main()
