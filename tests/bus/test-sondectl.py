#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""sondectl through the service, as users run it: test-sondectl.py SOURCE BUILD"""

import contextlib
import os
import pty
import re
import select
import subprocess
import time

from service import DEADLINE_S, Service, wait_for
from schemas import check_schema
from tap import check

EXIT_OUR_FAILURE = 125


def check_status(result, status):
    check(result.returncode == status,
          f'exit status {result.returncode} instead of {status}\n{result.stdout}{result.stderr}')


def check_refusal(result, *words):
    check_status(result, EXIT_OUR_FAILURE)
    for word in words:
        check(word in result.stderr, f'"{word}" is not in: {result.stderr}')


class Sondectl:
    def __init__(self, service):
        self.service = service
        self.program = service.install_sondectl()

    def run(self, user, *arguments, **options):
        return self.service.run(user, self.program, *arguments, **options)

    def count_samples(self, capture):
        check_status(self.run(0, 'verify', capture), 0)
        result = self.run(0, 'dump', '--counts', capture)
        return int(re.search(r'^SAMPLE (\d+)$', result.stdout, re.M)[1])


def test_command(service, sondectl, user):
    capture = os.path.join(service.make_folder(user), 'x.syscap')
    result = sondectl.run(user, 'record', '-o', capture, '--', service.install('tests/system/burn'), '1')
    check_status(result, 0)
    check(sondectl.count_samples(capture) > 900, 'a second of work is a thousand samples')
    report = sondectl.run(user, 'report', capture).stdout
    check(re.match(r'Command +\S*/burn 1\n', report), report)


def test_process(sondectl):
    service, user = sondectl.service, sondectl.service.next_user()
    capture = os.path.join(service.make_folder(user), 'x.syscap')
    burner = service.start_burner(user)
    result = sondectl.run(user, 'record', '-d', '1', '-o', capture, '-p', str(burner.pid))
    burner.kill()
    burner.communicate()
    check_status(result, 0)
    check(sondectl.count_samples(capture) > 10, 'the process was busy')


def test_refusals(sondectl, arguments, *words):
    user = sondectl.service.next_user()
    folder = sondectl.service.make_folder(user)
    result = sondectl.run(user, 'record', *arguments, cwd=folder)
    check_refusal(result, *words)
    sondectl.service.note(result.stderr)
    check(os.listdir(folder) == [], 'no empty capture stays behind')


def run_on_terminal(user, until, *command):
    """What a command prints on a terminal of its own, up to the text until; then ^C."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.setresgid(user, user, user)
        os.setgroups([])
        os.setresuid(user, user, user)
        os.chdir('/')
        os.environ.pop('XDG_SESSION_ID', None)
        os.execv(command[0], command)
    output = ''
    deadline = time.monotonic() + DEADLINE_S
    interrupted = False
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                output += os.read(terminal, 4096).decode(errors='replace')
            except OSError:  # the other side is closed
                break
        if until in output and not interrupted:
            os.write(terminal, b'\x03')
            interrupted = True
    os.close(terminal)
    os.waitpid(pid, 0)
    return output


def test_password(sondectl):
    """polkit's agent asks on the terminal; ^C is no password."""
    service, user = sondectl.service, sondectl.service.next_user()
    folder = service.make_folder(user)
    output = run_on_terminal(user, 'Password:', sondectl.program, 'record', '-a', '-o',
                             os.path.join(folder, 'x.syscap'))
    service.note(output)
    check('org.sonde.profiler1.profile-system' in output and 'Password:' in output, 'nobody is asked')
    check(os.listdir(folder) == [], 'it recorded without a password')


def test_list_all(sondectl):
    """Seeing everybody's is worth a password; a plain list never asks."""
    service = sondectl.service
    answer = service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                            'org.sonde.Profiler1.Manager', 'StartSession', 'a{sv}', '1', 'system', 'b', 'true')
    user = service.next_user()
    output = run_on_terminal(user, 'Password:', sondectl.program, 'list')
    check(output.split() == ['No', 'sessions.'], output)
    output = run_on_terminal(user, 'Password:', sondectl.program, 'list', '--all')
    check('org.sonde.profiler1.manage-sessions' in output and 'Password:' in output, output)
    check_status(sondectl.run(0, 'stop', re.search(r'"(.*)"', answer)[1]), 0)


