#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service in force of its AppArmor profiles, below Debian's own kernel: vm-apparmor.py BUILD"""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys

from inside import DEADLINE_S, Capture, User, check, processes, run, wait_until
from tap import Tap

BURN = os.path.join(os.path.abspath(sys.argv[1]), 'tests/system/burn')
PROFILES = ('sonded', 'sonde-worker')
BUS = '/run/dbus/system_bus_socket'
# A profile of somebody else's program, which may do all but nothing of which is the service's own.
STRANGER = 'profile sonde-stranger { file, capability, network, unix, dbus, signal, ptrace, }\n'
# What a service that was taken over may want, as root. Each says whether it can.
WANTS = '''
import ctypes, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
def read(path):
    with open(path, 'rb') as file:
        file.read(1)
def write(path):
    with open(path, 'ab') as file:
        file.write(b'x')
def execute():
    pid = os.fork()
    if pid == 0:
        try:
            os.execv('/bin/true', ['true'])
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError('exec')
wants = {
    'reads /etc/shadow': lambda: read('/etc/shadow'),
    'reads the home of a user': lambda: read('/home/alice/own.syscap'),
    'writes a file': lambda: write('/tmp/written'),
    'writes a setting of the kernel': lambda: write('/proc/sys/kernel/core_pattern'),
    'executes a program': execute,
    'has an internet socket': lambda: socket.socket(socket.AF_INET).close(),
    'has a packet socket': lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    'mounts': lambda: call('mount', b'none', b'/mnt', b'tmpfs', 0, None),
    'changes its user': lambda: os.setegid(1),
    'signals': lambda: os.kill(int(sys.argv[1]), signal.SIGCONT),
    'traces': lambda: call('ptrace', 16, int(sys.argv[1]), None, None),
}
print(open('/proc/self/attr/current').read().strip('\\0\\n'))
for name, want in wants.items():
    try:
        want()
        print('can', name)
    except OSError:
        print('cannot', name)
'''


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read().strip('\n\0')


def labels(name):
    return {read(f'/proc/{pid}/attr/current') for pid in processes(name)}


def audit_lines():
    """What AppArmor has denied, by the kernel's word: its log leaves out what comes at once, which audit has."""
    run('journalctl', '--sync')
    return [line for line in run('journalctl', '--quiet', '--output=cat').splitlines() if 'apparmor="DENIED"' in line]


def load(text=None):
    """In force, as the packages do it."""
    if text is None:
        run('apparmor_parser', '--replace', '--skip-cache', *(f'/etc/apparmor.d/{name}' for name in PROFILES))
    else:
        run('sh', '-c', 'printf "%s" "$1" | apparmor_parser --replace --skip-cache', 'sh', text)


def use_stored(tap):
    """A session that writes its own file, which is then listed, fetched and removed."""
    run('sondectl', 'start', '--duration=2', '-a')
    wait_until(lambda: 'running' not in run('sondectl', 'list'), 'the end of the session')
    capture, = json.loads(run('sondectl', 'list', '--captures', '--json'))['captures']
    stored = f'/var/lib/sonde/captures/{capture["name"]}'
    run('sondectl', 'verify', stored)
    tap.note(f'{len(Capture(stored).samples)} samples of the machine, stored')
    run('sondectl', 'rm', capture['name'])
    check(not os.path.exists(stored), f'{stored} stays')


def aligned(data, size):
    return data + b'\0' * (-len(data) % size)


def text(value):
    return struct.pack('<I', len(value)) + value.encode() + b'\0'


def field(number, kind, value):
    return bytes((number, len(kind))) + kind.encode() + b'\0' + value


def call(serial, destination, path, interface, member, n_fds):
    """A method call of D-Bus without arguments, and with descriptors that no argument names."""
    fields = b''
    for one in (field(1, 'o', text(path)), field(6, 's', text(destination)), field(2, 's', text(interface)), field(3, 's', text(member)),
                field(9, 'u', struct.pack('<I', n_fds))):
        # What is aligned is the whole message, of which 16 bytes stand before them.
        fields = aligned(fields, 8) + one
    return aligned(b'l\1\0\1' + struct.pack('<III', 0, serial, len(fields)) + fields, 8)


