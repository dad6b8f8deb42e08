#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an ordinary user can do to a service that looks at his processes, files and messages:
stranger.py ROLE [ARGUMENT…]

It says what it has done, a line each, and takes commands: "strike" does the harm, "start" asks for a
session of the own process, "stop" is answered by what there is to tell. At the end of its input it
goes, and the harm with it. The roles that mount need rights in a user and a mount namespace that
keep the uid."""

import contextlib
import glob
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

NAME = 'org.sonde.Profiler1'
MANAGER = '/org/sonde/Profiler1'
CALL_S = 20  # then nobody answers any more
PAUSE_S = 0.003
N_CALLS = 1000  # at least, if they are answered
FLOOD_ENTRIES = 2_000_000  # 31 MiB, as much as the bus passes on
N_FLOODS = 3
N_DESCRIPTOR_CALLS = 40
MAX_LINE = 4096
# Maps a file, has pages of it to be written, and lets go of both by an exec.
MAPPER = '''
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(fd, 4096)
os.close(fd)
pages[0] = 1
print('mapped', flush=True)
sys.stdin.readline()
os.execv('/bin/sleep', ['sleep', '600'])
'''


def say(*words):
    print(*words, flush=True)


class StuckFuse:
    """tests/lib/stuck-fuse.c: shows a folder, and answers what it is not told to leave unanswered."""

    def __init__(self, program, folder, mount_point):
        self.process = subprocess.Popen([program, folder, mount_point], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.held = []
        self.wait('mounted')

    def wait(self, word):
        """Until it says so; what it holds on the way is remembered."""
        while True:
            line = self.process.stdout.readline().strip()
            if line.startswith('held '):
                self.held.append(line)
            if line.startswith(word):
                return line
            if line == '' or line.startswith('unknown'):
                raise RuntimeError(f'stuck-fuse: {line} instead of {word}')

    def command(self, text):
        self.process.stdin.write(f'{text}\n')
        self.wait('ok')

    def end(self):
        """All that waits for it goes on, with ENOTCONN."""
        self.process.kill()
        self.process.wait()


def make_folders(*names):
    """On a file system of our own."""
    subprocess.run(['mount', '-t', 'tmpfs', 'stranger', '/mnt'], check=True)
    for name in names:
        os.mkdir(f'/mnt/{name}')


def read_cpu_ticks(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
        return int(stat.read().rsplit(')', 1)[1].split()[11])


def open_proof(pid):
    return os.open(f'/proc/{pid}/maps', os.O_RDONLY)


def start_session(pid, proof):
    """In a thread of its own: the answer may never come."""
    from gi.repository import Gio, GLib

    def run():
        fds = Gio.UnixFDList.new_from_array([proof])
        options = GLib.Variant('(a{sv})', ({'targets': GLib.Variant('a(uh)', [(pid, 0)])},))
        try:
            answer, _ = Gio.bus_get_sync(Gio.BusType.SYSTEM).call_with_unix_fd_list_sync(
                NAME, MANAGER, f'{NAME}.Manager', 'StartSession', options, None, Gio.DBusCallFlags.NONE, CALL_S * 1000, fds)
            say('session', answer.unpack()[0])
        except GLib.Error as error:
            say('refused', error.message.replace('\n', ' '))
    threading.Thread(target=run, daemon=True).start()


class Overlay:
    """A program on an overlay whose lower layer is a FUSE that stops answering."""

    def __init__(self, stuck_fuse, program):
        make_folders('lower', 'fuse', 'upper', 'work', 'merged')
        shutil.copy(program, '/mnt/lower/program')
        self.server = StuckFuse(stuck_fuse, '/mnt/lower', '/mnt/fuse')
        subprocess.run(['mount', '-t', 'overlay', 'stranger', '-o',
                        'lowerdir=/mnt/fuse,upperdir=/mnt/upper,workdir=/mnt/work,userxattr', '/mnt/merged'], check=True)
        self.process = subprocess.Popen(['/mnt/merged/program', '600'])
        while read_cpu_ticks(self.process.pid) < 5:
            time.sleep(0.02)
        self.pid = self.process.pid

    def strike(self):
        self.server.command('stop ALL')

    def start(self):
        start_session(self.pid, open_proof(self.pid))

    def end(self):
        self.server.end()
        self.process.kill()


class Exec:
    """A process whose exec waits for a FUSE: the kernel holds its exec_update_lock all the while."""

    def __init__(self, stuck_fuse):
        make_folders('files', 'fuse')
        with open('/mnt/files/file', 'wb') as file:
            file.write(bytes(4096))
        self.server = StuckFuse(stuck_fuse, '/mnt/files', '/mnt/fuse')
        self.process = subprocess.Popen([sys.executable, '-c', MAPPER, '/mnt/fuse/file'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid
        self.proof = open_proof(self.pid)  # nobody gets one later

    def strike(self):
        self.server.command('stop WRITE')
        self.process.stdin.write(b'\n')
        self.process.stdin.flush()
        self.server.wait('held WRITE')

    def start(self):
        start_session(self.pid, self.proof)

    def end(self):
        self.server.end()
        self.process.kill()


class Descriptors:
    """Messages with descriptors whose close() and fstat() wait, for the service alone: the bus would hang, too."""

    def __init__(self, stuck_fuse, service_pid):
        make_folders('files', 'fuse')
        with open('/mnt/files/file', 'wb'):
            pass
        self.service_pid = service_pid
        self.server = StuckFuse(stuck_fuse, '/mnt/files', '/mnt/fuse')
        self.fds = [os.open('/mnt/fuse/file', os.O_RDONLY) for _ in range(N_DESCRIPTOR_CALLS)]
        self.pid = os.getpid()

    def strike(self):
        from gi.repository import Gio, GLib

        self.server.command(f'stop ALL {self.service_pid}')
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)  # who has left is not looked at
        proof = {'targets': GLib.Variant('a(uh)', [(os.getpid(), 0)])}
        calls = [('org.freedesktop.DBus.Peer', 'Ping', None),
                 ('org.freedesktop.DBus.Properties', 'Get', GLib.Variant('(ss)', (f'{NAME}.Manager', 'Version'))),
                 (f'{NAME}.Manager', 'NoSuchMethod', None),
                 (f'{NAME}.Manager', 'Profile', GLib.Variant('(a{sv})', (proof,)))]
        for i, fd in enumerate(self.fds):
            interface, method, arguments = calls[i % len(calls)]
            message = Gio.DBusMessage.new_method_call(NAME, MANAGER, interface, method)
            if arguments:
                message.set_body(arguments)
            message.set_unix_fd_list(Gio.UnixFDList.new_from_array([fd]))  # which takes it
            self.bus.send_message(message, Gio.DBusSendMessageFlags.NONE)
        self.bus.flush_sync()
        self.server.wait('held')
        end = time.monotonic() + CALL_S
        while not self.is_refused():
            if time.monotonic() > end:
                raise RuntimeError('descriptors are still taken')
            time.sleep(0.1)

    def is_refused(self):
        """Whether a call that brings a descriptor is, by the limit: all who close them are stuck."""
        from gi.repository import Gio, GLib

        options = GLib.Variant('(a{sv})', ({'no-such-option': GLib.Variant('h', 0)},))
        try:
            self.bus.call_with_unix_fd_list_sync(NAME, MANAGER, f'{NAME}.Manager', 'Profile', options, None,
                                                 Gio.DBusCallFlags.NONE, CALL_S * 1000,
                                                 Gio.UnixFDList.new_from_array([os.open('/dev/null', os.O_RDONLY)]))
        except GLib.Error as error:
            return f'{NAME}.Error.LimitExceeded: Limit closers:' in error.message
        raise RuntimeError('an option that does not exist is taken')

    def start(self):
        start_session(self.pid, open_proof(self.pid))

    def end(self):
        self.server.end()


class Flood:
    """Messages as long as the bus passes on, one at a time. Source: D-Bus specification, "Message Format\""""

    def __init__(self):
        from gi.repository import Gio

        self.bytes_needed, self.parse = Gio.DBusMessage.bytes_needed, Gio.DBusMessage.new_from_blob
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect('/run/dbus/system_bus_socket')
        self.socket.sendall(b'\0AUTH EXTERNAL ' + str(os.getuid()).encode().hex().encode() + b'\r\n')
        if not self.socket.recv(MAX_LINE).startswith(b'OK'):
            raise RuntimeError('the bus knows us not')
        self.socket.sendall(b'BEGIN\r\n')
        self.serial = 0
        self.buffer = b''
        self.call('org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus', 'Hello')
        self.pid = os.getpid()

    def call(self, destination, path, interface, method, body=None):
        """Returns the name of the error that is the answer, or None. body: an a{sv}."""
        from gi.repository import Gio, GLib

        self.serial += 1
        message = Gio.DBusMessage.new_method_call(destination, path, interface, method)
        message.set_serial(self.serial)
        if body is not None:
            message.set_body(GLib.Variant('(a{sv})', ({},)))
        blob = message.to_blob(Gio.DBusCapabilityFlags.NONE)
        if body is not None:
            header = blob[:len(blob) - struct.unpack_from('<I', blob, 4)[0]]
            blob = header[:4] + struct.pack('<I', len(body)) + header[8:] + body
        self.socket.sendall(blob)
        while True:
            answer = self.receive()
            if answer.get_reply_serial() == self.serial:
                return answer.get_error_name()

    def receive(self):
        from gi.repository import Gio

        while len(self.buffer) < 16 or len(self.buffer) < self.bytes_needed(self.buffer):
            more = self.socket.recv(65536)
            if not more:
                raise RuntimeError('the bus has enough of us')
            self.buffer += more
        size = self.bytes_needed(self.buffer)
        message, self.buffer = self.parse(self.buffer[:size], Gio.DBusCapabilityFlags.NONE), self.buffer[size:]
        return message

    def strike(self):
        entry = bytes(5) + b'\1y\0' + b'\1' + bytes(7)  # {"": <byte 1>}, and what aligns the next one
        body = struct.pack('<II', FLOOD_ENTRIES * 16 - 7, 0) + (entry * FLOOD_ENTRIES)[:-7]
        for _ in range(N_FLOODS):
            error = self.call(NAME, MANAGER, f'{NAME}.Manager', 'Profile', body)
            if error != f'{NAME}.Error.LimitExceeded':
                raise RuntimeError(f'31 MiB are answered by {error}')

    def start(self):
        start_session(self.pid, open_proof(self.pid))

    def end(self):
        self.socket.close()


