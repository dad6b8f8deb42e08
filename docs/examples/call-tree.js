#!/usr/bin/gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
// Where a process spends its time, through libsonde-client: call-tree.js PID [SECONDS]

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import SondeClient from 'gi://SondeClient?version=1';
import System from 'system';

const SIGINT = 2;

Gio._promisify(SondeClient.Profiler.prototype, 'profile_process_async', 'profile_finish');

// The system's service; where there is none, one of our own with our rights.
function openProfiler() {
  try {
    return SondeClient.Profiler.new_bus(SondeClient.Ask.NOBODY);
  } catch {
    return SondeClient.Profiler.new_embedded(null, null);
  }
}

function printCalls(call, whole, depth = 0) {
  if (call.get_total() * 100 < whole)
    return;
  print(`${(call.get_total() / whole * 100).toFixed(1).padStart(5)}%  ${'  '.repeat(depth)}${call.get_name()}`);
  for (const callee of call.get_callees())
    printCalls(callee, whole, depth + 1);
}

// Reads a session to its end; the reason of that.
function readAll(session, profile) {
  return new Promise((resolve, reject) => {
    session.connect('frame', (_, frame) => profile.add_frame(frame));
    session.connect('finished', (_, reason, error) => error ? reject(error) : resolve(reason));
    session.read();
  });
}

async function showCalls(pid, seconds) {
  const session = await openProfiler().profile_process_async(pid, null, null);
  const profile = new SondeClient.Profile();
  const stop = () => session.stop();
  GLib.timeout_add(GLib.PRIORITY_DEFAULT, seconds * 1000, stop);
  GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, SIGINT, stop);
  const reason = await readAll(session, profile);
  profile.finish(SondeClient.Names.INLINES);
  print(`${profile.get_n_samples()} samples, ${session.get_statistic('lost-ring')} lost: ${reason}`);
  for (const process of profile.get_processes())
    printCalls(process, profile.get_n_samples());
}

const loop = new GLib.MainLoop(null, false);
let status = 0;
showCalls(Number(ARGV[0]), Number(ARGV[1] ?? 5)).catch(error => {
  printerr(error.message);
  status = 1;
}).finally(() => loop.quit());
loop.run();
System.exit(status);
