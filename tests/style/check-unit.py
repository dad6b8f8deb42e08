#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What systemd says of the units: check-unit.py PROGRAM… -- UNIT…"""

import os
import re
import subprocess
import sys
import tempfile

# systemd-analyze security's exposure level, times ten.
THRESHOLDS = {'sonded.service': 5, 'sonde-broker@.service': 20, 'sonde-worker@.service': 5}


def analyze(*args):
    result = subprocess.run(['systemd-analyze', *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env={**os.environ, 'SYSTEMD_COLORS': '0'}, check=False)
    return result.returncode == 0, result.stdout


def report(number, name, good, output):
    print(f'{"ok" if good else "not ok"} {number} - {name}')
    if not good:
        print(''.join(f'# {line}\n' for line in output.splitlines()[-10:]), end='')


def main():
    end = sys.argv.index('--')
    programs = {os.path.basename(path): os.path.abspath(path) for path in sys.argv[1:end]}
    units = {}
    for path in sys.argv[end + 1:]:
        with open(path, encoding='utf-8') as file:
            units[os.path.basename(path)] = file.read()
    with tempfile.TemporaryDirectory() as folder:

        def verify(change=lambda text: text):
            for name, text in units.items():
                # The programs are not installed yet.
                text = re.sub(r'^ExecStart=\S+/(\S+)', lambda match: f'ExecStart={programs[match[1]]}', text,
                              flags=re.M)
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                    file.write(change(text))
            good, output = analyze('verify', '--man=no',
                                   *(os.path.join(folder, name.replace('@.', '@0-1-0.')) for name in units))
            return good and not output, output

        print(f'1..{2 + len(THRESHOLDS)}')
        report(1, 'systemd finds nothing wrong with the units', *verify())
        for number, (name, threshold) in enumerate(THRESHOLDS.items(), 2):
            good, output = analyze('security', '--offline=true', f'--threshold={threshold}',
                                   os.path.join(folder, name))
            report(number, f'the exposure of {name} is at most {threshold / 10}', good, output)
        good, output = verify(lambda text: text.replace('UMask=', 'Umask='))
        report(number + 1, 'a misspelt setting would be found', not good, output)


main()