def test_no_service(sondectl):
    """On a bus without sonded."""
    service = sondectl.service
    address = f'unix:path={service.folder}/empty-bus'
    config = os.path.join(service.folder, 'empty.conf')
    with open(config, 'w', encoding='utf-8') as file:
        file.write(f'<busconfig><listen>{address}</listen><auth>EXTERNAL</auth><policy context="default">'
                   '<allow user="*"/><allow send_destination="*" eavesdrop="true"/>'
                   '<allow eavesdrop="true"/></policy></busconfig>')
    bus = subprocess.Popen(['dbus-daemon', f'--config-file={config}', '--nofork', '--print-address=1'],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    bus.stdout.readline()
    try:
        result = sondectl.run(service.next_user(), 'list',
                              env={**os.environ, 'DBUS_SYSTEM_BUS_ADDRESS': address})
    finally:
        bus.terminate()
        bus.communicate()
    check_status(result, 1)
    for word in ('org.sonde.Profiler1', 'systemctl status sonded', '--embedded'):
        check(word in result.stderr, f'"{word}" is not in: {result.stderr}')
    service.note(result.stderr)


def test_list(sondectl):
    service, user = sondectl.service, sondectl.service.next_user()
    burner = service.start_burner(user)
    recording = service.start(user, sondectl.program, 'record', '-p', str(burner.pid),
                              cwd=service.make_folder(user))
    number = service.wait_running(user)
    own = sondectl.run(user, 'list')
    other = sondectl.run(service.next_user(), 'list')
    everybody = sondectl.run(0, 'list')
    stopped = sondectl.run(user, 'stop', str(number))
    burner.kill()
    burner.communicate()
    recording.communicate(timeout=DEADLINE_S)
    service.note(own.stdout)
    check(re.search(rf'^ *{number}  \S+ +running ', own.stdout, re.M), own.stdout)
    check(other.stdout == 'No sessions.\n', f'others see {other.stdout}')
    check(own.stdout.splitlines()[1] in everybody.stdout.splitlines(), f'root sees {everybody.stdout}')
    check_status(stopped, 0)
    check(f'Stopped session {number}: ' in stopped.stdout, stopped.stdout)
    check(recording.returncode == 0, 'a recording that is stopped elsewhere did not fail')


def test_stop_nothing(sondectl):
    result = sondectl.run(0, 'stop', '4711')
    check_status(result, 1)
    check('sondectl list' in result.stderr, result.stderr)
    result = sondectl.run(0, 'stop', 'all')
    check_status(result, 1)
    check('number' in result.stderr, result.stderr)


def test_stop_with_file(sondectl):
    """The file is whole when stop comes back."""
    service = sondectl.service
    answer = service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                            'org.sonde.Profiler1.Manager', 'StartSession', 'a{sv}', '1', 'system', 'b', 'true')
    result = sondectl.run(0, 'stop', re.search(r'"(.*)"', answer)[1])
    check_status(result, 0)
    capture = result.stdout.splitlines()[1]
    check(capture.endswith('.syscap'), result.stdout)
    check_status(sondectl.run(0, 'verify', capture), 0)


