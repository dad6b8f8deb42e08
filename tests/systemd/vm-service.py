#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service below Debian's own kernel, all of whose settings are ours: vm-service.py BUILD"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from inside import DEADLINE_S, Capture, User, broker_units, check, processes, run, wait_until, worker_units
from tap import Tap

BURN = os.path.join(os.path.abspath(sys.argv[1]), 'tests/system/burn')
PARANOID = '/proc/sys/kernel/perf_event_paranoid'
CONFIGURATION = '/etc/sonde/sonded.conf'
PTRACE_SCOPE = '/proc/sys/kernel/yama/ptrace_scope'
# vm has put those of the checkout here.
DROP_IN = 'perf-event-paranoid.conf'
RULES = '60-sonde.rules'
RESTRICTED = ('kernel.perf_event_paranoid is %s: this kernel gives perf events to CAP_SYS_ADMIN alone, which the service '
              'has if it was built with the option perf_event_paranoid_drop_in (see sonded(8))')
SYS_ADMIN = 1 << 21
# Of a second of CPU time. The kernel finds that its emulated interrupts take long, and samples less often.
MIN_SAMPLES = 10
# A login at the machine itself, as a display manager makes it.
AT_THE_SEAT = ('systemd-run', '--quiet', '--wait', '--pipe', '--uid=alice', '--property=PAMName=login',
               '--property=TTYPath=/dev/tty1', '--setenv=XDG_SEAT=seat0', '--setenv=XDG_VTNR=1',
               '--working-directory=/home/alice')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read().strip()


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def refusal(*command, **options):
    """What a command that must fail says."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=DEADLINE_S, check=False, **options)
    check(result.returncode != 0, f'{" ".join(command)} succeeded: {result.stdout}')
    return result.stdout


def restart(paranoid):
    """A broker looks at the setting when it starts, and one is ready."""
    write(PARANOID, paranoid)
    before = processes('sonde-broker')
    run('systemctl', 'restart', 'sonded')
    wait_until(lambda: len(processes('sonde-broker')) == 1 and processes('sonde-broker') != before, 'a spare broker')


def permitted():
    """What a broker may raise. Nothing may be in effect, once it has begun."""
    wait_until(lambda: len(processes('sonde-broker')) == 1, 'a spare broker')
    pid, = processes('sonde-broker')
    wait_until(lambda: re.search(r'^CapEff:\t0+$', read(f'/proc/{pid}/status'), re.M), 'nothing in effect')
    status = read(f'/proc/{pid}/status')
    return int(re.search(r'^CapPrm:\t(\w+)$', status, re.M)[1], 16)


@contextlib.contextmanager
def configured(text):
    before = read(CONFIGURATION)
    write(CONFIGURATION, text)
    run('systemctl', 'reload', 'sonded')
    try:
        yield
    finally:
        write(CONFIGURATION, before)
        run('systemctl', 'reload', 'sonded')


def limits(pid):
    """{name: soft limit}"""
    return dict(re.findall(r'^(Max .*?)  +(\S+)', read(f'/proc/{pid}/limits'), re.M))


def names(capture):
    return {name for sample in capture.samples for name in capture.stack(sample)}


class Session:
    """A recording of alice's, and the worker it has got: the one that was ready."""

    def __init__(self, user, name, *arguments):
        wait_until(lambda: set(processes('sonde-capture')) - Session.taken, 'a spare worker')
        self.worker, = set(processes('sonde-capture')) - Session.taken
        Session.taken.add(self.worker)
        self.user, self.name = user, name
        self.process = user.start_recording(name, *arguments)
        path = os.path.join(user.home, name)
        wait_until(lambda: self.process.poll() is not None or os.path.exists(path) and os.path.getsize(path) > 0, name)
        check(self.process.poll() in (None, 0), f'{name} was refused')

    taken = set()

    def unit(self):
        return read(f'/proc/{self.worker}/cgroup').rsplit('/', 1)[1]

    def wait_for_more(self):
        path = os.path.join(self.user.home, self.name)
        size = os.path.getsize(path)
        wait_until(lambda: os.path.getsize(path) > size, f'more of {self.name}')

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.user.finish_recording(self.process, self.name)


