#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What sondectl arm writes, keeps, refuses and takes back, below a played systemd: test-arm.py SOURCE BUILD"""

import os
import re
import shutil
import stat
import subprocess
import sys

from gi.repository import Gio

import systemd
from service import DEADLINE_S, Service
from tap import check

FOLDER = '/run/systemd/system'
EXEC = [('/usr/bin/python3', ['python3'], False, 0, 0, 0, 0, 0, 0, 0)]
GENERATOR = '/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator'
REFUSED_NAMES = {
    '../x.service': 'slash', '/etc/x.service': 'slash', 'a/../../b.service': 'slash', '..service': 'two dots', 'a..service': 'two dots',
    'a\\x2fb.service': 'escape', 'a\\x2d.service': 'escape', 'a b.service': 'character', 'ä.service': 'character',
    'a\n.service': 'character', '*.service': 'character', '.service': 'begins', '-a.service': 'begins', '@a.service': 'begins',
    'a@.service': 'template', 'a.socket': 'no service', 'a.slice': 'no service', 'a.scope': 'no service',
    'a' * 250 + '.service': 'longer'}


def drop_in(unit, folder=FOLDER):
    return f'{folder}/{unit}.d/50-sonde.conf'


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def find_files(folder=FOLDER):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)


class Test:
    def __init__(self, service):
        self.service = service
        self.program = os.path.join(service.build, 'client/sondectl')
        # Without it the one that was built would be found, wherever that is.
        self.library = shutil.copy(os.path.join(service.build, 'shared-ring/collector/memory/libsonde-memory.so'), service.folder)
        self.home = service.make_folder(0)
        self.environment = {**os.environ, 'SONDE_MEMORY_LIBRARY': self.library, 'HOME': self.home, 'LC_ALL': 'C.UTF-8'}
        self.environment.pop('LD_PRELOAD', None)
        self.manager = systemd.Manager({'plain.service': {'ExecStart': EXEC}})
        os.makedirs(FOLDER)  # which says that systemd runs the machine
        self.manager.start()

    def run(self, *arguments, **environment):
        return subprocess.run([self.program, *arguments], env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def good(self, *arguments, **environment):
        result = self.run(*arguments, **environment)
        check(result.returncode == 0, f'{arguments}: {result.stderr}')
        return result

    def bad(self, word, *arguments, **environment):
        before = find_files()
        result = self.run(*arguments, **environment)
        check(result.returncode == 1 and word in result.stderr, f'{arguments}: {result.returncode} {result.stderr}')
        check(find_files() == before, f'{arguments}: {find_files()}')
        return result

    def arm(self, **properties):
        """The drop-in of a unit like that."""
        self.manager.units['odd.service'] = {'ExecStart': EXEC, **properties}
        result = self.good('arm', 'odd.service')
        text = read(drop_in('odd.service'))
        self.good('disarm', 'odd.service')
        return text, result.stderr

    def refuse(self, word, **properties):
        self.manager.units['odd.service'] = {'ExecStart': EXEC, **properties}
        self.bad(word, 'arm', 'odd.service')


def test_names(test):
    for name, word in REFUSED_NAMES.items():
        for arguments in (['arm'], ['arm', '--user'], ['disarm'], ['disarm', '--user']):
            if not (name.startswith('-') and 'disarm' in arguments):  # which takes it for an option
                result = test.run(*arguments, name, XDG_RUNTIME_DIR=test.home)
                check(result.returncode == 1 and (word in result.stderr and 'UNIT' in result.stderr or name.startswith('-')),
                      f'{arguments} {name}: {result.stderr}')
    check(not find_files() and not os.listdir(test.home), f'{find_files()} {os.listdir(test.home)}')
    check('LoadUnit' not in test.manager.calls, f'{test.manager.calls}')
    for name in ('../x.service', '/x.service', 'a\\x2d.service'):  # a manager that lies
        test.manager.units['odd.service'] = {'ExecStart': EXEC, 'Id': name}
        test.bad('UNIT', 'arm', 'odd.service')


def test_plain(test):
    test.manager.calls.clear()
    result = test.good('arm', 'plain.service')
    path = drop_in('plain.service')
    check(read(path).split('\n')[2:] == ['[Service]', f'Environment="LD_PRELOAD={test.library}"', ''], read(path))
    check(path in result.stdout and 'restart plain.service' in result.stdout, result.stdout)
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o644 and find_files() == [path], f'{find_files()}')
    check('Reload' in test.manager.calls and 'RestartUnit' not in test.manager.calls, f'{test.manager.calls}')
    text = read(path)
    test.good('arm', 'plain.service')
    check(read(path) == text and find_files() == [path], read(path))
    check(test.good('disarm').stdout == 'plain.service\n', 'it is not shown')
    test.good('disarm', 'plain.service')
    check(os.listdir(FOLDER) == [], f'{os.listdir(FOLDER)}')
    check(test.good('disarm').stdout == 'Nothing is armed.\n', 'it is still shown')
    test.bad('is not armed', 'disarm', 'plain.service')


