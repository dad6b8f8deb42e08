#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's own sysprof-cli with Sonde behind Sysprof's name: test-sysprof.py BUILD SYSPROF"""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

from inside import DEADLINE_S, Capture, User, check, processes, run, wait_until
from tap import Tap

BUILD, SYSPROF = (os.path.abspath(path) for path in sys.argv[1:3])
BURN = f'{BUILD}/tests/system/burn'
NAMES = f'{BUILD}/tests/system/sysprof/sysprof-names'
NAME = 'org.gnome.Sysprof3'
SERVICE, PROFILER = (f'{NAME}.Service', '/org/gnome/Sysprof3'), (f'{NAME}.Profiler', '/org/gnome/Sysprof3/RAPL')
DROP_INS = [f'/usr/lib/systemd/system/sysprof{n}.service.d' for n in (2, 3)]
RULE = '/usr/share/polkit-1/rules.d/sonde-sysprof.rules'
MAGIC = 0x53795371  # of base/sysprof-request.h
# What a client says, and what it gives as the file of Start.
CLIENT = '''
import os, subprocess, sys
from gi.repository import Gio, GLib
bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
def call(member, file=None):
    arguments, fds = None, Gio.UnixFDList()
    if file is not None:
        arguments = GLib.Variant('(a{sv}h)', ({}, fds.append(file)))
    try:
        bus.call_with_unix_fd_list_sync('org.gnome.Sysprof3', '/org/gnome/Sysprof3/RAPL', 'org.gnome.Sysprof3.Profiler', member, arguments,
                                        None, Gio.DBusCallFlags.NONE, 100000, fds)
        print(member, 'done', flush=True)
    except GLib.Error as error:
        print(member, error.message, flush=True)
memfd = os.memfd_create('capture')
'''


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def install_sysprof():
    """As its package would, on this throw-away root."""
    run('cp', '-a', f'{SYSPROF}/usr', f'{SYSPROF}/lib', '/tmp')
    for folder in ('usr/bin', 'usr/libexec', 'usr/share/dbus-1', 'usr/share/polkit-1', 'lib/systemd'):
        run('cp', '-rT', '--no-preserve=ownership', f'{SYSPROF}/{folder}', f'/{folder}')
    write('/etc/ld.so.conf.d/sysprof.conf', f'/tmp/usr/lib/{os.uname().machine}-linux-gnu\n')
    run('ldconfig')
    reload()


def reload():
    run('systemctl', 'daemon-reload')
    run('busctl', 'call', 'org.freedesktop.DBus', '/', 'org.freedesktop.DBus', 'ReloadConfig')


def start_manager(user):
    """systemd of a user, as for whoever is logged in."""
    run('loginctl', 'enable-linger', user.name)
    uid = run('id', '-u', user.name).strip()
    wait_until(lambda: f'@sonde-sysprof-{uid}\n' in open('/proc/net/unix', encoding='ascii').read(), f'a systemd of {user.name}')


