#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real programs below libsonde-memory: the same output as without it, and the same heap as others see.
test-heap-programs.py MEMORY_READER LIBRARY"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from leftovers import make_folder  # noqa: E402
from tap import Tap, check  # noqa: E402

READER, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:3])
PYTHON = '/usr/bin/python3'
LIBRARIES = f'/usr/lib/{os.uname().machine}-linux-gnu'
WAIT_US = 20_000_000
SECONDS = 280
NOBODY = 65534

SQL = '''create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x+1 from c where x<20000) insert into t select x, 'text '||x from c;
create index i on t(b); select count(*), sum(length(b)), max(b) from t;'''
PYTHON_CODE = 'd = {str(i): [i] * 10 for i in range(20000)}; print(len(d), sorted(d)[77])'
NODE_CODE = '''const all = []; for (let i = 0; i < 100000; i++) all.push({ i, name: "n" + i });
console.log(all.length, JSON.stringify(all).length, require("zlib").gzipSync(JSON.stringify(all)).length > 1000)'''
PERL_CODE = 'my %h; $h{$_} = $_ x 3 for 1..20000; print join(",", (sort keys %h)[0..9]), scalar(keys %h), "\\n"'
BASH_CODE = '''for i in 1 2 3 4 5; do echo "$i" | tr 1-5 a-e | cat & wait; done; x=$(printf %s one; (exit 3)); echo "$x $?"
f() { trap 'echo left' EXIT; kill -TERM $BASHPID; }; (f); seq 1 1000 | sort -r | head -n 3'''
C_CODE = '''#include <stdio.h>
#include <math.h>
int main (int n, char **v) { double s = 0; for (int i = 0; i < n * 100; i++) s += sqrt (i); printf ("%f", s); return 0; }
'''
GIT_CODE = '''git init -q -b main . && git config user.name Test && git config user.email test@example.org
for i in 1 2 3 4 5 6 7 8; do seq $i $((i * 500)) >file$i; git add .; git commit -q --date=@1700000000 -m "change $i"; done
git gc -q --aggressive && git fsck --strict 2>/dev/null; git log --stat --format=%T; git diff HEAD~3 | wc; git grep -c 77'''
REDIS_CODE = '''bash -c 'exec -a redis-server redis-check-rdb --port 0 --unixsocket "$PWD/socket" --save "" --daemonize no \
--logfile /dev/null' & until redis-cli -s socket ping >/dev/null 2>&1; do sleep 0.1; done
redis-benchmark -s socket -q -n 20000 -r 1000 -t set,get,lpush,hset,zadd >/dev/null && redis-cli -s socket set key value
redis-cli -s socket get key; redis-cli -s socket shutdown nosave; wait $!; echo "status $?"'''


class Programs(Tap):
    def __init__(self, n_cases):
        super().__init__(n_cases)
        self.folder = make_folder('sonde-system-')
        self.environment = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': self.folder, 'LC_ALL': 'C.UTF-8',
                            'PYTHONHASHSEED': '0', 'GIT_COMMITTER_DATE': '@1700000000 +0000'}

    def run(self, *command, folder=None):
        return subprocess.run(command, cwd=folder or self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS, check=False)

    def fresh_folder(self):
        return tempfile.mkdtemp(dir=self.folder)

    def read_heap(self, *command, folder=None, library=LIBRARY, options=()):
        """(its result, what its heap did)"""
        result = self.run(READER, f'--library={library}', f'--wait={WAIT_US}', *options, '--', *command, folder=folder)
        summary = result.stderr.decode('utf-8', 'replace').rstrip('\n').rpartition('\n')[2]
        check(summary.startswith('heap '), f'no summary: {result.stderr!r}')
        return result, {name: int(value) for name, value in re.findall(r'(\w+)=(\d+)', summary)}

    def compare(self, name, *command, library=LIBRARY, select=lambda output: output):
        """The program says the same with and without us, and no event is lost or makes no sense."""
        with self.case(f'{name} does not notice'):
            started = time.monotonic()
            bare = self.run(*command, folder=self.fresh_folder())
            result, heap = self.read_heap(*command, folder=self.fresh_folder(), library=library)
            self.note(f"{heap['frames']} events of {heap['rings']} threads, {time.monotonic() - started:.1f} s")
            check(result.returncode == bare.returncode == 0,
                  f'status {result.returncode}, not {bare.returncode}:\n{result.stderr.decode()}')
            check(select(result.stdout) == select(bare.stdout) != b'',
                  f'{result.stdout.decode()}\nis not\n{bare.stdout.decode()}')
            check(heap['allocations'] > 0, 'no allocations')
            check(heap['lost'] == 0 and heap['twice'] == 0, f"{heap['lost']} lost, {heap['twice']} twice")


def find_verdict(output):
    """Of Python's own tests, whose times differ."""
    return b'\n'.join(re.findall(rb'All \d+ tests OK|Result: \w+|SUCCESS', output))


def read_valgrind(programs, command):
    """libc's memory is not given back at the end, as it is not without valgrind."""
    text = programs.run('valgrind', '--run-libc-freeres=no', '--run-cxx-freeres=no', *command).stderr.decode()
    live = re.search(r'in use at exit: ([\d,]+) bytes in ([\d,]+) blocks', text)
    total = re.search(r'usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes', text)
    numbers = [int(number.replace(',', '')) for number in (*live.groups(), *total.groups())]
    return dict(zip(('live_bytes', 'live', 'allocations', 'frees', 'allocated_bytes'), numbers))