def test_kept(test):
    """The LD_PRELOAD that was there, however it is written; ours once."""
    for there in ('/a.so', '/a.so:/b.so', '/a b.so', '/100%.so', '/a"b\'.so', '/a\\b.so', '/ä.so', '/x$LIB/y.so'):
        kept = there.replace(' ', ':')
        test.manager.units['odd.service'] = {'ExecStart': EXEC, 'Environment': ['A=1', f'LD_PRELOAD={there}', 'B=2']}
        for _ in range(2):
            test.good('arm', 'odd.service')
            told = test.manager.get('odd.service', 'Environment').unpack()[-1]
            check(told == f'LD_PRELOAD={test.library}:{kept}', told)
        test.good('disarm', 'odd.service')
    test.refuse('characters', Environment=['LD_PRELOAD=/a\n[Service]\nUser=root'])
    test.manager.environment = ['LD_PRELOAD=/all.so']
    text, _ = test.arm()
    check(f'{test.library}:/all.so"' in text, text)
    text, _ = test.arm(Environment=['LD_PRELOAD=/own.so'])
    check('/all.so' not in text and ':/own.so"' in text, text)
    test.manager.environment = []


def test_alias(test):
    test.manager.units['other.service'] = {'ExecStart': EXEC, 'Id': 'plain.service'}
    test.good('arm', 'other.service')
    check(find_files() == [drop_in('plain.service')], f'{find_files()}')
    test.good('disarm', 'other.service')
    check(not find_files(), f'{find_files()}')


def test_restart(test):
    test.manager.calls.clear()
    result = test.good('arm', '--restart', 'plain.service')
    check(test.manager.calls[-1] == 'RestartUnit' and 'the next time' not in result.stdout, f'{test.manager.calls}')
    test.manager.job_result = 'failed'
    result = test.run('disarm', '--restart', 'plain.service')
    check(result.returncode == 1 and 'could not restart plain.service: failed' in result.stderr, result.stderr)
    check(not find_files(), f'{find_files()}')
    test.manager.job_result = None
    result = test.run('arm', '--restart', 'plain.service')
    check(result.returncode == 1 and 'could not restart plain.service: it left meanwhile' in result.stderr, result.stderr)
    test.manager.own()
    test.manager.job_result = 'done'
    test.good('disarm', 'plain.service')


def test_rooms(test):
    """What a unit with folders of its own is shown, and others are not."""
    bound = f'BindReadOnlyPaths=-/run/sonde "-{os.path.dirname(test.library)}"\n'
    for properties in ({'RootDirectory': '/srv/root'}, {'PrivateMounts': True}):
        text, _ = test.arm(**properties)
        check(bound in text, text)
    text, _ = test.arm()
    check('Bind' not in text, text)


def test_seccomp(test):
    for properties in ({'SystemCallFilter': (True, [])}, {'SystemCallFilter': (False, ['ptrace'])}, {'LockPersonality': True}):
        text, told = test.arm(**properties)
        check('--seccomp' in told and next(iter(properties)) in told and 'SECCOMP' not in text, told)
    test.manager.units['odd.service'] = {'ExecStart': EXEC, 'LockPersonality': True}
    result = test.good('arm', '--seccomp', 'odd.service')
    check('Environment="SONDE_SECCOMP=1"\n' in read(drop_in('odd.service')) and not result.stderr, result.stderr)
    test.good('disarm', 'odd.service')
    _, told = test.arm(EnvironmentFiles=[('/etc/default/odd', True)])
    check('EnvironmentFile=' in told, told)


