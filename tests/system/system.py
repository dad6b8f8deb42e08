# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the system tests share: the built programs, a place for captures, TAP."""

import contextlib
import ctypes
import os
import re
import subprocess
import sys
import time

import capture

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from leftovers import make_folder  # noqa: E402
from tap import DEADLINE_S, Fault, Tap, check  # noqa: E402

# Of Debian's libllvm14, the largest unwind data there is, with two functions that do some work.
LARGE_LIBRARY = ('libLLVM-14.so.1', 'LLVMContextCreate', 'LLVMContextDispose')
PERF_EVENT_OPEN = {'x86_64': 298, 'aarch64': 241}


def find_obstacle():
    """Why perf events cannot be had here, or None."""
    if os.geteuid() != 0:
        return 'needs root'
    number = PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        return f'not for {os.uname().machine}'
    # A disabled cpu-clock event (type 1, size 64, config 0) on this thread.
    attributes = (ctypes.c_uint64 * 16)(1 | 64 << 32, 0, 0, 0, 0, 1)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(number, attributes, 0, -1, -1, 0)
    if fd < 0:
        return f'the kernel refuses perf_event_open: {os.strerror(ctypes.get_errno())}'
    os.close(fd)
    return None


def find_library(name):
    """Its path, as the dynamic linker finds it, or None."""
    listing = subprocess.run(['ldconfig', '-p'], capture_output=True, text=True, check=False,
                             env={'PATH': f"{os.environ['PATH']}:/usr/sbin:/sbin"}).stdout
    match = re.search(rf'^\s*{re.escape(name)} .*=> (.*)$', listing, re.M)
    return match[1] if match else None


def find_release(folder, release):
    """The root of a Debian release as tests/lib/get-release.sh made it, whose programs chroot runs, or None."""
    root = os.path.join(folder, release)
    return root if folder and os.path.exists(os.path.join(root, '.complete')) and os.geteuid() == 0 else None


class System(Tap):
    """One test program. The first argument is the build tree."""

    def __init__(self, n_cases):
        self.build = sys.argv[1]
        obstacle = find_obstacle()
        if obstacle:
            print(f'1..0 # SKIP {obstacle}')
            sys.exit(0)
        super().__init__(n_cases)
        self.folder = make_folder('sonde-system-')
        # For those that are not started by the build's own sondectl.
        os.environ['SONDE_BROKER'] = self.program('daemon/broker/sonde-broker')

    def program(self, path):
        return os.path.join(self.build, path)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments, timeout=DEADLINE_S):
        """Output of a program that must succeed."""
        result = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=timeout, check=False)
        check(result.returncode == 0, f'{" ".join(arguments)}: exit status {result.returncode}\n'
              f'{result.stdout}{result.stderr}', Fault)
        return result.stdout

    def sondectl(self, *arguments, timeout=DEADLINE_S):
        return self.run(self.program('client/sondectl'), *arguments, timeout=timeout)

    def start_recording(self, name, *arguments, prefix=(), worker=None):
        """Through the program that prefix names, if any; with another worker than the built one."""
        command = [*prefix, self.program('client/sondectl'), 'record', '--embedded',
                   f"--sonded={self.program('daemon/control/sonded')}",
                   f"--worker={worker or self.program('daemon/capture/sonde-capture')}", '-o', self.path(name)]
        return subprocess.Popen(command + list(arguments), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish_recording(self, process, name, timeout=DEADLINE_S, with_meanings=False):
        """Waits, verifies and reads. Returns (Capture, what the command printed)."""
        output, errors = process.communicate(timeout=timeout)
        check(process.returncode == 0, f'record: exit status {process.returncode}\n{output}{errors}', Fault)
        self.sondectl('verify', self.path(name))
        result = capture.Capture(self.path(name), with_meanings)
        check(not result.ledger_faults(), '\n'.join(result.ledger_faults()), Fault)
        return result, output

    def wait_for_samples(self, name, n_samples=1):
        """Until the capture that is being written has so many."""
        wait_until(lambda: capture.count_samples(self.path(name)) >= n_samples, f'{n_samples} samples')

    def wait_for_worker(self, recording):
        return wait_until(lambda: find_descendant(recording.pid, 'sonde-capture'), 'the worker')

    def record(self, name, *arguments, prefix=()):
        return self.finish_recording(self.start_recording(name, *arguments, prefix=prefix), name)

    def dump_counts(self, name):
        """Frames per type, as sondectl counts them."""
        return read_counts(self.sondectl('dump', '--counts', self.path(name)))


def read_seconds(output):
    """What burn printed, wherever sondectl's own lines are."""
    return float(re.search(r'^(\d+\.\d+)$', output, re.M)[1])


def read_counts(text):
    """Lines such as "file-chunk 3" as {'FILE_CHUNK': 3}."""
    return {match[1].upper().replace('-', '_'): int(match[2])
            for match in re.finditer(r'^([\w-]+) (\d+)$', text, re.M)}


def wait_until(condition, what):
    """Its first true value."""
    end = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        check(time.monotonic() < end, f'{what} never came')
        time.sleep(0.02)
    return value


def find_descendants(pid, name):
    """The pids of the processes called name below pid."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            with open(f'/proc/{entry}/stat', encoding='utf-8', errors='replace') as stat:
                comm, rest = stat.read().split('(', 1)[1].rsplit(')', 1)
            parents[int(entry)] = int(rest.split()[1]), comm
    found = []
    for candidate, (parent, comm) in parents.items():
        if comm == name[:15]:
            while parent in parents and parent != pid:
                parent = parents[parent][0]
            if parent == pid:
                found.append(candidate)
    return found


def find_descendant(pid, name):
    """The pid of the process called name below pid, or None."""
    return next(iter(find_descendants(pid, name)), None)