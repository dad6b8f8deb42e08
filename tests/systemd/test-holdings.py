#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Live processes hold what docs/security.md says: test-holdings.py BUILD SECURITY_MD"""

import contextlib
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time

from inside import DEADLINE_S, User, broker_units, check, processes, run, wait_until, worker_units
from tap import Tap

CAPABILITIES = {2: 'dac_read_search', 19: 'sys_ptrace', 34: 'syslog', 38: 'perfmon', 39: 'bpf', 40: 'checkpoint_restore'}
COUNTERS = 'cpu,memory,network,disk,process'  # all there are: each a text that the worker reads over and over
SYSTEMD = 'org.freedesktop.systemd1'
NAMESPACES = ('cgroup', 'ipc', 'mnt', 'net', 'pid', 'time', 'user', 'uts')
# What descriptors may lead to, by the names of the table.
KINDS = {
    'null': r'/dev/null',
    'journal': r'socket:.*', 'bus': r'socket:.*', 'spare-broker': r'socket:.*', 'spare-worker': r'socket:.*',
    'broker': r'socket:.*', 'worker': r'socket:.*', 'control': r'socket:.*',
    'reader': r'socket:.*',
    'eventfd': r'anon_inode:\[eventfd\]',
    'perf-event': r'anon_inode:\[perf_event\]',
    'walk-program': r'anon_inode:bpf-(map|prog)',
    'timer': r'anon_inode:\[timerfd\]',
    'pidfd': r'anon_inode:\[pidfd\]',
    'state-folders': r'/var/lib/sonde/(captures|owners)',
    'vdso': r'/memfd:vdso \(deleted\)',
    'file': r'/usr/(s?bin|lib)/.*',
    'counter-text': r'/proc/(stat|meminfo|diskstats|\d+/net/dev|\d+/stat)',
}


def read_table(path):
    """{row: {process: value}}"""
    with open(path, encoding='utf-8') as file:
        section = file.read().split('## What each process holds')[1]
    rows = [[cell.strip() for cell in line.strip('|').split('|')]
            for line in re.findall(r'^\|.*\|$', section, re.M)]
    names = [name.strip('`') for name in rows[0][1:]]
    return {row[0]: dict(zip(names, row[1:])) for row in rows[2:]}