def test_verbs(sondectl):
    """What an administrator does with busctl, in a line each."""
    service, user = sondectl.service, sondectl.service.next_user()
    burner = service.start_burner(user)
    started = sondectl.run(user, 'start', '-p', str(burner.pid), '--label', 'mine', '--no-symbols')
    check_status(started, 0)
    number, capture = re.match(r'Started session (\d+): (/.*/mine-[^/]*\.syscap)\n', started.stdout).groups()
    wait_for(lambda: re.search(r'^Recorded +[1-9]', sondectl.run(user, 'status', number).stdout, re.M), 'the first samples')
    for verb, state in (('pause', 'paused'), ('resume', 'running')):
        check_status(sondectl.run(user, verb, number), 0)
        status = sondectl.run(user, 'status', number)
        check_status(status, 0)
        check(f'Session   {number}: {state}, of ' in status.stdout, status.stdout)
    for line in (f'Records   mine: process {burner.pid}, ', f'Capture   {capture}\n', 'Lost      nothing\n', 'Service   sonded '):
        check(line in status.stdout, status.stdout)
    check(f'Session   {number}: ' in sondectl.run(user, 'status').stdout, 'status of all has none')
    listed = check_schema('list', sondectl.run(user, 'list', '--json').stdout)
    for arguments in ((), (number,)):
        told = check_schema('status', sondectl.run(user, 'status', '--json', *arguments).stdout)
        session, = told['sessions']
        check((session['session'], session['uid'], session['state'], session['capture']) == (int(number), user, 'running', capture), f'{told}')
        check(session['statistics']['recorded'] > 0 and told['service']['statistics']['daemon-memory-bytes'] > 0, f'{told}')
    check(listed['version'] == 1 and [set(row) for row in listed['sessions']] ==
          [{'session', 'uid', 'owner', 'state', 'start-us', 'description'}], f'{listed}')
    check(listed['sessions'][0] | {'session': int(number), 'uid': user, 'state': 'running'} == listed['sessions'][0], f'{listed}')
    stranger = service.next_user()
    for verb in ('status', 'pause', 'resume', 'stop'):
        refused = sondectl.run(stranger, verb, number)
        check_status(refused, 1)
        check(f'There is no session {number} of yours' in refused.stderr, refused.stderr)
    check_status(sondectl.run(user, 'stop', number), 0)
    burner.kill()
    burner.communicate()
    kept = check_schema('list', sondectl.run(user, 'list', '--captures', '--json').stdout)
    check([(row['name'], row['label'], row['uid']) for row in kept['captures']] == [(os.path.basename(capture), 'mine', user)], f'{kept}')
    check(os.path.basename(capture) in sondectl.run(user, 'list', '--captures').stdout, 'the text has it not')
    check(sondectl.run(stranger, 'list', '--captures').stdout == 'No captures.\n', 'a stranger sees captures')
    check_status(sondectl.run(stranger, 'rm', capture), 1)
    check_status(sondectl.run(user, 'rm', capture), 0)
    check(sondectl.run(user, 'list', '--captures').stdout == 'No captures.\n' and not os.path.exists(capture), 'the capture is still there')
    check_status(sondectl.run(user, 'rm', capture), 1)
    check({'auto', 'none', 'cpu-clock'} <= set(sondectl.run(user, 'events').stdout.split()), 'events')
    limits = dict(line.split() for line in sondectl.run(user, 'limits').stdout.splitlines())
    check(limits['frequency'] == '20000' and int(limits['sessions']) > 0, f'{limits}')
    told = check_schema('limits', sondectl.run(user, 'limits', '--json').stdout)['limits']
    check({name: str(value) for name, value in told.items()} == limits, f'{told}')
    told = check_schema('events', sondectl.run(user, 'events', '--json').stdout)['events']
    check(told == sondectl.run(user, 'events').stdout.split(), f'{told}')
    told = check_schema('status', sondectl.run(stranger, 'status', '--json').stdout)
    check(told['sessions'] == [] and told['service']['version'], f'{told}')


def test_attach(sondectl):
    """A copy from the middle is a whole capture, and so is that of a session that is over."""
    service = sondectl.service
    answer = service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                            'org.sonde.Profiler1.Manager', 'StartSession', 'a{sv}', '1', 'system', 'b', 'true')
    path = re.search(r'"(.*)"', answer)[1]
    late, over = (os.path.join(service.folder, name) for name in ('late.syscap', 'over.syscap'))
    copy = service.start(0, sondectl.program, 'attach', path, '-o', late, '--frames=samples,logs')
    wait_for(lambda: os.path.exists(late) and os.path.getsize(late), 'the copy of a live session')
    stopped = sondectl.run(0, 'stop', path)
    check_status(stopped, 0)
    check(copy.wait(timeout=DEADLINE_S) == 0, 'the copy of a live session failed')
    check_status(sondectl.run(0, 'verify', late), 0)
    check_status(sondectl.run(0, 'attach', path, '-o', over), 0)
    with open(over, 'rb') as one, open(stopped.stdout.splitlines()[1], 'rb') as other:
        check(one.read() == other.read(), 'the copy is not the file')
    result = sondectl.run(0, 'attach', path, '-o', over, '-p', '1')
    check_status(result, 1)
    check(result.stderr.startswith('sondectl: -p: '), result.stderr)
    check_status(sondectl.run(0, 'verify', over), 0)


def test_attach_nothing(sondectl):
    result = sondectl.run(0, 'attach', '4711', '-o', '/nowhere/x')
    check_status(result, 1)
    check('sondectl list' in result.stderr, result.stderr)
    for arguments in (['attach', '1'], ['attach', '-o', 'x'], ['attach', 'one', '-o', 'x'],
                      ['attach', '1', '-o', 'x', '-p', 'self']):
        check_status(sondectl.run(0, *arguments), 1)


def test_top(sondectl):
    """Of a session of somebody else's, as often as was asked for, and to its end."""
    service = sondectl.service
    answer = service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1',
                            'org.sonde.Profiler1.Manager', 'StartSession', 'a{sv}', '1', 'system', 'b', 'true')
    path = re.search(r'"(.*)"', answer)[1]
    result = sondectl.run(0, 'top', '--count', '2', '--interval', '0.5', path)
    check_status(result, 0)
    check(len(re.findall(r'^whole machine, .*, last ', result.stdout, re.M)) == 2 and '%' in result.stdout, result.stdout)
    looks = os.path.join(service.folder, 'looks')
    top = service.start(0, 'sh', '-c', f'exec {sondectl.program} top --interval 0.2 {path} >{looks}')
    wait_for(lambda: os.path.exists(looks) and os.path.getsize(looks), 'the first look')
    check_status(sondectl.run(0, 'stop', path), 0)
    check(top.wait(timeout=DEADLINE_S) == 0, 'the end of the session was a failure')