def send_descriptor():
    """What a stranger does: a message with a descriptor of a file that he has opened below his own profile."""
    bus = socket.socket(socket.AF_UNIX)
    bus.settimeout(DEADLINE_S)
    bus.connect(BUS)
    bus.sendall(b'\0AUTH EXTERNAL ' + str(os.getuid()).encode().hex().encode() + b'\r\n')
    check(bus.recv(4096).startswith(b'OK'), 'no bus')
    bus.sendall(b'NEGOTIATE_UNIX_FD\r\n')
    check(bus.recv(4096).startswith(b'AGREE'), 'no descriptors')
    bus.sendall(b'BEGIN\r\n' + call(1, 'org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus', 'Hello', 0))
    bus.recv(65536)
    with open('/etc/passwd', 'rb') as allowed, open('/proc/self/maps', 'rb') as proof, open('own', 'wb') as denied:
        for serial, files in enumerate(([denied], [allowed, denied], [proof, denied, allowed]), 2):
            message = call(serial, 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.freedesktop.DBus.Peer', 'Ping', len(files))
            socket.send_fds(bus, [message], [file.fileno() for file in files])
            answer = bus.recv(65536)
            print('answered' if answer else 'gone', len(files))


def main():
    tap = Tap(7)
    alice = User('alice')
    run('groupadd', 'perf')
    run('usermod', '--append', '--groups', 'perf', 'alice')
    shutil.copy('60-sonde.rules', '/etc/polkit-1/rules.d')
    folder = '/etc/systemd/system/sonde-broker@.service.d'
    os.makedirs(folder)
    shutil.copy('perf-event-paranoid.conf', folder)
    load()
    run('systemctl', 'daemon-reload')
    # What it waits for, not for ever, starts slowly here.
    run('systemctl', 'start', 'dbus', 'polkit')
    run('systemctl', 'start', 'sonded')

    with tap.case('the service and its workers are confined, brokers and what is embedded are not'):
        wait_until(lambda: processes('sonde-capture') and processes('sonde-broker'), 'the spare ones')
        check(labels('sonded') == {'sonded (enforce)'}, f'{labels("sonded")}')
        wait_until(lambda: labels('sonde-capture') == {'sonde-worker (enforce)'}, 'a confined worker')
        check(labels('sonde-broker') == {'unconfined'}, f'{labels("sonde-broker")}')
        embedded = subprocess.Popen(['sondectl', 'record', '--embedded', '-a', '-o', '/tmp/embedded.syscap'], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: 'unconfined' in labels('sonde-capture') and 'unconfined' in labels('sonded'), 'one that is embedded')
        embedded.terminate()
        embedded.communicate(timeout=DEADLINE_S)

    with tap.case('an ordinary user profiles his own program where perf is closed, with its heap and counters'):
        check(read('/proc/sys/kernel/perf_event_paranoid') == '3', 'perf is open')
        capture = alice.record('own.syscap', '--memory', '--counters=cpu,memory,process', '--', BURN, '1')
        tap.note(f'{len(capture.samples)} samples, {capture.n_logged} heap events')
        check(capture.samples, 'no sample')
        check('main' in {name for sample in capture.samples for name in capture.stack(sample)}, 'no names')
        alice.run('sondectl', 'record', '--memory', '-o', 'heap.syscap', '--', 'bash', '-c', 'for i in {1..2000}; do x=$x.; done')
        check(Capture(f'{alice.home}/heap.syscap').n_logged > 0, 'no heap event')

    with tap.case('a stored session of the machine, one of a unit and one of a program that runs already'):
        busy = subprocess.Popen(['systemd-run', '--quiet', '--wait', '--unit=sonde-busy.service', BURN, '600'])
        wait_until(lambda: processes('burn'), 'the unit')
        use_stored(tap)
        run('sondectl', 'record', '--unit=sonde-busy.service', '-d', '2', '-o', '/tmp/unit.syscap')
        run('sondectl', 'verify', '/tmp/unit.syscap')
        samples = Capture('/tmp/unit.syscap').samples
        check(samples and {sample.pid for sample in samples} == set(processes('burn')), 'not the unit alone')
        run('systemctl', 'stop', 'sonde-busy.service')
        busy.wait(timeout=DEADLINE_S)
        spinning = alice.start('bash', '-c', 'while :; do :; done')
        check(alice.record('running.syscap', '-d', '2', '-p', str(spinning.pid)).samples, 'no sample of it')
        spinning.kill()
        spinning.wait()

    with tap.case('settings are read, sonded restarts below a session, and readers come and go'):
        recording = subprocess.Popen(['sondectl', 'record', '-a', '-o', '/tmp/long.syscap'], stdin=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists('/tmp/long.syscap') and os.path.getsize('/tmp/long.syscap') > 0, 'a capture')
        run('systemctl', 'reload', 'sonded')
        run('systemctl', 'restart', 'sonded')
        size = os.path.getsize('/tmp/long.syscap')
        wait_until(lambda: os.path.getsize('/tmp/long.syscap') > size, 'more of it')
        run('sondectl', 'limits')
        recording.terminate()
        check(recording.wait(timeout=DEADLINE_S) == 0, 'the session was lost')
        run('sondectl', 'verify', '/tmp/long.syscap')

    with tap.case('all that was used is granted'):
        check(not audit_lines(), '\n'.join(audit_lines()))

    with tap.case('what is not granted is denied, to root, too'):
        # Names that the profiles are for, in a root that has all.
        folder = '/run/sonde-service'
        os.makedirs(folder, exist_ok=True)
        target = subprocess.Popen(['sleep', '600'])
        found = {}
        for name, profile in (('free', 'unconfined'), ('sonded', 'sonded (enforce)'), ('sonde-capture', 'sonde-worker (enforce)')):
            shutil.copy('/usr/bin/python3', f'{folder}/{name}')
            said = run(f'{folder}/{name}', '-I', '-S', '-c', WANTS, str(target.pid))
            check(said.splitlines()[0] == profile, said)
            found[name] = {want: can for can, want in re.findall(r'^(cannot|can) (.*)$', said, re.M)}
            subprocess.run(['umount', '-q', '/mnt'], check=False)
        target.kill()
        target.wait()
        check(set(found['free'].values()) == {'can'}, f'unconfined: {found["free"]}')
        for name in ('sonded', 'sonde-capture'):
            check(set(found[name].values()) == {'cannot'} and found[name].keys() == found['free'].keys(), f'{name}: {found[name]}')
        for name in PROFILES:
            check(any(f'profile="{name}"' in line for line in audit_lines()), f'nothing is told of {name}')

    with tap.case('who sends descriptors that AppArmor keeps from sonded harms nobody'):
        load(STRANGER)
        sonded, = processes('sonded')
        recording = subprocess.Popen(['sondectl', 'record', '-a', '-o', '/tmp/other.syscap'], stdin=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists('/tmp/other.syscap') and os.path.getsize('/tmp/other.syscap') > 0, 'a capture')
        before = len(audit_lines())
        said = alice.run('aa-exec', '-p', 'sonde-stranger', '--', 'python3', '-B', os.path.abspath(__file__), 'send-descriptor')
        check(said.split().count('answered') == 3, said)
        wait_until(lambda: len(audit_lines()) > before, 'a descriptor that was kept from it')
        check(processes('sonded') == [sonded], 'sonded is another one')
        recording.terminate()
        check(recording.wait(timeout=DEADLINE_S) == 0, 'the session was lost')
        run('sondectl', 'verify', '/tmp/other.syscap')

    tap.finish()


if sys.argv[1] == 'send-descriptor':
    send_descriptor()
else:
    main()