def refusal(*arguments, **options):
    """What busctl must say of a call."""
    result = subprocess.run(['busctl', 'call', '--', *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options)
    check(result.returncode != 0, f'{arguments} succeeded: {result.stdout}')
    return result.stderr


def client(user, script):
    """Lines of a client that @user runs."""
    return user.run('/usr/bin/python3', '-c', CLIENT + script).splitlines()


def sysprof(user, name, *command):
    """sysprof-cli exits with 0 whatever happens."""
    path = f'{user.home}/{name}'
    output = user.run('timeout', str(DEADLINE_S), 'sysprof-cli', *command[:command.index('--')], path, *command[command.index('--'):])
    return path, output


def names_of(path):
    """(pid, name) of user code, as Debian's libsysprof reads it."""
    return {(int(pid), name) for pid, name in re.findall(r'^(\d+) \w+ (.+)$', run(NAMES, path), re.M)}


def check_stack(path, program, *functions):
    capture = Capture(path)
    check(capture.samples, 'no sample')
    found = {name for _, name in names_of(path)}
    check(set(functions) <= found, f'{functions} are not among {sorted(found)[:40]}')
    deepest = max(len(sample.addresses) for sample in capture.samples)
    return capture, deepest


def listen(uid):
    """Where a stranger waits for what is not his."""
    squatter = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    squatter.bind(f'\0sonde-sysprof-{uid}')
    squatter.listen()
    return squatter


def main():
    tap = Tap(8)
    alice, bob = User('alice'), User('bob')
    install_sysprof()
    start_manager(alice)

    with tap.case('whoever calls Sysprof gets Sonde, which has no right to anything'):
        alice.run('busctl', 'introspect', NAME, SERVICE[1])
        relay, = processes('sonde-sysprof')
        check(not processes('sysprofd'), 'Sysprof\'s own runs, too')
        with open(f'/proc/{relay}/status', encoding='ascii') as file:
            status = file.read()
        check(re.findall(r'^Cap(?:Eff|Prm|Inh|Bnd|Amb):\t(\w+)$', status, re.M) == ['0' * 16] * 5, status)
        check(f'\t{run("id", "-u", "sonde-sysprof").strip()}\t' in re.search('^Uid:.*$', status, re.M)[0], status)

    with tap.case('Sysprof\'s own service is kept from starting, by its other name, too'):
        said = refusal('org.gnome.Sysprof2', '/org/gnome/Sysprof2', 'org.freedesktop.DBus.Peer', 'Ping')
        check('sysprof2.service' in said, said)
        real = subprocess.run(['timeout', '5', '/usr/libexec/sysprofd'], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(real.returncode != 124, 'it serves, started by hand')
        check(processes('sonde-sysprof') == [relay] and not processes('sysprofd'), 'it took the place')

    with tap.case('sysprof-cli --rapl --no-perf of an ordinary user has our stacks, with names'):
        path, output = sysprof(alice, 'rapl.syscap', '--rapl', '--no-perf', '--', BURN, '2')
        capture, deepest = check_stack(path, BURN, 'main')
        tap.note(f'{len(capture.samples)} samples, the deepest of {deepest} addresses; {output.strip()[-200:]}')
        check(len(capture.samples) > 100, f'{len(capture.samples)} samples')

    with tap.case('what a child starts later is recorded, and nobody else\'s'):
        other = subprocess.Popen([BURN, '600'])
        path, _ = sysprof(alice, 'children.syscap', '--rapl', '--no-perf', '--', 'sh', '-c', f'{BURN} 0.5; {BURN} 0.5')
        capture, _ = check_stack(path, BURN, 'main')
        other.kill()
        other.wait()
        pids = {pid for pid, name in names_of(path) if name == 'main'}
        check(len(pids) == 2 and other.pid not in {sample.pid for sample in capture.samples}, f'{pids}')

    with tap.case('plain sysprof-cli has what the kernel lets the user open, which is nothing of ours'):
        path, output = sysprof(alice, 'plain.syscap', '--', BURN, '0.5')
        tap.note(output.strip()[-300:])
        own = [sample for sample in Capture(path).samples if sample.pid not in (-1, 0)] if os.path.exists(path) else []
        tap.note(f'{len(own)} samples of processes')
        for member, arguments in (('SetParanoid', ['i', '-1']), ('SetGovernor', ['s', 'performance']), ('ListProcesses', []),
                                  ('GetProcFile', ['ay', '1', '47']), ('GetProcFd', ['ay', '1', '47'])):
            said = refusal(NAME, SERVICE[1], SERVICE[0], member, *arguments, **alice.options)
            check(f'{member}: Sonde opens nothing' in said, said)

    with tap.case('what is no file of the caller\'s user is refused, and so is what is out of turn'):
        said = client(alice, '''
call('Stop')
call('Start', memfd)
call('Start', os.open('/etc/passwd', os.O_RDONLY))
call('Start', os.pipe()[1])
call('Start', os.open(f'/proc/self/fd/{memfd}', os.O_RDONLY))
child = subprocess.Popen(['sleep', '600'])
call('Start', memfd)
call('Start', memfd)
child.kill()
call('Stop')
call('Stop')
children = [subprocess.Popen(['sleep', '600']) for _ in range(65)]
call('Start', memfd)
for child in children:
    child.kill()
''')
        wanted = ['Stop .*not being recorded', 'Start .*no children to record', 'Start .*no regular file of the caller', 'Start .*no regular file',
                  'Start .*cannot be written', 'Start done', 'Start .*is being recorded already', 'Stop done', 'Stop .*not being recorded',
                  'Start .*more than 64 processes below it']
        check(len(said) == len(wanted), '\n'.join(said))
        for line, pattern in zip(said, wanted):
            check(re.match(pattern, line), f'{line} is not {pattern}')

    with tap.case('who has no systemd of his own is told, and a stranger in its place gets nothing'):
        said = client(bob, 'call("Start", memfd)')
        uid = run('id', '-u', 'bob').strip()
        check(len(said) == 1 and f'no manager for user {uid}' in said[0], f'{said}')
        with listen(uid) as squatter:  # as root
            said = client(bob, 'call("Start", memfd)')
            check(len(said) == 1 and f'not to user {uid}' in said[0], f'{said}')
            squatter.settimeout(1)
            stranger, _ = squatter.accept()
            check(stranger.recv(100) == b'', 'it was asked')

        # Nor is a recorder anybody else's than the service's.
        victim = alice.start('sleep', '600')
        target = os.memfd_create('capture')
        os.fchown(target, int(run('id', '-u', 'alice')), -1)
        for user in ('bob', 'root', 'alice'):
            script = (f'import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n'
                      f's.connect("\\0sonde-sysprof-{run("id", "-u", "alice").strip()}")\n'
                      f'try:\n socket.send_fds(s, [bytes.fromhex("{struct.pack("=Ii", MAGIC, victim.pid).hex()}")], [0])\n print(s.recv(100))\n'
                      f'except OSError as error:\n print(b"")\n')
            said = subprocess.run(['/usr/bin/python3', '-c', script], stdin=target, user=user, capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
            check(said.stdout == "b''\n", f'{user}: {said.stdout}{said.stderr}')
        os.close(target)
        victim.kill()
        victim.wait()

    with tap.case('without it Sysprof\'s own service is back, and asks'):
        run('systemctl', 'stop', 'sysprof3.service')
        for path in DROP_INS:
            shutil.rmtree(path)
        for path in (RULE, '/usr/share/dbus-1/system.d/org.gnome.Sysprof3.sonde.conf'):
            os.unlink(path)
        reload()
        time.sleep(1)  # polkit looks at its folder by itself
        subprocess.run(['busctl', 'introspect', NAME, SERVICE[1]], capture_output=True, timeout=DEADLINE_S, check=False)
        wait_until(lambda: processes('sysprofd'), 'Sysprof\'s own')
        check(not processes('sonde-sysprof'), 'Sonde serves still')
        result = subprocess.run(['pkcheck', '--action-id', 'org.gnome.sysprof3.profile', '--process', str(alice.start('sleep', '60').pid)],
                                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(result.returncode != 0, 'everybody may have the machine from Sysprof\'s own')

    tap.finish()


main()
