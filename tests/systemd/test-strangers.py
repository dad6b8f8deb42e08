#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whoever is looked at can have the service wait for nobody but himself: test-strangers.py BUILD [ATTACK…]

While a stranger does his worst, another user asks for the version all the while, a third one records, and root
records the whole machine."""

import contextlib
import glob
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

from gi.repository import Gio, GLib

from inside import DEADLINE_S, LOSSES, Capture, User, check, processes, run, wait_until
from processor_watch import ProcessorWatch
from stranger import StuckFuse
from tap import Fault, Skip, Tap

NAME = 'org.sonde.Profiler1'
MANAGER = '/org/sonde/Profiler1'
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = '/usr/local/lib/strangers'  # where users may run them
PYTHON = '/usr/bin/python3'
NAMESPACES = ('unshare', '--user', '--map-current-user', '--keep-caps', '--mount', '--propagation', 'private')
STRIKE_SECONDS = 6  # what is measured: 1,000 calls and more
REST_SECONDS = 40   # so that a hang ends
END_SECONDS = 60
CALL_MS = 30_000
START_SESSION_SECONDS = 5
MAX_P99_MS = 20
MAX_MS = 1000
MAX_HUNG_MS = 15_000  # that is no busy machine any more
PEAK_KIB = 48 * 1024
FREQUENCY = 1000
REST_KIB = 12 * 1024
CAPTURES = '/var/lib/sonde/captures'


def main_pid(unit='sonded'):
    return int(run('systemctl', 'show', '--property=MainPID', '--value', unit))


def status_kib(pid, key):
    with open(f'/proc/{pid}/status', encoding='utf-8') as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f'{key}:'))


def count_fds(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def holders(link):
    """Who has it open, by number and name."""
    found = set()
    for path in glob.glob('/proc/[0-9]*/fd/*'):
        with contextlib.suppress(OSError):  # closed, or gone
            if os.readlink(path) == link:
                pid = path.split('/')[2]
                with open(f'/proc/{pid}/comm', encoding='utf-8') as comm:
                    found.add(f'{pid} {comm.read().strip()}')
    return found


def fuse_mounts():
    """Of all that live: who waits for one and dies has it still."""
    found = set()
    for path in glob.glob('/proc/[0-9]*/mountinfo'):
        with contextlib.suppress(OSError):
            with open(path, encoding='utf-8') as file:
                found.update(line for line in file if ' - fuse' in line)
    return found


def call_manager(method, arguments=None, timeout_ms=CALL_MS):
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
    return bus.call_sync(NAME, MANAGER, f'{NAME}.Manager', method, arguments, None, Gio.DBusCallFlags.NONE, timeout_ms,
                         None).unpack()


def session_states():
    return {path: state for path, _uid, state, _start, _text in call_manager('ListSessions')[0]}


def start_session(**options):
    return call_manager('StartSession', GLib.Variant('(a{sv})', (options,)))[0]


def stop_session(path):
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
    bus.call_sync(NAME, path, f'{NAME}.Session', 'Stop', None, None, Gio.DBusCallFlags.NONE, CALL_MS, None)


class Role:
    """A part of stranger.py, played by a user."""

    def __init__(self, user, *arguments, prefix=NAMESPACES):
        self.buffer = b''
        self.process = subprocess.Popen([*prefix, PYTHON, '-B', f'{PROGRAMS}/stranger.py', *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **user.options)
        try:
            self.pid = int(self.hear('ready'))
        except AssertionError:
            self.end()
            raise

    def tell(self, command):
        self.process.stdin.write(f'{command}\n'.encode())

    def hear(self, word='', seconds=END_SECONDS):
        """The rest of the next line that begins with word."""
        end = time.monotonic() + seconds
        while True:
            line, newline, rest = self.buffer.partition(b'\n')
            if newline:
                self.buffer = rest
                text = line.decode()
                if text.startswith(word):
                    return text[len(word):].strip()
                continue
            check(select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], f'no "{word}"', Fault)
            more = os.read(self.process.stdout.fileno(), 65536)
            check(more, f'it has gone instead of "{word}"', Fault)
            self.buffer += more

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            # It waits for itself.
            for pid in [*processes('stuck-fuse'), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()


class World:
    """Who is there, whatever is done."""

    def __init__(self, build):
        os.makedirs(PROGRAMS)
        for path in (f'{HERE}/stranger.py', f'{build}/tests/bus/stuck-fuse', f'{build}/tests/system/burn',
                     f'{build}/tests/system/many-files'):
            shutil.copy(path, PROGRAMS)
        subprocess.run(['chmod', '-R', 'a+rX', PROGRAMS], check=True)
        self.stranger, self.asker, self.bystander = (User(name) for name in ('alice', 'bob', 'carol'))
        self.uid = int(run('id', '-u', 'alice'))
        self.burner = self.bystander.start(f'{PROGRAMS}/burn', '100000')
        self.own_burner = self.stranger.start(f'{PROGRAMS}/burn', '100000')
        self.to_reap = []

    def record_own(self):
        """The stranger is served as anybody is, as long as nothing of his is stuck."""
        self.stranger.record('own.syscap', '-d', '0.2', '-p', str(self.own_burner.pid))


class Nothing:
    """What the others are to be compared with."""
    own_recording = None
    has_own_session = restarts_service = False

    def __enter__(self):
        return self

    def strike(self):
        pass

    def wait_struck(self):
        pass

    def __exit__(self, *_):
        pass


class Attack:
    """One that a user's role does; entered when it is ready."""
    own_recording = None      # of the process that is stuck; it has to do without answers, and says about whom
    has_own_session = False   # the same by a call
    restarts_service = False  # when it is over

    def __init__(self, world, *arguments, prefix=NAMESPACES):
        self.world, self.arguments, self.prefix = world, arguments, prefix

    def __enter__(self):
        self.role = Role(self.world.stranger, *self.arguments, prefix=self.prefix)
        return self

    def strike(self):
        self.role.tell('strike')

    def wait_struck(self):
        self.role.hear('struck')

    def __exit__(self, *_):
        self.role.end()


