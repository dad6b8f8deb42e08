/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts the heap events of a capture in order of time. */
#pragma once

#include <glib.h>

/**
 * SECTION: heap-order
 *
 * Each thread of a program writes into a ring of its own, and the rings are emptied one after the
 * other: in a capture a free may stand before the allocation in another thread. An event is handed
 * on when SONDE_HEAP_ORDER_WINDOW events have come after it. That is more than all rings of a
 * session can hold, so it is out of place only in captures that others made or merged; then it is
 * counted, and handed on late. Events of the same time stay as they came.
 */
typedef struct SondeHeapOrder SondeHeapOrder;

#define SONDE_HEAP_ORDER_WINDOW (1u << 20)

/* Memory that was allocated or freed, or a turn in a process's life. */
typedef struct
{
  gint64 time_ns;
  guint64 address;
  gint64 size_bytes; /* above 0: allocated; 0: freed; below 0: the caller's */
  guint32 stack;     /* these three are not looked at */
  guint32 thread;
} SondeHeapEvent;

typedef void (*SondeHeapEventFunc) (const SondeHeapEvent *event, gpointer user_data);

SondeHeapOrder *sonde_heap_order_new (SondeHeapEventFunc func, gpointer user_data);
void sonde_heap_order_free (SondeHeapOrder *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapOrder, sonde_heap_order_free)

void sonde_heap_order_add (SondeHeapOrder *self, const SondeHeapEvent *event);

/* Hands on what is left. */
void sonde_heap_order_flush (SondeHeapOrder *self);

/* Events that came too late for their place. */
guint64 sonde_heap_order_n_late (const SondeHeapOrder *self);
