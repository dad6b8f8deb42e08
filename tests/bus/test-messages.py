#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What sondectl says of each error, and what it says to do next: test-messages.py SOURCE BUILD

A message of the sources that names a next step and is in no output of these cases fails the last one."""

import glob
import importlib
import json
import os
import re
import struct
import subprocess
import sys

import systemd
from service import Service
from tap import check

sys.path.insert(0, os.path.join(sys.argv[1], 'tests/fuzz'))
seeds = importlib.import_module('make-report-corpus')

ERRORS = 'org.sonde.Profiler1.Error.'
BUS = 'org.freedesktop.DBus.Error.'
# What an error of the service looks like: name and message on the bus, what sondectl makes of them.
ROWS = {
    'InvalidOption': ('Option targets: process 1 is given twice', 'sondectl: -p: process 1 is given twice\n'),
    'NotAuthorized': ('Action x: no', 'sondectl: Action x: no\n'),
    'NoSuchProcess': ('There is no process 7', 'sondectl: There is no process 7\n'),
    'NoSuchSession': ('There is no such session', 'sondectl: There is no such session\nsondectl list shows'),
    'LimitExceeded': ('Limit capture-files: at most 64', 'sondectl: Limit capture-files: at most 64\nsondectl list --captures'),
    'NotSupported': ('Option event: this machine has no cycles', 'sondectl: --event: this machine has no cycles\nsondectl events'),
    'InvalidState': ('The session is paused', 'sondectl: The session is paused\n'),
    'Failed': ('Cannot start a worker', 'sondectl: Cannot start a worker\n'),
}
# Statistics that are worth a line at the end of record, and what it says.
LOSSES = {
    'lost-kernel': "the kernel's ring; lower -F or --stack-size, or raise the limit on locked memory (ulimit -l).",
    'lost-ring': 'out of the ring; this should not happen: please report it with the capture.',
    'lost-queue': 'could be unwound; lower -F or --stack-size.',
    'events-lost-ring': 'in their rings, as these claim; --memory-wait=1000000 lets the command wait as often as it takes.',
    'rings-refused': 'threads of programs got no ring, and all their events are missing.',
    'programs-32-bit': 'without libsonde-memory.so of theirs; install the library for 32-bit programs, too.',
    'programs-static': 'processes were not recorded: statically linked.',
    'programs-without-library': 'loaded no libsonde-memory.so; their environment, their rights or their C library keep it out.',
    'probes-refused': "their allocators' probes are not followed; sondectl dump says why.",
    'switches-lost': 'for how long what they did is unknown; raise the limit on locked memory (ulimit -l).',
    'threads-beyond': '50 threads were too many, and their times are not told.',
    'stream-lost': 'not written fast enough; write to a faster disk with -o.',
    'traces-empty': "50 processes have no call hooks: build with clang's -fxray-instrument",
    'unwind-truncated-dump': 'at the copied stack; raise --stack-size.',
    'unwind-chain-short': 'where frame pointers do; raise --stack-size.',
    'unwind-depth-limit': 'at the depth limit; raise --max-depth.',
    'jit-unnamed': 'of the stacks begin in code made at run time that has no name.',
    'walks-absent': 'of the stacks show an interpreter and not its program: its thread has no list that is known, or it has closed itself.',
    'interpreters-closed': "this session is not given the BPF program that reads them; with root's rights or through the service",
    'interpreters-musl': 'only with glibc they can be found, and theirs is musl.',
    'interpreters-unknown': 'only those of CPython 3.8 to 3.14 with the global lock, of PHP 8.2 and 8.4 without threads and of Ruby 3.1 and 3.3 are known; sondectl dump says which file it is.',
    'interpreters-beyond': 'there are more of them than a session follows; record fewer, with --unit or -p.',
}


class Cases:
    def __init__(self, service):
        self.service = service
        self.sondectl = service.install_sondectl()
        self.fake = service.install('tests/system/fake-sonded.py')
        self.folder = service.make_folder(0)
        self.said = []

    def run(self, *arguments, user=0, status=None, **environment):
        result = self.service.run(user, self.sondectl, *arguments, cwd=self.folder, env=os.environ | environment)
        text = result.stdout + result.stderr
        self.said.append(text)
        check(status is None or result.returncode == status, f'{arguments}: exit status {result.returncode}: {text}')
        return text

    def expect(self, wanted, *arguments, **options):
        text = self.run(*arguments, **options)
        check(wanted in text, f'{arguments}: "{wanted}" is not in: {text}')

    def record(self, *options, **environment):
        """Through a service that does as it is told."""
        return self.run('record', '--embedded', f'--sonded={self.fake}', '-p', str(os.getpid()), '-o', 'x.syscap', *options,
                        **environment)

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, 'wb') as file:
            file.write(data)
        return path


def test_names(cases):
    """Of the interface, all of them."""
    with open(os.path.join(cases.service.source, 'dbus/org.sonde.Profiler1.xml'), encoding='utf-8') as file:
        text = file.read().partition('Errors, all ')[2].partition('-->')[0]
    names = set(re.findall(r'^  (\w+): ', text, re.M))
    check(names == set(ROWS), f'{names ^ set(ROWS)} has no row, or is no error')
    for name, (message, shown) in ROWS.items():
        text = cases.record(FAKE_ERROR=f'{ERRORS}{name} {message}')
        check(text.startswith(shown), f'{name}: {text}')
    text = cases.record(FAKE_ERROR=f'{BUS}AccessDenied It may not')
    check('org.sonde.Profiler1.conf' in text, text)
    text = cases.record(FAKE_ERROR=f'{BUS}Spawn.Failed The service cannot start: exit status 127, a library is missing')
    check('a library is missing\njournalctl -u sonded says why' in text, text)


def test_service(cases):
    """The same from the service itself, as far as one can make it say so."""
    user = cases.service.next_user()
    cases.expect('sondectl: --frequency: must be from 1 to 20000', 'start', '-a', '-F', '30000', status=1)
    cases.expect('sondectl: --frequency: must be from 1 to 20000', 'start', '-a', '-F', '-1', status=1)
    cases.expect('did you mean dwarf?', 'start', '-a', '--unwind', 'dwarv', status=1)
    cases.expect('sondectl events; did you mean sched:sched_switch?', 'start', '-a', '--event', 'sched:sched_swich', status=1)
    cases.expect('sondectl: -p: process', 'start', '-p', str(os.getpid()), '-p', str(os.getpid()), status=1)
    cases.expect('Run it on a terminal', 'start', '-a', user=user, status=1)
    cases.expect('sondectl: -u: ', 'start', '-u', 'cron.service', status=1)
    cases.expect('sondectl: There is no process 4194303\n', 'start', '-p', '4194303', status=1)
    cases.expect('sondectl: There is no session 4711\nsondectl list shows', 'stop', '4711', status=1)
    cases.expect('sondectl: There is no session 4711 of yours\nsondectl list shows', 'stop', '4711', user=user, status=1)
    cases.expect('sondectl start --recorder=30s ...', 'snapshot', status=1)
    recorders = [re.search(r'^Started session (\d+): ', cases.run('start', '-a', '--recorder=30s', status=0), re.M)[1] for _ in range(2)]
    cases.expect('snapshot needs the number of one SESSION; sondectl list shows them', 'snapshot', status=1)
    for number in recorders:
        cases.run('stop', number, status=0)
    text = cases.run('start', '-a', status=0)
    number = re.search(r'^Started session (\d+): /.*\.syscap$', text, re.M)[1]
    check(f'Now: sondectl status {number}, sondectl stop {number}\n' in text, text)
    cases.run('pause', number, status=0)
    cases.expect('paused', 'pause', number, status=1)
    burner = cases.service.start_burner(user)
    text = ''
    while 'Started' in text or not text:  # the limit ends it
        text = cases.run('start', '-p', str(burner.pid), user=user)
    check(re.match('sondectl: Limit (sessions|starts): ', text), text)
    burner.kill()
    burner.communicate()
    limit = cases.record(FAKE_ERROR=f'{ERRORS}LimitExceeded Limit sessions: at most 4 at a time for uid 2')
    check('sondectl stop SESSION ends one' in limit, limit)
    limit = cases.record(FAKE_ERROR=f'{ERRORS}LimitExceeded Limit calls: at most 32')
    check('sondectl limits shows' in limit, limit)
    cases.expect('systemctl status sonded', 'list', status=1, DBUS_SYSTEM_BUS_ADDRESS='unix:path=/nonexistent')


def test_losses(cases):
    stream = seeds.capture([]).hex()
    for key, wanted in LOSSES.items():
        text = cases.record(FAKE_STREAM=stream, FAKE_STATISTICS=json.dumps({'recorded': 100, key: 50}))
        check(wanted in text, f'{key}: {text}')
        check('Now: sondectl report x.syscap\n' in text, text)
    text = cases.record(FAKE_STREAM=stream, FAKE_STATISTICS=json.dumps({'recorded': 1, 'events-waited-us': 300 * 10**6}))
    check('Programs waited 5 min 00 s in all for room in their rings; with --memory-wait=0 they lose' in text, text)
    text = cases.record('--memory-wait=0', FAKE_STREAM=stream, FAKE_STATISTICS=json.dumps({'recorded': 1, 'events-lost-ring': 50}))
    check('as these claim; without --memory-wait=0 the command waits for it.' in text, text)
    programs = [f'--sonded={cases.service.build}/daemon/control/sonded', f'--worker={cases.service.build}/daemon/capture/sonde-capture']
    cases.expect('Now: sondectl heap y.syscap', 'record', '-e', *programs, '--memory', '--event', 'none', '-o', 'y.syscap', '--', 'ls',
                 SONDE_BROKER=os.path.join(cases.service.build, 'daemon/broker/sonde-broker'),
                 SONDE_MEMORY_LIBRARY=os.path.join(cases.service.build, 'shared-ring/collector/memory/libsonde-memory.so'))
    built = {'SONDE_BROKER': os.path.join(cases.service.build, 'daemon/broker/sonde-broker')}
    cases.expect('of that time: record --waits=times and report --waits tell what it did in the rest.', 'record', '-e', *programs, '-o', 'w.syscap', '--',
                 'sleep', '1.2', **built)
    cases.expect('Now: sondectl report --waits w.syscap', 'record', '-e', *programs, '--waits=times', '-o', 'w.syscap', '--', 'ls', **built)
    cases.run('record', '-e', *programs, '--memory', '--memory-detail=sums', '--event', 'none', '-o', 'z.syscap', '--', 'ls', status=0,
              SONDE_BROKER=os.path.join(cases.service.build, 'daemon/broker/sonde-broker'),
              SONDE_MEMORY_LIBRARY=os.path.join(cases.service.build, 'shared-ring/collector/memory/libsonde-memory.so'))
    cases.expect('only --diff FROM TO cuts it (record --memory-detail=log)', 'heap', '--from', '1', 'z.syscap', status=1)
    text = cases.run('sh', '-c', 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo said; exit 3', status=3,
                     SONDE_DAEMON=os.path.join(cases.service.build, 'daemon/control/sonded'),
                     SONDE_BROKER=os.path.join(cases.service.build, 'daemon/broker/sonde-broker'),
                     SONDE_WORKER=os.path.join(cases.service.build, 'daemon/capture/sonde-capture'))
    check('said\n' in text and 'Self' in text and 'Recorded ' in text and 'Now:' not in text, text)


def test_interpreters(cases):
    """Options that a command gets so that its functions have names."""
    user = cases.service.next_user()
    folder = cases.service.make_folder(user)
    programs = [f'--sonded={cases.service.build}/daemon/control/sonded', f'--worker={cases.service.build}/daemon/capture/sonde-capture']
    for name in ('node', 'python3.12'):
        path = cases.write(name, b'#!/bin/sh\necho "told: $*"\n')
        os.chmod(path, 0o755)
        os.chmod(cases.folder, 0o755)

        def record(*arguments):
            return cases.run('record', '-e', *programs, '-o', os.path.join(folder, 'x.syscap'), *arguments, '--', path, 'x', user=user,
                             SONDE_MEMORY_LIBRARY=os.path.join(cases.service.build, 'shared-ring/collector/memory/libsonde-memory.so'),
                             SONDE_BROKER=os.path.join(cases.service.build, 'daemon/broker/sonde-broker'))

        text = record()
        check('--interpreters=no leaves it as it is\n' in text, text)
        if name == 'node':
            check('sondectl: Running node with --perf-basic-prof --interpreted-frames-native-stack' in text, text)
            check('told: --perf-basic-prof --interpreted-frames-native-stack --no-logfile-per-isolate --logfile=+ x\n' in text, text)
        else:
            check('Running Python with -X perf, so that its functions have names: BPF, which shows them without, is closed' in text, text)
            check('told: -X perf x\n' in text, text)
        for option in ('--interpreters=no', '--memory'):
            text = record(option)
            check('Running' not in text and 'told: x\n' in text, text)


def test_arguments(cases):
    """What is missing, or is too much."""
    whole = cases.write('whole.syscap', seeds.capture([]))
    for command in ('report', 'heap', 'calls', 'diff', 'export', 'view', 'flamegraph', 'archive', 'dump', 'verify'):
        more = ['-f', 'folded'] if command == 'export' else []
        cases.expect(f'see sondectl {command} --help', command, *more, status=1)
    for command in ('list', 'events', 'limits'):
        cases.expect(f'{command} takes no arguments; see sondectl {command} --help', command, 'x', status=1)
    for command in ('stop', 'pause', 'resume', 'status'):
        cases.expect('sondectl list shows them', command, 'x', status=1)
    cases.expect('sondectl list --captures shows them', 'rm', status=1)
    cases.expect('sondectl list shows', 'attach', status=1)
    cases.expect('sondectl list shows them', 'snapshot', 'x', status=1)
    cases.expect('sondectl record does', 'start', 'true', status=1)
    cases.expect('No process is called nobody-is', 'start', '--comm', 'nobody-is', status=1)
    cases.expect('No container 0123 runs here', 'record', '--container', '0123', status=125)
    cases.expect('--java is of a COMMAND', 'record', '--java', '-p', '1', status=125)
    cases.expect('--unit, --cgroup and --container exclude each other', 'top', '--container', '0123', '-u', 'x', status=125)
    cases.expect('see sondectl start --help', 'start', status=1)
    cases.expect('see sondectl record --help', 'record', status=125)
    cases.expect('see sondectl help', 'xyzzy', status=1)
    cases.expect('sondectl report takes options', whole, '--flat', status=1)
    cases.expect('sondectl dump --counts', 'flamegraph', whole, status=1)
    cases.expect('sondectl record --trace does', 'flamegraph', '--unit', 'self', whole, status=1)
    cases.expect('sondectl calls --diff compares', 'flamegraph', '--unit', 'self', '--diff', whole, whole, status=1)
    cases.expect('sondectl record --memory', 'heap', whole, status=1)
    cases.expect('--fail-on takes points such as 3%, 0 to 100', 'diff', '--fail-on', 'much', whole, whole, status=1)
    cases.expect('a line is leak:PATTERN or a comment', 'heap', '--suppressions', cases.write('rules', b'race:x\n'), whole, status=1)
    cases.expect('only --leaks of two captures has --suppressions', 'heap', '--suppressions', 'none', '--diff', whole, whole, status=1)
    cases.expect('sondectl record --trace', 'calls', whole, status=1)
    cases.expect('sondectl record --waits=times does', 'report', '--waits', whole, status=1)
    cases.expect('it goes with none of --bottom-up', 'report', '--waits', '--flat', whole, status=1)
    cases.expect('it does not go with --from and --to', 'report', '--waits', '--from', '1', whole, status=1)
    cases.expect('sondectl record --trace makes some', 'export', '-f', 'folded', '--unit', 'calls', whole, status=1)
    cases.expect('sondectl report --flat', 'report', '--callers', 'nobody', whole, status=1)
    text = subprocess.run([cases.sondectl.encode(), b'rm', b'\xff'], capture_output=True, text=True, check=False).stderr
    cases.said.append(text)
    check('sondectl list --captures shows them' in text, text)


def test_reports(cases):
    """Heads of reports name the option that would help."""
    ends = [b'[stack truncated]', b'[depth limit]', b'[frame pointers end]']
    parts = [seeds.process(42, b'x'), seeds.jit([(seeds.JIT + i, name) for i, name in enumerate(ends)])]
    parts += [seeds.sample(42, [seeds.USER, 0x401010, seeds.JIT + i]) for i in range(len(ends))]
    path = cases.write('cut.syscap', seeds.capture(parts, len(ends)))
    text = cases.run('report', path, status=0)
    check(text.count('(record --stack-size)') == 2 and '(record --max-depth)' in text, text)
    for n_lost, wanted in ((1, 'event was lost (record --memory-wait=1000000)'), (2, 'events were lost (record --memory-wait=1000000)')):
        allocation = seeds.frames.frame(14, struct.pack('<QqiHHQ', 0x10, 9, 42, 1, 0, 0x401010), pid=42, time=2000)
        path = cases.write('lost.syscap', seeds.capture([seeds.process(42, b'x'), allocation], 0, events_lost_ring=n_lost))
        cases.expect(wanted, 'heap', path)


def test_armed(cases):
    """What comes of arm and disarm, below a played systemd."""
    path = '/run/systemd/system/plain.service.d/50-sonde.conf'
    library = os.path.join(cases.service.build, 'shared-ring/collector/memory/libsonde-memory.so')
    os.makedirs('/run/systemd/system')  # which says that systemd runs the machine
    systemd.Manager({'plain.service': {'ExecStart': [('/usr/bin/python3', ['python3'], False, 0, 0, 0, 0, 0, 0, 0)]}}).start()
    cases.expect('systemctl restart plain.service', 'arm', 'plain.service', status=0, SONDE_MEMORY_LIBRARY=library)
    with open(path, encoding='utf-8') as file:
        cases.said.append(file.read())
    check('sondectl disarm takes it back' in cases.said[-1], cases.said[-1])
    cases.run('disarm', 'plain.service', status=0)
    cases.expect('sondectl disarm shows what is', 'disarm', 'plain.service', status=1)
    os.makedirs(os.path.dirname(path))
    with open(path, 'w', encoding='utf-8'):
        cases.expect('stays as it is', 'arm', 'plain.service', status=1, SONDE_MEMORY_LIBRARY=library)


def without_calls(text, *names):
    """The source without the calls of functions whose texts are for --help."""
    for name in names:
        while (start := text.find(f'{name} (')) >= 0:
            depth, at = 0, text.index('(', start)
            while depth > 0 or at == text.index('(', start):
                depth += {'(': 1, ')': -1}.get(text[at], 0)
                at += 1
            text = text[:start] + text[at:]
    return text


# A command, an option of one, a page.
STEP = re.compile(r'\bsondectl [a-z%]|record --|Now: |\(8\)|systemctl')


def next_steps(source):
    """{literal: file} of all that name a command, an option of one or a page; adjacent literals are one."""
    found = {}
    for path in glob.glob(os.path.join(source, 'client/**/*.c'), recursive=True):
        with open(path, encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S).replace('\\\n', ' ')
        text = re.sub(r'"[^"\n]*[()][^"\n]*"', lambda match: match[0].replace('(', '\1').replace(')', '\2'), text)
        text = without_calls(text, 'sonde_cli_parse', 'parse_session', 'return parse', '!parse').replace('\1', '(').replace('\2', ')')
        for parts in re.findall(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)', text):
            literal = ''.join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', parts))
            if STEP.search(literal) and 'Example' not in literal and not path.endswith('client/sondectl.c'):
                found[literal] = os.path.relpath(path, source)
    return found


def to_pattern(literal):
    literal = literal.replace('\\n', '\n').replace('\\"', '"')
    return '.*'.join(re.escape(part) for part in re.split(r'%(?:s|d|u|-?\d*s|\.0f)', literal.replace('%%', '%')))


def test_complete(cases):
    said = '\n'.join(cases.said)
    steps = next_steps(cases.service.source)
    check(len(steps) > 25, f'{steps}')
    missing = {f'{path}: {literal}' for literal, path in steps.items() if not re.search(to_pattern(literal), said)}
    check(not missing, 'no case has\n' + '\n'.join(sorted(missing)))


def main():
    service = Service(8)
    cases = Cases(service)
    for name, test in (('each error of the interface is shown in the words of sondectl', test_names),
                       ('the service itself says so', test_service),
                       ('what was lost comes with what helps', test_losses),
                       ('a command that names its own code is run so, and that is said', test_interpreters),
                       ('a command that lacks something says what, or where to look', test_arguments),
                       ('reports name the option that would help', test_reports),
                       ('what is armed says what comes next', test_armed),
                       ('each message that names a next step was seen', test_complete)):
        with service.case(name):
            test(cases)
    service.finish()


main()
