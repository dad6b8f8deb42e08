#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Units that are armed, below a real systemd: test-arm.py BUILD"""

import glob
import os
import subprocess

from inside import DEADLINE_S, User, check, run, wait_until
from tap import Tap

UNITS = '/etc/systemd/system'
LIBRARY, = glob.glob(f'/usr/lib/{os.uname().machine}-*/sonde/libsonde-memory.so') + glob.glob('/usr/lib64/sonde/libsonde-memory.so')
# Another one to load, in a folder whose name is hard to write.
OTHER_FOLDER = '/srv/100% "odd"\\'
ROOT = '/srv/root'
PATIENCE_S = 30


def make_unit(name, text):
    with open(f'{UNITS}/{name}', 'w', encoding='utf-8') as file:
        file.write(f'[Service]\nExecStart=/usr/bin/sleep 1000\n{text}\n')
    run('systemctl', 'daemon-reload')
    run('systemctl', 'start', name)


def main_pid(name, *options):
    return int(run('systemctl', *options, 'show', '--value', '--property=MainPID', name))


def loaded(pid):
    """What a process has mapped; it has executed its program since."""
    wait_until(lambda: os.path.basename(os.readlink(f'/proc/{pid}/exe')) == 'sleep', 'the program')
    wait_until(lambda: 'libc.so' in read(f'/proc/{pid}/maps'), 'its libraries')
    return {path for line in read(f'/proc/{pid}/maps').splitlines() for path in line.split(None, 5)[5:]}


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def drop_ins(name):
    return run('systemctl', 'show', '--value', '--property=DropInPaths', name).split()


def test_unit():
    make_unit('plain.service', '')
    before = main_pid('plain.service')
    result = run('sondectl', 'arm', 'plain.service')
    check(main_pid('plain.service') == before and 'systemctl restart plain.service' in result, result)
    run('systemctl', 'restart', 'plain.service')
    pid = main_pid('plain.service')
    check(LIBRARY in loaded(pid), f'{loaded(pid)}')
    check('LD_PRELOAD=/usr/$LIB/sonde/libsonde-memory.so\0' in read(f'/proc/{pid}/environ'), read(f'/proc/{pid}/environ'))
    check(run('sondectl', 'disarm') == 'plain.service\n', 'it is not shown')
    run('sondectl', 'disarm', '--restart', 'plain.service')
    check(LIBRARY not in loaded(main_pid('plain.service')) and not drop_ins('plain.service'), f'{drop_ins("plain.service")}')
    check(not os.path.exists('/run/systemd/system/plain.service.d'), 'a folder is left')


def test_kept():
    """As this systemd reads it again."""
    os.mkdir(OTHER_FOLDER)
    other = f'{OTHER_FOLDER}/x.so'
    run('gcc', '-shared', '-xc', '/dev/null', '-o', other)
    name = other.replace(' ', '_')
    os.symlink(OTHER_FOLDER, OTHER_FOLDER.replace(' ', '_'))
    written = name.replace('\\', '\\\\').replace('"', '\\"').replace('%', '%%')
    make_unit('kept.service', f'Environment="LD_PRELOAD={written}"')
    check(other in loaded(main_pid('kept.service')), 'the test is wrong')
    for _ in range(2):
        run('sondectl', 'arm', '--restart', 'kept.service')
    check({LIBRARY, other} <= loaded(main_pid('kept.service')), f'{loaded(main_pid("kept.service"))}')
    environment = read(f'/proc/{main_pid("kept.service")}/environ')
    check(environment.count('libsonde-memory.so') == 1, environment)
    run('sondectl', 'disarm', '--restart', 'kept.service')
    check(other in loaded(main_pid('kept.service')), 'it is not as it was')


def test_root():
    """A unit that sees little of the machine; a socket for programs is bound there, too."""
    run('systemctl', 'start', 'sonded')
    for folder in ('usr', 'proc', 'dev', 'sys', 'run', 'tmp', 'etc'):
        os.makedirs(f'{ROOT}/{folder}')
    for link in ('bin', 'lib', 'lib64', 'sbin'):
        os.symlink(f'usr/{link}', f'{ROOT}/{link}')
    make_unit('room.service', f'RootDirectory={ROOT}\nMountAPIVFS=yes\nBindReadOnlyPaths=/usr/bin /usr/lib\n'
              'BindReadOnlyPaths=-/usr/lib64\nInaccessiblePaths=/run')
    run('sondectl', 'arm', '--restart', 'room.service')
    pid = main_pid('room.service')
    check(any(path.endswith('/libsonde-memory.so') for path in loaded(pid)), f'{loaded(pid)}')
    run('sondectl', 'disarm', '--restart', 'room.service')
    run('systemctl', 'revert', 'room.service')
    make_unit('rooms.service', f'RootDirectory={ROOT}\nMountAPIVFS=yes\nBindReadOnlyPaths=/usr/bin /usr/lib\n'
              'BindReadOnlyPaths=-/usr/lib64')
    run('sondectl', 'arm', '--restart', 'rooms.service')
    pid = main_pid('rooms.service')
    check(os.path.exists(f'/proc/{pid}/root/run/sonde/collect'), f'{os.listdir(f"/proc/{pid}/root/run")}')
    run('sondectl', 'disarm', 'rooms.service')


