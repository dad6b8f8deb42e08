#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libsonde-client from Python: test-library.py BUILD SOURCE"""

import json
import os
import re
import stat
import struct
import subprocess
import sys

from system import DEADLINE_S, System, check

import gi

gi.require_version('SondeClient', '1')
from gi.repository import Gio, GLib, SondeClient  # noqa: E402

SAMPLE = int(SondeClient.FrameType.SAMPLE)


def wait(condition, what):
    """Runs the main loop until the condition holds."""
    context = GLib.MainContext.default()
    is_late = []
    source = GLib.timeout_source_new_seconds(DEADLINE_S)
    source.set_callback(lambda *_: is_late.append(True))
    source.attach(context)
    while not condition() and not is_late:
        context.iteration(True)
    source.destroy()
    check(condition(), f'no {what} within {DEADLINE_S} s')


class Answer:
    """The callback of one call, and what its finish function says."""

    def __init__(self, finish):
        self.finish = finish
        self.result = None

    def __call__(self, _, result):
        self.result = result

    def get(self):
        wait(lambda: self.result, 'answer')
        return self.finish(self.result)


class Watched:
    """A session whose frames and end are kept."""

    def __init__(self, session):
        self.session = session
        self.frames = []
        self.ends = []
        session.connect('frame', lambda _, frame: self.frames.append(frame))
        session.connect('finished', lambda _, reason, error: self.ends.append((reason, error)))
        session.read()

    def samples(self):
        return [frame for frame in self.frames if frame.get_frame_type() == SAMPLE]

    def stop(self):
        self.session.stop()
        wait(lambda: self.ends, 'end')
        return self.ends


def start_burning(system):
    return subprocess.Popen([system.program('tests/system/burn'), '100000'], stdout=subprocess.DEVNULL)


def open_profiler(system):
    return SondeClient.Profiler.new_embedded(system.program('daemon/control/sonded'),
                                             system.program('daemon/capture/sonde-capture'))


def profile(profiler, pid, cancellable=None):
    answer = Answer(profiler.profile_finish)
    profiler.profile_process_async(pid, None, cancellable, answer)
    return answer


def expect_error(call, domain, code, word=''):
    try:
        call()
    except GLib.Error as error:
        check(error.matches(domain, code) and word in error.message,
              f'the error is {error.domain} {error.code}: {error.message}')
    else:
        raise AssertionError('it is not refused')


