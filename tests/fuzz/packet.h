/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A fuzzer's script of messages between front, broker and worker. */
#pragma once

#include <stdbool.h>

#include "daemon/base/message.h"
#include "tests/fuzz/input.h"

#define PACKET_MAX_BYTES (SONDE_MESSAGE_MAX_SIZE + 64) /* more than fits */
#define PACKET_MAX_FDS   31
#define PACKET_RAW       0x80
#define PACKET_LINK      0x40 /* between worker and broker */

typedef struct
{
  union
  {
    SondeMessageHeader header;
    uint64_t align;
    uint8_t bytes[PACKET_MAX_BYTES];
  };
  size_t size_bytes;
  unsigned n_fds;
  unsigned fd_kind; /* for the target to say what that means */
  size_t n_given;   /* bytes that the script has behind the header */
  bool is_of_link;
} Packet;

/* The size, and where the count of entries decides it the one that goes with it. */
static inline void
packet_fit (Packet *self, uint32_t type)
{
  const SondeMessageShape *shape = sonde_message_shape (type);
  SondeMessageEvents *events = (void *) self->bytes;
  const SondeMessageTargets *targets = (void *) self->bytes;

  self->size_bytes = shape != NULL ? shape->size_bytes : sizeof self->header;
  if (type == SONDE_MESSAGE_RINGS || type == SONDE_MESSAGE_EVENTS)
    {
      events->n_events = self->n_fds;
      self->size_bytes += self->n_fds * shape->entry_bytes;
    }
  if (type == SONDE_MESSAGE_STATISTICS || type == SONDE_MESSAGE_DRAINED
      || type == SONDE_MESSAGE_FINISHED)
    self->size_bytes = sizeof (SondeMessageStatistics); /* an older worker's are shorter */
  if (type == SONDE_MESSAGE_PROVE || type == SONDE_MESSAGE_ADD)
    self->size_bytes += targets->n_targets % 32 * shape->entry_bytes;
}

/* So that seeds outlive a version: 0 is ours. */
static inline void
packet_name_version (Packet *self)
{
  SondeMessageSetup *setup = (void *) self->bytes; /* HELLO, ASK and SHEET begin like it */

  if ((self->header.type == SONDE_MESSAGE_SETUP || self->header.type == SONDE_MESSAGE_HELLO
       || self->header.type == SONDE_MESSAGE_ASK || self->header.type == SONDE_MESSAGE_SHEET)
      && setup->version == 0)
    setup->version = SONDE_MESSAGE_VERSION;
}

/* In a script: type, number of descriptors with PACKET_RAW and PACKET_LINK, their kind, u16 n, and
 * n bytes of what follows the header. A type has one byte: what the broker says to the front is
 * told as 211 and so on. The header is made to fit and the rest is 0, so that a script is short and
 * most of what a fuzzer makes of it is near a good message. Of a raw one the header is in the n
 * bytes, and nothing is added. */
static inline void
packet_take (Packet *self, Input *input)
{
  uint8_t number = input_take_byte (input);
  uint32_t type = number > 210 ? number + 90u : number;
  uint8_t flags = input_take_byte (input);
  size_t size_bytes;
  size_t at = flags & PACKET_RAW ? 0 : sizeof self->header;

  memset (self, 0, sizeof *self);
  self->n_fds = flags & PACKET_MAX_FDS;
  self->is_of_link = (flags & PACKET_LINK) != 0;
  self->fd_kind = input_take_byte (input);
  size_bytes = input_take_u16 (input);
  if (size_bytes > input->left)
    size_bytes = input->left;
  if (size_bytes > sizeof self->bytes - at)
    size_bytes = sizeof self->bytes - at;
  input_take (input, self->bytes + at, size_bytes);
  self->size_bytes = self->n_given = size_bytes;
  if (flags & PACKET_RAW)
    return;

  packet_fit (self, type);
  self->header.type = type;
  self->header.size = (uint32_t) self->size_bytes;
  packet_name_version (self);
}

/* Whether the one judge takes it, looking at memory of exactly its size: on each of its ways, and
 * on no other. */
static inline bool
packet_is_good (const void *bytes, size_t size_bytes, unsigned n_fds, SondeMessageWay way)
{
  const char *why = NULL;
  SondeMessageHeader *copy = malloc (size_bytes);
  const SondeMessageShape *shape;
  bool is_good;

  if (copy == NULL)
    abort ();
  if (size_bytes > 0)
    memcpy (copy, bytes, size_bytes);
  is_good = sonde_message_check (copy, size_bytes, n_fds, way, &why) == 0;
  if (is_good == (why != NULL))
    abort ();
  if (is_good)
    {
      shape = sonde_message_shape (copy->type);
      if (shape == NULL || sonde_message_type_to_string (copy->type)[0] == '?')
        abort ();
      for (unsigned bit = 1; bit <= SONDE_WAY_WORKER_TO_BROKER; bit <<= 1)
        if ((sonde_message_check (copy, size_bytes, n_fds, (SondeMessageWay) bit, &why) == 0)
            != ((shape->ways & bit) != 0))
          abort ();
    }
  free (copy);

  return is_good;
}
