# SPDX-License-Identifier: LGPL-2.1-or-later
"""A terminal that the tests look at: a pseudo terminal, and a screen that obeys what is written there."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

from system import DEADLINE_S, check


class Screen:
    def __init__(self, command, n_lines=24, n_columns=80, environment=None):
        self.terminal, self.other_end = pty.openpty()
        self.screen = pyte.Screen(n_columns, n_lines)
        self.stream = pyte.ByteStream(self.screen)
        self.n_reads = 0
        self.resize(n_lines, n_columns)
        self.modes = termios.tcgetattr(self.other_end)
        self.process = subprocess.Popen(
            ['setsid', '--ctty', *command], stdin=self.other_end, stdout=self.other_end, stderr=self.other_end,
            env={**os.environ, 'TERM': 'linux', 'LC_ALL': 'C.UTF-8', **(environment or {})})

    def resize(self, n_lines, n_columns):
        """The kernel tells whoever has it for a terminal."""
        self.screen.resize(n_lines, n_columns)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack('HHHH', n_lines, n_columns, 0, 0))

    def type(self, text):
        os.write(self.terminal, text.encode())

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def read(self, seconds=0.2):
        self.n_reads += 1
        if select.select([self.terminal], [], [], seconds)[0]:
            self.stream.feed(os.read(self.terminal, 65536))

    def wait_for(self, condition, what):
        """Until condition(lines) is true of the screen; returns what it says."""
        deadline = time.monotonic() + DEADLINE_S
        while not (result := condition(self.lines())):
            check(time.monotonic() < deadline, f'{what} is not on the screen:\n' + '\n'.join(self.lines()))
            self.read()
        return result

    def wait_for_text(self, text):
        self.wait_for(lambda lines: any(text in line for line in lines), text)

    def wait_for_exit(self):
        """Its exit status."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            check(time.monotonic() < deadline, 'it does not end:\n' + '\n'.join(self.lines()))
            self.read()
        self.read()
        return self.process.returncode

    def has_modes(self):
        """Whether the terminal's modes are what they were."""
        return termios.tcgetattr(self.other_end) == self.modes

    def is_restored(self):
        """The same, and its cursor is to be seen."""
        return self.has_modes() and not self.screen.cursor.hidden

    def close(self):
        """Asks what still runs to end, as it then ends what it runs itself."""
        try:
            if self.process.poll() is None:
                self.process.terminate()
                self.process.send_signal(signal.SIGCONT)
                self.wait_for_exit()
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.terminal)
            os.close(self.other_end)
