#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs what is documented, as root on a private bus: test-command-lines.py SOURCE BUILD

Every command line of README.md, of --help and of the man pages is a case. Each block of lines has a folder of its own,
with the files that the pages speak of; what a line writes has to be whole. A new line needs nothing if it runs as it
stands; else a file in FILES, a program in STAND_INS, or a row of ROWS that says how, or where else, it is run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import command_lines
import systemd
from service import DEADLINE_S, Service, wait_for
from tap import check

N_LINES, N_COLUMNS = 24, 80  # of a screen

# Programs that work for a second: one with some heap events, one that lives in malloc(), which a page asks about.
PROGRAMS = {'program': 'sorted(str(number) for number in range(10000))', 'program.py': '[b"x" * (600 + i) for i in range(1000)]'}
PROGRAM = """#!/usr/bin/python3
import time
end = time.monotonic() + 1
while time.monotonic() < end:
    """
# Captures by the names that pages have for them: of the one with its heap, of the other without.
HEAP_CAPTURES = ('program', 'old', 'new')
CAPTURES = ('slow', 'before', 'after', 'yesterday', 'machine', 'everywhere', 'x')
UNIT = 'cron.service'
# What perf script prints, which import takes in the place of the file.
PERF = 'program 7/7  1.000000:  100 cycles: \n\t    401000 main (/bin/program)\n\n'
# Programs that this machine may lack, or that would leave it: what they are given is looked at.
STAND_INS = {
    'sudo': 'exec "$@"',
    'ssh': 'shift; exec sh -c "$*"',
    'xdg-open': 'test -s "$1"',
    'flamegraph.pl': 'grep -c ";"',
    'stackcollapse-perf.pl': 'grep -c cpu-clock',
    'pprof': 'gzip -t "$2"',
    'heaptrack_gui': 'grep -c "^+ " "$1"',
}
# What lines say of a machine that is not this one, and times that are too long for a test.
WORDS = (
    (r'()\bdocker-\w+\.scope\b', lambda test: UNIT),
    (r'()\b4711\b', lambda test: test.burner.pid),
    (r'()\bsession-\d{8}T\d{6}Z-\d+\.syscap\b', lambda test: test.stored()),
    (r'( -[di] )\d+\b', lambda test: 1),
    (r'( --diff )10s\b', lambda test: '0.5s'),
    (r'(^timeout -s INT )\d+\b', lambda test: 2),
    (r'(\bsondectl (?:attach|pause|resume|status|stop|top) )1\b', lambda test: test.session()),
    (r'(\bsondectl snapshot )1\b', lambda test: test.session('recorder', 't', '60000000')),
)
# What has to be so before a line is run.
NEEDS = (
    (r'^sondectl (list --captures|rm )', lambda test: test.stored()),
    (r'^sondectl resume ', lambda test: test.pause()),
    (r'^sondectl arm ', lambda test: os.makedirs('/run/systemd/system', exist_ok=True)),
)
# How a line is run that does not just end well: until ^C, until its session ends, or elsewhere; then the reason is said,
# and what it names must be there. And which exit statuses are right.
INTERRUPTED, TO_ITS_END, ALONE = 'until ^C', 'until its session ends', 'alone'
ROWS = (
    (r'^sudo tools/demo\.sh$', 'by client of the suite system', ()),
    (r'^xdg-open build/demo\.html$', 'by client of the suite system', ()),
    (r'^sudo tools/test\.sh$', 'by continuous integration', ()),
    (r'^sudo tools/setup\.sh build$', 'by the suite fresh', ()),
    (r'^sudo apt-get (build-dep \./ && dpkg-buildpackage|install \.\./)', 'by the suite packages', ()),
    (r'^meson setup build( && .*| -D\w+=true)$', 'by the suite fresh', ()),
    (r'^journalctl -u sonded ', 'where there is a journal', ()),
    (r'^sondectl top(?!.* (-n|--count|-d) )', INTERRUPTED, (0,)),
    (r'^sondectl record (?!.*(-d |-- ))', INTERRUPTED, (0,)),
    (r'^sondectl attach ', TO_ITS_END, (0,)),
    (r'^timeout ', ALONE, (124,)),
    (r'\| head', ALONE, (0, 128 + signal.SIGPIPE)),
)