def read_massif(programs, command):
    path = os.path.join(programs.folder, 'massif')
    programs.run('valgrind', '--tool=massif', '--peak-inaccuracy=0.0', f'--massif-out-file={path}', *command)
    with open(path, encoding='utf-8') as file:
        return max(int(number) for number in re.findall(r'^mem_heap_B=(\d+)$', file.read(), re.M))


def read_size(text):
    """heaptrack's, of two or three digits."""
    number, unit = re.match(r'([\d.]+)([BKMG])', text).groups()
    return float(number) * {'B': 1, 'K': 1e3, 'M': 1e6, 'G': 1e9}[unit]


def read_heaptrack(programs, command):
    folder = programs.fresh_folder()
    programs.run('heaptrack', '-o', os.path.join(folder, 'heap'), *command)
    data = os.path.join(folder, next(name for name in os.listdir(folder) if name.startswith('heap')))
    text = programs.run('heaptrack_print', '-f', data).stdout.decode()
    suppressed = re.search(r'suppressed leaks: (\S+)', text)
    return {'allocations': int(re.search(r'calls to allocation functions: (\d+)', text)[1]),
            'peak_bytes': read_size(re.search(r'peak heap memory consumption: (\S+)', text)[1]),
            'live_bytes': read_size(re.search(r'total memory leaked: (\S+)', text)[1])
            + (read_size(suppressed[1]) if suppressed else 0)}


def test_agreement(programs, name, *command):
    with programs.case(f'valgrind and heaptrack see the same heap of {name}'):
        _, heap = programs.read_heap(*command)
        valgrind = read_valgrind(programs, command)
        valgrind['peak_bytes'] = read_massif(programs, command)
        programs.note(f"{heap['allocations']} allocations of {heap['allocated_bytes']} bytes, {heap['frees']} freed, "
                      f"peak {heap['peak_bytes']}, at the end {heap['live_bytes']} in {heap['live']}")
        for key, value in valgrind.items():
            check(heap[key] == value, f'{key}: {heap[key]}, but {value} for valgrind')
        heaptrack = read_heaptrack(programs, command)
        programs.note(f'heaptrack: {heaptrack}')
        # It begins with its own constructor, prints two or three digits, and has the C++ library with it,
        # whose pool for exceptions (72,704 bytes) is in its peak.
        check(abs(heaptrack['allocations'] - heap['allocations']) <= 2, 'another number of allocations')
        check(abs(heaptrack['live_bytes'] - heap['live_bytes']) <= 0.01 * heap['live_bytes'] + 10, 'other leaks')
        check(-0.01 * heap['peak_bytes'] <= heaptrack['peak_bytes'] - heap['peak_bytes']
              <= 0.01 * heap['peak_bytes'] + 73000, 'another peak')


def test_set_user_id(programs):
    """Who runs a program with the rights of somebody else must not look into its memory."""
    name = 'a set-user-ID program makes no events'
    if os.geteuid() != 0:
        programs.skip(name, 'needs root')
        return
    with programs.case(name):
        os.chmod(programs.folder, 0o755)
        program = shutil.copy(shutil.which('sqlite3'), programs.folder)
        os.chmod(program, 0o755 | stat.S_ISUID)
        command = ('setpriv', f'--reuid={NOBODY}', '--clear-groups', program, ':memory:', 'select 42')
        result, heap = programs.read_heap(*command)
        check(result.stdout == b'42\n', f'{result.stdout} {result.stderr}')
        os.chmod(program, 0o755)
        _, plain = programs.read_heap(*command)
        check(0 < heap['links'] < plain['links'], f"{heap['links']} processes, {plain['links']} without")


def main():
    programs = Programs(16)
    programs.compare('sqlite3', 'sqlite3', ':memory:', SQL)
    programs.compare('perl', 'perl', '-e', PERL_CODE)
    programs.compare('bash', 'bash', '-c', BASH_CODE)
    programs.compare('git', 'bash', '-c', GIT_CODE)
    programs.compare('gcc', 'bash', '-c', f"echo '{C_CODE}' >x.c && gcc -O2 -c x.c && sha256sum x.o && "
                     'gcc -O2 x.c -lm -o x && ./x')
    programs.compare('node', 'nodejs', '-e', NODE_CODE)
    programs.compare('python3', PYTHON, '-c', PYTHON_CODE)
    programs.compare('test_gc of python3', PYTHON, '-m', 'test', 'test_gc', select=find_verdict)
    programs.compare('test_threading of python3', PYTHON, '-m', 'test', 'test_threading', select=find_verdict)
    programs.compare('redis with its own jemalloc', 'bash', '-c', REDIS_CODE)
    programs.compare('python3 with jemalloc behind us', PYTHON, '-c', PYTHON_CODE,
                     library=f'{LIBRARY} {LIBRARIES}/libjemalloc.so.2')
    programs.compare('python3 with tcmalloc behind us', PYTHON, '-c', PYTHON_CODE,
                     library=f'{LIBRARY} {LIBRARIES}/libtcmalloc_minimal.so.4')
    test_agreement(programs, 'sqlite3', 'sqlite3', ':memory:', SQL)
    test_agreement(programs, 'python3', PYTHON, '-S', '-c', PYTHON_CODE)
    test_agreement(programs, 'xz', 'xz', '--keep', '--stdout', '--threads=1', PYTHON)
    test_set_user_id(programs)
    programs.finish()


if __name__ == '__main__':
    main()