class Mappings:
    """A process with 60,000 mappings of long names that runs in ever new files."""

    def __init__(self, program):
        self.folder = f'/dev/shm/stranger-{os.getpid()}'
        os.mkdir(self.folder)
        self.process = subprocess.Popen([program, self.folder, '60000', '900'], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != 'ready\n':
            raise RuntimeError(f'{program} is not ready')
        self.pid = self.process.pid

    def strike(self):
        for _ in range(3):
            self.start()

    def start(self):
        start_session(self.pid, open_proof(self.pid))

    def end(self):
        self.process.kill()
        self.process.wait()
        # Deeper than a path may be long.
        subprocess.run(['rm', '-rf', self.folder], check=False)


def read_wait_ms(pids):
    """For which their threads could not run since others did, together."""
    wait_ns = 0
    for path in (path for pid in pids for path in glob.glob(f'/proc/{pid}/task/*/schedstat')):
        with contextlib.suppress(OSError):  # it has gone
            with open(path, encoding='ascii') as file:
                wait_ns += int(file.read().split()[1])
    return wait_ns / 1e6


class Probe:
    """No attack: asks for the version all the while, and tells the milliseconds of each answer, and those of them in
    which nobody of the given processes and itself waited for a processor."""

    def __init__(self, *pids):
        from gi.repository import Gio, GLib

        self.pid = os.getpid()
        self.pids = (*pids, os.getpid())
        self.ms, self.own_ms, self.errors = [], [], []
        self.is_over = False
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        self.arguments = GLib.Variant('(ss)', (f'{NAME}.Manager', 'Version'))
        self.ask()
        self.ms.clear()
        self.own_ms.clear()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def ask(self):
        from gi.repository import Gio, GLib

        waited_ms = read_wait_ms(self.pids)
        begin = time.monotonic()
        try:
            self.bus.call_sync(NAME, MANAGER, 'org.freedesktop.DBus.Properties', 'Get', self.arguments, None,
                               Gio.DBusCallFlags.NONE, CALL_S * 1000, None)
        except GLib.Error as error:
            self.errors.append(error.message)
        self.ms.append((time.monotonic() - begin) * 1000)
        self.own_ms.append(max(0.0, self.ms[-1] - (read_wait_ms(self.pids) - waited_ms)))

    def run(self):
        while not self.is_over:
            self.ask()
            time.sleep(PAUSE_S)

    def stop(self):
        """One in a hundred is enough to be told from the others."""
        end = time.monotonic() + CALL_S
        while len(self.ms) < N_CALLS and not self.errors and time.monotonic() < end:
            time.sleep(PAUSE_S)
        self.is_over = True
        self.thread.join()
        say(json.dumps({'ms': self.ms, 'own_ms': self.own_ms, 'errors': self.errors}))

    def end(self):
        self.is_over = True


ROLES = {'overlay': Overlay, 'exec': Exec, 'descriptors': Descriptors, 'flood': Flood, 'mappings': Mappings, 'probe': Probe}


def main():
    role = ROLES[sys.argv[1]](*sys.argv[2:])
    say('ready', role.pid)
    try:
        for line in sys.stdin:
            command = re.sub(r'\s', '', line)
            getattr(role, command)()
            if command == 'strike':
                say('struck')
    finally:
        role.end()


if __name__ == '__main__':
    main()
