#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What README.md says, on a fresh Debian, below tests/fresh/enter: test-fresh.py SOURCE RELEASE"""

import glob
import os
import re
import subprocess
import sys

SOURCE, RELEASE = sys.argv[1:]
sys.path.append(os.path.join(SOURCE, 'tests/lib'))

from tap import Tap, check

ROOT = os.environ['FRESH_ROOT']
DEADLINE_S = 1500  # for what builds
COPY = '/usr/src/sonde'  # in ROOT
# Unit tests wait for most of their time.
ENVIRONMENT = {'PATH': os.environ['PATH'], 'HOME': '/', 'MESON_TESTTHREADS': str(2 * os.cpu_count())}
# Folders of the configuration and of captures, as Meson has them.
PREFIXES = {'/usr/local': ('/usr/local/etc', '/var/local/lib/sonde'), '/usr': ('/etc', '/var/lib/sonde')}


def run(*command):
    """In the fresh system, as root in the sources, with nothing of this environment."""
    return finish('chroot', ROOT, 'sh', '-euc', f'cd {COPY}; exec "$@"', 'sh', *command)


def finish(*command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=DEADLINE_S, check=False, env=ENVIRONMENT)
    lines = result.stdout.splitlines()
    output = '\n'.join([line for line in lines[:-60] if re.search(r'\b(ERROR|FAIL|TIMEOUT)\b', line)] + lines[-60:])
    check(result.returncode == 0, f'{" ".join(command)}: exit status {result.returncode}\n{output}')
    return result.stdout


def read_install_line():
    with open(f'{ROOT}{COPY}/README.md', encoding='utf-8') as file:
        lines = re.findall(r'^ *(meson setup build.*meson install.*)$', file.read(), re.M)
    check(len(lines) == 1, f'README.md has these lines that install: {lines}')
    return lines[0].replace('sudo ', '')


def check_service(prefix):
    finish(f'{SOURCE}/tests/systemd/boot', '--root', ROOT, f'{COPY}/tests/fresh/use-service', *PREFIXES[prefix],
           'meson', 'install', '-C', f'{COPY}/build', '--no-rebuild', '--quiet')


def main():
    is_strict = RELEASE == 'sid'  # where the newest compilers are
    # Elsewhere it is what the suite systemd-ns runs.
    with_usr = RELEASE != 'bookworm'
    tap = Tap(4 + is_strict + with_usr)

    if is_strict:
        with tap.case('it builds without a warning'):
            run('tools/setup.sh', 'build', 'demo')
            run('meson', 'setup', 'build', '--werror')
            run('meson', 'compile', '-C', 'build')

    with tap.case('tools/demo.sh installs what it needs, builds, profiles and draws'):
        run('tools/demo.sh')
        pages = glob.glob(f'{ROOT}{COPY}/build/*.html')
        check(pages and all(os.path.getsize(page) > 0 for page in pages), f'{pages}')

    with tap.case('the suite unit passes with what building and the demo need'):
        run('meson', 'compile', '-C', 'build')
        output = run('meson', 'test', '-C', 'build', '--suite', 'unit')
        tap.note(' '.join(' '.join(line.split()) for line in output.splitlines() if re.match('(Ok|Fail|Skipped):', line)))

    with tap.case('README\'s line installs it'):
        run('sh', '-euc', read_install_line())

    with tap.case('users and administrators use what it installed, below a real systemd'):
        check_service('/usr/local')

    if with_usr:
        with tap.case('the same below /usr'):
            run('ninja', '-C', 'build', 'uninstall')
            run('rm', '-r', 'build')  # else it keeps the other folders of /usr/local
            run('meson', 'setup', 'build', '--prefix=/usr', '-Dtests=disabled')
            run('meson', 'install', '-C', 'build')
            check_service('/usr')

    tap.finish()


main()
