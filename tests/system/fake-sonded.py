#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A sonded whose streams are what the environment says: fake-sonded.py --peer-fd=3, with FAKE_STREAM in hexadecimal

FAKE_ERROR, a name of D-Bus and a message, is what it answers instead; FAKE_STATISTICS is JSON."""

import json
import os
import socket

from gi.repository import Gio, GLib

PATH = '/org/sonde/Profiler1'
SESSION = f'{PATH}/session/1'
INTERFACES = '''<node>
  <interface name="org.sonde.Profiler1.Manager">
    <method name="Profile"><arg type="a{sv}"/><arg type="o" direction="out"/><arg type="h" direction="out"/></method>
  </interface>
  <interface name="org.sonde.Profiler1.Session">
    <method name="Stop"><arg type="a{st}" direction="out"/></method>
    <signal name="Finished"><arg type="s"/><arg type="a{st}"/></signal>
  </interface>
</node>'''


def answer(bus, _sender, _path, _interface, method, _parameters, invocation):
    if method != 'Profile':
        invocation.return_value(GLib.Variant('(a{st})', ({},)))
        return
    if 'FAKE_ERROR' in os.environ:
        invocation.return_dbus_error(*os.environ['FAKE_ERROR'].split(' ', 1))
        return
    statistics = json.loads(os.environ.get('FAKE_STATISTICS', '{}'))
    ours, theirs = socket.socketpair()
    fds = Gio.UnixFDList()
    handle = fds.append(theirs.fileno())
    ours.sendall(bytes.fromhex(os.environ['FAKE_STREAM']))
    invocation.return_value_with_unix_fd_list(GLib.Variant('(oh)', (SESSION, handle)), fds)
    bus.emit_signal(None, SESSION, 'org.sonde.Profiler1.Session', 'Finished', GLib.Variant('(sa{st})', ('stopped', statistics)))


def main():
    loop = GLib.MainLoop()
    stream = Gio.Socket.new_from_fd(3).connection_factory_create_connection()
    bus = Gio.DBusConnection.new_sync(
        stream, Gio.dbus_generate_guid(),
        Gio.DBusConnectionFlags.AUTHENTICATION_SERVER | Gio.DBusConnectionFlags.DELAY_MESSAGE_PROCESSING, None, None)
    interfaces = {found.name: found for found in Gio.DBusNodeInfo.new_for_xml(INTERFACES).interfaces}
    bus.register_object(PATH, interfaces['org.sonde.Profiler1.Manager'], answer, None, None)
    bus.register_object(SESSION, interfaces['org.sonde.Profiler1.Session'], answer, None, None)
    bus.connect('closed', lambda *_: loop.quit())
    bus.start_message_processing()
    loop.run()


main()
