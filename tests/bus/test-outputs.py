#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each command of sondectl to each kind of output: test-outputs.py SOURCE BUILD"""

import os
import re
import socket
import stat
import subprocess
import threading

from service import DEADLINE_S, Service
from tap import check

OUT = object()  # where the path of the output stands
SESSION = object()  # the number of a session that is over
RUNNING = object()  # of one that runs
PAUSED = object()  # of one that does not
RECORDER = object()  # of one that has a recorder
LOOP = ['sh', '-c', 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done']
BEFORE = b'what was here before\n'

# Of each command: the words behind it, and what all that it writes has in it.
WITH_PATH = {
    'record': (['--embedded', '-o', OUT, '--', *LOOP], None),
    'flamegraph': (['x.syscap', '-o', OUT], b'</html>'),
    'heap': (['--svg', OUT, 'x.syscap'], b'</svg>'),
    'archive': (['x.syscap', '-o', OUT], None),
    'export': (['-f', 'folded', 'x.syscap', '-o', OUT], b'sh-'),
    'attach': ([SESSION, '-o', OUT], None),
    'import': (['x.pb.gz', '-o', OUT], None),
    'snapshot': ([RECORDER, '-o', OUT], None),
}
TO_STANDARD_OUTPUT = {
    '--help': ([], b'Usage: sondectl'),
    '--version': ([], b'sondectl '),
    'report': (['x.syscap'], b'Samples'),
    'diff': (['x.syscap', 'x.syscap'], b'Before'),
    'dump': (['x.syscap'], b'HEADER'),
    'verify': (['x.syscap'], b'structure'),
    'heap': (['x.syscap'], b'Peak'),
    'calls': (['traced.syscap'], b'Calls'),
    'export': (['-f', 'pprof', 'x.syscap'], b'\x1f\x8b'),
    'top': (['--embedded', '--count', '1', '--interval', '0.5', '--', *LOOP], b'last '),
    'list': ([], b'SESSION'),
    'start': (['-a', '-d', '0.1'], b'Started session'),
    'status': ([RUNNING], b'running'),
    'pause': ([RUNNING], b'Paused session'),
    'resume': ([PAUSED], b'Resumed session'),
    'stop': ([RUNNING], b'Stopped session'),
    'arm': (['--user'], b'sessions are armed'),
    'disarm': ([], b'\n'),
    'events': ([], b'cpu-clock'),
    'limits': ([], b'sessions'),
    'help': ([], b'Usage: sondectl'),
}
SILENT = ('rm', 'view', 'mcp')  # but for errors, where the page is, and who asks


class Outputs:
    def __init__(self, service):
        self.service = service
        self.folder = service.make_folder(0)
        self.environment = {**os.environ, 'HOME': service.make_folder(0), 'XDG_RUNTIME_DIR': '/none',
                            'DBUS_SESSION_BUS_ADDRESS': 'unix:path=/none'}
        self.program = os.path.join(service.build, 'client/sondectl')
        subprocess.run([self.program, 'record', '--embedded', '--memory', '-o', 'x.syscap', '--', *LOOP], cwd=self.folder,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=True)
        subprocess.run([self.program, 'record', '--embedded', '--trace', '-o', 'traced.syscap', '--',
                        os.path.join(service.build, 'tests/system/callers'), '100'], cwd=self.folder, stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=DEADLINE_S, check=True)
        with open(self.path('x.syscap'), 'rb') as file:
            self.magic = file.read(4)
        self.run('export', ['-f', 'pprof', 'x.syscap', '-o', 'x.pb.gz'])
        self.started = []
        self.session = self.start_session()
        self.run('stop', [self.session])

    def path(self, name):
        return os.path.join(self.folder, name)

    def start_session(self, kind=RUNNING):
        for number in self.started:
            self.run('stop', [number])
        recorder = ['2', 'recorder', 't', '30000000'] if kind is RECORDER else ['1']
        answer = self.service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                                     'StartSession', 'a{sv}', *recorder, 'system', 'b', 'true')
        number = re.search(r'session/(\d+)"', answer)[1]
        self.started = [number]
        if kind is PAUSED:
            self.run('pause', [number])
        return number

    def run(self, command, words, output='', prefix=(), stdout=subprocess.PIPE):
        """As root, in the folder. Returns (exit status, standard output, standard error)."""
        words = [self.start_session(word) if word in (RUNNING, PAUSED, RECORDER) else output if word is OUT else self.session if word is SESSION else word
                 for word in words]
        result = subprocess.run([*prefix, self.program, command, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stdout,
                                stderr=subprocess.PIPE, timeout=DEADLINE_S, check=False, env=self.environment)
        return result.returncode, result.stdout, result.stderr.decode()

    def check_content(self, content, expected, where):
        check(content[:4] == self.magic if expected is None else expected in content, f'{where}: {content[:200]}')

    def check_good(self, result, where):
        check(result[0] == 0, f'{where}: {result}')

    def check_refused(self, result, where, *texts):
        """One error, which says what and why."""
        status, _, errors = result
        lines = [line for line in errors.splitlines() if line.startswith('sondectl: ')]
        check(status > 0 and len(lines) == 1, f'{where}: exit status {status}\n{errors}')
        for text in texts:
            check(text in lines[0], f'{where}: "{text}" is not in: {errors}')

    def check_folder(self, before, *new):
        """No file is left over."""
        check(sorted(os.listdir(self.folder)) == sorted([*before, *new]), f'{os.listdir(self.folder)}')


def read_file(path):
    with open(path, 'rb') as file:
        return file.read()


def try_file(outputs, command, words, expected):
    path = outputs.path('new')
    for content in (None, BEFORE):
        if content:
            with open(path, 'wb') as file:
                file.write(content)
            os.chmod(path, 0o640)
        outputs.check_good(outputs.run(command, words, 'new'), command)
        outputs.check_content(read_file(path), expected, command)
        check(BEFORE not in read_file(path), f'{command} leaves what was there')
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o640, f'{command} changes the mode')
    os.unlink(path)


