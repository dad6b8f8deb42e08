# SPDX-License-Identifier: LGPL-2.1-or-later
"""Watches whether workers can run in time to empty the kernel's rings: others on the machine may keep them from it."""

import contextlib
import os
import threading
import time

# The rings of a CPU take what comes in this time at 1000 Hz, and more.
RING_S = 0.25
LOOK_S = 0.02


class ProcessorWatch(threading.Thread):
    """How long processes had to wait for a processor in a row, each time that the rings might not last for it. Where the
    whole machine stands still this thread is late, too. find_processes () has their numbers; for a with statement."""

    def __init__(self, find_processes):
        super().__init__()
        self.find_processes = find_processes
        self.over = threading.Event()
        self.waits = []  # seconds

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        waited_before, looked_s = {}, time.monotonic()
        while not self.over.wait(LOOK_S):
            late_s = time.monotonic() - looked_s - LOOK_S
            looked_s = time.monotonic()
            waited = {}
            for pid in self.find_processes():
                with contextlib.suppress(OSError):  # it has gone
                    with open(f'/proc/{pid}/schedstat', encoding='ascii') as file:
                        waited[pid] = int(file.read().split()[1]) / 1e9
            longest_s = max([late_s] + [now - waited_before.get(pid, 0) for pid, now in waited.items()])
            if longest_s > RING_S:
                self.waits.append(longest_s)
            waited_before = waited

    def explains(self, n_lost, frequency):
        """Whether so many samples came meanwhile."""
        return n_lost <= frequency * os.cpu_count() * sum(self.waits)
