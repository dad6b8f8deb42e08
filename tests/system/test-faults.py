#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls that fail, one at a time, in sonded and in its worker: test-faults.py BUILD. Each
recording ends by itself, and what it wrote is whole. SONDE_TEST_LONG=1 tries all."""

import itertools
import os
import random
import subprocess
import tempfile

from system import System, check

IS_LONG = os.environ.get('SONDE_TEST_LONG') == '1'
N_TRIES = 60
DEADLINE_S = 30  # of a recording of half a second, on a crowded machine
CALLS = {
    'openat': ('EMFILE', 'EACCES', 'EIO'),
    'read': ('EIO', 'EINTR', 'EAGAIN'),
    'pread64': ('EIO', 'EINTR'),
    'mmap': ('ENOMEM', 'EPERM'),
    'fcntl': ('EMFILE', 'EINVAL'),
    'ioctl': ('EINVAL', 'ENOMEM'),
    'perf_event_open': ('EMFILE', 'ENODEV', 'ESRCH', 'ENOMEM'),
    'socketpair': ('EMFILE', 'ENFILE'),
    'sendmsg': ('ENOBUFS', 'EPIPE', 'ETOOMANYREFS'),
    'recvmsg': ('EINTR', 'ECONNRESET'),
    'newfstatat': ('ENOENT', 'EIO'),
    'pidfd_open': ('EMFILE', 'ESRCH'),
    'clone3': ('EAGAIN', 'ENOMEM'),
    'poll': ('EINTR', 'ENOMEM'),
}
FIRST_CALLS = range(1, 51)
TRACER = '''#!/bin/sh
exec strace -f -qq -o /dev/null -e trace={call} -e inject={call}:error={error}:when={when} {program} "$@"
'''


def make_tracer(system, program, call, error, when):
    """A program that is the other one under strace."""
    handle, path = tempfile.mkstemp(dir=system.folder)
    with os.fdopen(handle, 'w') as script:
        script.write(TRACER.format(call=call, error=error, when=when, program=program))
    os.chmod(path, 0o755)
    return path


def try_fault(system, role, call, error, when):
    """A sentence on what went wrong, or None; and whether the recording was made all the same."""
    programs = {'sonded': system.program('daemon/control/sonded'),
                'worker': system.program('daemon/capture/sonde-capture')}
    programs[role] = make_tracer(system, programs[role], call, error, when)
    output = system.path('faulty.syscap')
    command = [system.program('client/sondectl'), 'record', '--embedded', f"--sonded={programs['sonded']}",
               f"--worker={programs['worker']}", '-o', output, '--', system.program('tests/system/burn'), '0.3']
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, start_new_session=True) as recording:
        try:
            text, _ = recording.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(recording.pid, 9)
            recording.communicate()
            return 'it hangs', False
    status = recording.returncode
    if status < 0 or 'CRITICAL' in text or 'Assertion' in text or 'ERROR:' in text:
        return f'exit status {status}: {text}', False
    if status and not text.strip():
        return f'exit status {status} without a word', False
    if os.path.exists(output):
        verify = subprocess.run([system.program('client/sondectl'), 'verify', output], capture_output=True,
                                text=True, check=False)
        os.unlink(output)
        if verify.returncode != 0 and status == 0:
            return f'a bad capture: {verify.stdout}{verify.stderr}', False
    return None, status == 0


def list_faults():
    faults = [(role, call, error, when) for role in ('sonded', 'worker')
              for call, errors in CALLS.items() for error in errors for when in FIRST_CALLS]
    if IS_LONG:
        return faults
    # Each call of each program, and then by chance, the same in each run; early ones fail start-up.
    chosen = random.Random(1)
    by_call = {}
    for fault in faults:
        by_call.setdefault(fault[:2], []).append(fault)
    rounds = (chosen.choice([fault for fault in kind if fault[3] <= limit])
              for limit in itertools.cycle((3, 12, 50)) for kind in by_call.values())
    return list(itertools.islice(rounds, N_TRIES))


def test_faults(system):
    faults = list_faults()
    wrong, n_made = [], 0
    for fault in faults:
        what, is_made = try_fault(system, *fault)
        n_made += is_made
        if what:
            wrong.append(f'{fault}: {what}')
            system.note(wrong[-1])
    system.note(f'{len(faults)} faults: {n_made} recordings all the same, {len(faults) - n_made - len(wrong)} '
                f'errors, {len(wrong)} wrong')
    check(not wrong, f'{len(wrong)} faults end badly')


def main():
    system = System(1)
    with system.case('no system call that fails makes a recording hang or a capture bad'):
        test_faults(system)
    system.finish()


main()
