#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time of threads adds up, and agrees with the kernel's own account: test-thread-times.py BUILD"""

import json
import os
import re
import signal
import struct
import subprocess
import time

from system import System, check, find_descendant, wait_until
from tap import Fault

STATES = ('on', 'runnable', 'blocked', 'switching', 'unknown')
SHARE = 0.005  # of what the kernel counts, that ours may be apart
SMALL_NS = 300_000  # or so much: the print itself, and the end
KERNEL = 0xFFFF800000000000
MARKERS = 4096  # the last page of addresses: context markers of stacks


def read_accounts(output):
    """What the program printed: name -> (tid, on ns, delay ns, slices)."""
    return {match[1]: tuple(int(match[i]) for i in range(2, 6))
            for match in re.finditer(r'^([\w-]+) (\d+) (\d+) (\d+) (\d+)$', output, re.M)}


def report(system, name, *options):
    return json.loads(system.sondectl('report', '--waits', '--json', *options, system.path(name)))


def check_sums(told):
    """To the nanosecond, of each group and of all."""
    for group in [told, *told['groups']]:
        total = sum(group[f'{state}-ns'] for state in STATES)
        check(total == group['life-ns'], f'{group}: {total} ns', Fault)
        check(group['unsplit-ns'] <= group['blocked-ns'], f'{group}', Fault)
    check(sum(group['life-ns'] for group in told['groups']) == told['life-ns'], f'{told}', Fault)


def is_between(least, kernels, most):
    slack = max(SHARE * kernels, SMALL_NS)
    return least - slack <= kernels <= most + slack


def record_with_errors(system, name, *arguments):
    """What the command said of it."""
    recording = system.start_recording(name, *arguments)
    output, errors = recording.communicate()
    check(recording.returncode == 0, f'{output}{errors}', Fault)
    return errors


def compare(system, name, output, prefix=()):
    """Every thread that printed its account."""
    told = report(system, name, '--by=thread')
    accounts = read_accounts(output)
    check(len(accounts) == 8, output, Fault)
    check_sums(told)
    check(told['unknown-ns'] == 0, f"unknown: {told['unknown-ns']} ns")
    threads = {group['tid']: group for group in told['groups']}
    del accounts['main']  # what it did before the recording began is in the kernel's account
    for thread, (tid, on_ns, delay_ns, slices) in accounts.items():
        check(tid in threads, f'{thread} is missing in {sorted(threads)}', Fault)
        ours = threads[tid]
        line = (f"{thread}: on {ours['on-ns']} + {ours['switching-ns']} / {on_ns}, runnable "
                f"{ours['runnable-ns']} / {delay_ns}, blocked {ours['blocked-ns']}, switches "
                f"{ours['switches']} / {slices}")
        print(f'# {line}')
        # Switches are time on for the kernel, interrupts are not.
        check(is_between(ours['on-ns'], on_ns, ours['on-ns'] + ours['switching-ns']), line)
        check(ours['switching-ns'] <= 50_000 * ours['switches'] + SHARE * 10 * on_ns, line)
        check(is_between(ours['runnable-ns'], delay_ns, ours['runnable-ns']), line)
        check(0 <= ours['switches'] - slices <= 8, line)


def test_stay(system):
    def once(_):
        _, output = system.record('stay', '--waits=times', '--', system.program('tests/system/thread-times'), 'stay')
        compare(system, 'stay', output)
    system.measure(once)


def test_load(system):
    """Two busy processes for each processor."""
    def once(_):
        burners = [subprocess.Popen(['sh', '-c', 'while :; do :; done']) for _ in range(4)]
        try:
            _, output = system.record('load', '--waits=times', '--', system.program('tests/system/thread-times'), 'stay')
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
        compare(system, 'load', output)
    system.measure(once)


def test_leave(system):
    system.record('leave', '--waits=times', '--', system.program('tests/system/thread-times'), 'leave')
    told = report(system, 'leave', '--by=thread')
    check_sums(told)
    check(told['unknown-ns'] == 0 and told['threads'] == 8, f'{told}')
    text = system.sondectl('report', '--waits', system.path('leave'))
    check(re.search(r'^Sum +\S+ s = on .* \+ runnable .* \+ blocked .* \+ switching .* \+ unknown 0 ns', text, re.M), text)
    check(re.search(r' thread-times, 8 threads$', text, re.M), text)


def test_exec(system):
    """The one that executes becomes the process's first thread, whose own has ended."""
    _, output = system.record('exec', '--waits=times', '--', system.program('tests/system/thread-times'), 'exec')
    told = report(system, 'exec', '--by=thread')
    check_sums(told)
    tid = read_accounts(output)['rest'][0]
    groups = {group['tid']: group for group in told['groups']}
    check(told['unknown-ns'] == 0 and told['threads'] == 2, f'{told}')
    check(tid in groups and groups[tid]['pid'] == tid, f'{groups}')
    other = next(group for number, group in groups.items() if number != tid)
    check(other['blocked-ns'] > 140_000_000, f'{other}')


