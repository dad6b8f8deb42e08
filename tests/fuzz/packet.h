/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A fuzzer's script of messages between sonded and a worker. */
#pragma once

#include <stdbool.h>

#include "daemon/base/message.h"
#include "tests/fuzz/input.h"

#define PACKET_MAX_BYTES (SONDE_MESSAGE_MAX_SIZE + 64) /* more than fits */
#define PACKET_MAX_FDS   31
#define PACKET_RAW       0x80

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
} Packet;

static inline size_t
packet_size_of (uint32_t type, unsigned n_fds)
{
  switch ((SondeMessageType) type)
    {
    case SONDE_MESSAGE_SETUP:
      return sizeof (SondeMessageSetup);
    case SONDE_MESSAGE_DOCUMENT:
      return sizeof (SondeMessageDocument);
    case SONDE_MESSAGE_RINGS:
    case SONDE_MESSAGE_EVENTS:
      return sizeof (SondeMessageEvents) + n_fds * sizeof (SondeMessageEvent);
    case SONDE_MESSAGE_SINK:
      return sizeof (SondeMessageSink);
    case SONDE_MESSAGE_PROCESS:
      return sizeof (SondeMessageProcess);
    case SONDE_MESSAGE_COUNTERS:
      return sizeof (SondeMessageCounters);
    case SONDE_MESSAGE_COUNTERS_REQUEST:
      return sizeof (SondeMessageCountersRequest);
    case SONDE_MESSAGE_FILE:
      return sizeof (SondeMessageFile);
    case SONDE_MESSAGE_NOTE:
      return sizeof (SondeMessageNote);
    case SONDE_MESSAGE_HELLO:
      return sizeof (SondeMessageHello);
    case SONDE_MESSAGE_RINGS_MAPPED:
      return sizeof (SondeMessageRingsMapped);
    case SONDE_MESSAGE_PROCESS_REQUEST:
      return sizeof (SondeMessageProcessRequest);
    case SONDE_MESSAGE_FILE_REQUEST:
      return sizeof (SondeMessageFileRequest);
    case SONDE_MESSAGE_STATISTICS:
    case SONDE_MESSAGE_DRAINED:
    case SONDE_MESSAGE_FINISHED:
      return sizeof (SondeMessageStatistics);
    case SONDE_MESSAGE_SINK_CLOSED:
      return sizeof (SondeMessageSinkClosed);
    case SONDE_MESSAGE_FAILED:
      return sizeof (SondeMessageFailed);
    case SONDE_MESSAGE_SINKS:
      return sizeof (SondeMessageSinks);
    case SONDE_MESSAGE_CONTROLS:
      return sizeof (SondeMessageControls);
    case SONDE_MESSAGE_START:
    case SONDE_MESSAGE_LEAVE:
    case SONDE_MESSAGE_STOP:
    case SONDE_MESSAGE_PAUSE:
    case SONDE_MESSAGE_RESUME:
    case SONDE_MESSAGE_REPORT:
    case SONDE_MESSAGE_CONTROL:
    default:
      return sizeof (SondeMessageHeader);
    }
}

/* In a script: type, number of descriptors (of which PACKET_RAW is no part), their kind, u16 n, and
 * n bytes of what follows the header. The header is made to fit and the rest is 0, so that a script
 * is short and most of what a fuzzer makes of it is near a good message. Of a raw one the header is
 * in the n bytes, and nothing is added. */
static inline void
packet_take (Packet *self, Input *input)
{
  uint8_t type = input_take_byte (input);
  uint8_t flags = input_take_byte (input);
  size_t size_bytes;
  size_t at = flags & PACKET_RAW ? 0 : sizeof self->header;

  memset (self, 0, sizeof *self);
  self->n_fds = flags & PACKET_MAX_FDS;
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

  self->size_bytes = packet_size_of (type, self->n_fds);
  self->header.type = type;
  self->header.size = (uint32_t) self->size_bytes;
  if (type == SONDE_MESSAGE_RINGS || type == SONDE_MESSAGE_EVENTS)
    ((SondeMessageEvents *) (void *) self->bytes)->n_events = self->n_fds;
}

/* Whether the one judge takes it, looking at memory of exactly its size. */
static inline bool
packet_is_good (const void *bytes, size_t size_bytes, unsigned n_fds, bool from_worker)
{
  const char *why = NULL;
  void *copy = malloc (size_bytes);
  bool is_good;

  if (copy == NULL)
    abort ();
  if (size_bytes > 0)
    memcpy (copy, bytes, size_bytes);
  is_good = sonde_message_check (copy, size_bytes, n_fds, from_worker, &why) == 0;
  if (is_good == (why != NULL)
      || (is_good
          && (sonde_message_type_to_string (((SondeMessageHeader *) copy)->type)[0] == '?'
              || sonde_message_check (copy, size_bytes, n_fds, !from_worker, &why) == 0)))
    abort ();
  free (copy);

  return is_good;
}
