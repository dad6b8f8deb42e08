#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sessions that take more CPU time than their owner's uid may: test-budget.py SOURCE BUILD"""

import os
import re
import signal
import sys
import time

from service import Service, wait_for
from tap import DEADLINE_S, check

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'system'))
from capture import Capture  # noqa: E402

PERCENT = 1
N_SESSIONS = 4
SLOWED = 'Nothing is recorded for a while'
RESUMED = 'Recorded again, after'
ENDED = 'took more CPU time than they may (uid-cpu-percent'
DEAREST = ('-F', '20000', '--stack-size', '65280')


class Recording:
    """A session of a user's, through sondectl."""

    def __init__(self, service, sondectl, user, folder, name, *arguments):
        before = {number for number, _, _ in service.list_sessions()}
        self.path = os.path.join(folder, name)
        self.process = service.start(user, sondectl, 'record', '-o', self.path, *arguments)
        self.number = wait_for(lambda: [number for number, owner, state in service.list_sessions()
                                        if owner == user and state == 'running' and number not in before],
                               f'the session of {name}')[0]

    def has_said(self, text):
        with open(self.path, 'rb') as file:
            return text.encode() in file.read()

    def is_over(self):
        return self.process.poll() is not None

    def end(self):
        """Returns its exit status and what it printed."""
        if not self.is_over():
            self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, output + errors


def check_gaps(capture):
    """No sample while nothing is recorded. Returns how many gaps there are."""
    n_gaps = 0
    begin_ns = None
    for time_ns, text in sorted(zip(capture.log_times, capture.logs)):
        if SLOWED in text:
            begin_ns = time_ns
        elif RESUMED in text:
            within = [sample.time_ns for sample in capture.samples if begin_ns < sample.time_ns < time_ns]
            check(not within, f'{len(within)} samples between {begin_ns} and {time_ns}')
            n_gaps += 1
    return n_gaps


def count_reads(pid):
    """System calls, since it began: what a loop that never sleeps has most of."""
    with open(f'/proc/{pid}/io', encoding='ascii') as file:
        return int(re.search(r'^syscr: (\d+)$', file.read(), re.M)[1])


def main():
    service = Service(6)
    with open(os.environ['PRIVATE_BUS_CONFIGURATION'], 'w', encoding='utf-8') as file:
        file.write(f'[Limits]\nuid-cpu-percent={PERCENT}\n')
    sondectl = service.install_sondectl()
    greedy, modest = service.next_user(), service.next_user()
    folders = {user: service.make_folder(user) for user in (0, greedy, modest)}
    burn = service.install('tests/system/burn')
    targets = {user: service.start(user, burn, '600').pid for user in folders}
    wait_for(lambda: all(os.readlink(f'/proc/{pid}/exe') == burn for pid in targets.values()), 'their programs')

    def record(user, name, *arguments):
        return Recording(service, sondectl, user, folders[user], name, '-p', str(targets[user]), *arguments)

    other = record(modest, 'other.syscap', '-F', '1')  # within the budget of any build
    root = record(0, 'root.syscap', *DEAREST)
    recordings = [record(greedy, f'{i}.syscap', *DEAREST) for i in range(N_SESSIONS)]
    with service.case('sessions over the budget of their user record nothing for a while'):
        slowed = wait_for(lambda: [one for one in recordings if one.has_said(SLOWED)], 'a session that is slowed')[0]

    with service.case('their user cannot have them go on before'):
        states = []
        for command in ('pause', 'resume'):
            result = service.run(greedy, sondectl, command, str(slowed.number))
            check(result.returncode == 0, f'{command}: {result.stderr}')
            states += [state for number, _, state in service.list_sessions() if number == slowed.number]
        check(states == ['paused', 'running'], f'states {states}')
        wait_for(lambda: slowed.has_said(RESUMED), 'that it goes on')

    with service.case('then one ends, whose capture and error say why'):
        ended = wait_for(lambda: [one for one in recordings if one.is_over()], 'the end of a session')[0]
        status, output = ended.end()
        check(status == 125 and ENDED in output, f'exit status {status}: {output}')
        check(any(ENDED in text for text in Capture(ended.path).logs), 'its capture does not say so')

    with service.case('what they have recorded is whole, and nothing of it is from a time at which nothing was'):
        for one in recordings:
            one.end()
        n_gaps = 0
        for one in recordings:
            result = service.run(greedy, sondectl, 'verify', one.path)
            check(result.returncode == 0, result.stdout + result.stderr)
            n_gaps += check_gaps(Capture(one.path))
        service.note(f'{n_gaps} times')
        check(n_gaps > 0, 'no session went on')

    with service.case('sessions of others and of root lose nothing by it'):
        for one in (other, root):
            status, output = one.end()
            logs = [text for text in Capture(one.path).logs if 'uid-cpu-percent' in text]
            check(status == 0 and not logs, f'{one.path}: exit status {status}: {output}{logs}')

    with service.case('the service itself sleeps when nobody asks it anything'):
        before = count_reads(service.daemon_pid())
        time.sleep(2)
        n_reads = count_reads(service.daemon_pid()) - before
        service.note(f'{n_reads} reads')
        check(n_reads < 1000, f'{n_reads} reads in two seconds')

    service.finish()


main()
