#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of code that programs make, in all that a session gives: test-jit.py BUILD"""

import contextlib
import glob
import os
import re
import shutil
import subprocess

from capture import MARKERS, Capture
from system import System, check, wait_until

NAMES = ['made_first', 'made_second', 'made_third']
MIN_NAMED_PERCENT = 98


def leaf_names(capture):
    """Of samples in user code, in the order of time."""
    samples = sorted(capture.samples, key=lambda sample: sample.time_ns)
    return [capture.stack(sample)[0] for sample in samples]


def check_named(system, capture, names):
    found = [name for name in leaf_names(capture) if name != '[kernel]']
    n_named = sum(name in names for name in found)
    system.note(f'{len(found)} samples, {n_named} with a name of made code')
    check(n_named >= 100 and 100 * n_named >= MIN_NAMED_PERCENT * len(found), f'{n_named} of {len(found)}: {set(found)}')
    return [name for name in found if name in names]


def check_in_turn(found, names):
    check(set(found) == set(names), f'{set(found)}')
    turns = [names.index(name) for name in found]
    n_wrong = sum(turn < max(turns[:i], default=0) for i, turn in enumerate(turns))
    check(n_wrong == 0, f'{n_wrong} samples of {len(turns)} have the name of what was there before')
    n_first = turns.count(0)
    check(0.5 < n_first * len(names) / len(turns) < 1.5, f'{n_first} of {len(turns)} are of the first')


@contextlib.contextmanager
def running(system, *arguments, prefix=()):
    process = subprocess.Popen([*prefix, system.program('tests/system/jit'), *arguments], stdout=subprocess.PIPE, text=True)
    try:
        check(process.stdout.readline() == 'ready\n', 'it did not begin')
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'/tmp/perf-{process.pid}.map')


def remove_maps(capture):
    for pid, _ in capture.processes:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'/tmp/perf-{pid}.map')


def test_record(system):
    """By its map file; its place is used again, and the file grows meanwhile."""
    capture, _ = system.record('map.syscap', '--', system.program('tests/system/jit'), '3', *NAMES)
    remove_maps(capture)
    check_in_turn(check_named(system, capture, NAMES), NAMES)
    check(any(name in NAMES for name in capture.jit_names.values()), 'they are no JITMAP names')


def test_dump(system):
    """Which has times."""
    capture, _ = system.record('dump.syscap', '--', system.program('tests/system/jit'), '--dump', system.folder, '3', *NAMES)
    check(glob.glob(system.path('jit-*.dump')), 'there is no jitdump')
    check_in_turn(check_named(system, capture, NAMES), NAMES)


def test_attach(system):
    with running(system, '300', 'made_before') as process:
        capture, _ = system.record('attached.syscap', '-d', '1', '-p', str(process.pid))
    check_named(system, capture, ['made_before'])


def test_no_symbols(system):
    """Nobody can look them up later."""
    with running(system, '300', 'made_before') as process:
        capture, _ = system.record('bare.syscap', '--no-symbols', '-d', '1', '-p', str(process.pid))
    check_named(system, capture, ['made_before'])


def test_late(system):
    """Written when all its samples are recorded."""
    capture, _ = system.record('late.syscap', '--', system.program('tests/system/jit'), '--late', '1', 'said_late')
    remove_maps(capture)
    check_named(system, capture, ['said_late'])
    check('said_late' not in capture.jit_names.values(), 'it was not late')


def test_readers(system):
    """Streams that begin with the session or later, with samples alone or with all."""
    folder = system.path('readers')
    os.mkdir(folder)
    system.run(system.program('tests/system/read-late'), system.program('daemon/control/sonded'),
               system.program('daemon/capture/sonde-capture'), folder, system.program('tests/system/jit'), '300', 'made_for_all')
    paths = sorted(glob.glob(folder + '/*.syscap'))
    check(len(paths) == 8, f'{paths}')
    for path in paths:
        capture = Capture(path)
        found = [name for name in leaf_names(capture) if name != '[kernel]']
        n_named = found.count('made_for_all')  # it reads the clock, too
        check(n_named > 20 and n_named >= len(found) * MIN_NAMED_PERCENT / 100 - 2, f'{path}: {n_named} of {len(found)}: {set(found)}')
    remove_maps(Capture(paths[0]))


def test_top(system):
    text = system.sondectl('top', '--embedded', f"--sonded={system.program('daemon/control/sonded')}",
                           f"--worker={system.program('daemon/capture/sonde-capture')}", '--count', '2', '--interval', '0.7',
                           '--', system.program('tests/system/jit'), '5', 'made_and_shown')
    check(re.search(r'^ *\d+\.\d% +\d+\.\d%  made_and_shown', text, re.M), text)
    for path in glob.glob('/tmp/perf-*.map'):
        with open(path, encoding='utf-8', errors='replace') as file:
            if 'made_and_shown' in file.read():
                os.unlink(path)