def find_leaf(report):
    """The function with most samples of its own."""
    return re.search(r'^ *\d+\.\d% +\d+\.\d%  (\S+)', report, re.M)[1]


def test_made_code(sondectl):
    """The names that a program gives to code that it makes: in the service's own file, in a stream of it, live, and in the
    file of `record`. They are a user's, and so is the program; the service reads where its map file is."""
    service, user = sondectl.service, sondectl.service.next_user()
    folder = service.make_folder(user)
    program = service.start(user, service.install('tests/system/jit'), '300', 'made_by_a_user')
    target = str(program.pid)
    place = f'/tmp/perf-{target}.map'
    try:
        wait_for(lambda: os.path.exists(place) and os.path.getsize(place), 'the map file')
        started = sondectl.run(user, 'start', '-p', target)
        check_status(started, 0)
        session, file = re.match(r'Started session (\d+): (/.*\.syscap)\n', started.stdout).groups()
        stream = os.path.join(folder, 'stream.syscap')
        attached = service.start(user, sondectl.program, 'attach', session, '-o', stream)
        top = sondectl.run(user, 'top', '--count', '2', '--interval', '0.5', session)
        check_status(top, 0)
        check_status(sondectl.run(user, 'stop', session), 0)
        check(attached.wait(timeout=DEADLINE_S) == 0, 'the stream did not end')
        recorded = os.path.join(folder, 'record.syscap')
        check_status(sondectl.run(user, 'record', '-d', '1', '-o', recorded, '-p', target), 0)
    finally:
        program.kill()
        program.communicate()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
    check('made_by_a_user' in top.stdout, top.stdout)
    for path in (file, stream, recorded):
        check_status(sondectl.run(0, 'verify', path), 0)
        leaf = find_leaf(sondectl.run(0, 'report', '--flat', path).stdout)
        check(leaf == 'made_by_a_user', f'{path}: {leaf}')


def test_top_nothing(sondectl):
    result = sondectl.run(0, 'top', '--count', '1', '4711')
    check_status(result, 125)
    check('sondectl list' in result.stderr, result.stderr)
    for arguments, what in ((['1', '--count', '1'], 'before SESSION'), (['-a', '1'], 'SESSION'), (['-a', '-p', '1'], 'exactly one'),
                            (['--by', 'line'], '--by'), (['--tree', '--bottom-up'], 'only one'), (['--window', '0'], '--window'),
                            (['--interval', 'nan'], '--interval'), (['--count=-1'], '--count')):
        result = sondectl.run(0, 'top', *arguments)
        check_status(result, 125)
        check(what in result.stderr, f'{arguments}: {result.stderr}')


def main():
    service = Service(17)
    sondectl = Sondectl(service)
    with service.case('a user records a command of his'):
        service.measure(test_command, sondectl, service.next_user())
    with service.case('a user records a process of his'):
        test_process(sondectl)
    with service.case("somebody else's process is refused with the action and a way out"):
        test_refusals(sondectl, ['-p', str(os.getpid())], 'org.sonde.profiler1.profile-others', 'as root',
                      'sonded(8)')
    with service.case('the machine is refused with the action and a way out'):
        test_refusals(sondectl, ['-a'], 'org.sonde.profiler1.profile-system', 'as root', 'sonded(8)')
    with service.case('on a terminal polkit asks for a password'):
        test_password(sondectl)
    with service.case("list asks for a password only to show everybody's"):
        test_list_all(sondectl)
    with service.case('without a service the error says how to look for it'):
        test_no_service(sondectl)
    with service.case("list shows one's own sessions, and stop ends one"):
        test_list(sondectl)
    with service.case('stop of what is not there points to list'):
        test_stop_nothing(sondectl)
    with service.case('stop waits for the capture file and names it'):
        test_stop_with_file(sondectl)
    with service.case("an administrator's verbs do what busctl does"):
        test_verbs(sondectl)
    with service.case('attach needs a session and a file'):
        test_attach_nothing(sondectl)
    with service.case('attach copies a live capture, and one that is over'):
        test_attach(sondectl)
    with service.case('code that a program makes has its names in whatever a session gives'):
        test_made_code(sondectl)
    with service.case('top needs something to look at'):
        test_top_nothing(sondectl)
    with service.case('top looks at a session to its end'):
        test_top(sondectl)
    with service.case('a kernel function has a name only for those who may ask for it'):
        test_refusals(sondectl, ['--kernel', '--', '/bin/true'], 'org.sonde.profiler1.profile-own-kernel')
    service.finish()


main()