def perf_cases(tap, alice):
    with tap.case('the machine is as Debian ships it: perf closed, Yama there, controllers too'):
        check(read(PARANOID) == '3', f'perf_event_paranoid is {read(PARANOID)}')
        check(os.path.exists(PTRACE_SCOPE), 'there is no Yama')
        controllers = read('/sys/fs/cgroup/cgroup.controllers')
        check({'cpu', 'memory', 'pids'} <= set(controllers.split()), f'controllers {controllers}')
        tap.note(f"Linux {os.uname().release}, systemd {run('systemctl', '--version').split()[1]}, "
                 f'{os.cpu_count()} processors, up for {time.clock_gettime(time.CLOCK_BOOTTIME):.1f} s')

    for paranoid in ('3', '4'):
        with tap.case(f'with {paranoid} and without the drop-in the error names setting, capability, option and page'):
            write(PARANOID, paranoid)
            output = refusal('sondectl', 'record', '--service', '-a', '-d', '1', '-o', '/tmp/none.syscap')
            check(RESTRICTED % paranoid in output, output)
            output = refusal('sondectl', 'record', '--embedded', '-o', 'none.syscap', '--', BURN, '1', **alice.options)
            check(RESTRICTED % paranoid in output, output)
            check(not permitted() & SYS_ADMIN, 'a broker may raise CAP_SYS_ADMIN')

    with tap.case('with it root profiles the machine, and a broker has one capability more to raise'):
        folder = '/etc/systemd/system/sonde-broker@.service.d'
        os.makedirs(folder)
        shutil.copy(DROP_IN, folder)
        run('systemctl', 'daemon-reload')
        restart('3')
        check(permitted() & SYS_ADMIN, 'it cannot raise CAP_SYS_ADMIN')
        busy = subprocess.Popen([BURN, '600'])
        run('sondectl', 'record', '-a', '-d', '2', '-o', '/tmp/all.syscap')
        busy.kill()
        busy.wait()
        run('sondectl', 'verify', '/tmp/all.syscap')
        capture = Capture('/tmp/all.syscap')
        tap.note(f'{len(capture.samples)} samples, {len({sample.cpu for sample in capture.samples})} processors')
        check(any(sample.pid == busy.pid for sample in capture.samples), 'no sample of the busy program')

    for paranoid in ('3', '4'):
        with tap.case(f'with {paranoid} who sits at the machine is not asked, and who does not needs an administrator'):
            restart(paranoid)
            name = f'seat-{paranoid}.syscap'
            run(*AT_THE_SEAT, 'sondectl', 'record', '-o', name, '--', BURN, '1')
            capture = Capture(os.path.join(alice.home, name))
            tap.note(f'{len(capture.samples)} samples in one second of CPU time')
            check(len(capture.samples) > MIN_SAMPLES, f'{len(capture.samples)} samples')
            check({'main', '__libc_start_main'} <= names(capture), f'only {names(capture)}')
            output = refusal('sondectl', 'record', '-o', 'none.syscap', '--', BURN, '1', **alice.options)
            check('profile-own-restricted: an administrator must authenticate' in output, output)

    with tap.case('the rule of the examples lets the members of a group, wherever they sit'):
        restart('3')
        run('groupadd', 'perf')
        run('usermod', '--append', '--groups', 'perf', 'alice')
        shutil.copy(RULES, '/etc/polkit-1/rules.d')
        run('systemctl', 'restart', 'polkit')
        capture = alice.record('own.syscap', '--', BURN, '1')
        check(len(capture.samples) > MIN_SAMPLES, f'{len(capture.samples)} samples')

    with tap.case('where 2 suffices a broker keeps no more than it needs, in spite of the drop-in'):
        restart('2')
        check(not permitted() & SYS_ADMIN, 'it may raise CAP_SYS_ADMIN')
        capture = alice.record('two.syscap', '--', BURN, '1')
        check(len(capture.samples) > MIN_SAMPLES, f'{len(capture.samples)} samples')
        restart('3')


def unit_cases(tap):
    with tap.case('a unit is profiled through its control group: what it starts later, and nothing else'):
        run('systemd-run', '--quiet', '--unit=sonde-unit.service', '--property=CPUQuota=80%', 'bash', '-c',
            f'while :; do {BURN} 0.05; done')
        run('systemd-run', '--quiet', '--unit=sonde-other.service', BURN, '600')
        run('sondectl', 'record', '--unit=sonde-unit.service', '-d', '3', '-o', '/tmp/unit.syscap')
        other = int(run('systemctl', 'show', '--value', '--property=MainPID', 'sonde-other.service'))
        run('systemctl', 'stop', 'sonde-unit.service', 'sonde-other.service')
        run('sondectl', 'verify', '/tmp/unit.syscap')
        capture = Capture('/tmp/unit.syscap')
        pids = {sample.pid for sample in capture.samples}
        tap.note(f'{len(capture.samples)} samples of {len(pids)} processes in 3 s')
        check(len(pids) > 3 and other not in pids, f'samples of {pids}; {other} is another unit\'s')
        # A note would say that its members are followed instead.
        check('watched one by one' not in run('sondectl', 'dump', '/tmp/unit.syscap'), 'members are followed')


