#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fails on an include that crosses the layers: check-includes.py SOURCE_ROOT"""

import fnmatch
import os
import re

import tree

LIBC = ['alloca.h', 'asm/*.h', 'assert.h', 'byteswap.h', 'cpuid.h', 'ctype.h', 'dirent.h', 'dlfcn.h', 'elf.h',
        'endian.h', 'errno.h', 'fcntl.h', 'float.h', 'grp.h', 'inttypes.h', 'limits.h', 'link.h',
        'linux/*.h', 'locale.h', 'malloc.h', 'math.h', 'poll.h', 'pthread.h', 'pwd.h', 'sched.h', 'setjmp.h',
        'signal.h', 'spawn.h', 'stdalign.h', 'stdarg.h', 'stdatomic.h', 'stdbool.h', 'stddef.h',
        'stdint.h', 'stdio.h', 'stdlib.h', 'stdnoreturn.h', 'string.h', 'strings.h', 'termios.h',
        'threads.h', 'time.h', 'ucontext.h', 'unistd.h', 'wchar.h', 'x86intrin.h']
# <sys/…> is libc's too, but for what other libraries put there.
NOT_LIBC = ['sys/capability.h', 'sys/acl.h']
GLIB = ['glib.h', 'glib-*.h', 'glib/*.h', 'gio/*.h', 'gobject/*.h']
LIBDW = ['elfutils/*.h', 'dwarf.h', 'libelf.h', 'gelf.h']
# What unpacks and checks other people's files.
PACKING = ['lzma.h', 'zlib.h']
# The terminal.
CURSES = ['curses.h']
DBUS = ['sonde-profiler1-generated.h']
CONFIG = ['config.h']
RESOURCES = ['flamegraph-resources.h', 'mcp-resources.h']
# Made of client/export/*.proto, with libprotobuf-c.
MESSAGES = ['*.pb-c.h']
# Made of daemon/broker/walk.bpf.c, with what of libbpf the kernel's side includes.
PROGRAM = ['walk-skeleton.h']
GENERATED = CONFIG + DBUS + RESOURCES + MESSAGES + PROGRAM

# The leaves that all may use who need one, but for what runs in other people's programs.
BASE = ['base/*.h']
CONTROL = GLIB + CONFIG + BASE + ['daemon/base/*.h']
CAPTURE = GLIB + CONFIG + BASE + ['daemon/base/*.h', 'protocol/*.h']
CLIENT = GLIB + BASE + ['client/base/*.h']


def rooms(folder, common, table):
    """The rooms of a folder as layers. A row: the rooms that it may include, and headers of others."""
    return {f'{folder}/{room}': common + [f'{folder}/{other}/*.h' for other in others.split()] + more
            for room, (others, more) in table.items()}


