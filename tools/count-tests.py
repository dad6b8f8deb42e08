#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the test cases in logs of `meson test`: count-tests.py [OPTION…] BUILD:SUITE:LOG…

Every TAP line counts. A program that died, timed out or printed no plan counts as one failure more,
whatever its cases said. Exits with 1 if anything failed, if a suite that may not skip did, or if
nothing ran.
"""

import argparse
import collections
import json
import re
import sys

CASE = re.compile(r'^(not )?ok\b(?: \d+)?(?:\s*-)?\s*([^#]*)(?:#\s*(skip|todo)\b\s*(.*))?', re.I)
PLAN = re.compile(r'^1\.\.(\d+)(?:\s*#\s*skip\b\s*(.*))?', re.I)


def read_cases(stdout):
    """Yields ('passed' | 'failed' | 'skipped', text) for the TAP in stdout."""
    n_planned = n_seen = 0
    for line in stdout.splitlines():
        plan = PLAN.match(line)
        if plan:
            n_planned = int(plan[1])
            if n_planned == 0:
                yield 'skipped', plan[2] or 'the whole program'
        case = CASE.match(line)
        if not case:
            continue
        n_seen += 1
        bad, name, directive, reason = case.groups()
        if directive and directive.lower() == 'skip':
            yield 'skipped', f'{name.strip()}: {reason}'
        elif bad and not directive:
            yield 'failed', name.strip()
        else:
            yield 'passed', name.strip()
    if n_seen < n_planned:
        yield 'failed', f'{n_planned - n_seen} of {n_planned} cases never ran'


def read_test(entry):
    cases = list(read_cases(entry['stdout']))
    if entry['result'] == 'SKIP' and not cases:
        cases.append(('skipped', 'the whole program'))
    elif entry['result'] == 'OK' and not cases:
        cases.append(('passed', ''))
    elif entry['result'] not in ('OK', 'SKIP') and not any(kind == 'failed' for kind, _ in cases):
        cases.append(('failed', f"{entry['result']}, exit status {entry['returncode']}"))
    return cases


def read_log(path):
    """A log is missing where a suite has no test in that build: meson writes none."""
    try:
        with open(path, encoding='utf-8') as log:
            return [json.loads(line) for line in log]
    except FileNotFoundError:
        return []


def print_output(entry):
    """The end of what a failed program said; sanitizers speak on stderr."""
    for stream in ('stdout', 'stderr'):
        lines = [line for line in entry.get(stream, '').splitlines() if not line.startswith('ok ')]
        for line in lines[-80:]:
            print(f'    {line}')


def print_figures(entry):
    for line in entry['stdout'].splitlines():
        if CASE.match(line) or line.startswith('# '):
            print(f'    {line}')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--may-skip', action='append', default=[], metavar='SUITE')
    parser.add_argument('--figures', action='append', default=[], metavar='SUITE',
                        help='show the diagnostics of this suite')
    parser.add_argument('logs', nargs='+', metavar='BUILD:SUITE:LOG')
    args = parser.parse_args()

    total = collections.Counter()
    failures = []
    ok = True
    print()
    for build, suite, path in (log.split(':', 2) for log in args.logs):
        counts = collections.Counter()
        for entry in read_log(path):
            cases = read_test(entry)
            for kind, text in cases:
                counts[kind] += 1
                if kind != 'passed':
                    line = f"{kind}: {build}: {entry['name'].split(' / ')[-1]}: {text}"
                    print(line)
                    if kind == 'failed':
                        failures.append(line)
            if any(kind == 'failed' for kind, _ in cases):
                print_output(entry)
            elif suite in args.figures:
                print_figures(entry)
        print(f"{build + ':':10}{suite:8}{counts['passed']:5} passed, {counts['failed']} failed, "
              f"{counts['skipped']} skipped")
        if not counts:
            print(f'failed: {build}: suite {suite} ran nothing')
            ok = False
        if counts['failed'] or counts['skipped'] and suite not in args.may_skip:
            ok = False
        total += counts
    # Whoever sees only the end of the output sees what failed.
    for line in failures:
        print(line)
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 0 if ok and total['passed'] else 1


if __name__ == '__main__':
    sys.exit(main())
