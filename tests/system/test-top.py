#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The live view on a terminal and as text: test-top.py BUILD"""

import contextlib
import os
import re
import signal
import subprocess

from screen import Screen
from system import System, check, find_descendant, wait_until

KEY_HOME, KEY_DOWN, KEY_RIGHT, KEY_ENTER, KEY_ESCAPE = '\x1b[H', '\x1b[B', '\x1b[C', '\r', '\x1b'
CONTROL_L, CONTROL_Z = '\x0c', '\x1a'
WRITE = {'x86_64': 1, 'aarch64': 64}  # numbers of the system call


class Top:
    def __init__(self, system):
        self.system = system

    def command(self, *options):
        return [self.system.program('client/sondectl'), 'top', '--embedded',
                f"--sonded={self.system.program('daemon/control/sonded')}",
                f"--worker={self.system.program('daemon/capture/sonde-capture')}", *options]

    @contextlib.contextmanager
    def on_screen(self, *options, seconds='300', **size):
        program = self.system.program('tests/system/burn')
        screen = Screen(self.command('--interval', '0.2', *options, '--', program, seconds), **size)
        try:
            screen.wait_for(find_rows, 'a function')
            yield screen
        finally:
            screen.close()


def find_rows(lines):
    """[(self, total, name and module)] of a list."""
    rows = [re.match(r' *(\d+\.\d)% +(\d+\.\d)%  (\S.*)$', line) for line in lines]
    return [(float(row[1]), float(row[2]), row[3]) for row in rows if row]


def count_samples(lines):
    return int(re.search(r'([\d,]+) samples?, ', lines[1])[1].replace(',', ''))


def count_since(lines):
    match = re.search(r'PAUSED, ([\d,]+) samples? since', lines[0])
    return int(match[1].replace(',', '')) if match else 0


def test_samples(system, top):
    with top.on_screen() as screen:
        screen.wait_for(lambda lines: count_samples(lines) > 100 and 'burn' in lines[2], 'what runs')
        before = count_samples(screen.lines())
        screen.wait_for(lambda lines: count_samples(lines) > before, 'more samples')
        screen.wait_for_text('lost: nothing')
        system.note('\n'.join(screen.lines()))
        rows = find_rows(screen.lines())
        check(rows == sorted(rows, key=lambda row: -row[0]), f'not by their own share: {rows}')
        check(sum(row[0] for row in rows) <= 100.5, rows)


def test_filter(top):
    with top.on_screen() as screen:
        name = find_rows(screen.lines())[0][2].split()[0]
        screen.type(f'/{name[:4]}')
        screen.wait_for(lambda lines: re.match(rf'/{re.escape(name[:4])} +in \d', lines[-1])
                        and all(name[:4].lower() in row[2].lower() for row in find_rows(lines)), 'the filter')
        check(find_rows(screen.lines()), screen.lines())
        screen.type('no such function')
        screen.wait_for_text('Nothing has that in its name')
        screen.type(KEY_ESCAPE)
        screen.wait_for(lambda lines: 'q quit' in lines[-1] and find_rows(lines), 'all functions')


def test_pause(top):
    with top.on_screen() as screen:
        screen.type('p')
        screen.wait_for(count_since, 'samples that came while it was paused')
        rows, since = find_rows(screen.lines()), count_since(screen.lines())
        shown = count_samples(screen.lines())
        screen.wait_for(lambda lines: count_since(lines) > since + 100, 'more of them')
        check((find_rows(screen.lines()), count_samples(screen.lines())) == (rows, shown), 'it went on')
        screen.type('p')
        screen.wait_for(lambda lines: 'last' in lines[0] and count_samples(lines) > shown, 'the view again')


def count_open(lines):
    return sum('▾ ' in line for line in lines)


def open_first(screen, key, n_open):
    """Opens the first row that can be, beside @n_open others. Above it may come one of start-up's few samples,
    "[2 more]", at any time."""
    def find_closed(lines):
        return count_open(lines) == n_open and next((number for number, line in enumerate(lines) if '▸ ' in line), None)

    while count_open(screen.lines()) <= n_open:
        closed = screen.wait_for(find_closed, 'a row that can be opened')
        screen.type(KEY_HOME + KEY_DOWN * (closed - 4) + key)
        looks = screen.n_reads + 5
        screen.wait_for(lambda lines: count_open(lines) > n_open or screen.n_reads > looks, 'what is below it')


def test_expand(top):
    with top.on_screen() as screen:
        screen.type('t')
        screen.wait_for(lambda lines: '▾ burn (pid ' in lines[4], 'processes')
        open_first(screen, KEY_RIGHT, 1)
        screen.wait_for(lambda lines: any(re.search(r'%.*main', line) for line in lines[7:10]), 'what is called')
        screen.type('b')
        screen.wait_for(lambda lines: 'Callers' in lines[3] and count_open(lines) == 0, 'functions')
        open_first(screen, KEY_ENTER, 0)
        screen.type('PT')
        screen.wait_for(lambda lines: any(re.search(r'burn \(pid \d+, tid \d+\)', line) for line in lines[4:6]), 'threads')


