#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A complete client of org.sonde.Profiler1: profile-pid.py PID [SECONDS]"""

import collections
import os
import signal
import struct
import sys

from gi.repository import Gio, GLib  # Debian: python3-gi

BUS_NAME = 'org.sonde.Profiler1'
READ_SIZE = 64 * 1024
WAIT_S = 10  # for Finished, after the end of the stream

# What we need of the capture format; docs/protocol.md has all of it.
FILE_HEADER = struct.Struct('=IBBH64sqq168x')  # magic, version, little-endian, -, date, start, end
FRAME_HEADER = struct.Struct('=HhiqB7x')       # length, CPU, pid, time in ns, type
SYMBOL = struct.Struct('=QQiIII')              # first, last address, pid, name, module, -
SAMPLE, JITMAP, LOG, FILE_CHUNK = 2, 7, 12, 13
MAGIC = 0xFDCA975E


def text(data):
    """Up to the NUL; names come from profiled programs and may hold any byte."""
    return data.split(b'\0', 1)[0].decode('utf-8', 'backslashreplace')


class Capture:
    """Takes the bytes of a capture in pieces of any size; counts where the samples ended."""

    def __init__(self):
        self.pending = bytearray()
        self.has_header = False
        self.leaves = collections.Counter()  # (pid, address)
        self.jit_names = {}                  # made-up address: name
        self.symbols = bytearray()           # the embedded file __symbols__

    def feed(self, data):
        self.pending += data
        used = 0
        if not self.has_header:
            if len(self.pending) < FILE_HEADER.size:
                return
            magic, version, *_ = FILE_HEADER.unpack_from(self.pending)
            if magic != MAGIC or version != 1:
                raise ValueError('this is no capture')
            self.has_header = True
            used = FILE_HEADER.size
        while len(self.pending) - used >= FRAME_HEADER.size:
            length, _, pid, _, kind = FRAME_HEADER.unpack_from(self.pending, used)
            if length < FRAME_HEADER.size or length % 8:
                raise ValueError('a frame has an impossible length')
            if length > len(self.pending) - used:
                break
            self.take(kind, pid, bytes(self.pending[used:used + length]))
            used += length
        del self.pending[:used]

    def take(self, kind, pid, frame):
        if kind == SAMPLE:
            # The first address says "kernel" or "process"; the leaf is behind it, callers follow.
            count, = struct.unpack_from('=H', frame, 24)
            if count > 1:
                leaf, = struct.unpack_from('=Q', frame, 40)
                self.leaves[pid, leaf] += 1
        elif kind == JITMAP:
            # Names of addresses that are none: "[kernel]", "[stack truncated]", kernel functions.
            count, = struct.unpack_from('=I', frame, 24)
            at = 28
            for _ in range(count):
                address, = struct.unpack_from('=Q', frame, at)
                self.jit_names[address] = text(frame[at + 8:])
                at = frame.index(b'\0', at + 8) + 1
        elif kind == LOG:
            # Losses are said in the stream, where and when they happened.
            if text(frame[32:64]) == 'sonde':
                print(text(frame[64:]), file=sys.stderr)
        elif kind == FILE_CHUNK:
            length, = struct.unpack_from('=H', frame, 26)
            if text(frame[28:284]) == '__symbols__':
                self.symbols += frame[284:284 + length]
        # Everything else: what we do not need, and what later versions add.

    def find_name(self, pid, address):
        """Names come last in the stream, so this works at its end."""
        if address in self.jit_names:
            return self.jit_names[address]
        for first, last, owner, name, _, _ in SYMBOL.iter_unpack(
                self.symbols[:len(self.symbols) // SYMBOL.size * SYMBOL.size]):
            if last == 0:
                break
            if owner == pid and first <= address <= last:
                return text(self.symbols[name:])
        return '[unknown]'

    def print_profile(self):
        names = collections.Counter()
        for (pid, address), count in self.leaves.items():
            names[self.find_name(pid, address)] += count
        total = self.leaves.total()
        print(f'{total} samples')
        for name, count in names.most_common(10):
            print(f'{100 * count / total:5.1f}%  {ascii(name)[1:-1]}')


class Client:
    def __init__(self, pid, seconds):
        self.loop = GLib.MainLoop()
        self.capture = Capture()
        self.path = None    # of the session
        self.stream = None  # descriptor; None after the end of the capture
        self.reason = None  # why the session ended, from Finished
        self.statistics = {}

        GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, signal.SIGINT, self.stop)
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        # Before the call: the session may end at once, and this misses nothing.
        self.bus.signal_subscribe(BUS_NAME, f'{BUS_NAME}.Session', 'Finished', None, None,
                                  Gio.DBusSignalFlags.NONE, self.on_finished)
        self.profile(pid)
        GLib.timeout_add_seconds(seconds, self.stop)

    def profile(self, pid):
        # The open /proc/PID/maps is the kernel's own proof that we may read that process.
        with open(f'/proc/{pid}/maps', 'rb') as maps:
            fds = Gio.UnixFDList()
            handle = fds.append(maps.fileno())
        options = {'targets': GLib.Variant('a(uh)', [(pid, handle)])}
        answer, fds = self.bus.call_with_unix_fd_list_sync(
            BUS_NAME, '/org/sonde/Profiler1', f'{BUS_NAME}.Manager', 'Profile',
            GLib.Variant('(a{sv})', (options,)), GLib.VariantType('(oh)'),
            Gio.DBusCallFlags.ALLOW_INTERACTIVE_AUTHORIZATION, GLib.MAXINT, fds)
        self.path, handle = answer.unpack()
        self.stream = fds.get(handle)
        os.set_blocking(self.stream, False)
        GLib.unix_fd_add_full(GLib.PRIORITY_DEFAULT, self.stream,
                              GLib.IOCondition.IN | GLib.IOCondition.HUP, self.on_readable)

    def on_readable(self, fd, _condition):
        try:
            data = os.read(fd, READ_SIZE)
            self.capture.feed(data)
        except BlockingIOError:
            return GLib.SOURCE_CONTINUE
        except (OSError, ValueError, struct.error) as error:
            print(f'profile-pid: {error}', file=sys.stderr)
            data = b''
        if data:
            return GLib.SOURCE_CONTINUE
        os.close(fd)  # if the session still runs, that ends it
        self.stream = None
        # A service that is restarted goes on with the session and tells its end; else it is gone.
        GLib.timeout_add_seconds(WAIT_S, self.loop.quit)
        self.check_end()
        return GLib.SOURCE_REMOVE

    def stop(self):
        """Samples that are still on their way come after this, then the names, then the end."""
        self.bus.call(BUS_NAME, self.path, f'{BUS_NAME}.Session', 'Stop', None, None,
                      Gio.DBusCallFlags.NONE, -1, None, self.on_stopped)
        return GLib.SOURCE_REMOVE

    def on_stopped(self, bus, result):
        try:
            bus.call_finish(result)
        except GLib.Error as error:
            if error.matches(Gio.DBusError.quark(), Gio.DBusError.NO_REPLY):
                self.stop()  # the service was restarted just then, and has not heard it
            # Else the session had ended by itself; Finished tells how.

    def on_finished(self, _bus, _sender, path, _interface, _signal, arguments):
        if path == self.path:
            self.reason, self.statistics = arguments.unpack()
            self.check_end()

    def check_end(self):
        """Done when the capture is read to its end and the service has said why."""
        if self.stream is None and self.reason:
            self.loop.quit()


def explain(error):
    name = Gio.DBusError.get_remote_error(error) or ''
    Gio.DBusError.strip_remote_error(error)
    print(f'profile-pid: {error.message}', file=sys.stderr)
    if name.endswith('.NotAuthorized'):
        print('An administrator may allow the action that is named there.', file=sys.stderr)
    elif name.endswith('.LimitExceeded'):
        print('Stop another profile first, or try again in a moment.', file=sys.stderr)
    elif name.endswith('.ServiceUnknown'):
        print('The package sonde is not installed.', file=sys.stderr)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit('Usage: profile-pid.py PID [SECONDS]')
    try:
        client = Client(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    except OSError as error:
        sys.exit(f'profile-pid: {error}')
    except GLib.Error as error:
        explain(error)
        sys.exit(1)
    client.loop.run()
    if client.capture.leaves:
        client.capture.print_profile()
    else:
        print('no samples: the process did not run')
    for key in ('lost-kernel', 'lost-ring', 'lost-queue', 'stream-lost'):
        if key in client.statistics:
            print(f'{key}: {client.statistics[key]}')
    if client.reason is None:
        sys.exit('profile-pid: the service ended; the profile goes up to that moment')


main()