def test_refused(test):
    static = os.path.join(test.service.folder, 'static')
    subprocess.run(['gcc', '-static', '-x', 'c', '-', '-o', static], input='int main(void){return 0;}', text=True, check=True)
    test.refuse('statically linked', ExecStart=[(static, *EXEC[0][1:])])
    privileged = shutil.copy('/usr/bin/env', os.path.join(test.service.folder, 'privileged'))
    os.chmod(privileged, 0o4755)
    test.refuse('gains rights', ExecStart=[(privileged, *EXEC[0][1:])], User='daemon')
    for properties in ({'User': 'root'}, {'User': 'daemon', 'NoNewPrivileges': True}):
        test.arm(ExecStart=[(privileged, *EXEC[0][1:])], **properties)
    test.refuse('UnsetEnvironment=', UnsetEnvironment=['LD_PRELOAD'])
    test.refuse('it is masked', LoadState='masked')
    test.bad('knows no unit nothing.service', 'arm', 'nothing.service')
    for name in ('sonded.service', 'sonde-worker@1.service', 'sonde-broker@1.service'):
        test.manager.units[name] = {'ExecStart': EXEC}
        test.bad('record itself', 'arm', name)
    test.bad('No such file', 'arm', 'plain.service', SONDE_MEMORY_LIBRARY=f'{test.home}/none.so')
    for name in ('a b.so', 'a:b.so', 'a\nb.so'):
        path = shutil.copy(test.library, f'{test.service.folder}/{name}')
        for arguments in (('plain.service',), ('--user',)):
            test.bad('no blank and no colon', 'arm', *arguments, SONDE_MEMORY_LIBRARY=path)
    test.bad('needs one UNIT', 'arm')
    test.bad('needs one UNIT', 'arm', '--restart', '--user')
    test.bad('--restart is for a UNIT', 'arm', '--restart', 'true')


def test_foreign(test):
    """Files of others, links, and a systemd that does not do it."""
    path = drop_in('plain.service')
    os.mkdir(os.path.dirname(path))
    for text in ('', '[Service]\n', '# Written by sondectl arm;'):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        test.bad('stays as it is', 'arm', 'plain.service')
        test.bad('stays as it is', 'disarm', 'plain.service')
        check(read(path) == text and test.good('disarm').stdout == 'Nothing is armed.\n', read(path))
    os.unlink(path)
    for make, unmake in ((lambda: os.symlink('/mnt/target', path), os.unlink), (lambda: os.mkfifo(path), os.unlink),
                         (lambda: os.mkdir(path), os.rmdir)):
        make()
        test.bad('stays as it is', 'arm', 'plain.service')
        unmake(path)
    other = os.path.join(os.path.dirname(path), '90-other.conf')
    with open(other, 'w', encoding='utf-8') as file:
        file.write('[Service]\nEnvironment=LD_PRELOAD=/last.so\n')
    test.bad('counts instead', 'arm', 'plain.service')
    os.unlink(other)
    test.good('arm', 'plain.service')
    test.good('disarm', 'plain.service')
    check(os.path.isdir(os.path.dirname(path)), 'a folder of others is gone')
    os.rmdir(os.path.dirname(path))
    os.symlink(test.home, os.path.dirname(path))
    test.bad('Not a directory', 'arm', 'plain.service')
    test.bad('Not a directory', 'disarm', 'plain.service')
    os.unlink(os.path.dirname(path))
    test.manager.fails = ('Reload',)
    test.bad('does not Reload', 'arm', 'plain.service')
    test.manager.fails = ()
    check(os.listdir(FOLDER) == [] and os.listdir(test.home) == [], f'{os.listdir(FOLDER)}')


def test_stranger(test):
    user = test.service.next_user()
    program = test.service.install_sondectl()
    for command in (('arm', 'plain.service'), ('disarm', 'plain.service')):
        if command[0] == 'disarm':
            test.good('arm', 'plain.service')
        result = test.service.run(user, program, *command, env=test.environment)
        check(result.returncode == 1 and 'Permission denied' in result.stderr, result.stderr)
    check(find_files() == [drop_in('plain.service')], f'{find_files()}')
    test.good('disarm', 'plain.service')