def test_trampolines(system):
    """Those of CPython, old and new ones, which no unwind data tell of."""
    if os.uname().machine != 'x86_64':
        return
    for option in ('--trampoline', '--new-trampoline'):
        capture, _ = system.record(f'{option[2:]}.syscap', '--', system.program('tests/system/jit'), option, '1', 'py::work:/x.py')
        remove_maps(capture)
        stacks = [[name for name in capture.stack(sample) if name != '[kernel]'] for sample in capture.samples]
        through = [stack for stack in stacks if stack[:1] in (['spin_below'], ['py::work:/x.py'])]
        n_whole = sum(bool(re.fullmatch(r'(spin_below )?py::work:/x.py call_through\S* main .*_start', ' '.join(map(str, stack))))
                      for stack in through)
        system.note(f'{option}: {len(stacks)} stacks, {len(through)} of them through one, {n_whole} whole')
        check(len(through) > 50 and n_whole >= 0.99 * len(through), f'{[stack for stack in through if len(stack) < 4][:3]}')


def test_refused(system):
    """What somebody makes of the place: who asks is told why there are no names, and waits for nobody."""
    secret = system.path('secret')
    for what, why in (('link', 'is a link'), ('fifo', 'no regular one'), ('names', 'several names'), ('others', "another user's")):
        with running(system, '300', 'made_and_hidden') as process:
            place = f'/tmp/perf-{process.pid}.map'
            os.rename(place, secret)
            if what == 'link':
                os.symlink(secret, place)
            elif what == 'fifo':
                os.mkfifo(place)
            elif what == 'names':
                os.link(secret, place)
            else:
                os.rename(secret, place)
                os.chown(place, 65534, 65534)
            capture, _ = system.record(f'{what}.syscap', '-d', '1', '-p', str(process.pid))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(secret)
        check('made_and_hidden' not in leaf_names(capture), f'{what}: it was read')
        said = [text for text in capture.logs if why in text and f'process {process.pid} makes' in text]
        check(len(said) == 1, f'{what}: {capture.logs}')
        check(len(capture.samples) > 100, f'{what}: {len(capture.samples)} samples')


def test_other_place(system):
    """A /tmp on a file system whose files are not opened, as it may ask other programs."""
    prefix = ('unshare', '-m', 'sh', '-c', 'mount -t ramfs none /tmp && exec "$@"', 'sh')
    with running(system, '300', 'made_elsewhere', prefix=prefix) as process:
        capture, _ = system.record('elsewhere.syscap', '-d', '1', '-p', str(process.pid))
    check('made_elsewhere' not in leaf_names(capture), 'it was read')
    check(sum('none of the file systems' in text for text in capture.logs) == 1, f'{capture.logs}')


def test_grows(system):
    """A file that grows as fast as the disk takes it costs names, and neither samples nor memory."""
    with running(system, '300', 'made_and_told') as process:
        place = f'/tmp/perf-{process.pid}.map'
        os.truncate(place, 300_000_000)
        writer = subprocess.Popen(['sh', '-c', f'while :; do yes "10 10 nobody" | head -c 50000000 >>{place}; '
                                   f'[ $(stat -c %s {place}) -lt 600000000 ] || exec sleep 300; done'])
        try:
            capture, _ = system.record('grows.syscap', '-d', '4', '-p', str(process.pid))
        finally:
            writer.kill()
            writer.wait()
    check(any('too long' in text for text in capture.logs), f'{capture.logs}')
    check(len(capture.samples) > 100, f'{len(capture.samples)}')
    wait_until(lambda: 'made_and_told' in leaf_names(capture), 'the name from before')


JAVA = """
public class Spin {
  static long outer(int n, long x) { return n == 0 ? inner(x) : outer(n - 1, x) + 1; }
  static long inner(long x) { for (int i = 0; i < 2000; i++) x = x * 31 + i % 7; return x; }
  public static void main(String[] a) {
    long end = System.nanoTime() + 4000000000L, sum = 0;
    while (System.nanoTime() < end) sum += outer(20, sum);
    System.out.println(sum);
  }
}
"""


def test_java(system):
    with open(system.path('Spin.java'), 'w', encoding='utf-8') as file:
        file.write(JAVA)
    system.run('javac', '-d', system.folder, system.path('Spin.java'))
    capture, _ = system.record('java.syscap', '--java', '--', 'java', '-cp', system.folder, 'Spin')
    found = [name for name in leaf_names(capture) if name != '[kernel]']
    n_named = sum('Spin.' in (name or '') for name in found)
    n_whole = sum(not any(name in MARKERS for name in capture.stack(sample)) for sample in capture.samples)
    system.note(f'{len(found)} samples, {n_named} named; {n_whole} of {len(capture.samples)} stacks whole')
    check(n_named >= 0.8 * len(found), f'{n_named} of {len(found)}')
    check(n_whole >= 0.95 * len(capture.samples), f'{n_whole} of {len(capture.samples)} stacks are whole')
    pids = {sample.pid for sample in capture.samples}
    check(not any(os.path.exists(f'/tmp/perf-{pid}.map') for pid in pids), 'its file stays')


