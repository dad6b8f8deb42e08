# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recordings in which a program is let down: none may hang, none may leave a bad capture, and one that was not
made says why."""

import collections
import contextlib
import itertools
import os
import random
import signal
import subprocess
import time

PROGRAMS = {'sonded': 'daemon/control/sonded', 'worker': 'daemon/capture/sonde-capture'}
HANG_S = 5       # more than without a fault
DEADLINE_S = 120  # nobody waits longer
SECONDS = '0.05'  # of CPU time that is recorded

# What is wrong, or None; whether there is a whole capture; how long it took.
Outcome = collections.namedtuple('Outcome', 'wrong is_made seconds')


def write_script(system, name, command):
    """A program that is another one, in other circumstances."""
    path = system.path(name)
    with open(path, 'w', encoding='utf-8') as script:
        script.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(path, 0o755)
    return path


def judge(system, status, text, output):
    """A sentence, or None."""
    if status < 0 or any(word in text for word in ('CRITICAL', 'Assertion', 'ERROR: AddressSanitizer')):
        return f'exit status {status}: {text}'
    if status and not text.strip():
        return f'exit status {status} without a word'
    if os.path.exists(output):
        verify = subprocess.run([system.program('client/sondectl'), 'verify', output], capture_output=True,
                                text=True, check=False)
        # Of a recording that failed it may be cut short, which verify tells from broken.
        if verify.returncode != 0 and (status == 0 or verify.returncode != 2):
            return f'a bad capture, status {status}: {text}{verify.stdout}{verify.stderr}'
    elif status == 0:
        return f'no capture: {text}'
    return None


def kill_session(leader):
    """All that the leader of a session, which has been waited for or not, has started and left behind."""
    for entry in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            with open(f'/proc/{entry}/stat', encoding='utf-8', errors='replace') as stat:
                session = int(stat.read().rsplit(')', 1)[1].split()[3])
            if session == leader:
                os.kill(int(entry), signal.SIGKILL)


def record_once(system, programs):
    """With the programs of this dictionary instead of the built ones."""
    paths = {role: programs.get(role, system.program(path)) for role, path in PROGRAMS.items()}
    output = system.path('faulty.syscap')
    command = [system.program('client/sondectl'), 'record', '--embedded', f"--sonded={paths['sonded']}",
               f"--worker={paths['worker']}", '-o', output, '--', system.program('tests/system/burn'), SECONDS]
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors='replace', start_new_session=True) as recording:
        try:
            text, _ = recording.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            kill_session(recording.pid)
            recording.communicate()
            return Outcome('it hangs', False, DEADLINE_S)
    seconds = time.monotonic() - start
    wrong = judge(system, recording.returncode, text, output)
    if os.path.exists(output):
        os.unlink(output)
    return Outcome(wrong, not wrong and recording.returncode == 0, seconds)


def try_fault(system, programs):
    """What took long is tried again: a fault is the same each time, what else the machine has to do is not."""
    for _ in range(3):
        outcome = record_once(system, programs)
        if outcome.wrong or outcome.seconds < HANG_S:
            return outcome
        # Without a fault the same machine takes how long at this moment?
        if outcome.seconds < HANG_S + record_once(system, {}).seconds:
            return outcome
    return outcome._replace(wrong=f'it hangs for {outcome.seconds:.1f} s', is_made=False)


def try_faults(system, faults, make_programs):
    """Those of the list; what is wrong, as sentences."""
    outcomes = []
    for fault in faults:
        outcome = try_fault(system, make_programs(*fault))
        outcomes.append(outcome)
        if outcome.wrong:
            system.note(f'{fault}: {outcome.wrong}')
    n_wrong = sum(outcome.wrong is not None for outcome in outcomes)
    n_made = sum(outcome.is_made for outcome in outcomes)
    system.note(f'{len(faults)} faults: {n_made} recordings all the same, {len(faults) - n_made - n_wrong} errors, '
                f'{n_wrong} wrong; the longest took {max(outcome.seconds for outcome in outcomes):.1f} s')
    return n_wrong


def choose(faults_by_kind, n_tries):
    """Each kind in turn, by chance but the same in each run; early ones, which fail start-up, more often."""
    chosen = random.Random(1)
    kinds = [faults for faults in faults_by_kind if faults]
    rounds = (chosen.choice(kind[:max(1, len(kind) * percent // 100)])
              for percent in itertools.cycle((10, 30, 100)) for kind in kinds)
    return list(itertools.islice(rounds, n_tries))