def wait_for_journal(text, *arguments):
    """journald reads what it is sent in its own time."""
    wait_until(lambda: text in run('journalctl', '--quiet', *arguments), text)


def limit_cases(tap, alice, target):
    with tap.case('the limits of the units are those of the processes'):
        session = Session(alice, 'limits.syscap', '-p', target)
        sonded, = processes('sonded')
        brokers = [(int(run('systemctl', 'show', '--value', '--property=MainPID', unit)), unit) for unit in broker_units()]
        check(brokers, 'there is no broker')
        for pid, unit in ((sonded, 'sonded.service'), (session.worker, session.unit()), *brokers):
            wanted = run('systemctl', 'show', '--value', '--property=LimitNOFILE', unit).strip()
            check(limits(pid)['Max open files'] == wanted, f'{unit}: {limits(pid)}')
        # The unit allows what 4096 processors need; the worker keeps what those of this machine do.
        locked = int(limits(session.worker)['Max locked memory'])
        tap.note(f'locked memory: {locked >> 20} MiB')
        check(locked == os.sysconf('SC_NPROCESSORS_CONF') * 17 << 20, f'{locked} bytes')
        group = f'/sys/fs/cgroup/{read(f"/proc/{session.worker}/cgroup").split(":")[2]}'
        check(read(f'{group}/memory.max') == str(512 << 20), read(f'{group}/memory.max'))
        check(read(f'{group}/pids.max') == '16', read(f'{group}/pids.max'))
        wait_until(lambda: read(f'{group}/cpu.max') == '100000 100000', 'all that its user may take')
        for _, unit in brokers:
            group = f'/sys/fs/cgroup/{run("systemctl", "show", "--value", "--property=ControlGroup", unit).strip()}'
            check(read(f'{group}/pids.max') == '64', read(f'{group}/pids.max'))
        session.end()

    with tap.case('a worker that would take more CPU time than its user may gets no more'), \
            configured('[Limits]\nuid-cpu-percent=40\n'), contextlib.ExitStack() as ends:
        sessions = [Session(alice, f'much-{i}.syscap', '-F', '20000', '--stack-size', '65280', '-p', target)
                    for i in range(2)]
        for session in sessions:
            ends.callback(session.end)
        groups = [f'/sys/fs/cgroup/{read(f"/proc/{session.worker}/cgroup").split(":")[2]}' for session in sessions]
        for group in groups:
            check('/sonde.slice/' in group, group)
            wait_until(lambda: read(f'{group}/cpu.max') == '20000 100000', 'its part')
            check(read(f'{group}/cpu.weight') == '50', read(f'{group}/cpu.weight'))

        def used_us():
            return sum(int(re.search(r'^usage_usec (\d+)$', read(f'{group}/cpu.stat'), re.M)[1]) for group in groups)

        before_us, start = used_us(), time.monotonic()
        wait_until(lambda: time.monotonic() - start > 10, 'ten seconds', poll_seconds=1)
        percent = (used_us() - before_us) / (time.monotonic() - start) / 1e4
        tap.note(f'{percent:.1f} % of a processor')
        check(percent < 45, f'{percent:.1f} %')

    with tap.case('a worker that needs more memory than it may have ends its session, which says so, and no other'):
        victim = Session(alice, 'victim.syscap', '-p', target)
        other = Session(alice, 'other.syscap', '-p', target)
        unit = victim.unit()
        run('systemctl', 'set-property', '--runtime', unit, 'MemoryMax=256K')
        output, _ = victim.process.communicate(timeout=DEADLINE_S)
        check(victim.process.returncode == 125 and 'needed more memory than it may have' in output, output)
        # Whole frames only, or reading fails; its ledger may be open.
        check(Capture(os.path.join(alice.home, 'victim.syscap')).samples, 'no sample is left')
        other.wait_for_more()
        other.end()
        wait_for_journal('needed more memory than it may have', '--output=cat', '--output-fields=SONDE_DETAIL',
                         'SONDE_EVENT=worker-died')
        wait_for_journal("Failed with result 'oom-kill'", f'--unit={unit}')


