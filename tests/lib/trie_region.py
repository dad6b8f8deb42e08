# SPDX-License-Identifier: LGPL-2.1-or-later
"""The region of a traced program as a profiler makes it, for programs that inherit it (SONDE_TRACE_FD)."""

import fcntl
import os
import struct

MIB = 1 << 20
# Of trie-layout.h.
MAGIC, SLAB = 0x5452494550415448, 16384
MODES = {'off': 0, 'count': 1, 'auto': 2, 'exact': 3}
EPOCH_AT, MODE_AT, MAX_DEPTH_AT, N_SLABS_AT, N_SWITCHES_AT = 64, 72, 108, 132, 168


def make_region(mode, size=64 * MIB):
    """The descriptor of a sealed memfd with its header."""
    fd = os.memfd_create('sonde-trie', os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    slots = min(max(size // (2 * SLAB), 8), 4096)
    slabs_at = (4096 + slots * 128 + SLAB - 1) // SLAB * SLAB
    os.pwrite(fd, struct.pack('<QIIIII', MAGIC, 1, size // 64, slots, slabs_at // 64, (size - slabs_at) // SLAB), 0)
    os.pwrite(fd, struct.pack('<IIIIQQ', 1, 0, MODES[mode], 64, 5200, 4000), EPOCH_AT)
    os.pwrite(fd, struct.pack('<I', 4096), MAX_DEPTH_AT)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def count_slabs(fd):
    return struct.unpack('<I', os.pread(fd, 4, N_SLABS_AT))[0]
