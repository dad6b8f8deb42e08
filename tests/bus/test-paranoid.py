#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels that close perf to users, played by their setting: test-paranoid.py SOURCE BUILD"""

import os
import re
import shutil
import subprocess

from service import Service, wait_for
from tap import check

SETTING = '/proc/sys/kernel/perf_event_paranoid'
ACTION = 'org.sonde.profiler1.profile-own-restricted'


def play(service, value):
    """Whoever reads the setting in this mount namespace finds value there: sonded, too. The kernel itself does not."""
    path = os.path.join(service.folder, f'paranoid-{value}')
    with open(path, 'w', encoding='ascii') as file:
        file.write(f'{value}\n')
    subprocess.run(['mount', '--bind', path, SETTING], check=True)


def record(service, user, *arguments):
    folder = service.make_folder(user)
    return service.run(user, service.install_sondectl(), 'record', '-o', 'own.syscap', *arguments,
                       '--', service.install('tests/system/burn'), '0.2', cwd=folder,
                       env={**os.environ, 'HOME': folder})


def install_rules(service):
    """Those of the examples."""
    rules = os.environ['PRIVATE_BUS_RULES']
    shutil.copy(os.path.join(service.source, 'docs/examples/60-sonde.rules'), rules)
    with open('/etc/group', encoding='ascii') as file:
        text = file.read()
    check('perf:' not in text, 'there is a group of that name')
    with open('/etc/group', 'w', encoding='ascii') as file:
        file.write(f'{text}perf:x:64123:sonde-test-7\n')


def main():
    service = Service(6)
    stranger, member = 50003, 50007
    with service.case('2 asks for no more than the user\'s own programs do'):
        play(service, 2)
        result = record(service, service.next_user())
        check(result.returncode == 0, result.stderr)
    with service.case('the defaults: an administrator from afar, nobody at the machine'):
        answer = service.run(0, 'pkaction', '--verbose', '--action-id', ACTION).stdout
        defaults = re.findall(r'^ +implicit (\w+): +(\w+)$', answer, re.M)
        check(defaults == [('any', 'auth_admin'), ('inactive', 'auth_admin'), ('active', 'yes')], answer)
    for value in (3, 4):
        with service.case(f'{value} needs a decision from afar, and the refusal says which'):
            play(service, value)
            result = record(service, stranger)
            check(result.returncode != 0 and 'profile-own-restricted: an administrator must authenticate' in result.stderr,
                  f'exit status {result.returncode}\n{result.stderr}')
    with service.case('what cannot be for lack of a capability names the setting, the option and the page'):
        for value in (3, 4):
            play(service, value)
            # Nobody but root may sample a whole processor: with the right of the user alone the kernel refuses.
            result = service.run(stranger, service.install_sondectl(), 'record', '--embedded',
                                 f'--sonded={service.install("daemon/control/sonded")}',
                                 f'--worker={service.install("daemon/capture/sonde-capture")}',
                                 '-a', '-d', '0.1', '-o', 'all.syscap', cwd=service.make_folder(stranger),
                                 env={**os.environ, 'SONDE_BROKER': service.install('daemon/broker/sonde-broker')})
            check(result.returncode != 0 and f'kernel.perf_event_paranoid is {value}' in result.stderr
                  and 'perf_event_paranoid_drop_in' in result.stderr and 'sonded(8)' in result.stderr, result.stderr)
    with service.case('the rule of the examples lets the members of its group, and nobody else'):
        install_rules(service)
        # polkitd looks at its folder in its own time.
        result = wait_for(lambda: [r for r in [record(service, member)] if r.returncode == 0], 'the rule')[0]
        check('Recorded' in result.stdout + result.stderr, result.stdout + result.stderr)
        result = record(service, stranger)
        check(result.returncode != 0 and 'profile-own-restricted' in result.stderr, result.stderr)
    service.finish()


main()