def test_example(system, burner, name):
    environment = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS='unix:path=/nonexistent',
                       SONDE_DAEMON=system.program('daemon/control/sonded'),
                       SONDE_WORKER=system.program('daemon/capture/sonde-capture'))
    result = subprocess.run([os.path.join(sys.argv[2], 'docs/examples', name), str(burner.pid), '1'],
                            env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    check(result.returncode == 0, result.stderr)
    check(re.search(r'^\d+ samples, 0 lost: stopped$', result.stdout, re.M), result.stdout)
    check(re.search(r'^ *\d+\.\d%  .*\bmain$', result.stdout, re.M), result.stdout)


def test_frames(system, burner):
    watched = Watched(profile(open_profiler(system), burner.pid).get())
    wait(lambda: len(watched.samples()) >= 100, 'samples')
    ends = watched.stop()
    check(ends == [('stopped', None)], f'it ends with {ends}')
    sample = watched.samples()[0]
    check(sample.get_pid() == burner.pid, f'the process is {sample.get_pid()}')
    check(sample.to_string().startswith(f'SAMPLE time={sample.get_time_ns()} '), sample.to_string())
    check(len(sample.get_bytes().get_data()) % 8 == 0, 'the frame is cut')

    tree = SondeClient.Profile()
    for frame in watched.frames:
        tree.add_frame(frame)
    tree.finish(SondeClient.Names.PLAIN)
    recorded = watched.session.get_statistic('recorded')
    check(tree.get_n_samples() == len(watched.samples()) == recorded,
          f'{tree.get_n_samples()} samples in the tree, {len(watched.samples())} frames, {recorded} recorded')
    [process] = tree.get_processes()
    check((process.get_name(), process.get_pid()) == ('burn', burner.pid), process.get_name())
    check(process.get_total() == recorded, f'the process has {process.get_total()}')
    check(sum(callee.get_total() for callee in process.get_callees()) + process.get_self() == recorded,
          'its callees have others')


def rows(calls):
    """What a list of calls shows, and all lists below, as a viewer that has each row open."""
    shown = [(call.props.name, call.props.module, call.props.total, call.props.self, rows(call.props.callees)) for call in calls]
    return sorted(shown)


def reported(report):
    """The same of a report's trees."""
    def below(process, parent):
        return sorted((function['name'], function['module'], node['total'], node['self'], below(process, number))
                      for number, node in enumerate(process['nodes']) if node['parent'] == parent
                      for function in [report['functions'][node['function']]])
    return sorted((process['comm'], '', process['total'], process['total'] - sum(row[2] for row in callees), callees)
                  for process in report['processes'] for callees in [below(process, -1)])


def test_live(system):
    """The tree that grew is that of the report of the same stream, to the sample."""
    name = system.path('live.syscap')
    program = subprocess.Popen([system.program('tests/system/recurse'), '1000000'], stdout=subprocess.DEVNULL)
    session = profile(open_profiler(system), program.pid).get()
    header = struct.pack('<IBB2x', 0xFDCA975E, 1, 1) + bytes(248)
    tree = SondeClient.Profile()
    grown = []
    ends = []
    with open(name, 'wb') as file:
        file.write(header)
        session.connect('frame', lambda _, frame: file.write(frame.get_bytes().get_data()))
        tree.connect('notify::n-samples', lambda *_: grown.append((tree.props.n_samples, rows(tree))))
        tree.follow(session, 20, SondeClient.Names.PLAIN)
        session.connect('finished', lambda _, reason, error: ends.append((reason, error, tree.props.is_finished)))
        wait(lambda: len(grown) > 20 and grown[-1][0] > 300, 'rows')
        first = tree.get_item(0)
        session.stop()
        wait(lambda: ends, 'end')
    program.kill()
    program.wait()
    check(ends == [('stopped', None, True)], f'it ends with {ends}')
    check(grown == sorted(grown, key=lambda row: row[0]), 'samples went')
    for n_samples, (process,) in ((n, shown) for n, shown in grown if shown):
        check(process[0] == 'recurse' and process[2] == n_samples, f'{process[0]} has {process[2]} of {n_samples} samples')
    check(len(grown[-2][1][0][4]) > 0, 'no function was shown before the end')
    check(tree.get_item(0) == first, 'the row of the process is another one')

    report = json.loads(system.sondectl('report', '--json', '--by=process', '--percent-limit=0', name))
    check(rows(tree) == reported(report), f'{rows(tree)}\n{reported(report)}')
    check(tree.props.n_samples == report['samples'] == session.get_statistic('recorded'), f'{tree.props.n_samples} samples')


def test_added(system, burner):
    profiler = open_profiler(system)
    answer = Answer(profiler.profile_finish)
    profiler.profile_async(GLib.Variant('a{sv}', {'launch': GLib.Variant('b', True)}), None, None, answer)
    watched = Watched(answer.get())
    added = [Answer(watched.session.add_process_finish) for _ in range(2)]
    for each in added:
        watched.session.add_process_async(burner.pid, None, each)
    check(added[0].get(), 'the process was not added')
    expect_error(added[1].get, Gio.io_error_quark(), Gio.IOErrorEnum.PENDING)
    wait(watched.samples, 'samples')
    watched.stop()


def test_saved(system, burner):
    profiler = open_profiler(system)
    name = system.path('saved.syscap')
    with open(name, 'wb') as file:
        session = profile(profiler, burner.pid).get()
        ends = []
        session.connect('finished', lambda _, reason, error: ends.append((reason, error)))
        session.save(file.fileno())
        while session.get_statistic('recorded') < 100:
            refreshed = Answer(session.refresh_finish)
            session.refresh_async(None, refreshed)
            check(refreshed.get() and session.has_statistics(), 'there are no figures')
        session.stop()
        wait(lambda: ends, 'end')
    check(ends == [('stopped', None)], f'it ends with {ends}')
    check(session.get_n_bytes() == os.path.getsize(name), f'{session.get_n_bytes()} bytes')
    check(session.get_elapsed_ns() > 0, 'it took no time')
    tree = SondeClient.Profile()
    check(tree.add_file(name), 'the file is not read')
    check(tree.get_n_samples() == session.get_statistic('recorded'), f'{tree.get_n_samples()} samples')

    watched = Watched(profile(profiler, burner.pid).get())
    profiler.close()
    [(_, error)] = watched.ends
    check(error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CLOSED), f'the error is {error}')
    refused = Answer(watched.session.refresh_finish)
    watched.session.refresh_async(None, refused)
    expect_error(refused.get, Gio.io_error_quark(), Gio.IOErrorEnum.CLOSED)


def test_control(system):
    profiler = open_profiler(system)
    answer = Answer(profiler.profile_finish)
    profiler.profile_async(GLib.Variant('a{sv}', {'launch': GLib.Variant('b', True)}), None, None, answer)
    watched = Watched(answer.get())
    opened = Answer(watched.session.open_control_finish)
    watched.session.open_control_async(None, opened)
    descriptor = opened.get()
    check(stat.S_ISSOCK(os.fstat(descriptor).st_mode), 'it is no socket')
    os.close(descriptor)
    watched.stop()


def launch(profiler, *argv, environment=None, folder=None, **options):
    answer = Answer(profiler.launch_finish)
    profiler.launch_async(list(argv), environment, folder, GLib.Variant('a{sv}', options), None, answer)
    return answer


