#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""sondectl view, with an xdg-open that tells what it was given: test-view.py BUILD SOURCE"""

import importlib
import os
import stat
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(sys.argv[2], 'tests', folder) for folder in ('lib', 'fuzz')]
DEADLINE_S, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Tap', 'check'))
seeds = importlib.import_module('make-report-corpus')

SONDECTL = os.path.join(sys.argv[1], 'client/sondectl')
CAPTURE = seeds.capture([seeds.process(42, b'prog'), seeds.sample(42, [seeds.USER, 0x401010])], 1)


class Case:
    def __init__(self, folder, opener='echo "$1" >"$OPENED"'):
        self.folder = folder
        self.capture = self.write("a'b c.syscap", CAPTURE)
        self.opened = os.path.join(folder, 'opened')
        self.run_time = os.path.join(folder, 'run')
        self.caches = os.path.join(folder, 'cache')
        for path in (self.run_time, os.path.join(folder, 'bin')):
            os.mkdir(path, 0o700)
        if opener is not None:
            os.chmod(self.write('bin/xdg-open', f'#!/bin/sh\n{opener}\n'.encode()), 0o755)

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, 'wb') as file:
            file.write(data)
        return path

    def view(self, *arguments, status=0, **environment):
        result = subprocess.run([SONDECTL, 'view', *arguments, self.capture], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False,
                                env={**os.environ, 'PATH': f'{self.folder}/bin:/usr/bin/nothing', 'OPENED': self.opened,
                                     'XDG_RUNTIME_DIR': self.run_time, 'XDG_CACHE_HOME': self.caches, 'DISPLAY': ':1',
                                     **environment})
        check(result.returncode == status, f'exit status {result.returncode}: {result.stderr}')
        check(not result.stdout, result.stdout)
        return result.stderr

    def page(self):
        """The path that was opened."""
        with open(self.opened, encoding='utf-8') as file:
            return file.read().rstrip('\n')


def test_no_opener(folder):
    case = Case(folder, opener=None)
    text = case.view(status=1)
    check('Cannot run xdg-open' in text and f'Wrote {case.run_time}/sonde-view/a_b_c-' in text, text)


def test_opener_that_fails(folder):
    text = Case(folder, opener='exit 3').view(status=1)
    check('xdg-open found no browser (status 3)' in text and 'Wrote ' in text, text)


def test_no_display(folder):
    """xdg-open would run a browser for terminals, which draws into nothing."""
    case = Case(folder)
    text = case.view(status=1, DISPLAY='', WAYLAND_DISPLAY='', BROWSER='')
    check('There is no display' in text and 'Wrote ' in text, text)
    check(not os.path.exists(case.opened), 'it was opened')
    case.view(DISPLAY='', BROWSER='w3m')
    check(case.page(), 'no page')


def test_no_capture(folder):
    case = Case(folder)
    case.capture = '/nonexistent'
    case.view(status=1)
    check(not os.path.exists(case.opened) and not os.listdir(case.run_time), 'a page')


def test_folder_of_others(folder):
    """What is in the place of the folder is neither followed nor written into."""
    case = Case(folder)
    os.mkdir(os.path.join(folder, 'elsewhere'))
    os.symlink(os.path.join(folder, 'elsewhere'), os.path.join(case.run_time, 'sonde-view'))
    case.view()
    check(case.page().startswith(f'{case.caches}/sonde-view/'), case.page())
    check(not os.listdir(os.path.join(folder, 'elsewhere')), 'it was followed')
    os.unlink(os.path.join(case.run_time, 'sonde-view'))
    os.mkdir(os.path.join(case.run_time, 'sonde-view'))
    os.chmod(os.path.join(case.run_time, 'sonde-view'), 0o777)
    case.view()
    check(case.page().startswith(f'{case.caches}/sonde-view/'), case.page())
    if os.getuid() == 0:
        os.chmod(os.path.join(case.run_time, 'sonde-view'), 0o700)
        os.chown(os.path.join(case.run_time, 'sonde-view'), 1234, 1234)
        case.view()
        check(case.page().startswith(f'{case.caches}/sonde-view/'), case.page())
        os.rmdir(os.path.join(case.run_time, 'sonde-view'))
        os.chown(case.run_time, 1234, 1234)
        case.view()
        check(case.page().startswith(f'{case.caches}/sonde-view/'), case.page())
        check(not os.listdir(case.run_time), 'something in the place of another user')


def test_private(folder):
    case = Case(folder)
    os.mkdir(os.path.join(case.run_time, 'sonde-view'), 0o755)
    os.umask(0)
    case.view('--by', 'process')
    page = case.page()
    check(page.startswith(f'{case.run_time}/sonde-view/a_b_c-') and page.endswith('.html'), page)
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (page, os.path.dirname(page))]
    check(modes == [0o600, 0o700], modes)
    with open(page, encoding='utf-8') as file:
        check('</html>' in file.read(), 'no page')


def test_next(folder):
    """A page stays as long as its browser may still be on its way; what is no page of ours stays, too."""
    case = Case(folder)
    case.view()
    first = case.page()
    case.view()
    second = case.page()
    check(first != second and os.path.exists(first), f'{first} {second}')
    other = case.write('run/sonde-view/other', b'')
    for path in (first, other):
        os.utime(path, (time.time() - 100, time.time() - 100))
    case.view()
    check([os.path.exists(path) for path in (first, second, other, case.page())] == [False, True, True, True], os.listdir(case.run_time))


def test_no_run_time_folder(folder):
    case = Case(folder)
    case.view(XDG_RUNTIME_DIR='')
    check(case.page().startswith(f'{case.caches}/sonde-view/'), case.page())


def main():
    cases = {'without xdg-open it says where the page is': test_no_opener,
             'an xdg-open that fails is an error': test_opener_that_fails,
             'without a display nothing is opened': test_no_display,
             'of what is no capture nothing is opened': test_no_capture,
             'a folder that is not ours is left alone': test_folder_of_others,
             'the page is for nobody else': test_private,
             'the next call removes it': test_next,
             'without a run-time folder it is among the caches': test_no_run_time_folder}
    tap = Tap(len(cases))
    for name, test in cases.items():
        with tap.case(name), tempfile.TemporaryDirectory() as folder:
            test(folder)
    tap.finish()


main()