class Test:
    def __init__(self, service, folder):
        self.service = service
        self.folder = folder
        self.sondectl = os.path.join(service.build, 'client/sondectl')
        self.files = service.make_folder(0)
        programs = service.make_folder(0)
        for name, text in STAND_INS.items():
            self.write(os.path.join(programs, name), f'#!/bin/sh\n{text}\n')
        self.environment = {
            **os.environ, 'LC_ALL': 'C.UTF-8', 'NO_COLOR': '1', 'DISPLAY': ':1', 'HOME': self.files,
            'PATH': f'{programs}:{os.path.dirname(self.sondectl)}:/usr/bin:/bin',
            'SONDE_DAEMON': os.path.join(service.build, 'daemon/control/sonded'),
            'SONDE_BROKER': os.path.join(service.build, 'daemon/broker/sonde-broker'),
            'SONDE_WORKER': os.path.join(service.build, 'daemon/capture/sonde-capture'),
            'SONDE_TRACER_LIBRARY': os.path.join(service.build, 'shared-ring/collector/tracer/libsonde-tracer.so'),
            'SONDE_MEMORY_LIBRARY': os.path.join(service.build, 'shared-ring/collector/memory/libsonde-memory.so')}
        self.burner = service.start_burner(0)

    @staticmethod
    def write(path, text):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(path, 0o755)

    def prepare(self):
        """The files that every block finds in its folder."""
        for name, work in PROGRAMS.items():
            self.write(os.path.join(self.files, name), f'{PROGRAM}{work}\n')
        self.write(os.path.join(self.files, 'perf.data'), PERF)
        self.folder = self.files
        self.run('sondectl record --embedded --memory --memory-wait 1000000 -o program.syscap -- ./program')
        self.run('sondectl record --embedded -o slow.syscap -- python3 program.py')
        shutil.copy(os.path.join(self.service.build, 'tests/system/callers'), os.path.join(self.files, 'traced'))
        self.run('sondectl record --embedded --trace -o traced.syscap -- ./traced 100')
        for first, *names in (HEAP_CAPTURES, CAPTURES):
            for name in names:
                shutil.copy(os.path.join(self.files, f'{first}.syscap'), os.path.join(self.files, f'{name}.syscap'))

    def session(self, *option):
        """The number of one that runs; of a new one if it needs an option."""
        running = [number for number, _, state in self.service.list_sessions() if state in ('running', 'paused')]
        if not running or option:
            self.service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                                'StartSession', 'a{sv}', str(1 + bool(option)), 'pids', 'au', '1', str(self.burner.pid), *option)
            return max(number for number, _, state in self.service.list_sessions() if state == 'running')
        return max(running)

    def call(self, number, method):
        self.service.busctl('call', 'org.sonde.Profiler1', f'/org/sonde/Profiler1/session/{number}',
                            'org.sonde.Profiler1.Session', method)

    def pause(self):
        number = self.session()
        if (number, 0, 'running') in self.service.list_sessions():
            self.call(number, 'Pause')

    def stored(self):
        """The name of a capture that the service keeps."""
        self.session()
        self.stop_sessions()
        wait_for(lambda: {state for *_, state in self.service.list_sessions()} <= {'finished', 'failed'}, 'the end of sessions')
        answer = self.service.busctl('call', 'org.sonde.Profiler1', '/org/sonde/Profiler1', 'org.sonde.Profiler1.Manager',
                                     'ListCaptures')
        return re.findall(r'"([^" ]+\.syscap)"', answer)[-1]

    def stop_sessions(self):
        for number, _, state in self.service.list_sessions():
            if state in ('running', 'paused'):
                self.call(number, 'Stop')

    def start(self, line):
        output = tempfile.TemporaryFile('w+', encoding='utf-8')
        process = subprocess.Popen(['bash', '-o', 'pipefail', '-c', line], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        return process, output

    def finish(self, line, process, output, statuses):
        status = process.wait(timeout=DEADLINE_S)
        output.seek(0)
        text = output.read()
        check(status in statuses, f'{line}: exit status {status}\n{text[-3000:]}')
        return text

    def run(self, line, statuses=(0,)):
        return self.finish(line, *self.start(line), statuses)

    def written(self, before):
        """The files that are not as they were."""
        return [path for path, stamp in self.stamps().items() if before.get(path) != stamp]

    def stamps(self):
        return {entry.path: (entry.stat().st_mtime_ns, entry.stat().st_size)
                for entry in os.scandir(self.folder) if entry.is_file()}

    def check_words(self, line):
        """What can be said of a line that is not run here: its programs, scripts and options are there."""
        for command in re.split(r' && | \| ', line):
            program = command.removeprefix('sudo ').split()[0]
            path = os.path.join(self.service.source, program)
            check(os.access(path, os.X_OK) if '/' in program else shutil.which(program), f'there is no {program}')
        with open(os.path.join(self.service.source, 'meson_options.txt'), encoding='utf-8') as file:
            options = set(re.findall(r"^option\('([\w-]+)'", file.read(), re.M)) | {'prefix', 'sysconfdir', 'localstatedir'}
        unknown = set(re.findall(r' -D([\w-]+)=', line)) - options
        check(not unknown, f'meson has no options {unknown}')

    def run_case(self, line):
        """One line of a document."""
        _, how, statuses = next((row for row in ROWS if re.search(row[0], line)), (None, ALONE, (0,)))
        if how not in (ALONE, INTERRUPTED, TO_ITS_END):
            self.service.note(f'run {how}')
            self.check_words(line)
            return
        for pattern, meet in NEEDS:
            if re.search(pattern, line):
                meet(self)
        for pattern, replace in WORDS:
            line = re.sub(pattern, lambda match, replace=replace: f'{match[1]}{replace(self)}', line)
        before = self.stamps()
        process, output = self.start(line)
        if how != ALONE:
            wait_for(lambda: process.poll() is not None or os.fstat(output.fileno()).st_size
                     or any(os.path.getsize(path) for path in self.written(before)), 'the first bytes')
        if how == INTERRUPTED and process.poll() is None:  # what it shows may have ended by itself
            os.killpg(process.pid, signal.SIGINT)
        elif how == TO_ITS_END:
            self.stop_sessions()
        text = self.finish(line, process, output, statuses)
        for path in self.written(before):
            check(os.path.getsize(path), f'{line}: {path} is empty\n{text}')
            if path.endswith('.syscap'):
                # What is imported has no ledger: nobody told us what the other lost.
                self.run(f'sondectl verify {path}', (0, 2) if line.startswith(('timeout ', 'sondectl import ')) else (0,))


def read_helps(sondectl):
    def read(*command):
        return subprocess.run([sondectl, *command, '--help'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=True, timeout=DEADLINE_S, env={**os.environ, 'LC_ALL': 'C'}).stdout

    general = read()
    names = sorted(set('|'.join(re.findall(r'^  sondectl ([a-z|]+) ', general, re.M)).split('|')))
    return {'sondectl': general, **{f'sondectl {name}': read(name) for name in names}}


def find_documents(source, helps):
    """[(name of a document, its blocks of lines)]"""
    documents = []
    for path in ('README.md', *sorted(f'docs/{name}' for name in os.listdir(f'{source}/docs') if name.endswith('.rst'))):
        with open(os.path.join(source, path), encoding='utf-8') as file:
            find = command_lines.find_in_markdown if path.endswith('.md') else command_lines.find_in_page
            documents.append((path, find(file.read())))
    return documents + [(f'{name} --help', command_lines.find_in_help(text)) for name, text in helps.items()]


def check_sizes(helps):
    for name, text in helps.items():
        lines = text.splitlines()
        check(len(lines) <= N_LINES, f'{name}: {len(lines)} lines')
        check(max(map(len, lines)) <= N_COLUMNS, f'{name}: {max(lines, key=len)}')


def check_presence(documents):
    lines = [line for _, blocks in documents for lines in blocks for line in lines]
    missing = [name for name, blocks in documents if not blocks and name != 'sondectl heap --help']
    check(not missing, f'no command line: {missing}')
    check(not (stale := [row[0] for row in ROWS if not any(re.search(row[0], line) for line in lines)]),
          f'no line needs these rows: {stale}')


def main():
    helps = read_helps(os.path.join(os.path.abspath(sys.argv[2]), 'client/sondectl'))
    documents = find_documents(sys.argv[1], helps)
    service = Service(3 + sum(len(lines) for _, blocks in documents for lines in blocks))
    with service.case('lines are found where they stand'):
        for find, text, blocks in command_lines.RULES:
            check(find(text) == blocks, f'{find.__name__} finds {find(text)}')
    with service.case('--help fits a screen'):
        check_sizes(helps)
    with service.case('every document has a line, and every row is of one'):
        check_presence(documents)
    # Of this namespace, as the bus is.
    subprocess.run(['mount', '-t', 'tracefs', 'tracefs', '/sys/kernel/tracing'], check=True)
    test = Test(service, None)
    with systemd.Service(UNIT) as unit:
        unit.add(test.burner.pid)
        test.prepare()
        for name, blocks in documents:
            for lines in blocks:
                test.folder = shutil.copytree(test.files, os.path.join(service.make_folder(0), 'files'))
                for line in lines:
                    with service.case(f'{name}: {line}'.replace('#', '')):
                        test.run_case(line)
                test.stop_sessions()
    service.finish()


main()
