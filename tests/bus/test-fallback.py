#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which of both records, the service or an embedded one, and what is said of it: test-fallback.py SOURCE BUILD"""

import os
import pwd
import re

from service import Service, wait_for
from tap import check

EXIT_OUR_FAILURE = 125
NOTICE = 'Recording embedded, with your own rights: '


class Fallback:
    def __init__(self, service):
        self.service = service
        self.program = service.install_sondectl()
        self.burn = service.install('tests/system/burn')
        self.embedded = {**os.environ, 'SONDE_DAEMON': service.install('daemon/control/sonded'),
                         'SONDE_BROKER': service.install('daemon/broker/sonde-broker'),
                         'SONDE_WORKER': service.install('daemon/capture/sonde-capture')}
        self.no_bus = {**self.embedded, 'DBUS_SYSTEM_BUS_ADDRESS': f'unix:path={service.folder}/none'}

    def record(self, user, *arguments, environment=None, command='record'):
        """Returns the result and whether there is a capture that holds."""
        folder = self.service.make_folder(user)
        output = ['-o', 'x.syscap'] if command == 'record' else []
        result = self.service.run(user, self.program, command, *output, *arguments, cwd=folder, env=environment or self.embedded)
        self.service.note(result.stderr)
        files = os.listdir(folder)
        if files:
            verified = self.service.run(0, self.program, 'verify', os.path.join(folder, 'x.syscap'))
            check(verified.returncode == 0, verified.stdout)
        return result, bool(files)

    def refuse(self, user, action):
        """An administrator's rule."""
        name = pwd.getpwuid(user).pw_name
        path = os.path.join(os.environ['PRIVATE_BUS_RULES'], f'10-{name}.rules')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'polkit.addRule(function(action, subject) {{ if (action.id == "{action}" && subject.user == "{name}") '
                       'return polkit.Result.NO; });\n')
        os.chmod(path, 0o644)


def test_service(fallback, user):
    result, is_kept = fallback.record(user, '--', fallback.burn, '0.2')
    check(result.returncode == 0 and is_kept and NOTICE not in result.stderr, result.stderr)
    result, is_kept = fallback.record(user, '--service', '--', fallback.burn, '0.2')
    check(result.returncode == 0 and is_kept and NOTICE not in result.stderr, result.stderr)


def test_no_service(fallback, user):
    result, is_kept = fallback.record(user, '--', fallback.burn, '0.2', environment=fallback.no_bus)
    check(result.returncode == 0 and is_kept, result.stderr)
    check(result.stderr.count(NOTICE) == 1 and 'there is no service' in result.stderr, result.stderr)
    result, _ = fallback.record(user, '--count', '1', '--interval', '0.5', '--', fallback.burn, '1', environment=fallback.no_bus,
                                command='top')
    check(result.returncode == 0 and result.stderr.count(NOTICE) == 1 and 'burn' in result.stdout, result.stderr)
    result, is_kept = fallback.record(user, '--embedded', '--', fallback.burn, '0.2', environment=fallback.no_bus)
    check(result.returncode == 0 and is_kept and NOTICE not in result.stderr, result.stderr)
    result, is_kept = fallback.record(user, '--service', '--', fallback.burn, '0.2', environment=fallback.no_bus)
    check(result.returncode == EXIT_OUR_FAILURE and not is_kept and 'system bus' in result.stderr, result.stderr)


def test_refused(fallback, user):
    """The service does not, but the kernel does; the command runs once."""
    fallback.refuse(user, 'org.sonde.profiler1.profile-own')

    def is_refused():
        result, is_kept = fallback.record(user, '--service', '--', fallback.burn, '0.1')
        return result.returncode == EXIT_OUR_FAILURE and not is_kept and 'profile-own' in result.stderr

    wait_for(is_refused, 'the rule of polkit')
    result, is_kept = fallback.record(user, '--', 'sh', '-c', f'echo once; exec {fallback.burn} 0.2')
    check(result.returncode == 0 and is_kept and result.stdout.count('once') == 1, result.stderr)
    check(re.search(f'^sondectl: {NOTICE}the service refuses \\(.*profile-own', result.stderr, re.M), result.stderr)


def test_neither(fallback, user):
    """A process of root's: the service's refusal is the one that helps."""
    burner = fallback.service.start_burner(0)
    try:
        result, is_kept = fallback.record(user, '-p', str(burner.pid))
    finally:
        burner.kill()
        burner.communicate()
    lines = [line for line in result.stderr.splitlines() if line.startswith('sondectl: ')]
    check(result.returncode == EXIT_OUR_FAILURE and not is_kept and NOTICE not in result.stderr, result.stderr)
    check(len(lines) == 1 and 'profile-others' in lines[0], result.stderr)


def test_wrong(fallback, user):
    """What is wrong with the request is not tried twice."""
    for arguments, word in ((['--frequency', '1000000'], 'frequency'), (['--event', 'no-such-event'], 'event')):
        result, is_kept = fallback.record(user, *arguments, '--', fallback.burn, '0.1')
        check(result.returncode == EXIT_OUR_FAILURE and not is_kept and NOTICE not in result.stderr and word in result.stderr,
              result.stderr)
    result, is_kept = fallback.record(user, '--service', '--embedded', '--', fallback.burn, '0.1')
    check(result.returncode == EXIT_OUR_FAILURE and not is_kept and 'exclude' in result.stderr, result.stderr)


CASES = [
    ('the service records where it is there, without a word', test_service),
    ('without a service the recording is embedded, and says why', test_no_service),
    ('what the service refuses is recorded embedded, and the command runs once', test_refused),
    ("where neither may, the service's refusal is the error", test_neither),
    ('a request that is wrong is an error at once', test_wrong),
]


def main():
    service = Service(len(CASES))
    fallback = Fallback(service)
    for name, test in CASES:
        with service.case(name):
            test(fallback, service.next_user())
    service.finish()


main()