def try_link(outputs, command, words, expected):
    link, target = outputs.path('link'), outputs.path('target')
    os.symlink('target', link)
    for _ in range(2):  # at first it leads nowhere
        outputs.check_good(outputs.run(command, words, 'link'), command)
        check(os.path.islink(link), f'{command} replaces the link')
        outputs.check_content(read_file(target), expected, command)
    os.unlink(link)
    os.unlink(target)


def take(opened, result):
    """To the end."""
    with opened() as file:
        result.append(file.read())


def try_fifo(outputs, command, words, expected):
    path = outputs.path('fifo')
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=take, args=(lambda: open(path, 'rb'), got), daemon=True)
    reader.start()
    outputs.check_good(outputs.run(command, words, 'fifo'), command)
    reader.join(DEADLINE_S)
    outputs.check_content(got[0], expected, command)
    check(stat.S_ISFIFO(os.lstat(path).st_mode), f'{command} replaces the FIFO')
    os.unlink(path)


def try_socket(outputs, command, words, expected):
    path = outputs.path('socket')
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        got = []
        reader = threading.Thread(target=take, args=(lambda: listener.accept()[0].makefile('rb'), got), daemon=True)
        reader.start()
        outputs.check_good(outputs.run(command, words, 'socket'), command)
        reader.join(DEADLINE_S)
    outputs.check_content(got[0], expected, command)
    check(stat.S_ISSOCK(os.lstat(path).st_mode), f'{command} replaces the socket')
    os.unlink(path)


def try_device(outputs, command, words, expected):
    del expected
    for name, minor in (('full', 7), ('null', 3)):
        path = outputs.path(name)
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        result = outputs.run(command, words, name)
        if name == 'full':
            outputs.check_refused(result, command, name, 'No space left on device')
        else:
            outputs.check_good(result, command)
        found = os.lstat(path)
        check(stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, minor) and stat.S_IMODE(found.st_mode) & 0o600 == 0o600,
              f'{command} changes a device')
        os.unlink(path)


def try_dash(outputs, command, words, expected):
    status, content, errors = outputs.run(command, words, '-')
    check(status == 0, f'{command}: {errors}')
    outputs.check_content(content, expected, command)
    if expected is None:  # nothing else is there: a whole capture
        with open(outputs.path('dashed'), 'wb') as file:
            file.write(content)
        # What comes from elsewhere has no ledger, which verify says.
        verified = outputs.run('verify', ['dashed'])
        check(verified[0] == (2 if command == 'import' else 0), f'{command}: {verified}')
        os.unlink(outputs.path('dashed'))


def try_refusals(outputs, command, words, expected):
    del expected
    os.mkdir(outputs.path('folder'))
    outputs.check_refused(outputs.run(command, words, 'folder'), command, 'folder', 'Is a directory')
    outputs.check_refused(outputs.run(command, words, 'none/x'), command, 'none/x', 'No such file or directory')
    with open(outputs.path('folder/x'), 'wb') as file:
        file.write(BEFORE)
    os.chmod(outputs.path('folder/x'), 0o444)
    os.chmod(outputs.path('folder'), 0o555)
    weak = ['setpriv', '--bounding-set=-dac_override,-dac_read_search']
    for name in ('folder/x', 'folder/y'):
        outputs.check_refused(outputs.run(command, words, name, prefix=weak), command, name, 'Permission denied')
    check(read_file(outputs.path('folder/x')) == BEFORE, f'{command} writes without permission')
    os.chmod(outputs.path('folder'), 0o755)
    os.unlink(outputs.path('folder/x'))
    os.rmdir(outputs.path('folder'))