def test_joined():
    """What it is for: an armed unit is recorded while it runs, in a filter too if it was armed for that."""
    script = 'import time\nwhile True:\n    b"x" * 77777\n    time.sleep(0.001)\n'
    with open('/srv/busy.py', 'w', encoding='utf-8') as file:
        file.write(script)
    for name, settings, options in (('busy.service', '', []), ('closed.service', 'SystemCallFilter=~@reboot', ['--seccomp'])):
        make_unit(name, f'ExecStart=\nExecStart=/usr/bin/python3 /srv/busy.py\nEnvironment=PYTHONMALLOC=malloc\n{settings}')
        result = subprocess.run(['sondectl', 'arm', '--restart', name], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False)
        check(result.returncode == 0 and ('--seccomp' in result.stderr) == bool(settings), result.stderr)
        check(not is_recorded(name) if settings else comes(name), f'{name}: armed without an option')
        if options:
            run('sondectl', 'arm', *options, '--restart', name)
            check(comes(name), f'{name}: armed with {options}')
        run('sondectl', 'disarm', '--restart', name)
        run('systemctl', 'stop', name)


def is_recorded(name, seconds=2):
    capture = '/srv/joined.syscap'
    run('sondectl', 'record', '--event', 'none', '--memory', '-u', name, '-d', str(seconds), '-o', capture)
    return 'size=77810' in run('sondectl', 'dump', capture)


def comes(name):
    """Whether it is recorded; where the machine is busy its program may not have begun in the first two seconds."""
    return is_recorded(name) or is_recorded(name, PATIENCE_S)


def test_users(alice):
    result = subprocess.run(['sondectl', 'arm', 'plain.service'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=DEADLINE_S, check=False, **alice.options)
    check(result.returncode == 1 and 'Permission denied' in result.stderr and not drop_ins('plain.service'), result.stderr)


def test_user(alice):
    """Her own systemd: a unit of it, and all that it starts."""
    uid = run('id', '-u', alice.name).strip()
    run('systemctl', 'start', f'user@{uid}.service')
    alice.options['env']['XDG_RUNTIME_DIR'] = f'/run/user/{uid}'
    folder = f'{alice.home}/.config/systemd/user'
    alice.run('mkdir', '-p', folder)
    with open(f'{folder}/mine.service', 'w', encoding='utf-8') as file:
        file.write('[Service]\nExecStart=/usr/bin/sleep 1000\n')
    alice.run('systemctl', '--user', 'daemon-reload')

    def is_loaded():
        alice.run('systemctl', '--user', 'restart', 'mine.service')
        return LIBRARY in loaded(int(alice.run('systemctl', '--user', 'show', '--value', '--property=MainPID', 'mine.service')))

    check(not is_loaded(), 'the test is wrong')
    for arguments in (['mine.service'], []):
        alice.run('sondectl', 'arm', '--user', *arguments)
        check(is_loaded(), f'{arguments}: it is not armed')
        alice.run('sondectl', 'disarm', '--user', *arguments)
        check(not is_loaded(), f'{arguments}: it is still armed')
    check(not os.path.exists(f'{alice.home}/.config/environment.d'), 'a folder is left')


def main():
    alice = User('alice')
    cases = (('a unit is armed from its next start on, and disarmed', test_unit),
             ('the LD_PRELOAD that is there is kept', test_kept),
             ('an armed unit is joined while it runs', test_joined),
             ('a unit with a root of its own finds the library and the socket', test_root))
    tap = Tap(len(cases) + 2)
    for name, case in cases:
        with tap.case(name):
            case()
    with tap.case('other users arm nothing'):
        test_users(alice)
    with tap.case('a user arms a unit, and all that her systemd starts'):
        test_user(alice)
    tap.finish()


main()
