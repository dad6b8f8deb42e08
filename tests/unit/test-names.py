#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where names come from when a program is stripped: test-names.py BUILD SOURCE"""

import http.server
import importlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path[:0] = [os.path.join(sys.argv[2], 'tests', folder) for folder in ('lib', 'fuzz')]
DEADLINE_S, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Tap', 'check'))
seeds = importlib.import_module('make-report-corpus')

SONDECTL = os.path.join(sys.argv[1], 'client/sondectl')
PROGRAM = '''
static volatile unsigned long sum;
static inline __attribute__((always_inline)) void inner (unsigned n) { sum += n; }
static __attribute__((noinline)) void hidden_function (unsigned n) {
  inner (n);
}
int main (int argc, char **argv) { hidden_function (argc); return 0; }
'''
BASE = 0x55550000000


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S, **options).stdout


class Case:
    """A program with a build id, its debug file apart, and where hidden_function() is in it."""
    def __init__(self, folder):
        self.folder = folder
        self.program = self.path('bin', 'program')
        self.debug = self.path('program.debug')
        with open(self.path('program.c'), 'w') as file:
            file.write(PROGRAM)
        run('gcc', '-g', '-O2', '-Wl,--build-id', '-o', self.program, self.path('program.c'))
        run('objcopy', '--only-keep-debug', self.program, self.debug)
        symbols = run('nm', self.program)
        self.offset = int(re.search(r'^([0-9a-f]+) t hidden_function', symbols, re.M)[1], 16)
        self.build_id = re.search(r'Build ID: ([0-9a-f]+)', run('readelf', '-n', self.program))[1]
        self.debug_directory = self.path('debug', 'x')[:-2]

    def path(self, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def strip(self, *arguments):
        run('strip', *arguments, self.program)

    def report(self, *arguments, inode=None, build_id=b'', embedded=None, environment=None):
        """What the report of one sample in hidden_function() says, and what it complains."""
        inode = os.stat(self.program).st_ino if inode is None else inode
        path = os.fsencode(self.program) + (b'\0@' + build_id if build_id else b'')
        parts = [seeds.process(42, b'prog'), seeds.mapping(42, BASE, BASE + 0x10000, path, inode),
                 seeds.sample(42, [seeds.USER, BASE + self.offset])]
        if embedded:
            table = seeds.symbols([(BASE + self.offset, BASE + self.offset + 3, 42, 0, len(embedded) + 1)],
                                  embedded + b'\0program\0')
            parts += [seeds.chunks(table)]
        capture = self.path('x.syscap')
        with open(capture, 'wb') as file:
            file.write(seeds.capture(parts, 1))
        environment = {'PATH': os.environ['PATH'], 'XDG_CACHE_HOME': self.path('cache', 'x')[:-2], 'HOME': self.folder,
                       'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', ''), **(environment or {})}
        result = subprocess.run([SONDECTL, 'report', *([] if any('--by' in word for word in arguments) else ['--flat']), '--verbose', f'--debug-directory={self.debug_directory}',
                                 *arguments, capture], env=environment, capture_output=True, text=True, timeout=DEADLINE_S,
                                check=False)
        check(result.returncode == 0, f'exit status {result.returncode}: {result.stderr}')
        return result.stdout, result.stderr


def check_named(case, *arguments, **options):
    shown, complaints = case.report(*arguments, **options)
    check(' hidden_function ' in shown and complaints == '', f'{shown}{complaints}')


def check_unnamed(case, why, *arguments, **options):
    shown, complaints = case.report(*arguments, **options)
    check(f' program+{case.offset:#x} ' in shown, shown)
    check(complaints.startswith(f'{case.program}: 1 place without a name: ') and why in complaints, complaints)


def install_by_build_id(case):
    place = case.path('debug', '.build-id', case.build_id[:2], case.build_id[2:] + '.debug')
    shutil.copy(case.debug, place)
    return place


def test_own(case):
    check_named(case)


def test_none(case):
    case.strip()
    check_unnamed(case, f'stripped, and no debug file in {case.debug_directory} for build id {case.build_id}')


