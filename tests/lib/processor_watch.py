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
    """How long processes had to wait for a processor, of each stretch of time for which the rings last, if that was more
    than half of it: at once, or again and again, as one that gets little of a processor does. The kernel counts a wait
    when it is over. Where the whole machine stands still this thread is late, too. find_processes () has their numbers;
    for a with statement."""

    def __init__(self, find_processes):
        super().__init__()
        self.find_processes = find_processes
        self.over = threading.Event()
        self.waits = []  # seconds

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.over.set()
        self.join()

    def read_waits(self):
        """Seconds since each has started, by its number."""
        waited = {}
        for pid in self.find_processes():
            with contextlib.suppress(OSError):  # it has gone
                with open(f'/proc/{pid}/schedstat', encoding='ascii') as file:
                    waited[pid] = int(file.read().split()[1]) / 1e9
        return waited

    def run(self):
        waited_before, began_s = {}, time.monotonic()
        waited, looked_s, late_s, is_over = {}, began_s, 0, False
        while not is_over:
            is_over = self.over.wait(LOOK_S)
            late_s += max(0, time.monotonic() - looked_s - LOOK_S)
            # That of who goes meanwhile is the last one seen.
            waited.update(self.read_waits())
            looked_s = time.monotonic()
            if is_over or looked_s - began_s >= RING_S:
                longest_s = max([late_s] + [now - waited_before.get(pid, 0) for pid, now in waited.items()])
                if longest_s > RING_S / 2:
                    self.waits.append(longest_s)
                waited_before, began_s, late_s = dict(waited), looked_s, 0

    def explains(self, n_lost, frequency):
        """Whether so many samples came meanwhile."""
        return n_lost <= frequency * os.cpu_count() * sum(self.waits)
