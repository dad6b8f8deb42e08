#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs without the control socket of their session come to its rendezvous, and strangers do:
test-rendezvous.py BUILD"""

import contextlib
import ctypes
import errno
import os
import re
import signal
import socket
import struct

from system import DEADLINE_S, Fault, System, check, find_descendant, wait_until

WAIT = '--memory-wait=1000000'
N_EVENTS = 2 * 1000  # of each part of a wanderer's work
OWNER, STRANGER = 61001, 61002
PR_SET_DUMPABLE = 4
NONCE, JOIN = 4, 5
MAGIC, VERSION = 0x534E, 1


def wander(system, *command):
    """({size: events of blocks of that size}, sentences) of a recording in which nothing was lost."""
    name = 'wander.syscap'
    process = system.start_recording(name, '--event=none', '--memory', WAIT, '--', *command)
    capture, _ = system.finish_recording(process, name)
    check(capture.ledger['events-lost-ring'] == 0, f'{capture.ledger}')
    return count_sizes(system, name), capture.logs


def count_sizes(system, name):
    sizes, of = {}, {}
    for pid, address, size in re.findall(r'^ *ALLOCATION .*pid=(\d+) .*address=(\w+) size=(\d+)',
                                         system.sondectl('dump', system.path(name)), re.M):
        if size == '0':
            size = of.pop((pid, address), None)
        else:
            of[pid, address] = size
        if size is not None:
            sizes[int(size)] = sizes.get(int(size), 0) + 1
    return sizes


def check_sizes(sizes, *expected):
    for size in expected:
        check(sizes.get(size) == N_EVENTS, f'{sizes.get(size)} events of blocks of {size} bytes')


def test_close_fds(system, wanderer):
    script = f'import subprocess; subprocess.run(["{wanderer}", "plain"], close_fds=True, check=True)'
    sizes, _ = wander(system, 'python3', '-c', script)
    check_sizes(sizes, 30001)


def test_many(system, wanderer):
    """A hundred of them in four at a time."""
    script = (f'import subprocess, concurrent.futures as f\n'
              f'with f.ThreadPoolExecutor(4) as pool:\n'
              f'    list(pool.map(lambda _: subprocess.run(["{wanderer}", "plain"], check=True), range(100)))')
    sizes, _ = wander(system, 'python3', '-c', script)
    check(sizes.get(30001) == 100 * N_EVENTS, f'{sizes.get(30001)} events')


def test_daemon(system, wanderer):
    sizes, _ = wander(system, wanderer, 'daemon')
    check_sizes(sizes, 10001, 10002, 10003, 10004, 10005, 30001)


def test_filters(system, wanderer):
    sizes, _ = wander(system, wanderer, 'filter')
    check_sizes(sizes, 10001)
    check(10002 not in sizes, 'a filtered program has made a socket')
    sizes, _ = wander(system, wanderer, 'filtered')
    check(30001 not in sizes, 'a filtered program has made a socket')
    # Only by who says that it may; and what is set later is none of that.
    sizes, _ = wander(system, wanderer, 'let')
    check(30001 not in sizes, 'a filtered program has made a socket')
    sizes, _ = wander(system, 'env', 'SONDE_SECCOMP=0', wanderer, 'let')
    check(30001 not in sizes, 'a filtered program has made a socket')
    sizes, _ = wander(system, 'env', 'SONDE_SECCOMP=1', wanderer, 'let')
    check_sizes(sizes, 30001)
    sizes, _ = wander(system, 'env', 'SONDE_SECCOMP=1', wanderer, 'filter')
    check_sizes(sizes, 10001)
    check(10002 not in sizes, 'a filtered program has made a socket')
    sizes, _ = wander(system, wanderer, 'unseen')
    check(10002 not in sizes, 'a filtered program has made a socket')
    sizes, _ = wander(system, wanderer, 'asking')
    check_sizes(sizes, 10001, 10002)
    sizes, _ = wander(system, wanderer, 'strict')
    check_sizes(sizes, 10001, 10002)


def find_place(pid):
    """What the command of the recording was told: the address and the key."""
    with open(f'/proc/{pid}/environ', 'rb') as file:
        value = re.search(rb'(?:^|\0)SONDE_RENDEZVOUS=@([^\0]*):([0-9a-f]{32})\0', file.read())
    check(value, 'the command was not told of a rendezvous', Fault)
    return b'\0' + value[1], bytes.fromhex(value[2].decode())


def join(address, key):
    """The connection and the profiler's answer: 0 or a negative errno; None: it ended."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(DEADLINE_S)
    link.connect(address)
    nonce = link.recv(64)
    check(len(nonce) == 24 and struct.unpack('<HHI', nonce[:8]) == (MAGIC, VERSION, NONCE), f'{nonce}')
    link.send(struct.pack('<HHI', MAGIC, VERSION, JOIN) + nonce[8:] + key)
    try:
        answer = link.recv(64)
    except ConnectionResetError:  # told once, before what was sent before the end
        answer = link.recv(64)
    return link, struct.unpack('<HHIiI', answer)[3] if answer else None


