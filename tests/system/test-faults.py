#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls that fail, one at a time, in sonded and in its worker: test-faults.py BUILD. Each
recording ends by itself, and what it wrote is whole. SONDE_TEST_LONG=1 tries all."""

import collections
import os

from faults import PROGRAMS, choose, record_once, try_faults, write_script
from system import System, check

IS_LONG = os.environ.get('SONDE_TEST_LONG') == '1'
N_TRIES = 120
# Not write(): both programs wake their own threads by it, where no kernel lets it fail, and send what they have to
# say by sendmsg(). A file that cannot be written is tests/bus/test-full-disk.py's. And not EPIPE: it tells of a peer
# that has gone, whose last words are waited for.
CALLS = {
    'openat': ('EMFILE', 'EACCES', 'EIO'),
    'read': ('EIO', 'EINTR', 'EAGAIN'),
    'pread64': ('EIO', 'EINTR'),
    'close': ('EIO', 'EINTR'),
    'mmap': ('ENOMEM', 'EPERM'),
    'mprotect': ('ENOMEM', 'EACCES'),
    'fcntl': ('EMFILE', 'EINVAL'),
    'ioctl': ('EINVAL', 'ENOMEM'),
    'perf_event_open': ('EMFILE', 'ENODEV', 'ESRCH', 'ENOMEM'),
    'socketpair': ('EMFILE', 'ENFILE'),
    'sendmsg': ('ENOBUFS', 'ENOMEM', 'ETOOMANYREFS'),
    'recvmsg': ('EINTR', 'ECONNRESET'),
    'getsockopt': ('ENOBUFS', 'ENOPROTOOPT'),
    'setsockopt': ('ENOBUFS', 'EPERM'),
    'newfstatat': ('ENOENT', 'EIO'),
    'getdents64': ('EIO', 'ENOENT'),
    'pidfd_open': ('EMFILE', 'ESRCH'),
    'memfd_create': ('EMFILE', 'ENOMEM'),
    'eventfd2': ('EMFILE', 'ENOMEM'),
    'clone3': ('EAGAIN', 'ENOMEM'),
    'poll': ('EINTR', 'ENOMEM'),
    'prctl': ('EINVAL', 'EPERM'),
    'seccomp': ('EINVAL', 'ENOMEM'),
    'capset': ('EPERM',),
    'prlimit64': ('EPERM', 'EINVAL'),
}


def trace(system, role, options):
    """The program of this role, under strace, with all its threads. What sonded starts, its worker, comes with it
    and is let down at a call of its own."""
    command = f'strace -f -qq {options} {system.program(PROGRAMS[role])}'
    return {role: write_script(system, f'traced-{role}', command)}


def make_programs(system, role, call, error, when):
    return trace(system, role, f'-o /dev/null -e trace={call} -e inject={call}:error={error}:when={when}')


def count_calls(system, role):
    """Of each kind, in one session that gets what it asks for."""
    log = system.path('calls')
    outcome = record_once(system, trace(system, role, f'-o {log} -e trace={",".join(CALLS)}'))
    check(outcome.is_made, f'no recording: {outcome.wrong}')
    with open(log, encoding='utf-8', errors='replace') as lines:
        # "PID CALL(…"
        return collections.Counter(line.split(None, 1)[1].split('(')[0] for line in lines)


def main():
    system = System(len(PROGRAMS))
    for role in PROGRAMS:
        with system.case(f'no system call of the {role} that fails makes a recording hang or a capture bad'):
            counts = count_calls(system, role)
            system.note(', '.join(f'{call} {counts[call]}' for call in CALLS if counts[call]))
            kinds = [[(role, call, error, when) for when in range(1, counts[call] + 1) for error in errors]
                     for call, errors in CALLS.items()]
            faults = sum(kinds, []) if IS_LONG else choose(kinds, N_TRIES // len(PROGRAMS))
            n_wrong = try_faults(system, faults, lambda *fault: make_programs(system, *fault))
            check(n_wrong == 0, f'{n_wrong} of them end badly')
    system.finish()


main()
