#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the release before this one to this one and back, below systemd: test-upgrade.py BUILD PREVIOUS_BUILD"""

import os
import signal
import sys

from gi.repository import Gio, GLib

from inside import DEADLINE_S, Capture, User, check, processes, run, wait_until
from tap import Tap

NAME = 'org.sonde.Profiler1'
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
    tap = Tap(3)
    alice = User('alice')
    target = alice.start('bash', '-c', 'while :; do :; done').pid

    install(previous)
    run('systemctl', 'stop', 'sonded', 'sonde-broker.socket', 'sonde-worker.socket')
    with tap.case('sessions of the release before are brought to their end with all that they recorded'):
        before = Sessions(alice, target)
        install(build)  # which restarts the service
        before.finish(tap)
        found = states()
        check(found[before.lasting] == 'finished', found)
        check(': upgrade' in run('journalctl', '--unit=sonded', 'SONDE_EVENT=session-ended', '--output=cat'), 'not a word of it')

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
        wait_until(lambda: len(processes('sonde-capture')) <= 1, 'the end of the workers')
        install(build)
        Sessions(alice, target)
    tap.finish()


main()
