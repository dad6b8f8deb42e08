#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where things are installed, by prefix: check-install.py SOURCE_ROOT"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

from tap import Tap, check

SOURCE = sys.argv[1]
# What systemd, the bus and polkit of Debian 12 and 13 read.
READ = {
    'sonded.service': {'/usr/lib/systemd/system', '/usr/local/lib/systemd/system'},
    'org.sonde.Profiler1.conf': {'/usr/share/dbus-1/system.d', '/etc/dbus-1/system.d'},
    'org.sonde.Profiler1.service': {'/usr/share/dbus-1/system-services', '/usr/local/share/dbus-1/system-services'},
    'org.sonde.profiler1.policy': {'/usr/share/polkit-1/actions'},
    'sonde.rules': {'/etc/polkit-1/rules.d', '/usr/share/polkit-1/rules.d'},
    'sonde.conf': {'/usr/lib/sysusers.d', '/usr/local/lib/sysusers.d'},
    'sonde-beacon.conf': {'/usr/lib/tmpfiles.d', '/usr/local/lib/tmpfiles.d'},
}


def configure(folder, *options):
    """Where each file will be, and what Meson says."""
    result = subprocess.run(['meson', 'setup', folder, SOURCE, '-Dtests=disabled', *options], capture_output=True, text=True,
                            check=False)
    check(result.returncode == 0, result.stdout[-2000:])
    listed = subprocess.run(['meson', 'introspect', '--installed', folder], capture_output=True, text=True, check=True).stdout
    return {os.path.basename(path): path for path in json.loads(listed).values()}, result.stdout


def main():
    cases = {('/usr', '/etc', '/var/lib/sonde'): [], ('/usr/local', '/usr/local/etc', '/var/local/lib/sonde'): [],
             ('/usr', '/opt/etc', '/srv/state/lib/sonde'): ['--sysconfdir=/opt/etc', '--localstatedir=/srv/state']}
    tap = Tap(len(cases) + 2)
    for (prefix, sysconfdir, statedir), options in cases.items():
        with tap.case(f'below {prefix}, with {sysconfdir}, everything lies where it is read'), tempfile.TemporaryDirectory() as folder:
            files, said = configure(folder, f'--prefix={prefix}', *options)
            for name, places in READ.items():
                check(os.path.dirname(files[name]) in places, f'{name} is in {files[name]}')
            check(files['sonded.conf'] == f'{sysconfdir}/sonde/sonded.conf', files['sonded.conf'])
            check('After installing' not in said, said)
            with open(f'{folder}/systemd/sonded.service', encoding='utf-8') as file:
                unit = file.read()
            wanted = 'StateDirectory=sonde' if statedir == '/var/lib/sonde' else f'BindPaths=-{statedir}'
            check(f'{wanted}\n' in unit and f'=-{sysconfdir}/sonde\n' in unit, unit)
            with open(f'{folder}/config.h', encoding='utf-8') as file:
                config = file.read()
            check(f'"{statedir}"' in config and f'"{sysconfdir}/sonde/sonded.conf"' in config, config)

    with tap.case('another prefix keeps everything inside, and how to copy it is said'), tempfile.TemporaryDirectory() as folder:
        files, said = configure(folder, '--prefix=/opt/sonde')
        outside = [path for path in files.values() if not path.startswith('/opt/sonde/')]
        check(not outside, f'{outside}')
        for name in ('sonde*', 'org.sonde.Profiler1.conf', 'org.sonde.Profiler1.service', 'org.sonde.profiler1.policy',
                     'sonde.rules', 'sonde.conf', 'sonde-beacon.conf'):
            check(f'/{name}\n' in said, f'{name} is not to be copied: {said}')
        # The bus drops what it reads of a user who is not there.
        check(said.index('systemd-sysusers\n') < said.index('/org.sonde.Profiler1.conf\n'), said)

    with tap.case('folders can be named'), tempfile.TemporaryDirectory() as folder:
        files, said = configure(folder, '--prefix=/usr', '-Dsystemdsystemunitdir=/a', '-Ddbuspolicydir=/b',
                                '-Ddbussystemservicedir=/c', '-Dpolkitactiondir=/d', '-Dpolkitrulesdir=/e', '-Dsysusersdir=/f',
                                '-Dtmpfilesdir=/g')
        check([os.path.dirname(files[name]) for name in READ] == ['/a', '/b', '/c', '/d', '/e', '/f', '/g'], f'{files}')

    tap.finish()


main()
