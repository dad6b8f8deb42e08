# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the Python tests over a private bus share: users, processes, the service."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from tap import DEADLINE_S, Tap  # noqa: E402

# Users of base-passwd, which every Debian has. Quotas count per user.
USERS = (2, 3, 5, 6, 7, 8, 9, 10, 13, 33, 34, 38, 39, 65534)


def wait_for(condition, what):
    """The first true value of condition ()."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f'waited in vain for {what}')


class Service(Tap):
    """One test program below tests/lib/private-bus. Arguments: SOURCE BUILD."""

    def __init__(self, n_cases):
        self.source, self.build = sys.argv[1:3]
        super().__init__(n_cases)
        # The bus's own file system goes with its namespace, and every user may enter it.
        self.folder = tempfile.mkdtemp(
            dir=os.path.dirname(os.environ['DBUS_SYSTEM_BUS_ADDRESS'].partition('=')[2]))
        os.chmod(self.folder, 0o755)
        self.users = iter(USERS)

    def install(self, path):
        """A copy that every user may run, of a program of the build or of the checkout."""
        for root in (self.build, self.source):
            if os.path.exists(os.path.join(root, path)):
                name = shutil.copy(os.path.join(root, path), self.folder)
                os.chmod(name, 0o755)
                return name
        raise FileNotFoundError(path)

    def install_sondectl(self):
        """sondectl, which finds its library where the build has it: beside itself."""
        library = os.path.join(self.folder, 'library')
        os.makedirs(library, exist_ok=True)
        shutil.copy(os.path.join(self.build, 'client/library/libsonde-client.so.0'), library)
        os.chmod(library, 0o755)
        return self.install('client/sondectl')

    def next_user(self):
        return next(self.users)

    def make_folder(self, user):
        name = tempfile.mkdtemp(dir=self.folder)
        os.chown(name, user, user)
        return name

    def start(self, user, *command, **options):
        """A process of that user that has executed a program since, so that the user may read it.
        It ends with the namespace at the latest."""
        prefix = ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups']
        options = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE,
                   'text': True, 'cwd': '/', **options}
        return subprocess.Popen([*prefix, *command], **options)

    def start_burner(self, user):
        """Burns CPU time in main()."""
        burner = self.start(user, self.install('tests/system/burn'), '600')
        wait_for(lambda: os.path.basename(os.readlink(f'/proc/{burner.pid}/exe')) == 'burn',
                 'the exec of burn')
        return burner

    def run(self, user, *command, **options):
        process = self.start(user, *command, **options)
        output, errors = process.communicate(timeout=DEADLINE_S)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def busctl(self, *arguments):
        return subprocess.run(['busctl', '--system', *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout

    def daemon_pid(self):
        """Of the sonded that has the name now."""
        answer = self.busctl('call', 'org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus',
                             'GetConnectionUnixProcessID', 's', 'org.sonde.Profiler1')
        return int(answer.split()[1])

    def list_sessions(self):
        """[(number, owner, state)], as root sees them."""
        answer = self.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                             'org.sonde.Profiler1.Manager', 'ListSessions')
        return [(int(number), int(owner), state) for number, owner, state
                in re.findall(r'"/org/sonde/Profiler1/session/(\d+)" (\d+) "(\w+)"', answer)]

    def wait_running(self, user):
        """The number of the session of that user, once it runs."""
        return wait_for(lambda: [number for number, owner, state in self.list_sessions()
                                 if owner == user and state == 'running'],
                        f'a running session of user {user}')[0]
