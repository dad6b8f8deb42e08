#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a user of sondectl and of tools/demo.sh meets: test-client.py BUILD [SOURCE]"""

import os
import signal
import subprocess
import sys

from system import DEADLINE_S, Fault, System, check, read_seconds


def test_demo(system):
    environment = dict(os.environ, SONDE_BUILD=system.build)
    result = subprocess.run([os.path.join(sys.argv[2], 'tools/demo.sh'), system.path('demo.syscap')],
                            cwd='/', env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=DEADLINE_S, check=False)
    check(result.returncode == 0, f'exit status {result.returncode}\n{result.stdout}{result.stderr}')
    for line in result.stdout.splitlines():
        if '%' in line:
            system.note(line)
    # The tree is printed outermost function first.
    chain = ['__libc_start_main', 'main', 'Parser::parse_sum']
    found = [next((number for number, line in enumerate(result.stdout.splitlines()) if line.endswith(f' {name}')), -1)
             for name in chain]
    check(found == sorted(found) and found[0] >= 0, f'{chain} are not below one another: {found}')
    # The second command of README.md opens this, by the name that it has in a build tree.
    with open(os.path.join(sys.argv[2], 'README.md'), encoding='utf-8') as file:
        check('\n    sudo tools/demo.sh\n    xdg-open build/demo.html\n' in file.read(), 'README.md has other commands')
    check(f"  xdg-open {system.path('demo.html')}\n" in result.stdout, result.stdout)
    check(os.path.getsize(system.path('demo.html')) > 10000, 'the flame graph is empty')
    picture = system.sondectl('flamegraph', '--svg', '-o', '-', system.path('demo.syscap'))
    for function in ('quick_sort&lt;int', 'escape_time&lt;double&gt;', 'Node::insert(char const*)'):
        check(function in picture, f'the flame graph lacks {function}')


def test_interrupt(system):
    recording = system.start_recording('interrupt.syscap', '-a')
    system.wait_for_samples('interrupt.syscap')
    recording.send_signal(signal.SIGINT)
    capture, _ = system.finish_recording(recording, 'interrupt.syscap')
    system.note(f"{capture.counts['SAMPLE']} samples")


def test_exit_status(system):
    recording = system.start_recording('status.syscap', '--', 'sh', '-c', 'exit 7')
    recording.communicate(timeout=DEADLINE_S)
    check(recording.returncode == 7, f'exit status {recording.returncode}')


def test_no_service(system):
    environment = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS='unix:path=/nonexistent')
    for option in ('--service', '--all'):
        result = subprocess.run([system.program('client/sondectl'), 'record', '-d', '1', '-o',
                                 system.path('none.syscap'), '-a', option], env=environment, timeout=DEADLINE_S,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        is_embedded = option != '--service'
        check((result.returncode == 0) == is_embedded == os.path.exists(system.path('none.syscap')),
              f'exit status {result.returncode}: {result.stderr}')
        check(('Recording embedded, with your own rights' if is_embedded else 'sondectl record --embedded') in result.stderr,
              result.stderr)
        system.note(result.stderr)


def test_user(system):
    """As nobody, who may read neither the build tree nor anything of root's."""
    folder = system.path('nobody')
    os.makedirs(folder, exist_ok=True)
    os.chown(folder, 65534, 65534)
    os.chmod(system.folder, 0o711)
    for name in ('client/sondectl', 'daemon/control/sonded', 'daemon/broker/sonde-broker',
                 'daemon/capture/sonde-capture', 'tests/system/burn'):
        subprocess.run(['install', '-m755', system.program(name), folder], check=True)
    # Where sondectl finds it from beside itself.
    subprocess.run(['install', '-D', '-m755', system.program('client/library/libsonde-client.so.0'),
                    f'{folder}/library/libsonde-client.so.0'], check=True)
    result = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups',
                             f'{folder}/sondectl', 'record', '--embedded', f'--sonded={folder}/sonded',
                             f'--worker={folder}/sonde-capture', '-o', f'{folder}/user.syscap', '--',
                             f'{folder}/burn', '2'], cwd=folder, timeout=DEADLINE_S,
                            env={**os.environ, 'SONDE_BROKER': f'{folder}/sonde-broker'}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    check(result.returncode == 0, f'exit status {result.returncode}: {result.stderr}', Fault)
    seconds = read_seconds(result.stdout)
    counts = system.dump_counts('nobody/user.syscap')
    system.note(f'{seconds:.3f} s of CPU time, {counts}')
    check(abs(counts['SAMPLE'] - 1000 * seconds) <= 0.05 * 1000 * seconds, 'a second is 1000 samples')


def main():
    system = System(5 if len(sys.argv) > 2 else 4)
    with system.case('the exit status of a command is passed on'):
        test_exit_status(system)
    with system.case('an interrupt ends a recording and keeps the file'):
        test_interrupt(system)
    with system.case('without a service it is embedded, and --service names that'):
        test_no_service(system)
    with system.case('an ordinary user may profile his own program'):
        system.measure(test_user)
    if len(sys.argv) > 2:
        with system.case("the demo's tree and flame graph name the functions of its program"):
            test_demo(system)
    system.finish()


main()