def test_running(system):
    """Of a program that runs already, some threads of which sleep all the time."""
    program = subprocess.Popen([system.program('tests/system/thread-times'), 'stay'], stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(os.listdir(f'/proc/{program.pid}/task')) == 8, 'its threads')
        system.record('running', '--waits=times', '-d', '1', '-p', str(program.pid))
    finally:
        program.communicate()
    told = report(system, 'running', '--by=thread')
    check_sums(told)
    check(told['unknown-ns'] == 0 and told['threads'] == 8, f'{told}')
    check(any(group['blocked-ns'] > 0.9 * group['life-ns'] > 500_000_000 for group in told['groups']), f'{told}')


def test_lost(system):
    """While the worker does not read, records of switches find no room."""
    recording = system.start_recording('lost', '--waits=times', '--', system.program('tests/system/thread-times'),
                                       'switch', '3')
    worker = system.wait_for_worker(recording)
    program = wait_until(lambda: find_descendant(recording.pid, 'thread-times'), 'the program')
    time.sleep(1)
    os.kill(worker, signal.SIGSTOP)
    before_ns = time.monotonic_ns()
    for _ in range(30):
        time.sleep(0.02)
    os.kill(worker, signal.SIGCONT)
    gone_ns = time.monotonic_ns() - before_ns
    _, output = recording.communicate()
    system.sondectl('verify', system.path('lost'))
    told = report(system, 'lost', '--by=thread')
    check_sums(told)
    check(re.search(r'Lost: [\d,]+ switches of threads found no room', output), output)
    check(0 < told['unknown-ns'] <= 2 * gone_ns + 200_000_000, f'{told} in {gone_ns} ns')
    check('Lost ' in system.sondectl('report', '--waits', system.path('lost')), 'it is not said')
    check(program in {group['pid'] for group in told['groups']}, f'{told}')


def test_user(system):
    """Without any right but to his own processes."""
    folder = os.path.join(system.folder, 'user')
    os.mkdir(folder)
    os.chmod(system.folder, 0o755)
    os.chown(folder, 65534, 65534)
    prefix = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all',
              '--inh-caps=-all', '--no-new-privs')

    def once(_):
        name = 'user/own'
        _, output = system.record(name, '--waits=times', '--', system.program('tests/system/thread-times'), 'stay',
                                  prefix=prefix)
        compare(system, name, output)
        check_no_address(system.path(name))
    system.measure(once)


def check_no_address(path):
    """No word of a capture is an address of the kernel's, but for markers."""
    with open(path, 'rb') as file:
        data = file.read()
    data = data[:len(data) // 8 * 8]
    found = [word for word in struct.unpack(f'<{len(data) // 8}Q', data) if KERNEL <= word < 2 ** 64 - MARKERS]
    # Text and packed bytes may look so; kernel code and data begin in these two regions.
    found = [word for word in found if 0xFFFF888000000000 <= word < 0xFFFFC88000000000
             or 0xFFFFFFFF80000000 <= word < 0xFFFFFFFFFF000000]
    check(not found, f'{[hex(word) for word in found[:8]]}')


def test_system(system):
    """Of all processes, by events of whole processors."""
    def once(_):
        recording = system.start_recording('system', '--waits=times', '-a', '-F', '100')
        system.wait_for_samples('system')
        output = system.run(system.program('tests/system/thread-times'), 'leave')
        recording.send_signal(signal.SIGINT)
        system.finish_recording(recording, 'system')
        told = report(system, 'system', '--by=thread')
        check_sums(told)
        tids = {group['tid'] for group in told['groups']}
        for thread, (tid, *_) in read_accounts(output).items():
            check(tid in tids, f'{thread}: {tid}')
        check(0 not in tids, 'the idle thread')
        check(told['unknown-ns'] == 0, f"unknown: {told['unknown-ns']} ns")
    system.measure(once)


def test_words(system):
    """Who did not ask for it is told how."""
    output = record_with_errors(system, 'words', '--', 'sleep', '1.5')
    check('of that time: record --waits=times and report --waits tell what it did in the rest.' in output, output)
    result = subprocess.run([system.program('client/sondectl'), 'report', '--waits', system.path('words')],
                            capture_output=True, text=True, check=False)
    check(result.returncode == 1 and 'sondectl record --waits=times does' in result.stderr, result.stderr)
    result = subprocess.run([system.program('client/sondectl'), 'record', '-e', '--waits=wakers', '-o', '/dev/null', '--', 'true'],
                            capture_output=True, text=True, check=False)
    check(result.returncode != 0 and 'not one of off, times' in result.stderr, result.stderr)


def main():
    system = System(9)
    for name, case in (('what threads did is their life, and what the kernel accounts to them', test_stay),
                       ('under load, too', test_load),
                       ('threads that end add up', test_leave),
                       ('a thread that executes a program goes on', test_exec),
                       ('threads that exist already have a state', test_running),
                       ('what was lost is unknown, and no more', test_lost),
                       ('an ordinary user has it of his own programs, and no address', test_user),
                       ('the whole machine adds up', test_system),
                       ('a recording that waited says how to see where', test_words)):
        with system.case(name):
            case(system)
    system.finish()


main()
