/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the kernel's ring of one CPU: records as spans in place. */
#pragma once

#include <gio/gio.h>
#include <linux/perf_event.h>
#include <stdint.h>

typedef struct SondePerfRing SondePerfRing;

/**
 * sonde_perf_ring_open:
 * @fd: a perf event; stays the caller's and may be closed, the mapping remains
 * @size_bytes: of the data area, a power of two of at least one page
 *
 * Returns: 0 and *@self; -EPERM or -ENOMEM: over RLIMIT_MEMLOCK, try a smaller size; another errno
 * Source: perf_event_open(2), "MMAP layout"
 */
int sonde_perf_ring_open (int fd, size_t size_bytes, SondePerfRing **self);

/* Over memory that somebody else mapped and keeps: @page and @data as the kernel lays them out. */
SondePerfRing *sonde_perf_ring_new_for_memory (struct perf_event_mmap_page *page,
                                               uint8_t *data,
                                               size_t size_bytes);
void sonde_perf_ring_close (SondePerfRing *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePerfRing, sonde_perf_ring_close)

/**
 * sonde_perf_ring_front:
 * @record: (out) (transfer none): the oldest record, 8-aligned, valid until sonde_perf_ring_pop()
 *
 * The record lies in the ring itself; one that wraps is copied. Its size was checked: at least
 * sizeof (struct perf_event_header), a multiple of 8, within what the kernel published.
 *
 * Returns: 1 a record; 0 the ring is empty; -EBADMSG the ring is damaged: all that it held was
 * skipped, and what comes next is read again
 */
int sonde_perf_ring_front (SondePerfRing *self, const struct perf_event_header **record);

/* Gives the front record's room back to the kernel. */
void sonde_perf_ring_pop (SondePerfRing *self);

/**
 * sonde_perf_ring_peek:
 * @position: (inout): 0 at first; where the next look begins
 * @record: (out) (transfer none): as of sonde_perf_ring_front()
 *
 * Looks at waiting records, each once, and takes none. One that wraps is passed over, and so is the
 * rest when the ring is damaged, which sonde_perf_ring_front() tells in its time.
 *
 * Returns: whether there was one
 */
gboolean sonde_perf_ring_peek (const SondePerfRing *self,
                               uint64_t *position,
                               const struct perf_event_header **record);

size_t sonde_perf_ring_size (const SondePerfRing *self);
/* Bytes that wait now, freshly read. */
size_t sonde_perf_ring_fill (const SondePerfRing *self);