def test_launched(system):
    """From its first instruction on, with what memory and marks need, and nothing else of ours."""
    profiler = open_profiler(system)
    os.environ['SONDE_MEMORY_LIBRARY'] = system.program('shared-ring/collector/memory/libsonde-memory.so')
    left_open = os.open('/dev/null', os.O_RDONLY)
    os.set_inheritable(left_open, True)
    out = system.path('descriptors')
    session, pid = launch(profiler, 'sh', '-c', 'ls -l /proc/self/fd > "$OUT"; pwd >> "$OUT"', folder='/proc',
                          environment=[f'OUT={out}', 'PATH=/usr/bin:/bin'], memory=GLib.Variant('s', 'all')).get()
    watched = Watched(session)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, 'it failed')
    wait(lambda: watched.ends, 'end')
    check(watched.ends == [('targets-exited', None)], f'it ends with {watched.ends}')
    with open(out, encoding='utf-8') as file:
        lines = file.read().splitlines()
    check(lines[-1] == '/proc', lines[-1])
    check('socket:' in '\n'.join(lines) and '/dev/null' not in [line.split(' -> ')[-1] for line in lines if f' {left_open} -> ' in line],
          '\n'.join(lines))
    check(session.get_statistic('events-recorded') > 100, f"{session.get_statistic('events-recorded')} events of the heap")
    os.close(left_open)


def test_not_launched(system):
    profiler = open_profiler(system)
    expect_error(launch(profiler, 'no-such-program').get, Gio.io_error_quark(), Gio.IOErrorEnum.NOT_FOUND, 'no-such-program')
    script = system.path('script')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('\x7fELF')
    os.chmod(script, 0o755)
    expect_error(launch(profiler, script).get, Gio.io_error_quark(), Gio.IOErrorEnum.FAILED, 'script: Exec format error')
    expect_error(launch(profiler, 'true', folder='/dev/null').get, Gio.io_error_quark(), Gio.IOErrorEnum.NOT_DIRECTORY)
    expect_error(launch(profiler, 'true', nonsense=GLib.Variant('b', True)).get, SondeClient.error_quark(),
                 SondeClient.Error.INVALID_OPTION, 'nonsense')
    try:
        pid = os.waitpid(-1, os.WNOHANG)[0]
        check(pid == 0, f'process {pid} is left')
    except ChildProcessError:
        pass


def test_refused(system):
    profiler = open_profiler(system)
    expect_error(profile(profiler, 2 ** 22 + 1).get, Gio.io_error_quark(), Gio.IOErrorEnum.NOT_FOUND)
    answer = Answer(profiler.profile_finish)
    profiler.profile_async(GLib.Variant('a{sv}', {'nonsense': GLib.Variant('b', True)}), None, None, answer)
    expect_error(answer.get, SondeClient.error_quark(), SondeClient.Error.INVALID_OPTION, 'nonsense')


def test_cancelled(system, burner):
    profiler = open_profiler(system)
    cancellable = Gio.Cancellable()
    answer = profile(profiler, burner.pid, cancellable)
    cancellable.cancel()
    expect_error(answer.get, Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED)
    Watched(profile(profiler, burner.pid).get()).stop()


def test_foreign_stream():
    """A service is believed no more than a file."""
    fake = os.path.join(sys.argv[2], 'tests/system/fake-sonded.py')
    header = bytes.fromhex('5e97cafd 01 01 0000') + bytes(248)
    frame = struct.pack('<HhiqB7x', 24, 0, 5, 1000, 1)
    for stream, n_frames, message in ((b'GIF89a' + bytes(300), 0, 'not a Sonde capture'),
                                      (header + frame + bytes(24), 1, 'The service\'s stream is broken'),
                                      (header + frame, 1, None),
                                      (header + frame + frame[:10], 1, 'The service\'s stream is broken'),
                                      (header[:100], 0, 'The service\'s stream is'),
                                      (b'', 0, None)):
        os.environ['FAKE_STREAM'] = stream.hex()
        profiler = SondeClient.Profiler.new_embedded(fake, 'none')
        watched = Watched(profile(profiler, os.getpid()).get())
        wait(lambda ended=watched.ends: ended, 'end')
        [(_, error)] = watched.ends
        check(len(watched.frames) == n_frames, f'{len(watched.frames)} frames')
        check(message in error.message if message else error is None, f'the error is {error}')


def main():
    system = System(12)
    burner = start_burning(system)
    try:
        for name in ('call-tree.py', 'call-tree.js'):
            with system.case(f'docs/examples/{name} shows a call tree'):
                system.measure(test_example, burner, name)
        with system.case('a capture is saved, with figures meanwhile, and is over when the profiler is closed'):
            test_saved(system, burner)
        with system.case('a program gets a control socket'):
            test_control(system)
        with system.case('frames come while they are made, and their tree is whole'):
            test_frames(system, burner)
        with system.case('a tree that grows is that of the report, to the sample'):
            test_live(system)
        with system.case('processes are added one at a time'):
            test_added(system, burner)
        with system.case('a program is launched and recorded from its beginning'):
            test_launched(system)
        with system.case('a program that cannot run leaves nothing'):
            test_not_launched(system)
        with system.case('what cannot be is refused with its reason'):
            test_refused(system)
        with system.case('a stream that is none is told, and what came before it kept'):
            test_foreign_stream()
        with system.case('a start can be cancelled'):
            test_cancelled(system, burner)
    finally:
        burner.kill()
        burner.wait()
    system.finish()


main()
