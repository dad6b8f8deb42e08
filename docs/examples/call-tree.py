#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where a process spends its time, through libsonde-client: call-tree.py PID [SECONDS]"""

import signal
import sys

import gi

gi.require_version('SondeClient', '1')
from gi.repository import GLib, SondeClient  # noqa: E402


def open_profiler():
    """The system's service; where there is none, one of our own with our rights."""
    try:
        return SondeClient.Profiler.new_bus(SondeClient.Ask.NOBODY)
    except GLib.Error:
        return SondeClient.Profiler.new_embedded(None, None)


def print_calls(call, whole, depth=0):
    if call.get_total() * 100 < whole:
        return
    print(f"{call.get_total() / whole:6.1%}  {'  ' * depth}{call.get_name()}")
    for callee in call.get_callees():
        print_calls(callee, whole, depth + 1)


class CallTree:
    def __init__(self, pid, seconds):
        self.loop = GLib.MainLoop()
        self.profile = SondeClient.Profile()
        self.seconds = seconds
        self.status = 1
        open_profiler().profile_process_async(pid, None, None, self.started)
        self.loop.run()

    def started(self, profiler, result):
        try:
            session = profiler.profile_finish(result)
        except GLib.Error as error:
            print(error.message, file=sys.stderr)
            self.loop.quit()
            return
        session.connect('frame', lambda _, frame: self.profile.add_frame(frame))
        session.connect('finished', self.finished)
        session.read()
        for source in (GLib.timeout_source_new(int(self.seconds * 1000)), GLib.unix_signal_source_new(signal.SIGINT)):
            source.set_callback(lambda *_: session.stop())
            source.attach()

    def finished(self, session, reason, error):
        if error:
            print(error.message, file=sys.stderr)
        else:
            self.status = 0
        self.profile.finish(SondeClient.Names.INLINES)
        print(f"{self.profile.get_n_samples()} samples, {session.get_statistic('lost-ring')} lost: {reason}")
        for process in self.profile.get_processes():
            print_calls(process, self.profile.get_n_samples())
        self.loop.quit()


if __name__ == '__main__':
    sys.exit(CallTree(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 5).status)
