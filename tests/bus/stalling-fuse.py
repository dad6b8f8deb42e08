#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file system with one file, by the kernel's own protocol: stalling-fuse.py FILE FOLDER. Stopped by a
signal it answers nothing any more, and whoever opens the file waits. Source: linux/fuse.h."""

import ctypes
import errno
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 29, 42)
ROOT_NODE, FILE_NODE = 1, 2
VALID_S = 1
KEEP_CACHE = 2


def attributes(node, content):
    mode = 0o40755 if node == ROOT_NODE else 0o100755
    return struct.pack('<6Q10I', node, len(content), len(content) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0,
                       4096, 0)


def answer(opcode, node, body, content, name):
    """Bytes, or an errno."""
    if opcode == INIT:
        major, minor, readahead = struct.unpack_from('<3I', body)
        return struct.pack('<4IHHIIHHI7I', major, min(minor, 31), readahead, 0, 8, 6, 65536, 1, 16, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        if body.rstrip(b'\0').decode() != name:
            return errno.ENOENT
        return struct.pack('<4Q2I', FILE_NODE, 0, VALID_S, VALID_S, 0, 0) + attributes(FILE_NODE, content)
    if opcode == GETATTR:
        return struct.pack('<Q2I', VALID_S, 0, 0) + attributes(node, content)
    if opcode in (OPEN, OPENDIR):
        return struct.pack('<Q2I', 1, KEEP_CACHE, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from('<QQI', body)
        return content[offset:offset + size]
    if opcode == STATFS:
        return bytes(80)
    return b'' if opcode in (RELEASE, FLUSH, RELEASEDIR) else errno.ENOSYS


def main():
    file, folder = sys.argv[1:]
    with open(file, 'rb') as program:
        content = program.read()
    fuse = os.open('/dev/fuse', os.O_RDWR)
    options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other'
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b'stalling', folder.encode(), b'fuse.stalling', 0, options.encode()) < 0:
        raise OSError(ctypes.get_errno(), 'mount')
    print('mounted', flush=True)
    while True:
        request = os.read(fuse, 1 << 17)
        _, opcode, unique, node = struct.unpack_from('<IIQQ', request)
        if opcode in (FORGET, BATCH_FORGET):
            continue
        reply = answer(opcode, node, request[40:], content, os.path.basename(file))
        error, body = (-reply, b'') if isinstance(reply, int) else (0, reply)
        os.write(fuse, struct.pack('<IiQ', 16 + len(body), error, unique) + body)


main()
