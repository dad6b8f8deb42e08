/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The header of a D-Bus message, while its bytes come in: takes the number of its descriptors out.
 */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: bus-header
 *
 * A message says in its header how many descriptors it brings, and sd-bus drops one that brings
 * fewer without a word. Where descriptors are not taken (closer.h), the field's code becomes one
 * that means nothing, which everybody has to pass over: the message is then one without
 * descriptors, whose sender gets an answer.
 *
 * Nothing is kept of the message, however it is cut into pieces. What is no header as the
 * specification has it stays as it is, for sd-bus to refuse.
 */
typedef struct
{
  guint stage;
  guint8 head[16];     /* what comes before the fields */
  guint8 part[4];      /* of a field: its signature, or a number */
  guint n_part_bytes;  /* that came */
  char type;           /* of the field */
  guint64 at;          /* bytes that came */
  guint64 end;         /* of the fields */
  guint64 n_text_left; /* bytes of a text, with its end */
} SondeBusHeader;

/* A message begins. */
void sonde_bus_header_init (SondeBusHeader *self);

/**
 * sonde_bus_header_hide_fds:
 * @bytes: the next of the message; changed in place
 *
 * Returns: whether the header goes on behind them
 */
gboolean sonde_bus_header_hide_fds (SondeBusHeader *self, guint8 *bytes, gsize n_bytes);
