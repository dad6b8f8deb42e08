/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/bus-header.h"

#include <string.h>

/* Source: D-Bus specification, "Header Fields": unknown ones are to be ignored. */
#define UNIX_FDS 9
#define NOTHING  255
/* Source: D-Bus specification, "Message Format": of an array */
#define MAX_FIELDS_BYTES (64 * 1024 * 1024)

/* What the next byte is of: of a field come its code, the signature of one type, a number or the
 * length of a text, and that text. */
enum
{
  HEAD,
  CODE,
  SIGNATURE,
  NUMBER,
  LENGTH, /* in one byte */
  TEXT,
  OVER,
};

void
sonde_bus_header_init (SondeBusHeader *self)
{
  *self = (SondeBusHeader){ .stage = HEAD };
}

static guint32
read_number (const SondeBusHeader *self, const guint8 *bytes)
{
  guint32 number;

  memcpy (&number, bytes, sizeof number);
  return self->head[0] == 'B' ? GUINT32_FROM_BE (number) : GUINT32_FROM_LE (number);
}

static guint
take_head (SondeBusHeader *self, guint8 byte)
{
  guint32 n_bytes;

  self->head[self->at] = byte;
  if (self->at + 1 < sizeof self->head)
    return HEAD;
  n_bytes = read_number (self, &self->head[12]);
  if ((self->head[0] != 'l' && self->head[0] != 'B') || self->head[3] != 1
      || n_bytes > MAX_FIELDS_BYTES)
    return OVER;
  self->end = sizeof self->head + n_bytes;
  return CODE;
}

/* @alignment: of the first of @n bytes. Returns: whether they are there */
static gboolean
gather (SondeBusHeader *self, guint8 byte, guint n, guint alignment)
{
  if (self->n_part_bytes == 0 && self->at % alignment != 0)
    return FALSE;
  self->part[self->n_part_bytes++] = byte;
  if (self->n_part_bytes < n)
    return FALSE;
  self->n_part_bytes = 0;
  return TRUE;
}

static guint
take_signature (SondeBusHeader *self, guint8 byte)
{
  if (!gather (self, byte, 3, 1))
    return SIGNATURE;
  self->type = (char) self->part[1];
  if (self->part[0] != 1 || self->part[2] != '\0' || self->type == '\0'
      || strchr ("gosu", self->type) == NULL)
    return OVER;
  return self->type == 'g' ? LENGTH : NUMBER;
}

static guint
take_number (SondeBusHeader *self, guint8 byte)
{
  if (!gather (self, byte, 4, 4))
    return NUMBER;
  if (self->type == 'u')
    return CODE;
  self->n_text_left = (guint64) read_number (self, self->part) + 1;
  return TEXT;
}

static guint
take_byte (SondeBusHeader *self, guint8 *byte)
{
  switch (self->stage)
    {
    case HEAD:
      return take_head (self, *byte);
    case CODE:
      if (self->at % 8 != 0)
        return CODE;
      if (*byte == UNIX_FDS)
        *byte = NOTHING;
      return SIGNATURE;
    case SIGNATURE:
      return take_signature (self, *byte);
    case NUMBER:
      return take_number (self, *byte);
    case LENGTH:
      self->n_text_left = *byte + 1U;
      return TEXT;
    case TEXT:
      return --self->n_text_left > 0 ? TEXT : CODE;
    default:
      return OVER;
    }
}

gboolean
sonde_bus_header_hide_fds (SondeBusHeader *self, guint8 *bytes, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes && self->stage != OVER; i++)
    {
      self->stage = take_byte (self, &bytes[i]);
      self->at++;
      if (self->stage != HEAD && self->at >= self->end)
        self->stage = OVER;
    }
  return self->stage != OVER;
}
