# SPDX-License-Identifier: LGPL-2.1-or-later
"""A systemd, played on the private bus: units, their drop-ins, and one whose control group is real."""

import glob
import os
import re
import shlex
import threading
import uuid

from gi.repository import Gio, GLib

from service import wait_for

NAME = 'org.freedesktop.systemd1'
MANAGER_PATH = '/org/freedesktop/systemd1'
XML = """
<node>
  <interface name="org.freedesktop.systemd1.Manager">
    <property name="Environment" type="as" access="read"/>
    <method name="GetUnit"><arg type="s" direction="in"/><arg type="o" direction="out"/></method>
    <method name="LoadUnit"><arg type="s" direction="in"/><arg type="o" direction="out"/></method>
    <method name="Reload"/>
    <method name="Subscribe"/>
    <method name="RestartUnit">
      <arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="o" direction="out"/>
    </method>
  </interface>
  <interface name="org.freedesktop.systemd1.Unit">
    <property name="Id" type="s" access="read"/>
    <property name="LoadState" type="s" access="read"/>
  </interface>
  <interface name="org.freedesktop.systemd1.Service">
    <property name="ControlGroup" type="s" access="read"/>
    <property name="Environment" type="as" access="read"/>
    <property name="EnvironmentFiles" type="a(sb)" access="read"/>
    <property name="UnsetEnvironment" type="as" access="read"/>
    <property name="ExecStart" type="a(sasbttttuii)" access="read"/>
    <property name="User" type="s" access="read"/>
    <property name="RootDirectory" type="s" access="read"/>
    <property name="NoNewPrivileges" type="b" access="read"/>
    <property name="PrivateMounts" type="b" access="read"/>
    <property name="LockPersonality" type="b" access="read"/>
    <property name="SystemCallFilter" type="(bas)" access="read"/>
  </interface>
</node>
"""
NODE = Gio.DBusNodeInfo.new_for_xml(XML)
SIGNATURES = {item.name: item.signature for interface in NODE.interfaces[1:] for item in interface.properties}
EMPTY = {'s': '', 'b': False, '(bas)': (False, [])}


def find_hierarchy():
    """Where control groups can be made here: version 2, else systemd's own of version 1."""
    for root in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/systemd'):
        if os.access(os.path.join(root, 'cgroup.procs'), os.W_OK):
            return root
    raise FileNotFoundError('no control groups at /sys/fs/cgroup')


class Manager:
    """Units by name, with their properties; what is not there is empty. Names of calls are kept."""

    def __init__(self, units, folder='/run/systemd/system', bus=None, environment=()):
        self.units, self.folder, self.environment = units, folder, list(environment)
        self.calls, self.job_result, self.fails = [], 'done', ()
        self.paths, self.drop_ins = {}, {}
        self.bus = bus or Gio.bus_get_sync(Gio.BusType.SYSTEM)

    def start(self):
        self.bus.register_object(MANAGER_PATH, NODE.interfaces[0], self.call,
                                 lambda *_: GLib.Variant('as', self.environment), None)
        threading.Thread(target=GLib.MainLoop().run, daemon=True).start()
        self.own()

    def own(self):
        self.call_bus('RequestName', '(su)', (NAME, 4))

    def leave(self):
        self.call_bus('ReleaseName', '(s)', (NAME,))

    def call_bus(self, method, signature, arguments):
        self.bus.call_sync('org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus', method,
                           GLib.Variant(signature, arguments), None, Gio.DBusCallFlags.NONE, -1)

    def register(self, unit):
        if unit not in self.paths:
            self.paths[unit] = f'{MANAGER_PATH}/unit/u{len(self.paths)}'
            for interface in NODE.interfaces[1:]:
                self.bus.register_object(self.paths[unit], interface, None,
                                         lambda _bus, _sender, _path, _interface, name: self.get(unit, name), None)
        return self.paths[unit]

    def get(self, unit, name):
        properties = self.units.get(unit, {})
        if name == 'Environment':
            value = [*properties.get(name, []), *self.drop_ins.get(properties.get('Id', unit), [])]
        elif name in ('Id', 'LoadState'):
            value = properties.get(name, unit if name == 'Id' else 'loaded' if unit in self.units else 'not-found')
        else:
            value = properties.get(name, EMPTY.get(SIGNATURES[name], []))
        return GLib.Variant(SIGNATURES[name], value)

    def read_drop_ins(self):
        """Environment= alone, as systemd.syntax(7) has it."""
        self.drop_ins = {}
        for path in sorted(glob.glob(f'{self.folder}/*.d/*.conf')):
            with open(path, encoding='utf-8') as file:
                lines = re.findall('^Environment=(.*)$', file.read(), re.M)
            unit = os.path.basename(os.path.dirname(path))[:-2]
            self.drop_ins.setdefault(unit, []).extend(word.replace('%%', '%') for line in lines for word in shlex.split(line))

    def call(self, _bus, _sender, _path, _interface, method, arguments, invocation):
        self.calls.append(method)
        unit = arguments.unpack()[0] if arguments.n_children() else None
        if method in self.fails:
            invocation.return_dbus_error(f'{NAME}.Played', 'It does not.')
        elif method == 'GetUnit' and unit not in self.units:
            invocation.return_dbus_error(f'{NAME}.NoSuchUnit', 'Unit not loaded.')
        elif method in ('GetUnit', 'LoadUnit'):
            invocation.return_value(GLib.Variant('(o)', (self.register(unit),)))
        elif method == 'RestartUnit':
            invocation.return_value(GLib.Variant('(o)', (f'{MANAGER_PATH}/job/1',)))
            if self.job_result:
                self.bus.emit_signal(None, MANAGER_PATH, f'{NAME}.Manager', 'JobRemoved',
                                     GLib.Variant('(uoss)', (1, f'{MANAGER_PATH}/job/1', unit, self.job_result)))
            else:
                self.leave()
        else:
            if method == 'Reload':
                self.read_drop_ins()
            invocation.return_value(None)


class Service:
    """A unit NAME.service, as a context; its processes end with the context at the latest."""

    def __init__(self, unit):
        # In namespaces of their own others have the same pid.
        self.group = f'/sonde-test-{uuid.uuid4().hex}-{unit}'
        self.folder = find_hierarchy() + self.group
        self.manager = Manager({unit: {'ControlGroup': self.group}})

    def __enter__(self):
        os.mkdir(self.folder)
        self.manager.start()
        return self

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
