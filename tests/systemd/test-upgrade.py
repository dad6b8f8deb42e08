#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the release before this one to this one and back, below systemd: test-upgrade.py BUILD PREVIOUS_BUILD"""

import json
import os
import pwd
import signal
import sys

from gi.repository import Gio, GLib

from inside import DEADLINE_S, Capture, User, check, processes, run, units, wait_until
from tap import Tap

NAME = 'org.sonde.Profiler1'
# What a user calls with descriptors.
PROGRAM = f'''
import os, sys
from gi.repository import Gio, GLib

def call(method, arguments, fds=None):
    answer, fds = Gio.bus_get_sync(Gio.BusType.SYSTEM).call_with_unix_fd_list_sync(
        '{NAME}', '/org/sonde/Profiler1', '{NAME}.Manager', method, arguments, None, Gio.DBusCallFlags.NONE, -1, fds, None)
    return answer.unpack()[0], fds

if sys.argv[1] == 'start':
    fds = Gio.UnixFDList.new_from_array([os.open(f'/proc/{{sys.argv[2]}}/maps', os.O_RDONLY)])
    options = {{'targets': GLib.Variant('a(uh)', [(int(sys.argv[2]), 0)]), 'duration': GLib.Variant('t', 500_000)}}
    print(call('StartSession', GLib.Variant('(a{{sv}})', (options,)), fds)[0])
else:
    handle, fds = call('OpenStoredCapture', GLib.Variant('(s)', (sys.argv[2],)))
    with os.fdopen(fds.get(handle), 'rb') as capture, open('stored.syscap', 'wb') as file:
        file.write(capture.read())
'''
LOSSES = ('lost-kernel', 'lost-ring', 'lost-queue')


def call(path, interface, method, arguments=None):
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
    return bus.call_sync(NAME, path, interface, method, arguments, None, Gio.DBusCallFlags.NONE,
                         DEADLINE_S * 1000, None).unpack()


def states():
    found = call('/org/sonde/Profiler1', f'{NAME}.Manager', 'ListSessions')[0]
    return {path: state for path, _uid, state, _start, _text in found}


def capture_file(session):
    return call(session, 'org.freedesktop.DBus.Properties', 'Get',
                GLib.Variant('(ss)', (f'{NAME}.Session', 'CaptureFile')))[0]


def install(build):
    """What a package does. Ours restarts what runs; 0.1.0 did not yet."""
    run('meson', 'install', '-C', build, '--no-rebuild', '--quiet')
    run('systemctl', 'daemon-reload')
    run('systemctl', 'reload-or-restart', 'dbus')


def store_capture(user, target):
    """A whole one of the user's. Returns its path."""
    session = user.run('/usr/bin/python3', '-c', PROGRAM, 'start', str(target)).strip()
    wait_until(lambda: states()[session] == 'finished', 'the end')
    return capture_file(session)


def check_stored(user, path):
    """It is the user's still, whoever the service runs as."""
    listed = json.loads(user.run('sondectl', 'list', '--captures', '--json'))['captures']
    check([(one['name'], one['owner']) for one in listed if one['name'] == os.path.basename(path)] ==
          [(os.path.basename(path), user.name)], listed)
    user.run('/usr/bin/python3', '-c', PROGRAM, 'open', os.path.basename(path))
    user.run('sondectl', 'verify', 'stored.syscap')


def check_owner(path, name):
    """On the disk."""
    for one in (path, os.path.dirname(path), '/var/lib/sonde'):
        found = os.stat(one)
        check(found.st_uid == pwd.getpwnam(name).pw_uid, f'{one} is of uid {found.st_uid}')


class Sessions:
    """One of a client and one with a file, which both record what does not stop."""

    def __init__(self, user, target):
        self.user = user
        self.client = user.start_recording('own.syscap', '-p', str(target))
        self.lasting = call('/org/sonde/Profiler1', f'{NAME}.Manager', 'StartSession',
                            GLib.Variant('(a{sv})', ({'pids': GLib.Variant('au', [target])},)))[0]
        self.file = capture_file(self.lasting)
        user.wait_for_capture('own.syscap')
        wait_until(lambda: list(states().values()).count('running') == 2, 'two sessions')
        wait_until(lambda: os.path.getsize(self.file) > 65536, 'samples')

    def finish(self, tap):
        """The captures are whole, whoever brought them to their end."""
        output, _ = self.client.communicate(timeout=DEADLINE_S)
        tap.note(output.strip().replace('\n', ' | '))
        wait_until(lambda: self.lasting not in states() or states()[self.lasting] == 'finished', 'the end')
        for path in (os.path.join(self.user.home, 'own.syscap'), self.file):
            run('sondectl', 'verify', path)
            capture = Capture(path)
            check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()))
            n_lost = sum(capture.ledger.get(name, 0) for name in LOSSES)
            tap.note(f'{capture.counts["SAMPLE"]} samples, {n_lost} lost')
            check(capture.counts['SAMPLE'] > 0 and n_lost == 0, capture.ledger)


def main():
    build, previous = sys.argv[1:]
    tap = Tap(4)
    alice = User('alice')
    target = alice.start('bash', '-c', 'while :; do :; done').pid

    install(previous)
    run('systemctl', 'stop', 'sonded', 'sonde-broker.socket', 'sonde-worker.socket')
    with tap.case('sessions of the release before are brought to their end with all that they recorded'):
        stored = store_capture(alice, target)
        check_owner(stored, 'root')
        before = Sessions(alice, target)
        install(build)  # which restarts the service
        before.finish(tap)
        found = states()
        check(found[before.lasting] == 'finished', found)
        check(': upgrade' in run('journalctl', '--unit=sonded', 'SONDE_EVENT=session-ended', '--output=cat'), 'not a word of it')

    with tap.case('captures stay whose they were, and workers leave nothing of the release before'):
        check_owner(stored, 'sonde')
        check_stored(alice, stored)
        wait_until(lambda: not units('sonde-capture*'), 'the end of its units')
        check(not os.path.exists('/run/sonde/capture'), 'its socket stays')

    with tap.case('new ones begin at once'):
        after = Sessions(alice, target)
        call(after.lasting, f'{NAME}.Session', 'Stop')
        after.client.send_signal(signal.SIGINT)
        after.finish(tap)

    with tap.case('going back, too, loses nothing that was recorded'):
        after = Sessions(alice, target)
        install(previous)
        run('systemctl', 'restart', 'sonded')
        after.finish(tap)
        check_owner(stored, 'root')
        check_owner(after.file, 'root')
        wait_until(lambda: len(processes('sonde-capture')) <= 1, 'the end of the workers')
        wait_until(lambda: not processes('sonde-broker'), 'the end of the brokers')
        install(build)
        Sessions(alice, target)
        check_stored(alice, stored)
    tap.finish()


main()