class Waits(Attack):
    """The stranger's process lets wait who looks at it."""
    has_own_session = True

    def __init__(self, world, *arguments, is_recorded_by_owner):
        super().__init__(world, *arguments)
        self.is_recorded_by_owner = is_recorded_by_owner

    def wait_struck(self):
        """Then its owner has it profiled, and root by number."""
        super().wait_struck()
        self.role.tell('start')
        if self.is_recorded_by_owner:
            self.own_recording = self.world.stranger.start_recording('stuck.syscap', '-p', str(self.role.pid))
        self.by_number = subprocess.Popen(['busctl', '--system', '--timeout=20', 'call', NAME, MANAGER, f'{NAME}.Manager',
                                           'StartSession', 'a{sv}', '1', 'pids', 'au', '1', str(self.role.pid)],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        super().__exit__()
        for process in filter(None, (self.by_number, self.own_recording)):
            process.kill()
            process.wait()


class State:
    """The disk of the captures does not answer: root's doing, and nobody's fault."""
    own_recording = None
    has_own_session = False
    restarts_service = True

    def __init__(self, world):
        self.world = world

    def __enter__(self):
        """Mounted where it is before the service is: it has an open folder there."""
        run('systemctl', 'stop', 'sonded')
        self.folder = '/run/strangers-state'
        os.makedirs(self.folder, exist_ok=True)
        os.chown(self.folder, *(getattr(os.stat(CAPTURES), f'st_{which}') for which in ('uid', 'gid')))
        os.chmod(self.folder, os.stat(CAPTURES).st_mode)
        self.server = StuckFuse(f'{PROGRAMS}/stuck-fuse', self.folder, CAPTURES)
        run('systemctl', 'start', 'sonded')
        call_manager('ListSessions')
        return self

    def strike(self):
        self.server.command('stop ALL')

    def wait_struck(self):
        begin = time.monotonic()
        try:
            call_manager('StartSession', GLib.Variant('(a{sv})', ({'pids': GLib.Variant('au', [self.world.burner.pid])},)))
            text = 'a session was started'
        except GLib.Error as error:
            text = error.message
        seconds = time.monotonic() - begin
        check(f'{NAME}.Error.' in text, f'StartSession: {text}', Fault)
        check(seconds <= START_SESSION_SECONDS + MAX_MS / 1000, f'StartSession took {seconds:.1f} s: {text}')

    def __exit__(self, *_):
        with contextlib.suppress(RuntimeError, BrokenPipeError):
            self.server.command('go')
        subprocess.run(['systemctl', 'stop', 'sonded'], capture_output=True, timeout=DEADLINE_S, check=False)
        self.server.end()
        run('umount', '-l', CAPTURES)
        run('systemctl', 'start', 'sonded')


class Journal:
    """journald reads nothing, and its socket is full: anybody may write to it."""
    own_recording = None
    has_own_session = restarts_service = False
    SOCKET = '/run/systemd/journal/socket'
    MAX_SOCKETS = 64
    N_REFUSALS = 5

    def __init__(self, world):
        self.world = world

    def __enter__(self):
        self.pid = main_pid('systemd-journald')
        self.sockets = []
        return self

    def fill(self):
        """Returns whether the next one who writes would wait."""
        writer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sockets.append(writer)
        writer.setblocking(False)
        n_written = 0
        with contextlib.suppress(BlockingIOError):
            writer.connect(self.SOCKET)
            while True:
                writer.send(b'MESSAGE=full\n')
                n_written += 1
        return n_written == 0

    def strike(self):
        os.kill(self.pid, signal.SIGSTOP)
        check(any(self.fill() for _ in range(self.MAX_SOCKETS)), 'the journal takes what nobody reads', Fault)
        # Each of them is a record.
        bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        for _ in range(self.N_REFUSALS):
            bus.call(NAME, MANAGER, f'{NAME}.Manager', 'Profile',
                     GLib.Variant('(a{sv})', ({'pids': GLib.Variant('au', [999_999])},)), None,
                     Gio.DBusCallFlags.NONE, CALL_MS, None, None)
        bus.flush_sync()

    def wait_struck(self):
        pass

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)
        for writer in self.sockets:
            writer.close()