def clock_cases(tap, alice, target):
    with tap.case('a wall clock that is set by two hours and back does a session no harm'):
        start_ns = time.monotonic_ns()
        session = Session(alice, 'clock.syscap', '-p', target)
        for hours in (2, -2):
            time.clock_settime(time.CLOCK_REALTIME, time.time() + hours * 3600)
            session.wait_for_more()
        capture = session.end()
        end_ns = time.monotonic_ns()
        times = [sample.time_ns for sample in capture.samples]
        check(start_ns < min(times) and max(times) < end_ns, f'{min(times)} to {max(times)}')
        of_cpu = {}
        for sample in capture.samples:
            check(sample.time_ns >= of_cpu.get(sample.cpu, 0), f'time goes back on processor {sample.cpu}')
            of_cpu[sample.cpu] = sample.time_ns
        tap.note(f'{len(times)} samples in {(end_ns - start_ns) / 1e9:.1f} s')

    with tap.case('nor does it end one that has a duration early'):
        session = Session(alice, 'duration.syscap', '-d', '10', '-p', target)
        time.clock_settime(time.CLOCK_REALTIME, time.time() + 7200)
        capture = alice.finish_recording(session.process, 'duration.syscap')
        time.clock_settime(time.CLOCK_REALTIME, time.time() - 7200)
        seconds = (capture.samples[-1].time_ns - capture.samples[0].time_ns) / 1e9
        check(5 < seconds < 3600, f'{seconds} s')


def switch(cpu, is_on):
    write(f'/sys/devices/system/cpu/cpu{cpu}/online', '1' if is_on else '0')


def processor_cases(tap):
    with tap.case('a processor that goes off and comes back while sonded is away is noticed by the next one'):
        cpu, path = 1, '/tmp/away.syscap'
        busy = subprocess.Popen([BURN, '600'], stdout=subprocess.DEVNULL)
        os.sched_setaffinity(busy.pid, {cpu})
        recording = subprocess.Popen(['sondectl', 'record', '-a', '-F', '99', '-o', path], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, path)
        sonded, = processes('sonded')
        os.kill(sonded, signal.SIGSTOP)
        off_s = time.monotonic()
        switch(cpu, False)
        switch(cpu, True)
        back_ns = time.monotonic_ns()
        os.sched_setaffinity(busy.pid, {cpu})
        run('systemctl', 'reset-failed', 'sonded')  # started more often than a service may crash
        os.kill(sonded, signal.SIGKILL)

        gap = re.compile(rb'Processor %d was off between ([0-9.]+) s and ([0-9.]+) s' % cpu)
        wait_until(lambda: gap.search(pathlib.Path(path).read_bytes()), 'word of the gap', poll_seconds=0.5)
        size = os.path.getsize(path)
        wait_until(lambda: os.path.getsize(path) > size, 'more samples')
        recording.send_signal(signal.SIGINT)
        output, _ = recording.communicate(timeout=DEADLINE_S)
        busy.kill()
        busy.wait()
        check(recording.returncode == 0, output)
        run('sondectl', 'verify', path)
        gaps = gap.findall(pathlib.Path(path).read_bytes())
        begin_s, end_s = (float(number) for number in gaps[0])
        after = [sample for sample in Capture(path).samples if sample.cpu == cpu and sample.time_ns > back_ns]
        tap.note(f'off at {off_s:.2f} s, back at {back_ns / 1e9:.2f} s; told: between {begin_s} s and {end_s} s; '
                 f'{len(after)} samples since')
        check(len(gaps) == 1 and begin_s < back_ns / 1e9 < end_s, f'{gaps}')
        check(after, 'no sample on the processor that came back')


def yama_cases(tap, alice, target):
    """The last: Yama's third scope stays until the machine ends."""
    stranger = subprocess.Popen(['sleep', 'infinity'])
    for scope in ('0', '1', '2', '3'):
        with tap.case(f'with ptrace_scope {scope} a user proves what is his, and nothing else'):
            write(PTRACE_SCOPE, scope)
            name = f'yama-{scope}.syscap'
            capture = alice.record(name, '-d', '0.5', '-p', target)
            check({str(sample.pid) for sample in capture.samples} == {target}, 'other processes')
            output = refusal('sondectl', 'record', '-d', '0.5', '-o', 'none.syscap', '-p', str(stranger.pid),
                             **alice.options)
            check('profile-others: an administrator must authenticate' in output, output)
    stranger.kill()
    stranger.wait()


def main():
    tap = Tap(20)
    alice = User('alice')
    perf_cases(tap, alice)
    unit_cases(tap)
    busy = alice.start('bash', '-c', 'while :; do :; done')
    target = str(busy.pid)
    limit_cases(tap, alice, target)
    clock_cases(tap, alice, target)
    processor_cases(tap)
    with tap.case('no unit has failed'):
        check(run('systemctl', '--failed', '--no-legend') == '', run('systemctl', '--failed', '--full'))
    yama_cases(tap, alice, target)
    busy.kill()
    busy.wait()
    tap.finish()


main()
