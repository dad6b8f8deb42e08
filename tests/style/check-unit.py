#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What systemd says of the unit: check-unit.py UNIT SONDED"""

import os
import re
import subprocess
import sys
import tempfile

THRESHOLD = 25  # systemd-analyze security's exposure level, times ten


def analyze(*args):
    result = subprocess.run(['systemd-analyze', *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env={**os.environ, 'SYSTEMD_COLORS': '0'}, check=False)
    return result.returncode == 0, result.stdout


def report(number, name, good, output):
    print(f'{"ok" if good else "not ok"} {number} - {name}')
    if not good:
        print(''.join(f'# {line}\n' for line in output.splitlines()[-10:]), end='')


def main():
    unit, sonded = map(os.path.abspath, sys.argv[1:])
    with open(unit, encoding='utf-8') as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(unit))

        def verify(content):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(content)
            good, output = analyze('verify', '--man=no', path)
            return good and not output, output

        # The program is not installed yet.
        built = re.sub(r'^ExecStart=\S+', f'ExecStart={sonded}', text, flags=re.M)
        print('1..3')
        report(1, 'systemd finds nothing wrong with the unit', *verify(built))
        good, output = analyze('security', '--offline=true', f'--threshold={THRESHOLD}', path)
        report(2, f'its exposure is at most {THRESHOLD / 10}', good, output)
        good, output = verify(built.replace('UMask=', 'Umask='))
        report(3, 'a misspelt setting would be found', not good, output)


main()