def try_standard_output(outputs, command, words, expected):
    """A pipe, a file; a device that is full, and nothing at all."""
    path = outputs.path('standard')
    result = outputs.run(command, words, '-')
    outputs.check_good(result, command)
    outputs.check_content(result[1], expected, command)
    with open(path, 'wb') as file:
        outputs.check_good(outputs.run(command, words, '-', stdout=file), command)
    outputs.check_content(read_file(path), expected, command)
    os.mknod(outputs.path('full'), stat.S_IFCHR | 0o666, os.makedev(1, 7))
    with open(outputs.path('full'), 'wb') as full:
        outputs.check_refused(outputs.run(command, words, '-', stdout=full), command, 'standard output', 'No space left on device')
    closed = ['sh', '-c', 'exec "$0" "$@" >&-']
    outputs.check_refused(outputs.run(command, words, '-', prefix=closed), command, 'standard output', 'Bad file descriptor')
    os.unlink(outputs.path('full'))
    os.unlink(path)


def try_small_disk(outputs, disk, size_kib):
    """A recording of more than the disk holds. Returns whether there is a file."""
    much = LOOP[-1].replace('50000', '400000')
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size_kib}k', 'small', disk], check=True)
    try:
        status, _, errors = outputs.run('record', ['--embedded', '-F', '5000', '-o', OUT, '--', 'sh', '-c', much],
                                        f'{disk}/x')
        outputs.check_refused((status, b'', errors), f'{size_kib} KiB', 'x', 'No space left on device')
        if os.listdir(disk):
            outputs.check_good(outputs.run('verify', [f'{disk}/x']), f'{size_kib} KiB')
            counts = outputs.run('dump', ['--counts', f'{disk}/x'])[1].decode()
            told = int(re.search(r'^Recorded ([\d,]+) samples?', errors, re.M)[1].replace(',', ''))
            check(f'SAMPLE {told}\n' in counts and 'none lost' not in errors, f'{errors}{counts}')
        return bool(os.listdir(disk))
    finally:
        subprocess.run(['umount', disk], check=True)


def test_small_disks(outputs):
    """tests/unit/test-capture-sink.c has all steps; here are some, through the whole of it."""
    disk = outputs.path('disk')
    os.mkdir(disk)
    check(not try_small_disk(outputs, disk, 8), 'a file without a sample stays')
    for size_kib in (32, 44, 64):
        check(try_small_disk(outputs, disk, size_kib), f'nothing stays on {size_kib} KiB')
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=8k', 'small', disk], check=True)
    with open(f'{disk}/x', 'wb') as file:
        file.write(BEFORE)
    for command in ('flamegraph', 'archive', 'export', 'heap'):
        outputs.check_refused(outputs.run(command, WITH_PATH[command][0], f'{disk}/x'), command, 'x', 'No space left on device')
        check(os.listdir(disk) == ['x'] and read_file(f'{disk}/x') == BEFORE, f'{command} spoils what was there')
    subprocess.run(['umount', disk], check=True)
    os.rmdir(disk)


CASES = [
    ('a file is made, and replaced', try_file, WITH_PATH),
    ('a symbolic link is followed and stays', try_link, WITH_PATH),
    ('a FIFO is written through', try_fifo, WITH_PATH),
    ('a socket is written through', try_socket, WITH_PATH),
    ('a device is written through, and an error if it is full', try_device, WITH_PATH),
    ('- is standard output, with nothing else in it', try_dash, WITH_PATH),
    ('a folder, no folder and no permission are one error', try_refusals, WITH_PATH),
    ('standard output that is full or closed is one error', try_standard_output, {**WITH_PATH, **TO_STANDARD_OUTPUT}),
]


def main():
    service = Service(2 + len(CASES))
    outputs = Outputs(service)
    with service.case('each command has a row here'):
        lines = re.findall(r'^  sondectl ([a-z|]+) ', outputs.run('--help', [])[1].decode(), re.M)
        commands = {name for line in lines for name in line.split('|')}
        missing = commands - set(WITH_PATH) - set(TO_STANDARD_OUTPUT) - set(SILENT)
        check(commands and not missing, f'{missing} have none')
        for command in commands:
            has_output = re.search('-o, --output|--svg', outputs.run(command, ['--help'])[1].decode())
            check(command in WITH_PATH or not has_output, f'{command} has an output but no row')
    before = os.listdir(outputs.folder)
    for name, test, rows in CASES:
        with service.case(name):
            for command, (words, expected) in rows.items():
                test(outputs, command, words, expected)
                outputs.check_folder(before)
    with service.case('a full disk leaves a recording up to there, and of a product what was there'):
        test_small_disks(outputs)
    service.finish()


main()
