#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of programs that live among other files than sondectl, or that have changed since:
test-containers.py BUILD"""

import os
import re
import shlex
import subprocess
import sys

from system import DEADLINE_S, System, check, find_descendant

FEWEST_PERCENT = 50  # the rest made the container
PROGRAM = '''
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sum;
%s
__attribute__((noinline)) void %s (void) { for (unsigned i = 0; i < 1000000; i++) sum += i; }
int main (int argc, char **argv) {
  while (clock () < atoi (argv[1]) * CLOCKS_PER_SEC) %s ();
}
'''


def build(system, name, function, *options, before=''):
    source = system.path('source.c')
    with open(source, 'w', encoding='utf-8') as file:
        file.write(PROGRAM % (before, function, function))
    system.run('gcc', '-g', '-O1', *options, '-o', system.path(name), source)
    return system.path(name)


def percent_of(system, capture, function, *options):
    """How much of the time the report gives it, and why others have no name."""
    result = subprocess.run([system.program('client/sondectl'), 'report', '--flat', '--verbose', '-l', '0', *options, system.path(capture)],
                            capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    found = re.search(rf'^ *([\d.]+)% +[\d.]+% +{re.escape(function)} ', result.stdout, re.M)
    return float(found[1]) if found else 0.0, result.stdout + result.stderr


def check_named(system, capture, function):
    percent, shown = percent_of(system, capture, function)
    check(percent >= FEWEST_PERCENT, shown)
    system.note(f'{percent}% of the samples are in {function}()')


def test_overlay(system):
    """The container is gone when its names are looked for: only the layers are still there."""
    os.makedirs(system.path('layer'))
    os.makedirs(system.path('inside'))
    script = (f'cd {shlex.quote(system.folder)} && mount -t tmpfs none inside && mkdir inside/up inside/work inside/app && '
              f'mount -t overlay overlay -o lowerdir=$PWD/layer,upperdir=$PWD/inside/up,workdir=$PWD/inside/work inside/app && '
              'inside/app/')
    for name, option in (('noted', '-Wl,--build-id'), ('plain', '-Wl,--build-id=none')):
        build(system, 'layer/' + name, 'in_a_container', option)
        capture, _ = system.record(f'{name}.syscap', '--no-symbols', '--', 'unshare', '-m', 'sh', '-c', f'{script}{name} 2')
        check(not os.listdir(system.path('inside')), 'it is there still')
        check(any(re.fullmatch(r'/proc/\d+/mountinfo', path) for path in capture.files), f'{list(capture.files)}')
        check_named(system, f'{name}.syscap', 'in_a_container')
    # What is in the layer now is something else.
    build(system, 'layer/noted', 'other', '-Wl,--build-id')
    percent, shown = percent_of(system, 'noted.syscap', 'in_a_container')
    check(percent == 0 and 'other ' not in shown and '/noted: ' in shown, shown)


def test_same_namespace(system):
    capture, _ = system.record('none.syscap', '--', system.program('tests/system/burn'), '1')
    check(not any('mountinfo' in path for path in capture.files), f'{list(capture.files)}')


def test_root_without_a_mount(system):
    """Then its list of mounts is empty, though its file system is the machine's."""
    os.makedirs(system.path('tree'))
    build(system, 'tree/lone', 'in_a_chroot', '-static')
    for name, command in (('chroot', ('unshare', '-m', 'chroot', system.path('tree'), '/lone', '2')),
                          ('root', ('unshare', '-m', '-R', system.path('tree'), '/lone', '2'))):
        capture, _ = system.record(f'{name}.syscap', '--', *command)
        check_named(system, f'{name}.syscap', 'in_a_chroot')
        _, shown = percent_of(system, f'{name}.syscap', 'in_a_chroot')
        whole = re.search(r'^Stacks +([\d.]+)% complete', shown, re.M)
        check(whole is not None and float(whole[1]) >= FEWEST_PERCENT, shown)
        check(not any('lone' in text for text in capture.logs), f'{capture.logs}')


def test_refused_file(system):
    """A ramfs would do no harm, but nobody has said so of it; its file is told of once."""
    os.makedirs(system.path('strange'))
    build(system, 'refused', 'nobody_knows', '-static')
    script = 'mount -t ramfs none "$1" && cp "$0" "$1/refused" && exec "$1/refused" 1'
    capture, _ = system.record('refused.syscap', '--', 'unshare', '-m', 'sh', '-c', script, system.path('refused'),
                               system.path('strange'))
    said = [text for text in capture.logs if 'strange/refused are missing' in text]
    check(len(said) == 1 and 'file systems' in said[0], f'{capture.logs}')