# Folder: what its files may include beside their own folder and libc. The longest folder that
# matches decides; a quoted include has the path from the root of the checkout.
LAYERS = {
    'base': [],
    'protocol': [],
    'symbols': BASE + ['libiberty/demangle.h'],
    'shared-ring': ['protocol/*.h'],
    'shared-ring/collector': ['protocol/*.h', 'shared-ring/*.h', 'unwind/*.h'],
    'shared-ring/collector/tracer': ['libiberty/demangle.h', 'protocol/*.h', 'shared-ring/*.h', 'shared-ring/collector/*.h', 'unwind/*.h'],
    'unwind': LIBDW + BASE,
    # The fixed structs of the worker protocol carry the ledger's counts, and what programs are told.
    'daemon/base': GLIB + CONFIG + BASE
    + ['protocol/ledger.h', 'seccomp.h', 'shared-ring/control-message.h', 'shared-ring/trie-layout.h'],
    'daemon/broker': GLIB + CONFIG + BASE + PROGRAM
    + ['bpf/*.h', 'daemon/base/*.h', 'seccomp.h', 'sys/capability.h'],
    'daemon/sysprof': GLIB + BASE + ['daemon/base/closer.h', 'daemon/base/socket.h', 'systemd/*.h'],
    'daemon/control': CONTROL + [f'daemon/control/{room}/*.h' for room in ('bus', 'peer', 'system')]
    + ['linux/capability.h', 'systemd/*.h'],
    **rooms('daemon/control', CONTROL, {
        'system': ('', ['systemd/*.h']),
        'request': ('system', []),
        'peer': ('system', []),
        'session': ('peer request system', ['shared-ring/beacon-layout.h']),
        'bus': ('peer request session system', DBUS),
    }),
    **rooms('daemon/capture', CAPTURE, {
        'perf': ('', []),
        'stream': ('', ['unwind/*.h', 'zstd.h']),
        'counters': ('stream', []),
        'calls': ('', ['shared-ring/trie-layout.h', 'shared-ring/trie-reader.h']),
        'heap': ('', ['zstd.h']),
        'interpreter': ('perf stream', ['unwind/*.h']),
        'names': ('stream', ['symbols/*.h', 'unwind/*.h']),
        'process': ('interpreter names perf stream', ['symbols/*.h', 'unwind/*.h']),
        'program': ('calls heap process stream', ['shared-ring/*.h']),
        'waits': ('perf stream', ['unwind/*.h']),
        'worker': ('calls counters heap interpreter names perf process program stream waits', ['seccomp.h']),
    }),
    'client/base': GLIB + CONFIG + BASE,
    'client/model': CLIENT + CONFIG + ['protocol/*.h', 'symbols/*.h', 'zstd.h'],
    'client/names': CLIENT + CONFIG + LIBDW + PACKING
    + ['client/model/*.h', 'protocol/*.h', 'symbols/*.h'],
    'client/report': CLIENT
    + ['client/model/*.h', 'client/names/*.h', 'protocol/*.h'],
    'client/heap': CLIENT
    + ['client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    'client/calls': CLIENT + ['client/model/*.h', 'client/names/*.h', 'protocol/*.h'],
    'client/flame': CLIENT + RESOURCES
    + ['client/calls/*.h', 'client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    'client/export': CLIENT + CONFIG + MESSAGES + PACKING
    + [f'client/{layer}/*.h' for layer in ('calls', 'heap', 'model', 'names', 'report')] + ['protocol/*.h'],
    'client/import': CLIENT + CONFIG + ['client/model/*.h', 'protocol/*.h'],
    'client/library': CLIENT + CONFIG
    + ['client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    # The service is reached by what the library shows to everybody.
    'client/service': CLIENT + CONFIG + ['client/library/sonde-client.h'],
    'client/mcp': CLIENT + CONFIG + RESOURCES,
    'client/systemd': CLIENT,
    'client/sysprof': GLIB + ['base/*.h', 'client/library/sonde-client.h'],
    'client/top': CLIENT + CURSES
    + [f'client/{layer}/*.h' for layer in ('calls', 'model', 'names', 'report', 'service')]
    + ['client/library/sonde-client.h', 'protocol/*.h'],
    'client': CLIENT + CONFIG
    + [f'client/{layer}/*.h' for layer in ('model', 'names', 'report', 'heap', 'calls', 'flame', 'export', 'import', 'mcp', 'service', 'systemd', 'top')]
    + ['client/library/sonde-client.h', 'protocol/*.h', 'elfutils/debuginfod.h'],
    # To be copied out of the checkout: nothing of ours.
    'docs/examples': GLIB + ['sonde-collector.h'],
    'tests': ['*'],
}

# Of layers that may be used for reading only.
REFUSED = {
    'daemon/capture/program': ['shared-ring/ring-writer.h', 'shared-ring/collector/*'],
}
# What the front and the broker share is for those who have rights.
RIGHTS = [f'daemon/base/{name}.h' for name in ('asked', 'closer', 'proc-text', 'quota')]
for room in ('calls', 'counters', 'heap', 'interpreter', 'names', 'perf', 'process', 'program', 'stream', 'waits', 'worker'):
    REFUSED.setdefault(f'daemon/capture/{room}', []).extend(RIGHTS)

# Who speaks D-Bus, with the service and with systemd: all else of the client asks these.
SPEAKERS = ('client/library', 'client/systemd')
DBUS_CALL = re.compile(r'\b(g_bus_\w+|g_dbus_\w+|sonde_client_profiler_get_connection)\s*\(')

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def find_layer(path):
    folder = os.path.dirname(path)
    while folder and folder not in LAYERS:
        folder = os.path.dirname(folder)
    return folder


def is_libc(name):
    return matches(name, LIBC) or name.startswith('sys/') and not matches(name, NOT_LIBC)


def judge(path, kind, name, exists):
    """Why the include of name in path is wrong, or None."""
    layer = find_layer(path)
    if not layer:
        return 'is in no layer'
    if name.endswith('.c'):
        return f'includes the source {name}'
    if name.startswith('tests/') and layer != 'tests':
        return f'includes {name}: nothing may include tests'
    by_path = '/' in name or matches(name, GENERATED)
    if kind == '"' and not by_path:
        return f'includes {name} without its path'
    if kind == '"' and not matches(name, GENERATED) and not exists(name):
        return f'includes {name}, which is not in the checkout'
    if kind == '<' and exists(name):
        return f'includes {name} of this project in angle brackets'
    if kind == '<' and is_libc(name):
        return None
    if matches(name, REFUSED.get(layer, [])):
        return f'includes {name}, which this layer may not'
    if kind == '"' and os.path.dirname(name) == layer or matches(name, LAYERS[layer]):
        return None
    return f'includes {name}, which {layer}/ may not'


def check_file(path, text, exists):
    complaints = []
    for kind, name in INCLUDE.findall(text):
        why = judge(path, kind, name, exists)
        if why:
            complaints.append(f'{path}: {why}')
    if path.startswith('client/') and os.path.dirname(path) not in SPEAKERS:
        complaints += [f'{path}: calls {name}, which {SPEAKERS[0]}/ is for' for name in DBUS_CALL.findall(text)]
    return complaints


BAD = {
    'protocol does not know GLib': ('protocol/frame.h', '<glib.h>'),
    'protocol does not know symbols': ('protocol/reader.c', '"symbols/demangle.h"'),
    'symbols does not know protocol': ('symbols/kallsyms.c', '"protocol/frame.h"'),
    'symbols does not know libdw': ('symbols/demangle.c', '<elfutils/libdw.h>'),
    'unwind does not know symbols': ('unwind/module.c', '"symbols/demangle.h"'),
    'a shared leaf does not know GLib': ('base/fd.h', '<glib.h>'),
    'a shared leaf knows no other folder': ('base/fd.h', '"protocol/frame.h"'),
    'programs of others have no leaves': ('shared-ring/collector/collector.c', '"base/fd.h"'),
    'base does not know libdw': ('daemon/base/socket.c', '<libelf.h>'),
    'base does not know the reader': ('daemon/base/socket.c', '"protocol/reader.h"'),
    'control does not know the capture format': ('daemon/control/bus/bus.c', '"protocol/writer.h"'),
    'control does not know unwind': ('daemon/control/bus/bus.c', '"unwind/module.h"'),
    'control does not know capture': ('daemon/control/bus/bus.c', '"daemon/capture/stream/sink.h"'),
    'control does not know the broker': ('daemon/control/session/session.c', '"daemon/broker/broker.h"'),
    'control has no rights': ('daemon/control/session/session.c', '<sys/capability.h>'),
    'peers do not know what they are for': ('daemon/control/peer/peer.c', '"daemon/control/session/session.h"'),
    'the broker does not know who asks': ('daemon/broker/broker.c', '"daemon/control/request/options.h"'),
    'the broker does not know workers': ('daemon/broker/proc-answer.c', '"daemon/control/peer/peer.h"'),
    'the broker does not know capture': ('daemon/broker/broker.c', '"daemon/capture/stream/sink.h"'),
    'capture does not know control': ('daemon/capture/stream/sink.c', '"daemon/control/request/options.h"'),
    'what asks the system knows no session': ('daemon/control/system/settings.c', '"daemon/control/session/session.h"'),
    'sessions do not know the bus': ('daemon/control/session/session.c', '"daemon/control/bus/bus.call.h"'),
    'a stream does not know who fills it': ('daemon/capture/stream/sink.c', '"daemon/capture/perf/perf-ring.h"'),
    'programs write their rings, not the worker': ('daemon/capture/program/inferior.c', '"shared-ring/ring-writer.h"'),
    'capture does not know D-Bus': ('daemon/capture/stream/sink.c', '"sonde-profiler1-generated.h"'),
    'capture has no rights': ('daemon/capture/worker/main.c', '"daemon/broker/rights.h"'),
    'capture does not know libcap': ('daemon/capture/worker/main.c', '<sys/capability.h>'),
    'names do not know reports': ('client/names/archive.c', '"client/report/profile.h"'),
    'the model does not know names': ('client/model/capture-model.c', '"client/names/archive.h"'),
    'exports do not know pictures': ('client/export/export.h', '"client/flame/flame-page.h"'),
    'commands know the library as others do': ('client/cmd-record.c', '"client/library/session.h"'),
    'commands do not speak D-Bus': ('client/cmd-list.c', '"sonde-profiler1-generated.h"'),
    'commands do not know the terminal': ('client/cmd-top.c', '<curses.h>'),
    'client does not know the daemon': ('client/sondectl.c', '"daemon/base/socket.h"'),
    'an example stands alone': ('docs/examples/x.c', '"client/base/text.h"'),
    'nothing knows tests': ('client/sondectl.c', '"tests/lib/client.h"'),
    'nothing includes main.c': ('tests/unit/test-x.c', '"daemon/capture/worker/main.c"'),
    'an include shows its path': ('daemon/control/bus/bus.c', '"options.h"'),
    'own headers stand in quotes': ('daemon/control/bus/bus.c', '<daemon/base/socket.h>'),
    'every source is in a layer': ('misc/x.c', '<stdio.h>'),
}


def check(root, tap):
    tap.refuses('the check knows that commands make no call of their own', check_file(
        'client/cmd-list.c', 'answer = g_dbus_connection_call_sync (bus);\n', bool))
    for name, (path, include) in BAD.items():
        tap.refuses(f'the check knows that {name}',
                    check_file(path, f'#include {include}\n', lambda name: '/' in name
                               and name.split('/')[0] in tree.FOLDERS))
    files = tree.list_files(root)
    layers = {}
    for path in files:
        if path.endswith(('.c', '.h')):
            layers.setdefault(find_layer(path) or 'elsewhere', []).append(path)
    for layer, paths in sorted(layers.items()):
        complaints = []
        for path in paths:
            complaints += check_file(path, tree.read(root, path), set(files).__contains__)
        tap.case(f'{layer} includes only what it may', complaints)


if __name__ == '__main__':
    tree.main(check)