def finish(process, what):
    """Its output; it ends by itself, or the case has failed."""
    try:
        output, _ = process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        raise Fault(f'{what} does not end') from None
    check(process.returncode == 0, f'{what}: exit status {process.returncode}: {output}', Fault)
    return output


def read_whole(path, watch):
    """What a capture says of itself holds, and nothing is lost but what came while a worker or its reader waited for a
    processor, which others on the machine had."""
    capture = Capture(path)
    check(not capture.ledger_faults(), '\n'.join(capture.ledger_faults()), Fault)
    lost = {name: capture.ledger.get(name, 0) for name in LOSSES if capture.ledger.get(name, 0)}
    n_frames = lost.pop('stream-lost', 0)
    check(watch.explains(sum(lost.values()), FREQUENCY) and (n_frames == 0 or watch.waits),
          f'{path}: {lost}, {n_frames} frames; {watch.waits}')
    return capture


def names_of(capture, pid):
    return {name for sample in capture.samples if sample.pid == pid for name in capture.stack(sample)}


def at(sorted_ms, percent):
    return sorted_ms[len(sorted_ms) * percent // 100] if percent < 100 else sorted_ms[-1]


def check_answers(tap, what, answers):
    """Returns the two figures that are promised, of a machine that is not busy with others."""
    ms, own_ms = sorted(answers['ms']), sorted(answers['own_ms'])
    tap.note(f'bench strangers attack={what} calls={len(ms)} p99_ms={at(ms, 99):.1f} max_ms={at(ms, 100):.1f} '
             f'own_p99_ms={at(own_ms, 99):.1f} own_max_ms={at(own_ms, 100):.1f} load={os.getloadavg()[0]:.1f}')
    check(not answers['errors'], answers['errors'], Fault)
    check(ms[-1] <= MAX_HUNG_MS, f'an answer took {ms[-1] / 1000:.1f} s', Fault)
    return at(own_ms, 99), at(own_ms, 100)


def check_told(capture, output, uid):
    """About whom there are no answers, and how many."""
    for words in (f'Processes of uid {uid} do not answer', 'questions about processes and their files had no answer'):
        check(any(words in text for text in capture.logs), f'not told in the capture: {capture.logs}', Fault)
    check('The kernel did not answer' in output, f'not told by record: {output}', Fault)


def end_own_session(role):
    """The stranger's. It was refused, or it can be stopped at any time."""
    answer = role.hear()
    if answer.startswith('refused'):
        return
    path = answer.removeprefix('session ')
    if session_states().get(path) == 'running':
        stop_session(path)
    wait_for(lambda: session_states().get(path) in ('finished', 'failed'), f'the end of {path}')


def wait_for(condition, what, seconds=REST_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f'{what() if callable(what) else what} never came', Fault)
        time.sleep(0.05)


def check_nothing_left(tap, sonded, n_fds):
    wait_for(lambda: all(state in ('finished', 'failed') for state in session_states().values()), 'the end of all sessions')
    wait_for(lambda: len(processes('sonde-capture')) == 1, 'the end of all workers but the spare one')
    wait_for(lambda: len(processes('sonde-broker')) <= 1, 'the end of all brokers but the spare one')
    wait_for(lambda: not holders('anon_inode:[perf_event]'), lambda: f'the end of the perf events of {holders("anon_inode:[perf_event]")}')
    wait_for(lambda: not fuse_mounts(), lambda: f'the end of {fuse_mounts()}')
    wait_for(lambda: count_fds(sonded) <= n_fds, f'{n_fds} descriptors of sonded, or fewer')
    check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'), Fault)
    kib = status_kib(sonded, 'VmRSS')
    tap.note(f'{kib} KiB of sonded after it')
    check(kib <= REST_KIB, f'sonded has {kib} KiB', Fault)


def under(tap, world, attack, what):
    """The case: what others have while it lasts. It is over when this returns."""
    sonded = main_pid()
    wait_for(lambda: len(processes('sonde-capture')) == 1, 'the spare worker')
    # It may be on its way to the next one.
    n_fds = max((count_fds(sonded), time.sleep(0.1))[0] for _ in range(10))
    with open(f'/proc/{sonded}/clear_refs', 'w', encoding='ascii') as file:
        file.write('5')  # its peak from now on
    bystander = world.bystander.start_recording('bystander.syscap', '-p', str(world.burner.pid))
    started, roles = [bystander], []
    watch = ProcessorWatch(lambda: processes('sonde-capture') + processes('sondectl'))
    watch.start()
    try:
        world.bystander.wait_for_capture('bystander.syscap')
        roles.append(Role(world.asker, 'probe', sonded, *processes('dbus-daemon'), prefix=()))
        attack.strike()
        everything = subprocess.Popen(['sondectl', 'record', '-a', '-o', '/tmp/everything.syscap'], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(everything)
        attack.wait_struck()
        time.sleep(STRIKE_SECONDS)
        roles[0].tell('stop')
        answers = json.loads('{' + roles[0].hear('{'))
        p99, longest = check_answers(tap, what, answers)
        check(main_pid() == sonded, 'sonded is another one', Fault)
        if attack.has_own_session:
            end_own_session(attack.role)
        # While it lasts.
        for process in (bystander, everything):
            process.send_signal(signal.SIGINT)
        finish(bystander, 'the recording of another user')
        finish(everything, 'root\'s recording')
        watch.stop()
        peak_kib = status_kib(sonded, 'VmHWM')
        tap.note(f'{peak_kib} KiB of sonded at most')
        check(peak_kib <= PEAK_KIB, f'sonded had {peak_kib} KiB', Fault)
        own = read_whole(f'{world.bystander.home}/bystander.syscap', watch)
        check('main' in names_of(own, world.burner.pid), 'another user\'s program has no names', Fault)
        whole = read_whole('/tmp/everything.syscap', watch)
        check('main' in names_of(whole, world.burner.pid), 'root sees no names of another user\'s program', Fault)
        # It cannot be held by what a stranger has mounted, so there is nothing to tell.
        check(not any('do not answer' in text for text in whole.logs), f'root\'s session was held: {whole.logs}', Fault)
        if attack.own_recording:
            attack.own_recording.send_signal(signal.SIGINT)
            output = finish(attack.own_recording, 'the stranger\'s own recording')
            check_told(Capture(f'{world.stranger.home}/stuck.syscap'), output, world.uid)
        check(p99 <= MAX_P99_MS and longest <= MAX_MS, f'without waiting for a processor p99 {p99:.1f} ms, the longest {longest:.1f} ms')
    finally:
        watch.stop()
        for process in started:
            process.kill()
        for role in roles:
            role.end()
        world.to_reap += started
    return sonded, n_fds


def case(tap, world, make_attack, what):
    """The attack, and what is left of it."""
    world.to_reap = []
    try:
        with make_attack() as attack:
            sonded, n_fds = under(tap, world, attack, what)
    finally:
        # Those that wait for the stranger end with him at the latest.
        for process in world.to_reap:
            process.communicate()
    check_nothing_left(tap, main_pid(), n_fds)
    check(attack.restarts_service or main_pid() == sonded, 'sonded is another one', Fault)
    # Nobody is refused any more.
    world.record_own()


def main():
    fuse = f'{PROGRAMS}/stuck-fuse'
    attacks = {
        'nothing': ('nothing', Nothing),
        'overlay': ('a program on an overlay over a file system that does not answer',
                    lambda: Waits(world, 'overlay', fuse, f'{PROGRAMS}/burn', is_recorded_by_owner=True)),
        # It does nothing that root's session would see and ask about.
        'exec': ('an exec that waits for a file system', lambda: Waits(world, 'exec', fuse, is_recorded_by_owner=False)),
        'descriptors': ('descriptors whose close() waits', lambda: Attack(world, 'descriptors', fuse, main_pid())),
        'flood': ('messages of 31 MiB', lambda: Attack(world, 'flood', prefix=())),
        'mappings': ('60,000 mappings and ever new files',
                     lambda: Attack(world, 'mappings', f'{PROGRAMS}/many-files', prefix=())),
        'disk': ('a disk that does not answer', lambda: State(world)),
        'journal': ('a journal that does not read', lambda: Journal(world)),
    }
    chosen = sys.argv[2:] or list(attacks)
    tap = Tap(len(chosen))
    world = World(sys.argv[1])
    run('systemctl', 'start', 'sonded')
    world.record_own()
    for what in chosen:
        name, make_attack = attacks[what]
        with tap.case(f'{name}: nobody else waits, loses or is refused anything'):
            if not os.path.exists('/dev/fuse'):
                raise Skip('this kernel has no FUSE')
            tap.measure(case, world, make_attack, what)
    tap.finish()


main()
