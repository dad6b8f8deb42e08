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
JSON = ['json-glib/*.h']
DBUS = ['sonde-profiler1-generated.h']
CONFIG = ['config.h']
RESOURCES = ['flamegraph-resources.h']
# Made of client/export/*.proto, with libprotobuf-c.
MESSAGES = ['*.pb-c.h']
GENERATED = CONFIG + DBUS + RESOURCES + MESSAGES

# Folder: what its files may include beside their own folder and libc. The longest folder that
# matches decides; a quoted include has the path from the root of the checkout.
LAYERS = {
    'protocol': [],
    'symbols': ['libiberty/demangle.h'],
    'shared-ring': ['protocol/*.h'],
    'shared-ring/collector': ['protocol/*.h', 'shared-ring/*.h', 'unwind/*.h'],
    'unwind': LIBDW,
    # The fixed structs of the worker protocol carry the ledger's counts, and what programs are told.
    'daemon/base': GLIB + CONFIG + ['protocol/ledger.h', 'shared-ring/control-message.h'],
    'daemon/control': GLIB + CONFIG + DBUS
    + ['daemon/base/*.h', 'systemd/*.h', 'sys/capability.h'],
    'daemon/capture': GLIB + CONFIG
    + ['daemon/base/*.h', 'protocol/*.h', 'shared-ring/*.h', 'unwind/*.h', 'symbols/*.h', 'seccomp.h'],
    'client/base': GLIB + CONFIG,
    'client/model': GLIB + CONFIG + ['client/base/*.h', 'protocol/*.h', 'symbols/*.h'],
    'client/names': GLIB + CONFIG + LIBDW + PACKING
    + ['client/base/*.h', 'client/model/*.h', 'protocol/*.h', 'symbols/*.h'],
    'client/report': GLIB + JSON
    + ['client/base/*.h', 'client/model/*.h', 'client/names/*.h', 'protocol/*.h'],
    'client/heap': GLIB + JSON
    + ['client/base/*.h', 'client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    'client/flame': GLIB + JSON + RESOURCES
    + ['client/base/*.h', 'client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    'client/export': GLIB + CONFIG + JSON + MESSAGES + PACKING
    + ['client/base/*.h', 'client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    'client/library': GLIB + CONFIG + DBUS
    + ['client/base/*.h', 'client/model/*.h', 'client/names/*.h', 'client/report/*.h', 'protocol/*.h'],
    # The service is reached by what the library shows to everybody.
    'client/service': GLIB + CONFIG + ['client/base/*.h', 'client/library/sonde-client.h'],
    'client/top': GLIB + CURSES
    + [f'client/{layer}/*.h' for layer in ('base', 'model', 'names', 'report', 'service')]
    + ['client/library/sonde-client.h', 'protocol/*.h'],
    'client': GLIB + CONFIG
    + [f'client/{layer}/*.h' for layer in ('base', 'model', 'names', 'report', 'heap', 'flame', 'export', 'service', 'top')]
    + ['client/library/sonde-client.h', 'protocol/*.h', 'elfutils/debuginfod.h'],
    # To be copied out of the checkout: nothing of ours.
    'docs/examples': GLIB,
    'tests': ['*'],
}

# Of layers that may be used for reading only.
REFUSED = {
    'daemon/capture': ['shared-ring/ring-writer.h', 'shared-ring/collector/*'],
}

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
    return complaints


BAD = {
    'protocol does not know GLib': ('protocol/frame.h', '<glib.h>'),
    'protocol does not know symbols': ('protocol/reader.c', '"symbols/demangle.h"'),
    'symbols does not know protocol': ('symbols/kallsyms.c', '"protocol/frame.h"'),
    'symbols does not know libdw': ('symbols/demangle.c', '<elfutils/libdw.h>'),
    'unwind does not know symbols': ('unwind/module.c', '"symbols/demangle.h"'),
    'base does not know libdw': ('daemon/base/fd.c', '<libelf.h>'),
    'base does not know the reader': ('daemon/base/fd.c', '"protocol/reader.h"'),
    'control does not know the capture format': ('daemon/control/bus.c', '"protocol/writer.h"'),
    'control does not know unwind': ('daemon/control/bus.c', '"unwind/module.h"'),
    'control does not know capture': ('daemon/control/bus.c', '"daemon/capture/sink.h"'),
    'capture does not know control': ('daemon/capture/sink.c', '"daemon/control/options.h"'),
    'capture does not know D-Bus': ('daemon/capture/sink.c', '"sonde-profiler1-generated.h"'),
    'capture does not know libcap': ('daemon/capture/main.c', '<sys/capability.h>'),
    'names do not know reports': ('client/names/archive.c', '"client/report/profile.h"'),
    'the model does not know names': ('client/model/capture-model.c', '"client/names/archive.h"'),
    'exports do not know pictures': ('client/export/export.h', '"client/flame/flame-page.h"'),
    'commands know the library as others do': ('client/cmd-record.c', '"client/library/session.h"'),
    'commands do not speak D-Bus': ('client/cmd-list.c', '"sonde-profiler1-generated.h"'),
    'commands do not know the terminal': ('client/cmd-top.c', '<curses.h>'),
    'client does not know the daemon': ('client/sondectl.c', '"daemon/base/fd.h"'),
    'an example stands alone': ('docs/examples/x.c', '"client/base/text.h"'),
    'nothing knows tests': ('client/sondectl.c', '"tests/lib/client.h"'),
    'nothing includes main.c': ('tests/unit/test-x.c', '"daemon/capture/main.c"'),
    'an include shows its path': ('daemon/control/bus.c', '"options.h"'),
    'own headers stand in quotes': ('daemon/control/bus.c', '<daemon/base/fd.h>'),
    'every source is in a layer': ('misc/x.c', '<stdio.h>'),
}


def check(root, tap):
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


tree.main(check)