def read_status(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as file:
        return dict(line.rstrip('\n').split(':\t', 1) for line in file if ':\t' in line)


def names_of(mask):
    bits = [bit for bit in range(64) if int(mask, 16) >> bit & 1]
    return {CAPABILITIES.get(bit, f'number {bit}') for bit in bits}


def read_maps(pid):
    with open(f'/proc/{pid}/maps', encoding='utf-8') as file:
        return file.read()


def words(cell):
    return set() if cell == 'none' else set(cell.split())


def own_namespaces(pid):
    return {name for name in NAMESPACES
            if os.readlink(f'/proc/{pid}/ns/{name}') != os.readlink(f'/proc/1/ns/{name}')}


def descriptors(pid):
    found = []
    for number in os.listdir(f'/proc/{pid}/fd'):
        try:
            found.append(os.readlink(f'/proc/{pid}/fd/{number}'))
        except OSError:
            pass  # closed meanwhile
    return sorted(found)


def check_descriptors(table, name, pid, *rows):
    """What is open while one question is answered, such as a text of /proc, is closed a moment later."""
    allowed = [KINDS[kind] for row in rows for kind in words(table[row][name])]
    foreign = set(descriptors(pid))
    end = time.monotonic() + DEADLINE_S
    while foreign and time.monotonic() < end:
        foreign = {link for link in foreign.intersection(descriptors(pid))
                   if not any(re.fullmatch(kind, link) for kind in allowed)}
        time.sleep(0.02)
    check(not foreign, f'{name} has {foreign}')


def check_process(table, name, pid):
    status = read_status(pid)
    uids = set(status['Uid'].split())
    check(len(uids) == 1, f'uids {uids}')
    user = table['uid'][name].strip('`')
    numbers = list(map(int, re.findall(r'\d+', user))) or [pwd.getpwnam(user).pw_uid]
    check(numbers[0] <= int(uids.pop()) <= numbers[-1], f"{name}: uid {status['Uid']}")
    for key, row in (('CapEff', 'capabilities in effect (`CapEff`)'),
                     ('CapPrm', 'capabilities it may raise (`CapPrm`, `CapBnd`)'),
                     ('CapBnd', 'capabilities it may raise (`CapPrm`, `CapBnd`)')):
        check(names_of(status[key]) == words(table[row][name]), f'{name}: {key} is {names_of(status[key])}')
    check(names_of(status['CapInh']) | names_of(status['CapAmb']) == set(), f'{name} inherits capabilities')
    for key, row in (('NoNewPrivs', 'new privileges (`NoNewPrivs`)'),
                     ('Seccomp', 'system calls filtered (`Seccomp`)')):
        check(status[key] == table[row][name], f'{name}: {key} is {status[key]}')
    check(own_namespaces(pid) == words(table['namespaces of its own'][name]),
          f'{name}: namespaces {own_namespaces(pid)}')


def read_opened(path):
    """The expressions of the table of what sonded opens."""
    with open(path, encoding='utf-8') as file:
        section = file.read().split('**What `sonded` opens.**')[1].split('\n**')[0]
    names = [name for row in re.findall(r'^\| (`.*?) \|', section, re.M) for name in re.findall(r'`(.*?)`', row)]
    return [re.escape(name).replace('PID', r'\d+') + ('.*' if len(name) > 1 and name.endswith('/') else '') for name in names]


def named_files(line):
    """In a line of strace -y, by their whole names."""
    # What a link says is not looked for.
    line = re.sub(r'(readlink\("[^"]*",|readlink resumed>,?) ?"[^"]*"', r'\1', line)
    for folder, name in re.findall(r'<(/[^>]*)>, "([^"]+)"', line) or re.findall(r'()"(/[^"]*)"', line):
        yield os.path.normpath(os.path.join(folder, name))


@contextlib.contextmanager
def traced(pid, path):
    strace = subprocess.Popen(['strace', '-f', '-y', '-e', 'trace=%file,connect,sendto,sendmsg', '-o', path, '-p', str(pid)],
                              stderr=subprocess.DEVNULL)
    wait_until(lambda: read_status(pid)['TracerPid'] != '0', 'strace')
    try:
        yield
    finally:
        strace.terminate()
        strace.wait()


def use_service(user, target):
    """As many do, and as some try to."""
    user.record('traced.syscap', '-d', '0.2', '-p', target)
    user.record('traced.syscap', '--', 'true')
    for arguments in (['-p', target], ['-a'], ['--unit=dbus.service']):
        run('sondectl', 'start', '-d', '0.2', *arguments)
    subprocess.run(['sondectl', 'start', '-a'], capture_output=True, timeout=DEADLINE_S, check=False, **user.options)
    wait_until(lambda: 'running' not in run('sondectl', 'list'), 'the end of all sessions')
    for arguments in (['events'], ['limits'], ['list', '--captures']):
        run('sondectl', *arguments)
    run('sondectl', 'rm', json.loads(run('sondectl', 'list', '--captures', '--json'))['captures'][0]['name'])
    run('systemctl', 'reload', 'sonded')


def systemd_does(unit, method, *arguments):
    """Whether it does it for the user of sonded."""
    path = run('busctl', 'call', SYSTEMD, '/org/freedesktop/systemd1', f'{SYSTEMD}.Manager', 'LoadUnit', 's', unit).split('"')[1]
    result = subprocess.run(['busctl', 'call', SYSTEMD, path, f'{SYSTEMD}.Unit', method, *arguments], user='sonde', group='sonde',
                            extra_groups=[], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                            check=False)
    check(result.returncode == 0 or 'authentication required' in result.stderr, result.stderr)
    return result.returncode == 0


def check_asked(unit, *allowed):
    """systemd does that, and nothing else."""
    calls = {'Ref': [], 'Kill': ['si', 'all', str(int(signal.SIGCONT))], 'SetProperties': ['ba(sv)', 'true', '1', 'CPUWeight', 't', '100'],
             'ResetFailed': [], 'Start': ['s', 'replace'], 'Restart': ['s', 'replace'], 'Stop': ['s', 'replace']}
    done = {method for method, arguments in calls.items() if systemd_does(unit, method, *arguments)}
    check(done == set(allowed), f'{unit}: {done}')


def next_spare(units, name, *others):
    """The only process called so, once none of others is left: a moment after its session has ended a worker is the only
    one, too, since the next spare one starts half a second after the session began."""
    def spare():
        found = processes(name)
        return found if len(found) == len(units()) == 1 and not set(found) & set(others) else None
    wait_until(spare, f'a spare {name}')
    pid, = processes(name)
    return pid


def main():
    tap = Tap(11)
    table = read_table(sys.argv[2])
    alice = User('alice')
    target = alice.start('bash', '-c', 'while :; do :; done')
    run('systemctl', 'start', 'sonded')
    first_broker, first_worker = next_spare(broker_units, 'sonde-broker'), next_spare(worker_units, 'sonde-capture')
    # What sonded opens once is open after the first session.
    alice.record('first.syscap', '-d', '0.2', '-p', str(target.pid))
    sonded, = processes('sonded')
    broker = next_spare(broker_units, 'sonde-broker', first_broker)
    spare = next_spare(worker_units, 'sonde-capture', first_worker)
    at_rest = 'descriptors at rest'

    with tap.case('sonded holds what is written, before and between sessions'):
        check_process(table, 'sonded', sonded)
        check_descriptors(table, 'sonded', sonded, at_rest)
        before = descriptors(sonded)
        tap.note(f'{len(before)} descriptors')

    with tap.case('a broker that nobody needs yet holds what is written'):
        wait_until(lambda: any('eventfd' in link for link in descriptors(broker)), 'the loop of the broker')
        check_process(table, 'sonde-broker', broker)
        check_descriptors(table, 'sonde-broker', broker, at_rest)

    with tap.case('a worker that nobody needs yet holds what is written'):
        # Its loop, which comes after all it gives up.
        wait_until(lambda: any('eventfd' in link for link in descriptors(spare)), 'the loop of the worker')
        check_process(table, 'sonde-capture', spare)
        check_descriptors(table, 'sonde-capture', spare, at_rest)

    recording = alice.start_recording('second.syscap', f'--counters={COUNTERS}', '-p', str(target.pid))
    alice.wait_for_capture('second.syscap')
    wait_until(lambda: any('libc.so' in link for link in descriptors(spare)), 'the first sample')
    with tap.case('all hold what is written in a session'):
        for name, pid in (('sonded', sonded), ('sonde-broker', broker), ('sonde-capture', spare)):
            check_process(table, name, pid)
            check_descriptors(table, name, pid, at_rest, 'descriptors in a session')
        # It opens them in its own time, and others of /proc for a moment.
        wait_until(lambda: len([link for link in descriptors(spare) if re.fullmatch(KINDS['counter-text'], link)])
                   == len(COUNTERS.split(',')), 'a text for each group of counters')

    with tap.case('the files of a worker are those that its target has mapped'):
        mapped = {line.split()[5] for line in read_maps(target.pid).splitlines() if len(line.split()) > 5}
        files = {link for link in descriptors(spare) if re.fullmatch(KINDS['file'], link)}
        check(files and files <= mapped, f'{files - mapped}')

    with tap.case('no file of the machine is in the root of any'):
        for pid in (sonded, broker, spare):
            root = f'/proc/{pid}/root'
            folders = set(os.listdir(root))
            check(not folders & {'bin', 'sbin', 'boot', 'opt', 'srv', 'mnt'}, f'{folders}')
            # What nothing is mounted on is not even there.
            for folder in {'etc/sonde', 'home', 'root', 'tmp'} & (folders | {'etc/sonde'}):
                # The one file that is meant to be read there.
                found = set(os.listdir(os.path.join(root, folder))) - {'sonded.conf'}
                check(not found, f'{found} in /{folder}')
            found = set(os.listdir(os.path.join(root, 'etc')))
            check('sonde' in found and found <= {'sonde', 'subuid'}, f'{found} in /etc')
            # A broker alone has it mounted.
            check(pid == broker or 'subuid' not in found or os.path.getsize(f'{root}/etc/subuid') == 0,
                  '/etc/subuid is there')
        check(not os.listdir(f'/proc/{sonded}/root/sys'), 'sonded has /sys')

    with tap.case('after the session sonded holds what it held before'):
        recording.send_signal(signal.SIGINT)
        alice.finish_recording(recording, 'second.syscap')
        wait_until(lambda: len(descriptors(sonded)) == len(before) and len(worker_units()) == len(broker_units()) == 1,
                   'the state before')
        check_process(table, 'sonded', sonded)
        check_descriptors(table, 'sonded', sonded, at_rest)

    with tap.case('a worker with rings of a program holds what is written'):
        worker = next_spare(worker_units, 'sonde-capture', spare)
        alice.run('touch', 'go-on')
        recording = alice.start_recording('third.syscap', '--memory=sampled', '--', 'bash', '-c',
                                          'while [ -e go-on ]; do x=$x.; done')
        wait_until(lambda: '/memfd:sonde-ring' in read_maps(worker), 'a ring')
        check_process(table, 'sonde-capture', worker)
        check_descriptors(table, 'sonde-capture', worker, at_rest, 'descriptors in a session')
        check_descriptors(table, 'sonded', sonded, at_rest, 'descriptors in a session')
        alice.run('rm', 'go-on')
        capture = alice.finish_recording(recording, 'third.syscap')
        check(capture.n_logged > 0, 'the ring brought nothing')

    with tap.case('sonded opens nothing but what is written'):
        allowed = read_opened(sys.argv[2])
        with traced(sonded, '/tmp/opened'):
            use_service(alice, str(target.pid))
        with open('/tmp/opened', encoding='utf-8', errors='replace') as file:
            found = {name for line in file for name in named_files(line)}
        tap.note(f'{len(found)} files')
        foreign = {name for name in found if not any(re.fullmatch(one, name) for one in allowed)}
        check(not foreign, f'{sorted(foreign)}')
        check(any(name.startswith('/var/lib/sonde/captures/') for name in found), f'{sorted(found)}')

    with tap.case('systemd does for sonded what is written, and of other units nothing'):
        for unit in (*worker_units(), *broker_units()):
            check_asked(unit, 'Ref', 'Kill', 'SetProperties')
        check_asked('sonded.service', 'Start', 'ResetFailed')
        for unit in ('dbus.service', 'sonde-test.service', 'sonde-worker.socket', 'sonde.slice'):
            check_asked(unit)

    with tap.case('the scores are those that are written'):
        for name, unit in (('sonded', 'sonded.service'), ('sonde-broker', 'sonde-broker@0-1-0.service'),
                           ('sonde-capture', 'sonde-worker@0-1-0.service')):
            output = run('systemd-analyze', 'security', '--no-pager', unit)
            score = float(re.search(r'exposure level for \S+: ([\d.]+)', output)[1])
            tap.note(f'{unit}: {score}')
            check(score <= float(table['`systemd-analyze security`'][name]), f'{unit}: {score}')

    target.kill()
    target.wait()
    tap.finish()


main()
