# SPDX-License-Identifier: LGPL-2.1-or-later
"""A systemd with one unit, played on the private bus, whose control group is real."""

import os
import threading

from gi.repository import Gio, GLib

from service import wait_for

NAME = 'org.freedesktop.systemd1'
UNIT_PATH = '/org/freedesktop/systemd1/unit/one'
XML = """
<node>
  <interface name="org.freedesktop.systemd1.Manager">
    <method name="GetUnit"><arg type="s" direction="in"/><arg type="o" direction="out"/></method>
  </interface>
  <interface name="org.freedesktop.systemd1.Service">
    <property name="ControlGroup" type="s" access="read"/>
  </interface>
</node>
"""


def find_hierarchy():
    """Where control groups can be made here: version 2, else systemd's own of version 1."""
    for root in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/systemd'):
        if os.access(os.path.join(root, 'cgroup.procs'), os.W_OK):
            return root
    raise FileNotFoundError('no control groups at /sys/fs/cgroup')


class Service:
    """A unit NAME.service, as a context; its processes end with the context at the latest."""

    def __init__(self, unit):
        self.unit = unit
        self.group = f'/sonde-test-{os.getpid()}-{unit}'
        self.folder = find_hierarchy() + self.group
        self.bus = None

    def __enter__(self):
        os.mkdir(self.folder)
        manager, service = Gio.DBusNodeInfo.new_for_xml(XML).interfaces
        self.bus = bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        bus.register_object('/org/freedesktop/systemd1', manager, self.get_unit, None, None)
        bus.register_object(UNIT_PATH, service, None, lambda *_: GLib.Variant('s', self.group), None)
        threading.Thread(target=GLib.MainLoop().run, daemon=True).start()
        bus.call_sync('org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus', 'RequestName',
                      GLib.Variant('(su)', (NAME, 4)), None, Gio.DBusCallFlags.NONE, -1)
        return self

    def get_unit(self, _bus, _sender, _path, _interface, _method, arguments, invocation):
        if arguments.unpack() == (self.unit,):
            invocation.return_value(GLib.Variant('(o)', (UNIT_PATH,)))
        else:
            invocation.return_dbus_error(f'{NAME}.NoSuchUnit', 'Unit not loaded.')

    def processes(self):
        with open(os.path.join(self.folder, 'cgroup.procs'), encoding='utf-8') as file:
            return [int(pid) for pid in file.read().split()]

    def add(self, pid):
        with open(os.path.join(self.folder, 'cgroup.procs'), 'w', encoding='utf-8') as file:
            file.write(str(pid))

    def __exit__(self, *_):
        for pid in self.processes():
            os.kill(pid, 9)
        wait_for(self.remove, 'the end of the unit')

    def remove(self):
        try:
            os.rmdir(self.folder)
        except OSError:  # somebody is still dying in it
            return False
        return True
