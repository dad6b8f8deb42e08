#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The clients of docs/clients.md, run by a user: test-examples.py SOURCE BUILD"""

import os
import re
import signal

from service import DEADLINE_S, Service, wait_for
from tap import check

CLIENTS = {'C': 'tests/bus/profile-pid', 'Python': 'docs/examples/profile-pid.py'}


def read_names(output):
    """Function: share in percent."""
    return {name: float(share) for share, name in re.findall(r'^ *([\d.]+)%  (.+)$', output, re.M)}


def check_profile(result):
    """burn does everything in main()."""
    names = read_names(result.stdout)
    check(names.get('main', 0) > 50, f'main is not the heaviest function:\n{result.stdout}{result.stderr}')


def test_profile(service, client, user):
    burner = service.start_burner(user)
    result = service.run(user, client, str(burner.pid), '1')
    burner.kill()
    burner.communicate()
    check(result.returncode == 0, f'exit status {result.returncode}\n{result.stderr}')
    check_profile(result)
    losses = dict(re.findall(r'^((?:lost|stream)-\w+): (\d+)$', result.stdout, re.M))
    check(losses and set(losses.values()) == {'0'}, f'something was lost: {losses}')


def test_foreign_process(service, client):
    result = service.run(service.next_user(), client, str(os.getpid()), '1')
    check(result.returncode == 1 and 'Permission denied' in result.stderr
          and 'Traceback' not in result.stderr, f'exit status {result.returncode}\n{result.stderr}')


def test_interrupt(service, client):
    user = service.next_user()
    burner = service.start_burner(user)
    profiler = service.start(user, client, str(burner.pid), '600')
    service.wait_running(user)
    profiler.send_signal(signal.SIGINT)
    output, errors = profiler.communicate(timeout=DEADLINE_S)
    burner.kill()
    burner.communicate()
    check(profiler.returncode == 0, f'exit status {profiler.returncode}\n{output}{errors}')
    check('samples' in output, output)


def test_early_interrupt(service, client, user):
    """There is a session, and the client, which has stopped meanwhile, finds the answer and the signal."""
    burner = service.start_burner(user)
    profiler = service.start(user, client, str(burner.pid), '600')
    wait_for(lambda: any(owner == user for _, owner, _ in service.list_sessions()), 'a session')
    profiler.send_signal(signal.SIGSTOP)
    service.wait_running(user)
    profiler.send_signal(signal.SIGINT)
    profiler.send_signal(signal.SIGCONT)
    output, errors = profiler.communicate(timeout=DEADLINE_S)
    burner.kill()
    burner.communicate()
    check(profiler.returncode == 0 and 'samples' in output, f'exit status {profiler.returncode}\n{output}{errors}')


def test_dead_service(service, client):
    user = service.next_user()
    burner = service.start_burner(user)
    profiler = service.start(user, client, str(burner.pid), '600')
    service.wait_running(user)
    os.kill(service.daemon_pid(), signal.SIGKILL)
    output, errors = profiler.communicate(timeout=DEADLINE_S)
    burner.kill()
    burner.communicate()
    check(profiler.returncode == 1 and 'the service ended' in errors,
          f'exit status {profiler.returncode}\n{output}{errors}')


def test_readme(service):
    """The lines that a desktop application needs, with a duration and a place for the capture."""
    with open(os.path.join(service.source, 'README.md'), encoding='utf-8') as file:
        lines = re.search(r'^```python\n(.*?)^```$', file.read(), re.M | re.S)[1]
    user = service.next_user()
    name = os.path.join(service.make_folder(user), 'own.syscap')
    lines = lines.replace('5_000_000', '500_000') + f'open({name!r}, "wb").write(capture.read())\n'
    result = service.run(user, '/usr/bin/python3', '-c', lines)
    check(result.returncode == 0, result.stderr)
    result = service.run(0, os.path.join(service.build, 'client/sondectl'), 'verify', name)
    check(result.returncode == 0, result.stdout)


def main():
    service = Service(5 * len(CLIENTS) + 1)
    with service.case('the lines of README.md give a whole capture'):
        test_readme(service)
    for language, path in CLIENTS.items():
        client = service.install(path)
        with service.case(f'the client in {language} shows where a process spends its time'):
            service.measure(test_profile, client, service.next_user())
        with service.case(f'the client in {language} says that a process is not the user\'s'):
            test_foreign_process(service, client)
        with service.case(f'the client in {language} keeps what it has when it is interrupted'):
            test_interrupt(service, client)
        with service.case(f'the client in {language} stops a session that it has not heard of yet'):
            user = service.next_user()
            for _ in range(3):
                test_early_interrupt(service, client, user)
        with service.case(f'the client in {language} survives the death of the service'):
            test_dead_service(service, client)
    service.finish()


main()
