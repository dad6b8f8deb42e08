#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What desktops make of captures, by their own tools: test-desktop.py BUILD SOURCE"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(sys.argv[2], 'tests/lib'))
DEADLINE_S, Skip, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Skip', 'Tap', 'check'))

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = f'{SOURCE}/client/desktop'
ID = 'org.sonde.sondectl'
TYPE = 'application/x-sysprof-capture'
CAPTURE = f'{SOURCE}/tests/fuzz/corpus/report/usual'
# As Sysprof 3.46 to 50 install it.
SYSPROF = f'''<?xml version="1.0" encoding="UTF-8"?>
<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">
  <mime-type type="{TYPE}">
    <comment>Sysprof Capture</comment>
    <glob pattern="*.syscap"/>
    <generic-icon name="org.gnome.Sysprof"/>
  </mime-type>
</mime-info>
'''
# Takes the place of a browser.
XDG_OPEN = '#!/bin/sh\nprintf "%s\\n" "$1" >"$HOME/opened.new" && mv "$HOME/opened.new" "$HOME/opened"\n'


class Desktop:
    """Folders as packages fill them, and a home."""

    def __init__(self, folder, *types):
        self.share, self.home = f'{folder}/share', f'{folder}/home'
        for name in ('applications', 'mime/packages'):
            os.makedirs(f'{self.share}/{name}')
        os.makedirs(f'{self.home}/bin')
        os.mkdir(f'{self.home}/run', 0o700)
        shutil.copy(f'{FOLDER}/{ID}.desktop', f'{self.share}/applications')
        shutil.copy(f'{FOLDER}/{ID}.xml', f'{self.share}/mime/packages')
        for name, text in types:
            self.write(f'{self.share}/mime/packages/{name}', text)
        self.environment = {'PATH': f'{self.home}/bin:{BUILD}/client:/usr/bin:/bin', 'HOME': self.home, 'LC_ALL': 'C.UTF-8',
                            'XDG_DATA_DIRS': self.share, 'XDG_RUNTIME_DIR': f'{self.home}/run', 'DISPLAY': ':none',
                            'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '')}
        said = self.run('update-mime-database', f'{self.share}/mime') + self.run('update-desktop-database', f'{self.share}/applications')
        check(not said, said)

    def write(self, path, text):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)

    def run(self, *command):
        """Everything that a program says which must succeed."""
        check(shutil.which(command[0]), f'there is no {command[0]}: tools/packages.txt', Skip)
        result = subprocess.run(command, env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
        check(result.returncode == 0, f'{" ".join(command)}: {result.returncode} {result.stdout}')
        return result.stdout

    def type_of(self, path):
        return re.search(r'standard::content-type: (\S+)', self.run('gio', 'info', '-a', 'standard::content-type', path))[1]


def validate(path, *command):
    """What a validator says of a file, and whether it has no objection."""
    check(shutil.which(command[0]), f'there is no {command[0]}: tools/packages.txt', Skip)
    result = subprocess.run([*command, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=DEADLINE_S, check=False)
    return result.returncode == 0, result.stdout


def check_validator(folder, name, wrong, *command):
    """It has none, and would have one."""
    good, said = validate(f'{FOLDER}/{name}', *command)
    check(good, said)
    with open(f'{FOLDER}/{name}', encoding='utf-8') as file:
        text = file.read()
    for before, after in wrong:
        check(before in text, before)
        path = f'{folder}/{name}'
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text.replace(before, after))
        good, said = validate(path, *command)
        check(not good, f'{after!r} is accepted: {said}')


def main():
    tap = Tap(5)
    with tempfile.TemporaryDirectory() as folder, tap.case('desktop-file-validate and appstreamcli find nothing wrong, and would'):
        check_validator(folder, f'{ID}.desktop', [('Exec=sondectl view %f', 'Exec=sondectl view %f %u'), ('Type=Application\n', '')],
                        'desktop-file-validate', '--warn-kde')
        check_validator(folder, f'{ID}.metainfo.xml', [(f'<id>{ID}</id>', '<id></id>'), ('<summary>', '<sumary>')],
                        'appstreamcli', 'validate', '--no-net', '--strict')

    with tempfile.TemporaryDirectory() as folder, tap.case('a capture is one by its name, and by its first bytes alone'):
        desktop = Desktop(folder)
        for name in ('slow.syscap', 'slow', 'SLOW.SYSCAP'):
            shutil.copy(CAPTURE, f'{desktop.home}/{name}')
            check(desktop.type_of(name) == TYPE, f'{name}: {desktop.type_of(name)}')
        desktop.write(f'{desktop.home}/text', 'a text\n')
        check(desktop.type_of('text') != TYPE, 'a text is one, too')

    with tempfile.TemporaryDirectory() as folder, tap.case('Sysprof may be installed, too, whichever is read first'):
        for before in ('a', 'z'):
            desktop = Desktop(f'{folder}/{before}', (f'{before}-sysprof-mime.xml', SYSPROF))
            shutil.copy(CAPTURE, f'{desktop.home}/slow.syscap')
            check(desktop.type_of('slow.syscap') == TYPE, desktop.type_of('slow.syscap'))

    with tempfile.TemporaryDirectory() as folder, tap.case('sondectl is what opens it, and it is in no menu'):
        desktop = Desktop(folder)
        said = desktop.run('gio', 'mime', TYPE)
        check(f': {ID}.desktop\n' in said, said)
        said = desktop.run('xdg-mime', 'query', 'default', TYPE)
        check(said.strip() == f'{ID}.desktop', said)
        with open(f'{FOLDER}/{ID}.desktop', encoding='utf-8') as file:
            check('\nNoDisplay=true\n' in file.read(), 'a menu would have it')

    with tempfile.TemporaryDirectory() as folder, tap.case('opened, it is a page in the browser'):
        desktop = Desktop(folder)
        desktop.write(f'{desktop.home}/bin/xdg-open', XDG_OPEN)
        os.chmod(f'{desktop.home}/bin/xdg-open', 0o755)
        path = f'{desktop.home}/a name with blanks.syscap'
        shutil.copy(CAPTURE, path)
        desktop.run('timeout', str(DEADLINE_S), 'sh', '-euc',
                    f'gio launch "$1" "$2"; until [ -e "$HOME/opened" ]; do sleep 0.1; done', 'sh',
                    f'{desktop.share}/applications/{ID}.desktop', path)
        with open(f'{desktop.home}/opened', encoding='utf-8') as file:
            page = file.read().strip()
        with open(page, encoding='utf-8') as file:
            check('<html' in file.read(), page)

    tap.finish()


main()