def test_map_file(system):
    """It has the number 1 inside, and a /tmp of its own."""
    os.makedirs(system.path('tmp'))
    script = 'mount -t tmpfs none "$1" && cp "$0" "$1/jit" && mount --bind "$1" /tmp && exec /tmp/jit 600 made_in_a_container'
    inside = subprocess.Popen(['unshare', '--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', script,
                               system.program('tests/system/jit'), system.path('tmp')], stdout=subprocess.PIPE, text=True)
    try:
        check(inside.stdout.readline() == 'ready\n', 'it did not begin')
        pid = find_descendant(inside.pid, 'jit')
        check(pid is not None and not os.path.exists(f'/tmp/perf-{pid}.map'), f'{pid}')
        system.record('jit.syscap', '-d', '2', '-p', str(pid))
        check_named(system, 'jit.syscap', 'made_in_a_container')
    finally:
        inside.kill()
        inside.wait()
        inside.stdout.close()
    # Embedded, so that nobody need be there.
    check_named(system, 'jit.syscap', 'made_in_a_container')


def test_rebuilt(system):
    """In its place, with the inode that it had."""
    for name, option, why in (('kept', '-Wl,--build-id', 'is another build than was recorded'),
                              ('unnoted', '-Wl,--build-id=none', 'was changed after it was recorded')):
        program = build(system, name, 'first_build', option)
        inode = os.stat(program).st_ino
        system.record(f'{name}-bare.syscap', '--no-symbols', '--', program, '1')
        system.record(f'{name}.syscap', '--', program, '1')
        check_named(system, f'{name}-bare.syscap', 'first_build')
        build(system, 'new', 'second_build', option, before='int other (int n) { return n * (int) sum; }')
        with open(system.path('new'), 'rb') as new, open(program, 'wb') as file:
            file.write(new.read())
        check(os.stat(program).st_ino == inode, 'it has another inode')
        for options in ((), ('--inline', '--lines')):
            percent, shown = percent_of(system, f'{name}-bare.syscap', 'first_build', *options)
            check(percent == 0 and 'second_build' not in shown, shown)
            check(not re.search(rf' {name} .*\.c:', shown), shown)  # the lines of libraries are there
            check(f'{program}: ' in shown and why in shown and f'{name}+0x' in shown, shown)
        check_named(system, f'{name}.syscap', 'first_build')


def test_vdso(system):
    """The kernel's own code in each process, which is in no file."""
    source = system.path('clock.c')
    with open(source, 'w', encoding='utf-8') as file:
        file.write('#include <time.h>\nint main (void) { struct timespec now; time_t end = time (NULL) + 2;\n'
                   'do for (int i = 0; i < 100000; i++) clock_gettime (CLOCK_MONOTONIC, &now); while (time (NULL) < end); }\n')
    system.run('gcc', '-O1', '-o', system.path('clock'), source)
    for name, options in (('worker', ()), ('client', ('--no-symbols',))):
        system.record(f'{name}.syscap', *options, '--', system.path('clock'))
        shown = system.sondectl('report', '--by=module', '-l', '0', system.path(f'{name}.syscap'))
        flat = system.sondectl('report', '--flat', '-l', '0', system.path(f'{name}.syscap'))
        system.note(next((line.strip() for line in flat.splitlines() if 'clock_gettime' in line and 'vdso' in line), 'none'))
        if '[vdso]' in shown:  # else the kernel has no clock that it can read there
            check(re.search(r' (__vdso_)?clock_gettime +\[vdso\]', flat) and not re.search(r'\[vdso\]\+0x', flat), flat)


def main():
    system = System(7)
    with system.case('a program in a container has names through its layers'):
        test_overlay(system)
    with system.case('one that sees our files needs no mounts of its own'):
        test_same_namespace(system)
    with system.case('a program whose root is no mount point has stacks and names'):
        test_root_without_a_mount(system)
    with system.case('a file that is not opened is told of'):
        test_refused_file(system)
    with system.case('a map file is that of the process in its container'):
        test_map_file(system)
    with system.case('a program that was built again has the names that it had'):
        test_rebuilt(system)
    with system.case('functions of the vdso have names'):
        test_vdso(system)
    system.finish()


main()