def as_user(uid, function):
    """Its small number, in a process of that user."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a program is that he has started
            status = function()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_unruly(system):
    unruly = os.path.abspath(system.program('tests/system/unruly'))
    sizes, _ = wander(system, unruly, 'ending')
    check(sizes.get(10001) == 5 * 4 * N_EVENTS and sizes.get(10002) == 5 * N_EVENTS, f'{sizes}')
    sizes, _ = wander(system, unruly, 'cancelled')
    check(sizes.get(10001) == 4 * N_EVENTS and sizes.get(10002) == N_EVENTS, f'{sizes}')
    sizes, _ = wander(system, unruly, 'closing')
    check(sizes.get(10001) == 400 * N_EVENTS, f'{sizes}')


def test_full(system):
    """What a thread makes that cannot get a ring is counted."""
    name = 'full.syscap'
    process = system.start_recording(name, '--event=none', '--memory', WAIT, '--',
                                     os.path.abspath(system.program('tests/system/unruly')), 'full')
    capture, _ = system.finish_recording(process, name)
    check_sizes(count_sizes(system, name), 10002, 10003)
    check(capture.ledger['events-lost-ring'] >= N_EVENTS // 2, f'{capture.ledger}')


def flood(address):
    """Until it is killed."""
    os.setresuid(STRANGER, STRANGER, STRANGER)
    while True:
        with contextlib.suppress(OSError):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                stranger.setblocking(False)
                stranger.connect(address)
                stranger.send(b'x' * 40)


def test_strangers(system, wanderer):
    """At a session of an ordinary user: his own process with the key is let in, another's is not."""
    name = 'strangers.syscap'
    os.chmod(system.folder, 0o777)
    recording = system.start_recording(name, '--event=none', '--memory', WAIT, '--', 'sh', '-c',
                                       f'sleep 3; python3 -c \'import subprocess as s; s.run(["{wanderer}", "plain"])\'',
                                       prefix=('setpriv', f'--reuid={OWNER}', f'--regid={OWNER}', '--clear-groups'))
    sleeper = wait_until(lambda: find_descendant(recording.pid, 'sleep'), 'the command')
    address, key = find_place(sleeper)
    check(as_user(OWNER, lambda: -join(address, key)[1]) == 0, 'a process of the owner is refused')
    status = as_user(STRANGER, lambda: -join(address, key)[1])
    check(status == errno.EPERM, f'a stranger with the key gets {status}')
    status = as_user(OWNER, lambda: -join(address, bytes(16))[1])
    check(status == errno.ESRCH, f'a wrong key gets {status}')
    children = []
    for _ in range(2):
        children.append(os.fork())
        if children[-1] == 0:
            flood(address)
    try:
        capture, _ = system.finish_recording(recording, name)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    check_sizes(count_sizes(system, name), 30001)
    check(any('are not: 1 (they are not of this session)' in text for text in capture.logs), f'{capture.logs}')


def main():
    system = System(9)
    os.environ['SONDE_MEMORY_LIBRARY'] = system.program('shared-ring/collector/memory/libsonde-memory.so')
    wanderer = os.path.abspath(system.program('tests/system/wanderer'))
    with system.case('a child of Python, which closes descriptors, is recorded'):
        test_close_fds(system, wanderer)
    with system.case('a hundred of them are'):
        test_many(system, wanderer)
    with system.case('so is what is executed after all descriptors were closed'):
        sizes, _ = wander(system, wanderer, 'exec')
        check_sizes(sizes, 10001, 30001)
    with system.case('a daemon that closes them is recorded through all its steps'):
        test_daemon(system, wanderer)
    with system.case('a socket that has the number is not taken for it'):
        sizes, _ = wander(system, wanderer, 'reused')
        check_sizes(sizes, 30001)
    with system.case('who is closed by seccomp lives, and makes no socket'):
        test_filters(system, wanderer)
    with system.case('threads that end, are cancelled or lose the link anywhere lose nothing'):
        test_unruly(system)
    with system.case('what is missed for want of descriptors is counted'):
        test_full(system)
    with system.case('strangers are refused, and cost others nothing'):
        test_strangers(system, wanderer)
    system.finish()


main()
