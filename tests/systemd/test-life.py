#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deaths and restarts below systemd: test-life.py BUILD

SONDE_TEST_LONG=1 repeats the kills five times as often."""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

from gi.repository import Gio, GLib

from inside import DEADLINE_S, Capture, Stopwatch, User, check, processes, run, wait_until
from processor_watch import ProcessorWatch
from tap import Tap

NAME = 'org.sonde.Profiler1'
ROUNDS = 5 if os.environ.get('SONDE_TEST_LONG') == '1' else 1
BUS = Gio.bus_get_sync(Gio.BusType.SYSTEM)
CALL_MS = DEADLINE_S * 1000
WARM_UP = 20  # rounds of sessions until the allocator has what four ends at a time want
MAX_GROWTH_KIB = 1024
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
ONLINE = '/run/online'
UNITS = '/run/systemd/system'
BUSY_SECONDS = 0.3
CLIENT_SECONDS = 5
MIN_RAN_NS = 50_000_000  # who runs that long has samples at any frequency here
STEADY_LOOKS = 10
LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438
PERF_EVENT_IOC_DISABLE = 0x2401


def call(path, interface, method, arguments=None):
    return BUS.call_sync(NAME, path, f'{NAME}.{interface}', method, arguments, None, Gio.DBusCallFlags.NONE,
                         CALL_MS, None).unpack()


def sessions():
    return {path: state for path, _uid, state, _start, _text in
            call('/org/sonde/Profiler1', 'Manager', 'ListSessions')[0]}


def running():
    return {path for path, state in sessions().items() if state == 'running'}


def start_session(**options):
    dictionary = {key.replace('_', '-'): value for key, value in options.items()}
    return call('/org/sonde/Profiler1', 'Manager', 'StartSession', GLib.Variant('(a{sv})', (dictionary,)))[0]


def capture_file(session):
    return BUS.call_sync(NAME, session, 'org.freedesktop.DBus.Properties', 'Get',
                         GLib.Variant('(ss)', (f'{NAME}.Session', 'CaptureFile')), None,
                         Gio.DBusCallFlags.NONE, CALL_MS, None).unpack()[0]


def main_pid():
    return int(run('systemctl', 'show', '--property=MainPID', '--value', 'sonded'))


def kill_service():
    """Returns a stopwatch: until somebody answers again."""
    pid = main_pid()
    run('systemctl', 'reset-failed', 'sonded')  # more often than a service may crash
    with Stopwatch() as watch:
        os.kill(pid, signal.SIGKILL)
        while True:
            try:
                sessions()
                break
            except GLib.Error as error:  # the bus had not heard of its end
                check('NoReply' in error.message, error.message)
    check(main_pid() != pid, f'{pid} answers')
    return watch


def check_second(tap, watches, what):
    """Each takes less than a second, but for one in ten that something disturbs which nobody could measure."""
    seconds, own_seconds = (sorted(getattr(watch, name) for watch in watches) for name in ('seconds', 'own_seconds'))
    tap.note(f'{len(watches)} times {what}: {seconds[len(seconds) // 2] * 1000:.0f} ms (median), '
             f'{seconds[-1] * 1000:.0f} ms (longest); {own_seconds[-1] * 1000:.0f} ms without waiting for a processor')
    n_late = sum(own >= 1 for own in own_seconds)
    check(n_late <= len(own_seconds) / 10 and own_seconds[-1] < 10, f'{what}: {own_seconds}')


def descriptors(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def resident_kib(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmRSS'))


def keeps_what_is_freed(pid):
    """As AddressSanitizer does, for a while."""
    with open(f'/proc/{pid}/maps', encoding='utf-8') as maps:
        return 'libasan' in maps.read()


def count_whole_frames(path):
    """Frames up to the last whole one; what is behind it is no frame."""
    with open(path, 'rb') as file:
        data = file.read()
    at, n_frames = 256, 0
    while at + 24 <= len(data):
        length = int.from_bytes(data[at:at + 2], 'little')
        check(length >= 24 and length % 8 == 0, f'{path}: a frame of {length} bytes at {at}')
        if at + length > len(data):
            break
        at += length
        n_frames += 1
    return n_frames


def wait_for_rest(n_sessions=0):
    """Until there are so many sessions, and a worker for each beside the spare one."""
    wait_until(lambda: len([state for state in sessions().values() if state not in ('finished', 'failed')])
               == n_sessions, f'{n_sessions} sessions')
    for name in ('sonde-broker', 'sonde-capture'):
        wait_until(lambda: len(processes(name)) == n_sessions + 1, f'{n_sessions} of {name} and a spare one')


def store_size():
    return int(run('systemctl', 'show', '--property=NFileDescriptorStore', '--value', 'sonded'))


def count_held(pid):
    """Descriptors of sonded, and those that are stored for it, once they and the spare ones stay the same for a while: a
    worker whose session has ended may be there still, and the spare one starts half a second after a session began."""
    looks = []

    def is_steady():
        looks.append(((descriptors(pid), store_size()), [processes(name) for name in ('sonde-broker', 'sonde-capture')]))
        return looks[-STEADY_LOOKS:] == looks[-1:] * STEADY_LOOKS and all(len(spare) == 1 for spare in looks[-1][1])
    wait_until(is_steady, 'the same number of descriptors', 0.1)
    return looks[-1][0]


def forget_finished():
    """A stop is the end of what is kept of finished sessions."""
    run('systemctl', 'stop', 'sonded')
    run('systemctl', 'start', 'sonded')


def read_ran_ns(pid):
    """The processor time that a process has had."""
    return int(pathlib.Path(f'/proc/{pid}/schedstat').read_text(encoding='ascii').split()[0])


def had_samples(capture, outages, pid):
    times = sorted(sample.time_ns for sample in capture.samples if sample.pid == pid)
    return sum(any(start <= time_ns <= end for time_ns in times) for start, end in outages)


def journal(event):
    return run('journalctl', '--unit=sonded', f'SONDE_EVENT={event}', '--output=cat', '--output-fields=SONDE_DETAIL')


def wait_for_journal(event, text):
    """It is written when the worker has gone, and read by journald in its own time."""
    wait_until(lambda: text in journal(event), f'{event}: {text}')


def find_worker(path):
    return next((pid for pid in processes('sonde-capture') if path in links(pid).values()), None)


def worker_of(path):
    """The process that writes to the file, once it does."""
    wait_until(lambda: find_worker(path), f'a worker with {path}')
    return find_worker(path)


def links(pid):
    """What each descriptor of a process leads to, by number; without those that it closes meanwhile."""
    found = {}
    with contextlib.suppress(OSError):  # it has gone
        for name in os.listdir(f'/proc/{pid}/fd'):
            with contextlib.suppress(OSError):
                found[int(name)] = os.readlink(f'/proc/{pid}/fd/{name}')
    return found


def broker_with_events():
    """That of the only session, once those of sessions that have ended are gone."""
    def with_events():
        return [pid for pid in processes('sonde-broker') if 'anon_inode:[perf_event]' in links(pid).values()]
    wait_until(lambda: len(with_events()) == 1, 'one broker with events')
    return with_events()[0]


def wait_for_log(session, text):
    """In its file."""
    path = pathlib.Path(capture_file(session))
    wait_until(lambda: text.encode() in path.read_bytes(), f'"{text}"')


def wait_for_work(pid):
    """Until the process has had enough processor time for some samples."""
    def seconds():
        text = pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
        return int(text.rsplit(')', 1)[1].split()[11]) / os.sysconf('SC_CLK_TCK')
    until = seconds() + BUSY_SECONDS
    wait_until(lambda: seconds() >= until, f'processor time of {pid}')


def set_up_service(settings, unit='sonded.service'):
    os.makedirs(f'{UNITS}/{unit}.d', exist_ok=True)
    with open(f'{UNITS}/{unit}.d/test.conf', 'w', encoding='utf-8') as file:
        file.write(settings)
    run('systemctl', 'daemon-reload')


def hold_service():
    """Kills it, and lets systemd wait before it starts it again."""
    set_up_service('[Service]\nRestartSec=5\n')
    os.kill(main_pid(), signal.SIGKILL)
    wait_until(lambda: not processes('sonded'), 'its end')


def configure(text):
    """systemd does not wait until the signal has been heard."""
    with open('/etc/sonde/sonded.conf', 'w', encoding='utf-8') as file:
        file.write(text)
    run('systemctl', 'reload', 'sonded')


def limit(name):
    return BUS.call_sync(NAME, '/org/sonde/Profiler1', 'org.freedesktop.DBus.Properties', 'Get',
                         GLib.Variant('(ss)', (f'{NAME}.Manager', 'Limits')), None,
                         Gio.DBusCallFlags.NONE, CALL_MS, None).unpack()[0][name]


def answering_name():
    """Who answers a call: it may have ended by the time that the bus could be asked."""
    message = Gio.DBusMessage.new_method_call(NAME, '/org/sonde/Profiler1', 'org.freedesktop.DBus.Properties', 'Get')
    message.set_body(GLib.Variant('(ss)', (f'{NAME}.Manager', 'Version')))
    answer, _serial = BUS.send_message_with_reply_sync(message, Gio.DBusSendMessageFlags.NONE, CALL_MS, None)
    check(answer.get_message_type() == Gio.DBusMessageType.METHOD_RETURN, answer.print_(0))
    return answer.get_sender()


class Recordings:
    """Three sessions with another life each: one of a client, two with files."""

    def __init__(self, user, target):
        self.user, self.target = user, target
        self.client = user.start_recording('own.syscap', '-p', str(target))
        wait_until(lambda: len(running()) == 1, 'the session of the client')
        self.lasting = [start_session(pids=GLib.Variant('au', [target])),
                        start_session(system=GLib.Variant('b', True), frequency=GLib.Variant('u', 200),
                                      stack_size=GLib.Variant('u', 4096))]
        self.paths = running()
        check(len(self.paths) == 3, self.paths)

    def finish(self):
        """Returns the captures."""
        for session in self.lasting:
            call(session, 'Session', 'Stop')
        wait_until(lambda: all(sessions()[session] == 'finished' for session in self.lasting), 'their end')
        self.client.send_signal(signal.SIGINT)
        captures = [self.user.finish_recording(self.client, 'own.syscap')]
        for session in self.lasting:
            path = capture_file(session)
            run('sondectl', 'verify', path)
            captures.append(Capture(path))
        for capture in captures:
            check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()))
        return captures


def set_processors(text):
    """What brokers see of them: sysfs cannot be changed here."""
    with open(ONLINE, 'w', encoding='ascii') as file:
        file.write(text)


def test_processor(user):
    """One that was off, as far as brokers know, when the session began."""
    set_processors('0')
    set_up_service(f'[Service]\nBindReadOnlyPaths={ONLINE}:/sys/devices/system/cpu/online\n', 'sonde-broker@.service')
    run('systemctl', 'restart', 'sonded')
    target = user.start('taskset', '-c', '1', 'bash', '-c', 'while :; do :; done')
    wait_until(lambda: 'bash' in open(f'/proc/{target.pid}/comm', encoding='utf-8').read(), 'its program')
    recordings = [start_session(pids=GLib.Variant('au', [target.pid])),
                  start_session(system=GLib.Variant('b', True))]
    kill_service()
    check(running() == set(recordings), sessions())
    set_processors('0-1')
    come_ns = time.monotonic_ns()
    for session in recordings:
        wait_for_log(session, 'Processor 1 came at ')
    wait_for_work(target.pid)
    # Of the processor that has come, too, the next one knows.
    kill_service()
    check(running() == set(recordings), sessions())
    for session in recordings:
        call(session, 'Session', 'Stop')
        wait_until(lambda: sessions()[session] == 'finished', 'the end')
        capture = Capture(capture_file(session))
        found = [sample.time_ns for sample in capture.samples if sample.cpu == 1 and sample.pid == target.pid]
        check(found and min(found) > come_ns, f'{len(found)} samples, {capture.logs}')
        check([text for text in capture.logs if text.startswith('Processor 1 came at ')], f'{capture.logs}')
    target.kill()
    target.wait()
    set_up_service('', 'sonde-broker@.service')
    forget_finished()


def stop_events(pid):
    """Does to those of a process what the kernel does to events of whole processors that go off."""
    pidfd = os.pidfd_open(pid)
    for number, link in links(pid).items():
        if link == 'anon_inode:[perf_event]':
            fd = LIBC.syscall(PIDFD_GETFD, pidfd, number, 0)
            check(fd >= 0, f'descriptor {number} of {pid}: {os.strerror(ctypes.get_errno())}')
            fcntl.ioctl(fd, PERF_EVENT_IOC_DISABLE)
            os.close(fd)
    os.close(pidfd)


def test_absence(target):
    """Processors that were off while no broker looked."""
    session = start_session(system=GLib.Variant('b', True), frequency=GLib.Variant('u', 200))
    path = capture_file(session)
    worker, broker = worker_of(path), broker_with_events()
    # Else it would look at them, and see it.
    os.kill(broker, signal.SIGSTOP)
    stop_events(broker)
    stop_events(worker)
    off_s = time.monotonic()
    kill_service()
    os.kill(broker, signal.SIGCONT)
    for cpu in os.sched_getaffinity(0):
        wait_for_log(session, f'Processor {cpu} was off between ')
    back_ns = time.monotonic_ns()
    wait_for_work(target)
    # Now they are others, which count.
    kill_service()
    wait_for_work(target)
    call(session, 'Session', 'Stop')
    wait_until(lambda: sessions()[session] == 'finished', 'the end')
    capture = Capture(path)
    logs = [text for text in capture.logs if ' was off between ' in text]
    check(len(logs) == len(os.sched_getaffinity(0)), f'{logs}')
    for text in logs:
        check(float(text.split()[5]) < off_s + 1, f'off at {off_s:.3f} s: {text}')
    check([sample for sample in capture.samples if sample.time_ns > back_ns and sample.pid == target], f'{logs}')
    check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()))
    forget_finished()


def main():
    tap = Tap(17)
    build = sys.argv[1]
    alice = User('alice')
    target = alice.start('bash', '-c', 'while :; do :; done').pid
    alice.start('bash', '-c', 'while :; do /bin/true; done')

    with tap.case('sessions go on when sonded is killed, without a gap'):
        n_kills = 20 * ROUNDS
        recordings = Recordings(alice, target)
        outages, waits = [], []
        with ProcessorWatch(lambda: processes('sonde-capture')) as watch:
            for _ in range(n_kills):
                time.sleep(random.uniform(0, 0.3))  # any moment will do
                start, ran_ns = time.monotonic_ns(), read_ran_ns(target)
                waits.append(kill_service())
                if read_ran_ns(target) - ran_ns >= MIN_RAN_NS:
                    outages.append((start, time.monotonic_ns()))
                check(running() == recordings.paths, f'only {sessions()} of {recordings.paths}')
            captures = recordings.finish()
        for capture in captures:
            n_lost = sum(capture.ledger.get(name, 0) for name in ('lost-kernel', 'lost-ring', 'lost-queue'))
            tap.note(f'{capture.counts["SAMPLE"]} samples, {n_lost} lost')
            check(capture.ledger['lost-kernel'] == n_lost and watch.explains(n_lost, 1000), f'{watch.waits} {capture.ledger}')
            check(had_samples(capture, outages, target) == len(outages) > 0,
                  f'{had_samples(capture, outages, target)} of {len(outages)} outages have samples')
        check_second(tap, waits, 'back after a kill')

    with tap.case('a restart takes no session away, and a stop ends them cleanly'):
        recordings = Recordings(alice, target)
        pid = main_pid()
        run('systemctl', 'restart', 'sonded')
        check(main_pid() != pid and running() == recordings.paths, f'{sessions()}')
        files = [capture_file(session) for session in recordings.lasting]
        run('systemctl', 'stop', 'sonded')
        # The client was told why.
        output, _ = recordings.client.communicate(timeout=DEADLINE_S)
        check(recordings.client.returncode == 0, output)
        for path in files + [os.path.join(alice.home, 'own.syscap')]:
            run('sondectl', 'verify', path)
        wait_until(lambda: not processes('sonde-capture'), 'the end of all workers')
        check(not sessions(), sessions())

    with tap.case('the clients of the documentation go on when sonded is killed'):
        clients = []
        with ProcessorWatch(lambda: processes('sonde-capture')) as watch:
            # The one that takes longer to start is the first, so that both have sessions at a time.
            for program in (os.path.join(SOURCE, 'docs/examples/profile-pid.py'), os.path.join(build, 'tests/bus/profile-pid')):
                clients.append(alice.start(program, str(target), str(CLIENT_SECONDS)))
                wait_until(lambda: len(running()) == len(clients), 'their sessions')
            kill_service()
            outputs = [client.communicate(timeout=DEADLINE_S)[0] for client in clients]
        for client, output in zip(clients, outputs):
            check(client.returncode == 0 and 'samples' in output, output)
            check(watch.explains(int(re.search(r'^lost-kernel: (\d+)$', output, re.M)[1]), 1000), f'{watch.waits} {output}')

    with tap.case('whose owner or targets leave while sonded is dead ends, and so does a worker that dies'):
        recording = alice.start_recording('left.syscap', '-p', str(target))
        short = alice.start('bash', '-c', 'while :; do :; done')
        wait_until(lambda: len(running()) == 1, 'the session of the client')
        lasting = {key: start_session(pids=GLib.Variant('au', [pid]))
                   for key, pid in {'stays': target, 'targets': short.pid, 'worker': target}.items()}
        worker = worker_of(capture_file(lasting['worker']))
        hold_service()
        recording.kill()
        short.kill()
        recording.wait()
        short.wait()
        os.kill(worker, signal.SIGKILL)
        set_up_service('')
        wait_until(lambda: sorted(sessions().values()) == ['failed', 'finished', 'running'], 'three ends')
        found = sessions()
        check(found[lasting['stays']] == 'running' and found[lasting['targets']] == 'finished' and
              found[lasting['worker']] == 'failed', found)
        wait_for_journal('session-ended', 'ended while the service was away')
        count_whole_frames(capture_file(lasting['worker']))
        call(lasting['stays'], 'Session', 'Stop')
        wait_until(lambda: not running(), 'the end')
        forget_finished()

    with tap.case('a session that was taken over follows processors that come'):
        test_processor(alice)

    with tap.case('a session that was taken over notices processors that were off meanwhile'):
        test_absence(target)

    with tap.case('a session of a unit goes on with the unit, and ends with it even while sonded is dead'):
        run('systemd-run', '--unit=busy', 'bash', '-c', 'while :; do :; done')
        busy = int(run('systemctl', 'show', '--property=MainPID', '--value', 'busy'))
        session = start_session(unit=GLib.Variant('s', 'busy.service'))
        path = capture_file(session)
        for _ in range(3):
            kill_service()
            check(running() == {session}, sessions())
        kill_ns = time.monotonic_ns()
        wait_until(lambda: time.monotonic_ns() > kill_ns + 1e9, 'a second of samples')
        hold_service()
        run('systemctl', 'stop', 'busy')
        set_up_service('')
        wait_until(lambda: sessions()[session] == 'finished', 'the end')
        capture = Capture(path)
        check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()))
        late = [sample for sample in capture.samples if sample.pid == busy and sample.time_ns > kill_ns]
        check(late, f'{len(capture.samples)} samples, none after the kills')
        forget_finished()

    with tap.case('a flight recorder has the time before sonded was killed'):
        session = start_session(pids=GLib.Variant('au', [target]), recorder=GLib.Variant('t', 60_000_000))
        path = capture_file(session)
        wait_for_work(target)
        before_ns = time.monotonic_ns()
        for number in range(3):
            kill_service()
            check(running() == {session}, sessions())
            run('sondectl', 'snapshot', str(session).rsplit('/', 1)[-1], '-o', f'/tmp/snapshot-{number}.syscap')
            run('sondectl', 'verify', f'/tmp/snapshot-{number}.syscap')
        capture = Capture('/tmp/snapshot-2.syscap')
        check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()))
        early = [sample for sample in capture.samples if sample.pid == target and sample.time_ns < before_ns]
        check(early, f'{len(capture.samples)} samples, none before the kills')
        check(os.stat(path).st_size == 0, 'its file grows')
        call(session, 'Session', 'Stop')
        wait_until(lambda: sessions()[session] == 'finished', 'the end')
        run('sondectl', 'verify', path)
        forget_finished()

    with tap.case('a worker that is killed ends its session, and the capture is whole up to there'):
        n_kills = 20 * ROUNDS
        other = start_session(system=GLib.Variant('b', True))
        n_frames = []
        for _ in range(n_kills):
            session = start_session(pids=GLib.Variant('au', [target]))
            path = capture_file(session)
            wait_until(lambda: os.path.getsize(path) > 4096, 'frames')
            time.sleep(random.uniform(0, 0.1))
            os.kill(worker_of(path), signal.SIGKILL)
            wait_until(lambda: sessions()[session] == 'failed', 'the end of the session')
            n_frames.append(count_whole_frames(path))
            check(sessions()[other] == 'running', sessions())
        tap.note(f'{n_kills} kills: {min(n_frames)} to {max(n_frames)} whole frames')
        check(min(n_frames) > 0, n_frames)
        call(other, 'Session', 'Stop')
        wait_until(lambda: sessions()[other] == 'finished', 'the end')
        run('sondectl', 'verify', capture_file(other))
        wait_for_journal('worker-died', 'killed by signal 9')
        forget_finished()

    with tap.case('a broker that is killed ends its session, with all that was recorded'):
        n_kills = 20 * ROUNDS
        n_samples = []
        for _ in range(n_kills):
            session = start_session(pids=GLib.Variant('au', [target]))
            path = capture_file(session)
            until_ns = read_ran_ns(target) + MIN_RAN_NS
            wait_until(lambda: os.path.getsize(path) > 4096 and read_ran_ns(target) >= until_ns, 'frames')
            broker = broker_with_events()
            time.sleep(random.uniform(0, 0.1))
            os.kill(broker, signal.SIGKILL)
            wait_until(lambda: sessions()[session] == 'failed', 'the end of the session')
            run('sondectl', 'verify', path)
            capture = Capture(path)
            check(not capture.ledger_faults(), capture.ledger_faults())
            n_samples.append(len(capture.samples))
        tap.note(f'{n_kills} kills: {min(n_samples)} to {max(n_samples)} samples, in whole captures')
        check(min(n_samples) > 0, n_samples)
        wait_for_journal('broker-died', 'The broker was killed by signal 9')
        forget_finished()

    with tap.case('of a client that is killed nothing stays'):
        n_rounds, n_clients = 10 * ROUNDS, 4
        watches = []
        for round_ in range(-WARM_UP, n_rounds):
            if round_ == 0:
                wait_for_rest()
                pid = main_pid()
                before, before_kib = count_held(pid), resident_kib(pid)
            clients = [subprocess.Popen(['sondectl', 'record', '-p', str(target), '-o', '/dev/null'],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                       for _ in range(n_clients)]
            wait_until(lambda: len(running()) == n_clients, 'the sessions')
            time.sleep(random.uniform(0, 0.1))
            with Stopwatch() as watch:
                for client in clients:
                    client.kill()
                wait_until(lambda: not sessions(), 'the end of the sessions')
            watches.append(watch)
            for client in clients:
                client.wait()
        wait_for_rest()
        after, after_kib = count_held(pid), resident_kib(pid)
        check_second(tap, watches, f'all gone after the kill of {n_clients} clients')
        tap.note(f'{n_rounds * n_clients} kills: descriptors, stored, KiB before {before}, {before_kib}, after {after}, {after_kib}')
        check(main_pid() == pid and after == before, (before, after))
        check(after_kib - before_kib < MAX_GROWTH_KIB or keeps_what_is_freed(pid), (before_kib, after_kib))

    with tap.case('a sonded that does not move is killed, and its sessions go on'):
        set_up_service('[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\n')
        run('systemctl', 'restart', 'sonded')
        session = start_session(pids=GLib.Variant('au', [target]))
        pid = main_pid()
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: main_pid() not in (0, pid), 'another sonded')
        check(sessions()[session] == 'running', sessions())
        call(session, 'Session', 'Stop')
        wait_until(lambda: sessions()[session] == 'finished', 'the end')
        run('sondectl', 'verify', capture_file(session))
        set_up_service('')
        forget_finished()

    with tap.case('a worker that does not move is killed, and its session says so'):
        session = start_session(pids=GLib.Variant('au', [target]))
        worker = worker_of(capture_file(session))
        os.kill(worker, signal.SIGSTOP)
        wait_until(lambda: sessions()[session] == 'failed', 'the end')
        wait_for_journal('session-ended', 'The worker gave no sign of life')
        wait_until(lambda: worker not in processes('sonde-capture'), 'its end')
        forget_finished()

    with tap.case('the configuration is read again without a restart, and what is wrong is named'):
        pid = main_pid()
        configure('[Limits]\nsessions-root=5\n')
        wait_until(lambda: limit('sessions-root') == 5, 'another limit')
        configure('[Limits]\nsessions-root=none\n')
        wait_until(lambda: '[Limits] sessions-root must be a number from 1 to 64'
                   in run('journalctl', '--unit=sonded', '--output=cat'), 'what is wrong')
        check(limit('sessions-root') == 5, limit('sessions-root'))
        configure('')
        wait_until(lambda: limit('sessions-root') == 32, 'the limit of the beginning')
        check(main_pid() == pid, 'it was started again')

    with tap.case('no call is lost when sonded ends because nothing is to do'):
        n_ends = 20 * ROUNDS
        forget_finished()  # or there is something to do
        configure('[Service]\nidle-timeout-ms=1\n')
        owners, n_calls = set(), 0
        end = time.monotonic() + DEADLINE_S * ROUNDS
        while len(owners) < n_ends:
            check(time.monotonic() < end, f'{len(owners)} ends with {n_calls} calls')
            owners.add(answering_name())
            n_calls += 1
            time.sleep(random.uniform(0, 0.01))
        session = start_session(pids=GLib.Variant('au', [target]))
        check(sessions()[session] == 'running', sessions())
        call(session, 'Session', 'Stop')
        tap.note(f'{n_calls} calls, {n_ends} starts')

    with tap.case('it stays while somebody is subscribed'):
        configure('[Service]\nidle-timeout-ms=1000\n')
        forget_finished()
        connection = Gio.DBusConnection.new_for_address_sync(
            Gio.dbus_address_get_for_bus_sync(Gio.BusType.SYSTEM, None),
            Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION, None, None)
        connection.call_sync(NAME, '/org/sonde/Profiler1', f'{NAME}.Manager', 'Subscribe', None, None,
                             Gio.DBusCallFlags.NONE, CALL_MS, None)
        pid = main_pid()
        time.sleep(3)
        check(main_pid() == pid != 0, f'{pid}, {main_pid()}')
        connection.close_sync()
        wait_until(lambda: main_pid() != pid, 'its end')

    with tap.case('no unit has failed'):
        check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))

    tap.finish()


main()
