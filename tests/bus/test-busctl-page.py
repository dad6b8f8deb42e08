#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs docs/busctl.md: test-busctl-page.py SOURCE BUILD

Every console block is a case. Its commands go to one shell for each prompt, from the top of the page
to its end; what they print must have the shape that the page shows. A line ^C interrupts a command
once it has printed what stands above.
"""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import systemd
from service import DEADLINE_S, Service, wait_for
from tap import check

BLOCK = re.compile(r'^```console\n(.*?)^```$', re.M | re.S)
PROMPT = re.compile(r'^([#$]) (.*)$')
MARK = 'end-of-command'
# What the page calls what the private bus has elsewhere.
STATE_DIRECTORY = '/var/lib/sonde'


def parse_page(text):
    """[(first command, [(prompt, command, [expected line])])] for each block."""
    blocks = []
    for block in BLOCK.findall(text):
        commands = []
        for line in block.splitlines():
            command = PROMPT.match(line)
            if command:
                commands.append((command[1], command[2], []))
            else:
                commands[-1][2].append(line)
        blocks.append((commands[0][1], commands))
    return blocks


def make_pattern(lines):
    """One line of … stands for any lines; … for anything in a line; a number for any number, but in an
    object path; runs of spaces are alike."""
    pattern = ''
    for line in lines:
        if line == '…':
            pattern += r'(?:[^\n]*\n)*?'
            continue
        words = [r'[^\n]*' if word == '…' else r'\d+' if word.isdigit() else ' +' if word.isspace()
                 else re.escape(word) for word in re.split(r'(…|(?<!/session/)(?<!\d)\d+| +)', line) if word]
        # Space before or behind anything is part of it.
        pattern += re.sub(r'(?: \+)?(\[\^\\n\]\*)(?: \+)?', r'\1', ''.join(words)) + r' *\n'
    return re.compile(pattern + r'\Z')


class Shell:
    """Commands one after the other, with their output and errors in one stream."""

    def __init__(self, service, user):
        environment = {**os.environ, 'LC_ALL': 'C.UTF-8', 'SYSTEMD_COLORS': '0', 'SYSTEMD_PAGER': '',
                       'PATH': f'{service.folder}:{os.environ["PATH"]}'}
        self.process = service.start(user, 'bash', '--norc', stdin=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, env=environment)
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def children(self):
        path = f'/proc/{self.process.pid}/task/{self.process.pid}/children'
        with open(path, encoding='utf-8') as file:
            return [int(pid) for pid in file.read().split()]

    def run(self, command, interrupt_after=None):
        """What it prints. interrupt_after: a pattern after which the newest child gets SIGINT."""
        print(f'{command}\necho; echo {MARK}', file=self.process.stdin, flush=True)
        output = ''
        deadline = time.monotonic() + DEADLINE_S
        while not output.endswith(f'\n{MARK}\n'):
            try:
                output += self.lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty as error:
                raise AssertionError(f'no end of: {command}\n{output[-1000:]}') from error
            if interrupt_after and interrupt_after.match(output):
                os.kill(wait_for(self.children, 'a child of the shell')[-1], signal.SIGINT)
                interrupt_after = None
        return output[:-len(MARK) - 2]

    def close(self):
        self.process.kill()
        self.process.communicate()


def run_command(shell, command, expected, state_directory):
    interrupted = expected[-1:] == ['^C']
    pattern = make_pattern(expected[:-1] if interrupted else expected)
    output = shell.run(command, pattern if interrupted else None).replace(state_directory, STATE_DIRECTORY)
    check(interrupted or pattern.match(output),
          '\n'.join([command, 'should print', *expected, 'and prints', output]))


def check_rules():
    """The comparison itself refuses what it should."""
    for lines, output in ((['a …'], 'b c\n'), (['n 1'], 'n x\n'), (['a'], 'a\nb\n'), (['a', '…'], 'b\n'),
                          (['…', 'end'], 'end\nmore\n'), ([], 'error\n'), (['o /session/1'], 'o /session/2\n'), (['s "on"'], 's "off"\n')):
        check(not make_pattern(lines).match(output), f'{output!r} is taken for {lines}')
    for lines, output in ((['a … z'], 'a  b  z\n'), (['n 1'], 'n 4711\n'), (['a', '…'], 'a\n'),
                          (['…', 'end'], 'x\ny\nend\n'), (['a b'], 'a    b  \n'), ([], '')):
        check(make_pattern(lines).match(output), f'{output!r} is not taken for {lines}')


def main():
    with open(f'{sys.argv[1]}/docs/busctl.md', encoding='utf-8') as file:
        blocks = parse_page(file.read())
    service = Service(len(blocks) + 1)
    with service.case('the comparison knows what is not the same'):
        check_rules()
    service.install_sondectl()
    # Of this namespace, as the bus is. Every machine that runs systemd has it.
    subprocess.run(['mount', '-t', 'tracefs', 'tracefs', '/sys/kernel/tracing'], check=True)
    with systemd.Service('cron.service') as unit:
        unit.add(service.start_burner(0).pid)
        run_page(service, blocks)
    service.finish()


def run_page(service, blocks):
    shells = {'#': Shell(service, 0), '$': Shell(service, service.next_user())}
    state_directory = os.path.join(os.path.dirname(service.folder), 'state')
    for name, commands in blocks:
        with service.case(name[:100].replace('#', '')):
            for prompt, command, expected in commands:
                run_command(shells[prompt], command, expected, state_directory)
    for shell in shells.values():
        shell.close()


main()