LATE = """
public class Late {
  static long spin(long x) { for (int i = 0; i < 2000; i++) x = x * 31 + i % 7; return x; }
  static long early(long x) { return spin(x) + 1; }
  static long later(long x) { for (int i = 0; i < 3000; i++) x = x * 17 + i % 5; return x; }
  public static void main(String[] a) {
    long begin = System.nanoTime(), sum = 0;
    while (System.nanoTime() - begin < Long.parseLong(a[0]) * 1000000L) sum += early(sum);
    begin = System.nanoTime();
    while (System.nanoTime() - begin < Long.parseLong(a[1]) * 1000000L) sum += later(sum);
    System.out.println(sum);
  }
}
"""


def test_java_ends(system):
    """What was made since it was asked last, and by a program that is over before that."""
    with open(system.path('Late.java'), 'w', encoding='utf-8') as file:
        file.write(LATE)
    system.run('javac', '-d', system.folder, system.path('Late.java'))
    for what, times in (('later', ('2500', '900')), ('before', ('100', '900'))):
        capture, _ = system.record('late.syscap', '--java', '--', 'java', '-cp', system.folder, 'Late', *times)
        found = [name for name in leaf_names(capture) if name != '[kernel]']
        late = sum('Late.later' in (name or '') for name in found)
        bare = sum(name is None for name in found)
        system.note(f'{what}: {len(found)} samples, {late} in what came late, {bare} without a name')
        check(late > 20 and bare < 0.02 * len(found), f'{what}: {late} and {bare} of {len(found)}')


def record_script(system, jcmd, *arguments):
    """What record says of a "java" that is a script, beside such a "jcmd"."""
    folder = system.path('bin')
    os.makedirs(folder, exist_ok=True)
    for name, text in (('java', 'sleep 2'), ('other', 'sleep 0.1'), ('jcmd', jcmd)):
        place = os.path.join(folder, name)
        with open(place, 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\n{text}\n')
        os.chmod(place, 0o755)
    recording = system.start_recording('script.syscap', *arguments, prefix=('env', f'PATH={folder}:{os.environ["PATH"]}'))
    _, errors = recording.communicate()
    check(recording.returncode == 0, errors)
    return errors


def test_asked(system):
    asked = system.path('asked')
    said = record_script(system, f'echo "$@" >>{asked}', '--java', '--', 'java', 'Main')
    check(re.search(r'Running Java with .*-XX:\+PreserveFramePointer .*-XX:\+DumpPerfMapAtExit', said), said)
    with open(asked, encoding='utf-8') as file:
        check(re.fullmatch(r'\d+ Compiler\.perfmap\n', file.read()), 'it was not asked once')
    os.unlink(asked)
    said = record_script(system, f'echo "$@" >>{asked}', '--', 'java', 'Main')
    check('Running Java' not in said and not os.path.exists(asked), 'it was asked though nobody wanted it')


def test_not_asked(system):
    said = record_script(system, 'echo "Unknown diagnostic command"; exit 1', '--java', '--', 'java', 'Main')
    check('jcmd fails (Unknown diagnostic command). A JDK of version 17 or later has jcmd' in said, said)
    said = record_script(system, 'exit 1', '--java', '--', 'other')
    check('Not running Java so that its functions have names' in said, said)


def main():
    system = System(15)
    for what, test in (('a map file names code while it runs, and what is there after it', test_record),
                       ('so does a jitdump', test_dump),
                       ('a program that runs already has names', test_attach),
                       ('who wants no symbols has these', test_no_symbols),
                       ('what is said late is named in the end', test_late),
                       ('all readers have the names', test_readers),
                       ('the live view has the names', test_top),
                       ('Java names what it makes when it is asked', test_java),
                       ('it tells in the end what it has made since', test_java_ends),
                       ('it is asked if that is wanted alone', test_asked),
                       ('why it cannot be asked is said', test_not_asked),
                       ("stacks go through CPython's trampolines", test_trampolines),
                       ('a place that somebody prepared is not read', test_refused),
                       ('nor is a place that may wait for others', test_other_place),
                       ('a file that grows for ever is left', test_grows)):
        if test in (test_java, test_java_ends) and not (shutil.which('javac') and shutil.which('jcmd')):
            system.skip(what, 'no JDK here')
            continue
        with system.case(what):
            test(system)
    system.finish()


main()