def test_other_file(case):
    inode = os.stat(case.program).st_ino
    check_unnamed(case, 'is not the file that was recorded', inode=inode + 1)
    check_unnamed(case, 'is not the file that was recorded', inode=inode + 1, build_id=b'00' * 20)
    check_named(case, inode=inode + 1, build_id=case.build_id.encode())
    check_named(case, inode=0, build_id=case.build_id.encode())
    os.unlink(case.program)
    check_unnamed(case, 'cannot be opened: No such file', inode=inode)
    os.mkfifo(case.program)
    check_unnamed(case, 'is no regular file')


def test_build_id(case):
    case.strip()
    place = install_by_build_id(case)
    check_named(case)
    run('objcopy', '--remove-section=.note.gnu.build-id', place)  # now it could be anybody's
    check_unnamed(case, 'stripped')


def test_link(case):
    link = case.path('bin', '.debug', 'program.debug')
    shutil.copy(case.debug, link)
    case.strip()
    run('objcopy', f'--add-gnu-debuglink={link}', case.program)
    for place in (link, case.path('bin', 'program.debug'), case.debug_directory + case.path('bin', 'program.debug')):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if place != link:
            os.rename(link, place)
        link = place
        check_named(case)
    with open(link, 'ab') as file:
        file.write(b'x')  # another checksum
    check_unnamed(case, 'stripped')


def test_packed(case):
    with open(case.debug, 'rb') as file:
        packed = lzma.compress(file.read())
    case.strip()
    for content, is_good in ((packed, True), (packed[:-200], False), (lzma.compress(bytes(70 << 20)), False), (b'x', False)):
        with open(case.path('packed'), 'wb') as file:
            file.write(content)
        run('objcopy', '--remove-section=.gnu_debugdata', case.program)
        run('objcopy', f'--add-section=.gnu_debugdata={case.path("packed")}', case.program)
        check_named(case) if is_good else check_unnamed(case, 'stripped')


def test_made_up(case):
    """A worker that saw a stripped file alone embeds what it could make up."""
    check_named(case, embedded=b'program+0x1234')
    shown, _ = case.report(embedded=b'told by the capture')
    check('told by the capture' in shown, shown)


def test_server(case):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            with open(case.debug, 'rb') as file:
                content = file.read() if self.path == f'/buildid/{case.build_id}/debuginfo' else b''
            self.send_response(200 if content else 404)
            self.send_header('Content-Length', str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    case.strip()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f'http://127.0.0.1:{server.server_address[1]}/'
        check_unnamed(case, 'stripped')
        check(not asked, 'a server was asked that nobody named')
        check_named(case, f'--debuginfod={url}')
        check(len(asked) == 1, asked)
        check_named(case, environment={'DEBUGINFOD_URLS': url})
        check(len(asked) == 1, 'what was got once is not kept')
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_lines(case):
    case.strip()
    install_by_build_id(case)
    for _ in range(2):  # the second time from the cache
        shown, _ = case.report('--lines')
        check('hidden_function' in shown and 'program.c:3' in shown, shown)
        shown, _ = case.report('--inline', '--lines')
        check(re.search(r'100.0%  100.0%  inner .*program.c:3\n', shown), shown)
        shown, _ = case.report('--by=line', '--inline')
        check(re.search(r'program.c:3 +inner', shown), shown)
        # the debug file is read only once
        shutil.rmtree(case.debug_directory, ignore_errors=True)
    kept = case.path('cache', 'sonde', 'lines', case.build_id)
    with open(kept, 'r+b') as file:
        file.truncate(7)
    shown, _ = case.report('--lines')
    check('program.c' not in shown, 'a damaged cache was believed')


def main():
    cases = [('a program has names of its own', test_own),
             ('a stripped one has none, and it is said why', test_none),
             ('another file at its place is not believed, but for its build id', test_other_file),
             ('a debug file is found by build id, and has that build id', test_build_id),
             ('a debug file is found by debuglink, and has that checksum', test_link),
             ('names may be packed into the file', test_packed),
             ('a made-up name in the capture gives way, another one does not', test_made_up),
             ('a server is asked for what is not here, if it is named', test_server),
             ('lines and inlined functions come from the debug file, and from a cache', test_lines)]
    tap = Tap(len(cases))
    for name, test in cases:
        with tempfile.TemporaryDirectory() as folder, tap.case(name):
            test(Case(folder))
    tap.finish()


main()