def test_resize(top):
    with top.on_screen() as screen:
        screen.resize(50, 200)
        screen.wait_for(lambda lines: 'q quit' in lines[49] and lines[3].index('Module') > 150 and find_rows(lines), 'a large view')
        screen.resize(10, 40)
        screen.wait_for(lambda lines: 'q quit' in lines[9] and 'Module' not in lines[3] and find_rows(lines), 'a small view')


def test_quit(top):
    with top.on_screen() as screen:
        burn = find_descendant(screen.process.pid, 'burn')
        check(not screen.is_restored(), 'the terminal is as it was while the view is there')
        screen.type('q')
        check(screen.wait_for_exit() == 0, screen.process.returncode)
        check(screen.is_restored(), 'the terminal is not restored')
        check(burn and not os.path.exists(f'/proc/{burn}'), 'the command goes on')


def test_signals(top):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with top.on_screen() as screen:
            screen.process.send_signal(number)
            check(screen.wait_for_exit() == 0, f'{number}: {screen.process.returncode}')
            check(screen.is_restored(), f'{number}: the terminal is not restored')


def read_state(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as stat:
        return stat.read().rsplit(')', 1)[1].split()[0]


def test_stop(top):
    """By the key, and by the signal that others send."""
    with top.on_screen() as screen:
        pid = screen.process.pid
        for stop in (lambda: screen.type(CONTROL_Z), lambda: os.kill(pid, signal.SIGTSTP)):
            stop()
            screen.wait_for(lambda _lines: read_state(pid) == 'T', 'a program that is stopped')
            screen.read()
            check(screen.is_restored(), 'the terminal is not restored')
            screen.screen.reset()
            os.kill(pid, signal.SIGCONT)
            screen.wait_for(lambda lines: find_rows(lines) and 'q quit' in lines[-1], 'the view again')
            check(not screen.is_restored(), 'keys would be echoed')


def read_task(pid, task, name):
    with open(f'/proc/{pid}/task/{task}/{name}', encoding='utf-8') as file:
        return file.read()


def count_turns(pid):
    return int(re.search(r'^voluntary_ctxt_switches:\s*(\d+)', read_task(pid, pid, 'status'), re.M)[1])


def is_writing(pid, task):
    """To standard output, which does not take it."""
    with contextlib.suppress(OSError):  # it has gone
        return read_task(pid, task, 'syscall').startswith(f'{WRITE[os.uname().machine]} 0x1 ')
    return False


def end_unread(process):
    """Ends it without taking any of its output."""
    process.terminate()
    wait_until(lambda: process.poll() is not None, 'its end')
    check(process.returncode == 0, process.returncode)


def test_slow(top):
    """Nobody takes what is drawn: that thread waits in write(), and the one that reads frames goes on."""
    with top.on_screen(n_lines=50, n_columns=200) as screen:
        pid = screen.process.pid
        drawer, = (task for task in os.listdir(f'/proc/{pid}/task') if read_task(pid, task, 'comm') == 'terminal\n')
        screen.type(CONTROL_L * 1000)
        wait_until(lambda: is_writing(pid, drawer), 'a terminal that is full')
        turns = count_turns(pid)
        wait_until(lambda: count_turns(pid) > turns + 50, 'another look')
        check(is_writing(pid, drawer), 'the terminal took something')
        end_unread(screen.process)
        check(screen.has_modes(), 'the terminal is not restored')


def find_calls(lines):
    """{function: calls/s}"""
    rows = [re.match(r' *([\d,]+)(?:[ ~]+(?:[\d.]+ (?:ns|us|ms|s)|-)){4}  (\S+)', line) for line in lines]
    return {row[2]: int(row[1].replace(',', '')) for row in rows if row}


def test_calls(system, top):
    """Each second some calls of each function: the rates are theirs."""
    os.environ['SONDE_TRACER_LIBRARY'] = system.program('shared-ring/collector/tracer/libsonde-tracer.so')
    lines = system.path('lines')
    os.mkfifo(lines)
    # Both ends, so that neither waits for the other.
    writer = os.open(lines, os.O_RDWR)
    clock = subprocess.Popen(['sh', '-c', 'while echo 1000; do sleep 0.1; done'], stdout=writer)
    command = ['sh', '-c', 'exec "$0" 5 serve <"$1" >/dev/null', system.program('tests/system/callers'), lines]
    try:
        see_calls(system, top, command)
    finally:
        clock.kill()
        clock.wait()
        os.close(writer)


def see_calls(system, top, command):
    screen = Screen(top.command('--trace=exact', '--interval', '0.2', '--', *command))
    try:
        screen.wait_for(lambda lines: find_calls(lines).get('leaf', 0) > 1000, 'its calls')
        screen.wait_for(lambda lines: re.search(r'^[\d,]+ calls/s.*lost: nothing', lines[2]), 'the sum')
        system.note('\n'.join(screen.lines()))
        calls = find_calls(screen.lines())
        check(900 * calls['outer'] <= calls['leaf'] <= 1100 * calls['outer'], calls)
        screen.type('/leaf')
        screen.wait_for(lambda lines: set(find_calls(lines)) == {'leaf'} and 'of the calls' in lines[-1], 'the filter')
        screen.type(KEY_ESCAPE)
        screen.wait_for(lambda lines: 'outer' in find_calls(lines), 'all of them')
        screen.type('f')
        screen.wait_for(lambda lines: not find_calls(lines) and 'Self' in lines[3], 'samples')
        screen.type('C')
        screen.wait_for(lambda lines: 'leaf' in find_calls(lines), 'calls again')
        screen.type('q')
        check(screen.wait_for_exit() == 0, screen.process.returncode)
    finally:
        screen.close()
    text = system.run(*top.command('--trace', '--count', '3', '--', *command))
    check(re.search(r'^[\d,]+ calls/s.*, lost: nothing\n\n +Calls/s +Total +>Self +p50 +p99 +Function$', text, re.M), text)
    check('leaf' in find_calls(text.splitlines()), text)
    text = system.run(*top.command('--by', 'calls', '--count', '1', '--interval', '0.5', '--', system.program('tests/system/burn'), '300'))
    check('No program is traced' in text, text)


def test_death(top):
    with top.on_screen() as screen:
        worker = find_descendant(screen.process.pid, 'sonde-capture')
        os.kill(worker, signal.SIGKILL)
        screen.wait_for(lambda lines: 'ENDED: ' in lines[0] and find_rows(lines), 'that it is over')
        screen.type('q')
        check(screen.wait_for_exit() not in (0, None), 'a session that broke is a success')
        check(screen.is_restored(), 'the terminal is not restored')
        screen.wait_for_text('sondectl: ')
    with top.on_screen(seconds='3') as screen:
        screen.wait_for_text('ENDED: ')
        check(find_rows(screen.lines()), screen.lines())
        screen.type('q')
        check(screen.wait_for_exit() == 0, screen.process.returncode)


def test_text(system, top):
    burn = system.program('tests/system/burn')
    text = system.run(*top.command('--count', '3', '--interval', '0.5', '--', burn, '300'))
    blocks = re.findall(r'^.*, last \d+ s\n([\d,]+) samples?, .*, lost: .*\nCPU .*\n\n +Self +Total +Function.*\n((?: .*\n)+)', text, re.M)
    check(len(blocks) == 3, text)
    counts = [int(block[0].replace(',', '')) for block in blocks]
    check(counts == sorted(counts) and counts[2] > 0, counts)
    check('\x1b' not in text and '%' in blocks[2][1], text)
    # Its own end is one more look.
    text = system.run(*top.command('--interval', '100', '--tree', '--', burn, '1'))
    check(len(re.findall(r'lost: nothing', text)) == 1 and 'main' in text, text)


def test_slow_reader(system, top):
    """The same of text: the thread that prints waits."""
    reader, writer = os.pipe()
    process = subprocess.Popen(top.command('--interval', '0.1', '--', system.program('tests/system/burn'), '300'), stdout=writer)
    try:
        wait_until(lambda: any(is_writing(process.pid, task) for task in os.listdir(f'/proc/{process.pid}/task')), 'a pipe that is full')
        end_unread(process)
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)


def main():
    system = System(13)
    top = Top(system)
    cases = {'samples appear on a terminal, heaviest first': lambda: system.measure(test_samples, top),
             'a filter narrows what is seen': lambda: test_filter(top),
             'a pause freezes the picture, and samples are counted': lambda: test_pause(top),
             'trees open under the cursor': lambda: test_expand(top),
             'the view follows the size of the terminal': lambda: test_resize(top),
             'leaving restores the terminal and ends the command': lambda: test_quit(top),
             'signals restore it, too': lambda: test_signals(top),
             'it can be stopped and goes on': lambda: test_stop(top),
             'a terminal that takes nothing holds up nobody': lambda: test_slow(top),
             'calls of functions are shown as they come': lambda: test_calls(system, top),
             'a session that ends says so': lambda: test_death(top),
             'without a terminal it is text': lambda: system.measure(test_text, top),
             'a reader that takes nothing does not keep it from leaving': lambda: test_slow_reader(system, top)}
    for name, test in cases.items():
        with system.case(name):
            test()
    system.finish()


main()