def test_user(test):
    """His own systemd, and his sessions."""
    runtime = test.service.make_folder(0)
    folder = f'{runtime}/systemd/user'
    bus = Gio.TestDBus.new(Gio.TestDBusFlags.NONE)
    bus.up()
    connection = Gio.DBusConnection.new_for_address_sync(
        bus.get_bus_address(), Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION)
    manager = systemd.Manager({'plain.service': {'ExecStart': EXEC}}, folder, connection)
    os.makedirs(folder)
    manager.start()
    user = {'XDG_RUNTIME_DIR': runtime, 'DBUS_SESSION_BUS_ADDRESS': bus.get_bus_address()}
    result = test.good('arm', '--user', 'plain.service', **user)
    check(find_files(folder) == [drop_in('plain.service', folder)] and '--user restart' in result.stdout, result.stdout)
    check(not find_files(), f'{find_files()}')

    # As the service names it, for programs of all architectures.
    config = read(os.path.join(test.service.build, 'config.h'))
    lib = re.search('#define SONDE_LIB "(.*)"', config)[1]
    os.makedirs(f'{test.service.folder}/{lib}')
    shutil.copy(test.library, f'{test.service.folder}/{lib}/x\\y.so')
    user['SONDE_MEMORY_LIBRARY'] = f'{test.service.folder}/$LIB/x\\y.so'
    test.good('arm', '--user', **user)
    path = f'{test.home}/.config/environment.d/50-sonde.conf'
    check('LD_PRELOAD=' in read(path) and manager.calls.count('Reload') == 2, f'{manager.calls}')
    check(test.good('disarm', **user).stdout == '--user plain.service\n--user\n', 'they are not shown')
    if os.path.exists(GENERATOR):
        for there in ([], ['/a.so']):
            environment = {'HOME': test.home, **{'LD_PRELOAD': path for path in there}}
            made = subprocess.run([GENERATOR], env=environment, capture_output=True, text=True, check=True).stdout
            expected = ':'.join([user['SONDE_MEMORY_LIBRARY'].replace('\\', '\\\\').replace('$', '\\$'), *there])
            check(f'LD_PRELOAD="{expected}"\n' in made, made)
    test.good('disarm', '--user', **user)
    test.good('disarm', '--user', 'plain.service', **user)
    check(not find_files(folder) and os.listdir(f'{test.home}/.config') == [], f'{find_files(folder)}')
    test.bad('are not armed', 'disarm', '--user', **user)
    # Nobody is logged in, but may be later.
    result = test.good('arm', '--user', XDG_RUNTIME_DIR='/nonexistent', DBUS_SESSION_BUS_ADDRESS='unix:path=/nonexistent')
    check('next login' in result.stdout and os.path.exists(path), result.stdout)
    test.good('disarm', '--user', XDG_RUNTIME_DIR='/nonexistent', DBUS_SESSION_BUS_ADDRESS='unix:path=/nonexistent')
    test.bad('Cannot reach your systemd', 'arm', '--user', 'plain.service', XDG_RUNTIME_DIR='/nonexistent',
             DBUS_SESSION_BUS_ADDRESS='unix:path=/nonexistent')
    bus.down()


def test_property(test):
    """Where an IDE finds it: absolute, and of the architecture's folder."""
    answer = test.service.busctl('get-property', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                                 'Preloads')
    path = re.fullmatch('a{ss} 2 "memory" "(/.*/sonde/libsonde-memory.so)" "trace" "/.*/sonde/libsonde-tracer.so"\n', answer)
    config = read(os.path.join(test.service.build, 'config.h'))
    lib = re.search('#define SONDE_LIB "(.*)"', config)[1]
    directory = re.search('#define SONDE_PRELOADDIR "(.*)"', config)[1]
    check(path and os.path.dirname(path[1]).replace('$LIB', lib) == directory, answer)


def test_command(test):
    result = test.good('arm', '--seccomp', '--', 'sh', '-c', 'echo "$LD_PRELOAD $SONDE_SECCOMP"; exit 0', LD_PRELOAD='')
    check(result.stdout == f'{test.library} 1\n', result.stdout)
    result = test.run('arm', 'sh', '-c', 'exit 7')
    check(result.returncode == 7, result.stderr)
    check(test.run('arm', 'no-such-program').returncode == 127, 'a program that is not there')
    check(test.run('arm', '/etc/passwd').returncode == 126, 'a file that is no program')
    result = test.run('arm', os.path.join(test.service.folder, 'static'))
    check(result.returncode == 125 and 'statically linked' in result.stderr, result.stderr)


def main():
    cases = (('names that are none, or lead elsewhere, are refused', test_names),
             ('a service is armed and disarmed, and nothing is left', test_plain),
             ('the LD_PRELOAD that is there is kept', test_kept),
             ('an alias is what it stands for', test_alias),
             ('a restart is waited for', test_restart),
             ('a unit with a root of its own is shown the places', test_rooms),
             ('a unit with a seccomp filter is told of', test_seccomp),
             ('what cannot be armed is refused', test_refused),
             ('what others wrote stays, and links are not followed', test_foreign),
             ('other users write nothing', test_stranger),
             ('a user arms his own', test_user),
             ('the service tells where the library is', test_property),
             ('a command is run armed', test_command))
    service = Service(len(cases))
    test = Test(service)
    for name, case in cases:
        with service.case(name):
            case(test)
    service.finish()


if __name__ == '__main__':
    sys.exit(main())
