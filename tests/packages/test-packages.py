#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's packages, below tests/fresh/enter: test-packages.py SOURCE DIRECTORY

They are built on one fresh system, and installed, used, upgraded and removed on another, which has them alone. With a third argument,
the folder with the packages, this is the program on the latter."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, DIRECTORY = sys.argv[1:3]
sys.path.append(os.path.join(SOURCE, 'tests/lib'))

from tap import Tap, check

ROOT = os.environ['FRESH_ROOT']
DEADLINE_S = 1500
COPY = '/usr/src/sonde'  # in ROOT
BUILDER = 'builder'
YES = '/usr/src/apt.conf'  # what people answer
# What belongs to those who install, and what programs of others write.
OTHERS = re.compile(r'/(var/(lib/(dpkg|apt|systemd)|cache|log)|proc|sys|dev|tmp|run|usr/src|etc/(passwd|shadow|group|gshadow|subuid|subgid)-?$)')


# What the tests make: users, and what tests/systemd/boot does to a root.
TESTS = ('/home', '/mnt', '/sonde-test', '/etc/systemd')
# What a package leaves when it is removed and not purged.
KEPT = ('/var/lib/sonde', '/etc/sonde', '/etc/apparmor.d')
TYPE = 'application/x-sysprof-capture'


def run(command, root=ROOT, **variables):
    result = subprocess.run(['chroot', root, 'sh', '-euc', command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False,
                            env={'PATH': os.environ['PATH'], 'HOME': '/', 'LC_ALL': 'C.UTF-8', 'DEBIAN_FRONTEND': 'noninteractive',
                                 **variables})
    lines = result.stdout.splitlines()
    output = '\n'.join([line for line in lines[:-60] if re.search(r'(\b(ERROR|FAIL|TIMEOUT)\b|^not ok)', line)] + lines[-60:])
    check(result.returncode == 0, f'{command}: exit status {result.returncode}\n{output}')
    return result.stdout


def answer_yes():
    with open(f'{ROOT}{YES}', 'w', encoding='utf-8') as file:
        file.write('APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n')


def read_command(pattern):
    """What README.md says, without `sudo`."""
    with open(f'{SOURCE}/README.md', encoding='utf-8') as file:
        found = re.findall(f'^ +(sudo .*{pattern}.*)$', file.read(), re.M)
    check(len(found) == 1, f'README.md has these lines with {pattern}: {found}')
    return found[0].removeprefix('sudo ')


def build(folder, options):
    """Packages that an ordinary user makes of the sources in @folder, without a network; and what that printed."""
    command = read_command('dpkg-buildpackage').split(' && ')[1]
    run(f'mkdir {folder}; cp -a {COPY} {folder}/sonde; chown -R {BUILDER}: {folder}')
    log = run(f'cd {folder}/sonde; exec unshare --net sh -euc "ip link set lo up; exec runuser -u {BUILDER} -- {command}"', DEB_BUILD_OPTIONS=options)
    return log, sorted(glob.glob(f'{ROOT}{folder}/*.deb'))


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def boot(*command):
    """Below a real systemd."""
    result = subprocess.run([f'{SOURCE}/tests/systemd/boot', '--root', ROOT, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
    # What it said itself, and the end of the journal.
    said = [line for line in result.stdout.splitlines() if not line.startswith('#')]
    check(result.returncode == 0, '\n'.join(said[-20:]) + result.stdout[-4000:])


def find_files():
    """All that is there, but what dpkg and others note."""
    found = set()
    for folder, folders, names in os.walk(ROOT):
        place = '/' + os.path.relpath(folder, ROOT)
        folders[:] = [name for name in folders if not OTHERS.match(os.path.join(place, name))]
        found.update(os.path.normpath(os.path.join(place, name)) for name in folders + names)
    return {path for path in found if not OTHERS.match(path)}


def use(packages):
    """On the system that has the packages alone."""
    tap = Tap(6)
    answer_yes()
    run('apt-get update -q; apt-get install -y -q --no-install-recommends systemd dbus polkitd gcc libc6-dev pkgconf libglib2.0-dev libglib2.0-bin '
        'python3 apparmor shared-mime-info desktop-file-utils')
    for path in glob.glob(f'{packages}/*.deb'):
        shutil.copy(path, f'{ROOT}/usr/src')
    # What they need of Debian's stays when they go.
    run("cd /usr/src; apt-get install -y -q --no-install-recommends $(for deb in *.deb; do dpkg-deb --show --showformat '${Depends},' $deb; done | "
        "tr ',' '\\n' | sed 's/[(|].*//' | grep -v sonde)")
    before = find_files()

    with tap.case('they are installed together, and programs are built with the libraries'):
        run(f'cd {COPY}; {read_command("apt-get install")}; apt-get install /usr/src/*.deb', APT_CONFIG=YES)
        run('cd /usr/share/doc/sonde/docs/examples; gcc -o /tmp/marks marks.c $(pkg-config --cflags --libs sonde-collector glib-2.0); '
            'gcc -o /tmp/profile-pid profile-pid.c $(pkg-config --cflags --libs sonde-client); /tmp/marks >/dev/null; '
            'python3 -c "import sonde_collector"')

    with tap.case('desktops know captures, and open them with sondectl'):
        said = run(f'cp {COPY}/tests/fuzz/corpus/report/usual /tmp/slow; gio info -a standard::content-type /tmp/slow; gio mime {TYPE}; rm /tmp/slow')
        check(f'content-type: {TYPE}\n' in said and ': org.sonde.sondectl.desktop\n' in said, said)

    with tap.case('users and administrators use the service, below a real systemd, and an upgrade leaves their sessions alone'):
        boot(f'{COPY}/tests/fresh/use-service', '/etc', '/var/lib/sonde', 'sh', '-c', 'dpkg --install /usr/src/*.deb')
        check(os.path.isdir(f'{ROOT}/var/lib/sonde/captures'), 'there are no captures')

    with tap.case('the service that is removed while it records leaves captures and settings alone, and purged nothing'):
        boot(f'{COPY}/debian/tests/remove')
        run('dpkg --install /usr/src/*.deb')
        # What was recorded once is what is kept below.
        run('install -d -o sonde -g sonde /var/lib/sonde/captures; touch /var/lib/sonde/captures/kept')

    names = ' '.join(sorted(os.path.basename(path).split('_')[0] for path in glob.glob(f'{packages}/*.deb')))
    with tap.case('what is removed leaves settings and captures'):
        run(f'dpkg --remove {names}')
        left = {path for path in find_files() - before if not path.startswith(TESTS)}
        check({'/etc/sonde/sonded.conf', '/var/lib/sonde/captures/kept', '/etc/apparmor.d/sonded'} <= left, f'{sorted(left)}')
        others = sorted(path for path in left if not path.startswith(KEPT))
        check(not others, f'{others}')

    with tap.case('what is purged leaves nothing'):
        run(f'dpkg --purge {names}')
        left = sorted(path for path in find_files() - before if not path.startswith(TESTS))
        check(not left, f'{left}')
    tap.finish()


def main():
    tap = Tap(5)
    answer_yes()
    with tap.case('an ordinary user builds them, without a network, and the tests pass'):
        run(f'apt-get update -q; apt-get install -y -q --no-install-recommends build-essential iproute2 lintian blhc; '
            f'cd {COPY}; {read_command("dpkg-buildpackage").split(" && ")[0]}; useradd --create-home {BUILDER}', APT_CONFIG=YES)
        _, packages = build('/usr/src/first', '')
        check(len(packages) >= 10, f'{packages}')

    with tap.case('another build, in another folder and without tests, makes the same'):
        log, again = build('/usr/src/somewhere-else', 'nocheck')  # of the product alone
        different = [os.path.basename(one) for one, other in zip(packages, again) if read(one) != read(other)]
        check(len(packages) == len(again) and not different, f'these differ: {different}')

    with tap.case('they are hardened (blhc)'):
        with open(f'{ROOT}/usr/src/build.log', 'w', encoding='utf-8') as file:
            file.write(log)
        run('blhc --all --debian --color /usr/src/build.log')
        # It has read the commands, and would have complained.
        with open(f'{ROOT}/usr/src/soft.log', 'w', encoding='utf-8') as file:
            file.write(log.replace('-fstack-protector-strong', ''))
        run('status=0; blhc --all --debian /usr/src/soft.log >/dev/null || status=$?; [ $status = 8 ]')

    with tap.case('lintian finds nothing'):
        said = run('cd /usr/src/first; lintian --fail-on error,warning --profile debian --tag-display-limit 0 ./*.changes')
        for line in said.splitlines():
            tap.note(line)

    with tap.case('they work where there is nothing but them'), tempfile.TemporaryDirectory(dir='/tmp') as folder:
        for path in packages:
            if '-dbgsym_' not in path:
                shutil.copy(path, folder)
        result = subprocess.run([f'{SOURCE}/tests/fresh/enter', DIRECTORY, SOURCE, sys.executable, '-B', os.path.abspath(__file__), SOURCE,
                                 DIRECTORY, folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=DEADLINE_S, check=False, env={'PATH': os.environ['PATH'], 'HOME': '/'})
        check(result.returncode == 0 and 'not ok' not in result.stdout, result.stdout[-6000:])
    tap.finish()


if len(sys.argv) > 3:
    use(sys.argv[3])
else:
    main()
