#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of programs that are stripped, from where they come: test-names.py BUILD SOURCE"""

import http.server
import importlib
import lzma
import os
import re
import resource
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
        self.build('-Wl,--build-id')
        run('objcopy', '--only-keep-debug', self.program, self.debug)
        symbols = run('nm', self.program)
        self.offset = int(re.search(r'^([0-9a-f]+) t hidden_function', symbols, re.M)[1], 16)
        self.build_id = re.search(r'Build ID: ([0-9a-f]+)', run('readelf', '-n', self.program))[1]
        code = re.search(r'LOAD +0x(\w+) 0x\w+ 0x\w+ 0x\w+ 0x(\w+) R E', run('readelf', '-lW', self.program))
        self.code_offset, self.code_size = int(code[1], 16), (int(code[2], 16) + 4095) & -4096
        self.debug_directory = self.path('debug', 'x')[:-2]

    def path(self, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def build(self, *options, source=None):
        """In place: the file keeps its inode."""
        other = self.path('other')
        run('gcc', '-g', '-O2', *options, '-o', other, source or self.path('program.c'))
        with open(other, 'rb') as new, open(self.program, 'wb') as file:
            file.write(new.read())
        os.chmod(self.program, 0o755)

    def rebuild(self, *options):
        """hidden_function() is elsewhere, and something else is where it was."""
        with open(self.path('program.c')) as file:
            before = '\n'.join(f'int other_{i} (int n) {{ return sum + n * {i}; }}' for i in range(64))
            text = file.read().replace('static inline', before + '\nstatic inline', 1)
        with open(self.path('rebuilt.c'), 'w') as file:
            file.write(text)
        self.build(*options, source=self.path('rebuilt.c'))

    def strip(self, *arguments):
        run('strip', *arguments, self.program)

    def report(self, *arguments, inode=None, build_id=b'', embedded=None, environment=None, path=None, mountinfo=None,
               recorded_ns=None, only_code=False):
        """What the report of one sample in hidden_function() says, and what it complains. recorded_ns: wall clock"""
        inode = os.stat(self.program).st_ino if inode is None else inode
        path = os.fsencode(path or self.program) + (b'\0@' + build_id if build_id else b'')
        begin, size, offset = (BASE + self.code_offset, self.code_size, self.code_offset) if only_code else (BASE, 0x10000, 0)
        parts = [seeds.process(42, b'prog'), seeds.mapping(42, begin, begin + size, path, inode, offset),
                 seeds.sample(42, [seeds.USER, BASE + self.offset])]
        if mountinfo:
            parts[:0] = [seeds.chunks(mountinfo.encode(), b'/proc/42/mountinfo')]
        if recorded_ns is not None:  # frames are of 1000 ns
            parts[:0] = [seeds.metadata(b'sonde', f'[sonde]\nstart=1000\nstart-realtime={recorded_ns}\n'.encode())]
        if embedded:
            table = seeds.symbols([(BASE + self.offset, BASE + self.offset + 3, 42, 0, len(embedded) + 1)],
                                  embedded + b'\0program\0')
            parts += [seeds.chunks(table)]
        return self.report_parts(parts, *arguments, environment=environment)

    def report_parts(self, parts, *arguments, environment=None):
        capture = self.path('x.syscap')
        with open(capture, 'wb') as file:
            file.write(seeds.capture(parts, 1))
        kept = {name: os.environ[name] for name in ('PATH', 'ASAN_OPTIONS', 'LLVM_PROFILE_FILE') if name in os.environ}
        environment = {**kept, 'XDG_CACHE_HOME': self.path('cache', 'x')[:-2], 'HOME': self.folder, **(environment or {})}
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
    check_unnamed(case, f'is another build than was recorded: build id {case.build_id}, not {"00" * 20}', inode=inode + 1,
                  build_id=b'00' * 20)
    check_unnamed(case, 'is another build', build_id=b'../x')
    check_named(case, inode=inode + 1, build_id=case.build_id.encode())
    check_named(case, inode=0, build_id=case.build_id.encode())
    os.unlink(case.program)
    check_unnamed(case, 'cannot be opened: No such file', inode=inode)
    os.mkfifo(case.program)
    check_unnamed(case, 'is no regular file')


def test_rebuilt(case):
    """It has the inode that it had."""
    recorded_ns = os.stat(case.program).st_ctime_ns
    inode, build_id = os.stat(case.program).st_ino, case.build_id.encode()
    check_named(case, recorded_ns=recorded_ns)
    while not os.stat(case.program).st_ctime_ns > recorded_ns:
        case.rebuild('-Wl,--build-id')
    check(os.stat(case.program).st_ino == inode, 'the file has another inode')
    for options in ((), ('--lines',), ('--inline',)):
        check_unnamed(case, 'is another build than was recorded', *options, build_id=build_id)
        check_unnamed(case, 'was changed after it was recorded, and the capture has no build id', *options, recorded_ns=recorded_ns)
        shown, _ = case.report(*options, build_id=build_id, embedded=b'hidden_function')
        check(' hidden_function ' in shown and 'inner' not in shown and '.c:' not in shown, shown)
    case.build()  # without a build id, as if it had never had one
    run('objcopy', '--remove-section=.note.gnu.build-id', case.program)
    check_unnamed(case, 'it has no build id, that had', build_id=build_id)
    os.utime(case.program, (0, 0))  # as cp -p sets it: no way around
    check_unnamed(case, 'was changed after it was recorded', recorded_ns=recorded_ns)


def test_chosen_build_id(case):
    """Who links may give every build the same."""
    option = '-Wl,--build-id=0x12345678'
    case.build(option)
    shown, _ = case.report('--lines', build_id=b'12345678')
    check('program.c:4' in shown or 'program.c:3' in shown, shown)
    with open(case.path('program.c'), 'r+') as file:
        text = file.read()
        file.seek(0)
        file.write('\n' * 40 + text)
    case.build(option)
    shown, _ = case.report('--lines', build_id=b'12345678')
    check('program.c:43' in shown or 'program.c:44' in shown, shown)


def test_gone(case):
    """The file is not here, but its build id leads to it."""
    link = case.path('debug', '.build-id', case.build_id[:2], case.build_id[2:])
    options = {'inode': 1, 'build_id': case.build_id.upper().encode(), 'path': '/nowhere/program'}
    kept = case.path('kept')
    os.rename(case.program, kept)
    os.symlink(kept, link)
    check_named(case, **options)
    os.unlink(link)
    shutil.copy('/bin/true', link)
    shown, complaints = case.report(**options)
    check('hidden_function' not in shown and f'{link} has another build id' in complaints, f'{shown}{complaints}')
    os.unlink(link)
    place = install_by_build_id(case)
    check_named(case, only_code=True, **options)  # the debug file alone
    shown, _ = case.report('--inline', '--lines', only_code=True, **options)
    check('inner' in shown and 'program.c:3' in shown, shown)
    shown, complaints = case.report(**options)  # not what the one executable segment maps
    check('hidden_function' not in shown and complaints, shown)
    shutil.copy('/bin/true', place)
    shown, complaints = case.report(only_code=True, **options)
    check('hidden_function' not in shown and f'{place} has another build id' in complaints, f'{shown}{complaints}')
    for hostile in (b'../../etc/passwd', b'a', b'ab', b'zz' * 20, b'ab' * 100):
        shown, _ = case.report(**(options | {'build_id': hostile}))
        check('hidden_function' not in shown, shown)


def find_mount(folder):
    """(device, the folder in its file system) of what is mounted there."""
    mounts = [line.split() for line in open('/proc/self/mountinfo')]
    mount = max((fields for fields in mounts if (folder + '/').startswith(fields[4].rstrip('/') + '/')), key=lambda fields: len(fields[4]))
    return mount[2], mount[3].rstrip('/') + folder[len(mount[4].rstrip('/')):]


def test_container(case):
    """The capture has the mounts as the process saw them."""
    folder = os.path.realpath(case.folder)
    device, inside = find_mount(folder)
    usual = f'1 0 {device} / / rw - ext4 /dev/x rw\n'
    bound = usual + f'2 1 {device} {inside}/bin /app\\040s rw,nosuid shared:1 master:2 - ext4 /dev/x rw\n'
    layers = usual + (f'3 1 0:999 / /app\\040s rw - overlay overlay rw,lowerdir=/a\\134:b:{folder}/bin,'
                      f'upperdir={folder}/none,workdir=/w\n')
    options = {'path': '/app s/program'}
    for mountinfo in (bound, layers, bound + 'rubbish\n\n - \n4 1 x y z - -\n\\400 \\ \\'):
        check_named(case, mountinfo=mountinfo, **options)
        check_named(case, mountinfo=mountinfo, inode=1, build_id=case.build_id.encode(), **options)
        for other in ({'inode': 1}, {'build_id': b'00' * 20}):
            shown, complaints = case.report(mountinfo=mountinfo, **other, **options)
            check('hidden_function' not in shown and '1 place without a name' in complaints, f'{shown}{complaints}')
    shown, complaints = case.report(mountinfo=usual.replace(device, '0:999'), **options)
    check('is of a container whose file systems are not here' in complaints, complaints)
    # Here, too, something is at the path that the container knows; its inode says nothing.
    check_unnamed(case, 'is of a container', mountinfo=usual.replace(device, '0:999'))
    check_named(case, mountinfo=usual.replace(device, '0:999'), build_id=case.build_id.encode())


def test_many_containers(case):
    """Each file may be in each container: what a capture has us look for has an end."""
    n_containers, n_files = 1024, 520
    mounts = b'1 0 0:999 / / rw - overlay overlay rw,lowerdir=/none\n'
    parts = [seeds.chunks(mounts, f'/proc/{1000 + number}/mountinfo'.encode()) for number in range(n_containers)]
    for number in range(n_files):
        begin = BASE + number * 0x1000
        parts += [seeds.mapping(42, begin, begin + 0x1000, f'/none-{number}'.encode(), 7), seeds.sample(42, [seeds.USER, begin])]
    _, complaints = case.report_parts(parts)
    n_cut = complaints.count('not looked for in all containers')
    check(complaints.count('1 place without a name') == n_files and 0 < n_cut < n_files, complaints)


def test_many_paths(case):
    """One file is read once, by however many names and inodes a capture knows it."""
    n_paths = 600  # with a table each more than half a GiB
    source = case.path('large.c')
    with open(source, 'w') as file:
        file.write(''.join(f'int function_{number} (void) {{ return {number}; }}\n' for number in range(20000)))
    library = case.path('large.so')
    run('gcc', '-O0', '-shared', '-Wl,--build-id', '-o', library, source)
    build_id = re.search(r'Build ID: ([0-9a-f]+)', run('readelf', '-n', library))[1].encode()
    offset = int(re.search(r'^([0-9a-f]+) T function_77$', run('nm', library), re.M)[1], 16)
    parts = []
    for number in range(n_paths):
        begin = BASE + number * 0x1000000
        path = os.fsencode(library.replace('/large', '/' + './' * (number % 100) + 'large'))
        parts += [seeds.mapping(42, begin, begin + 0x1000000, path + b'\0@' + build_id, number),
                  seeds.sample(42, [seeds.USER, begin + offset])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    shown, complaints = case.report_parts(parts)
    used_mib = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before) / 1024
    check(' function_77 ' in shown and not complaints, f'{shown}{complaints}')
    check(used_mib < 300, f'{used_mib:.0f} MiB more than anything before')


def test_vdso(case):
    """Of the kernel that runs here, and of another one."""
    symbols = run('readelf', '-Ws', write_vdso(case))
    offset = int(re.search(r'([0-9a-f]{16}) +\d+ +FUNC.* __vdso_clock_gettime', symbols)[1], 16)
    for release, is_named in ((os.uname().release, True), ('1.2.3', False)):
        parts = [seeds.metadata(b'sonde', f'[sonde]\nkernel-release={release}\n'.encode()), seeds.process(42, b'prog'),
                 seeds.mapping(42, BASE, BASE + 0x2000, b'[vdso]', 0), seeds.sample(42, [seeds.USER, BASE + offset])]
        shown, complaints = case.report_parts(parts)
        check((re.search('(__vdso_)?clock_gettime', shown) is not None) == is_named, shown)
        check(('another kernel runs here' in complaints) != is_named, complaints)


def write_vdso(case):
    """This process's own, as a file."""
    begin, end = (int(part, 16) for line in open('/proc/self/maps') if line.rstrip().endswith('[vdso]') for part in line.split()[0].split('-'))
    with open('/proc/self/mem', 'rb') as memory, open(case.path('vdso'), 'wb') as file:
        memory.seek(begin)
        file.write(memory.read(end - begin))
    return case.path('vdso')


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
    answers = {}
    for path, name in ((f'{case.build_id}/debuginfo', case.debug), (f'{case.build_id}/executable', case.program),
                       (f'{"12" * 20}/executable', '/bin/true')):
        with open(name, 'rb') as file:
            answers['/buildid/' + path] = file.read()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = answers.get(self.path, b'')
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
        check(asked == [f'/buildid/{case.build_id}/debuginfo'], asked)
        check_named(case, environment={'DEBUGINFOD_URLS': url})
        check(len(asked) == 1, 'what was got once is not kept')
        # of a file that is not here
        os.unlink(case.program)
        check_named(case, f'--debuginfod={url}', inode=1, build_id=case.build_id.encode())
        check(asked[1:] == [f'/buildid/{case.build_id}/executable'], asked)
        wrong = '12' * 20
        shown, complaints = case.report(f'--debuginfod={url}', inode=1, build_id=wrong.encode())
        check('hidden_function' not in shown and 'the answer of a debuginfod server has another build id' in complaints, complaints)
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
             ('a program that was built again is not believed, whatever inode it has', test_rebuilt),
             ('lines of another build with the same build id are not kept', test_chosen_build_id),
             ('a file that is gone is found by build id, or its debug file does', test_gone),
             ('a file of a container is found where its file system is mounted here', test_container),
             ('containers without end are not looked through', test_many_containers),
             ('a file is read once, by whatever names it goes', test_many_paths),
             ('functions of the vdso have names if this is its kernel', test_vdso),
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
