/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker could say that it should not. */
#include "tests/bus/hostile-messages.h"

#include <string.h>

static const char *
judge (const HostileMessage *self, SondeMessageWay way)
{
  const char *why = NULL;

  return sonde_message_check (self->bytes, self->size_bytes, self->n_fds, way, &why) < 0 ? why
                                                                                         : NULL;
}

/* Of @type and so many bytes, all else 0. */
static void
make_plain (HostileMessage *self, guint32 type, size_t size_bytes)
{
  memset (self, 0, sizeof *self);
  self->header = (SondeMessageHeader){ type, (guint32) size_bytes };
  self->size_bytes = size_bytes;
}

static gboolean
is_known (guint32 type)
{
  return sonde_message_type_to_string (type)[0] != '?';
}

gboolean
hostile_is_of_worker (guint32 type, SondeMessageWay way)
{
  HostileMessage message;

  make_plain (&message, type, sizeof message.header);
  return is_known (type) && g_strcmp0 (judge (&message, way), "not this side's to send") != 0;
}

/* As the judge wants it. */
static size_t
size_of (guint32 type, SondeMessageWay way)
{
  HostileMessage message;

  for (size_t size_bytes = sizeof message.header; size_bytes <= SONDE_MESSAGE_MAX_SIZE;
       size_bytes++)
    {
      make_plain (&message, type, size_bytes);
      if (g_strcmp0 (judge (&message, way), "size is not the type's") != 0)
        return size_bytes;
    }
  g_error ("a \"%s\" of no size is right", sonde_message_type_to_string (type));
}

void
hostile_make_good (HostileMessage *self, guint32 type)
{
  SondeMessageWay way = hostile_is_of_worker (type, SONDE_WAY_WORKER_TO_FRONT)
                            ? SONDE_WAY_WORKER_TO_FRONT
                            : SONDE_WAY_WORKER_TO_BROKER;

  make_plain (self, type, size_of (type, way));
  if (type == SONDE_MESSAGE_HELLO)
    self->hello.version = SONDE_MESSAGE_VERSION;
  else if (type == SONDE_MESSAGE_PROCESS_REQUEST)
    self->process_request.request_id = 1, self->process_request.pid = 1;
  else if (type == SONDE_MESSAGE_FILE_REQUEST)
    self->file_request.request_id = 1, self->file_request.pid = 1;
  else if (type == SONDE_MESSAGE_COUNTERS_REQUEST)
    self->counters_request.pid = 1;
  else if (type == SONDE_MESSAGE_CONTROLS)
    self->controls.n_taken = self->controls.n_open = 4711;
  else if (type == SONDE_MESSAGE_SINK_CLOSED)
    self->sink_closed.sink_id = 4711;
  else if (type == SONDE_MESSAGE_SNAPPED)
    self->snapped.request_id = 4711;
  if (judge (self, way) != NULL)
    g_error ("a \"%s\" of zeroes is not good: %s", sonde_message_type_to_string (type),
             judge (self, way));
}

/* --- packets that cannot be --- */

enum
{
  N_ODD = 12,
};

/* Those that only somebody could think of who knows the fields. */
static void
make_odd (HostileMessage *self, unsigned index)
{
  static const guint32 types[N_ODD] = {
    [3] = SONDE_MESSAGE_STATISTICS,      [4] = SONDE_MESSAGE_STATISTICS,
    [5] = SONDE_MESSAGE_PROCESS_REQUEST, [6] = SONDE_MESSAGE_PROCESS_REQUEST,
    [7] = SONDE_MESSAGE_FILE_REQUEST,    [8] = SONDE_MESSAGE_FAILED,
    [9] = SONDE_MESSAGE_FAILED,          [10] = SONDE_MESSAGE_STATISTICS,
  };

  if (types[index] != 0)
    hostile_make_good (self, types[index]);
  else
    make_plain (self, 0x55000000, sizeof self->header);
  switch (index)
    {
    case 0: /* the end of the connection */
      self->size_bytes = 0;
      break;
    case 1:
      self->size_bytes = 4;
      break;
    case 2:
      self->size_bytes = sizeof self->bytes;
      break;
    case 3: /* sizes that lie */
      self->size_bytes -= 8;
      break;
    case 4:
      self->header.size = 0xffffffff;
      break;
    case 5: /* requests without a number, of nobody, with something behind */
      self->process_request.request_id = 0;
      break;
    case 6:
      self->process_request.pid = -1;
      break;
    case 7:
      self->file_request.kind = SONDE_N_FILES;
      break;
    case 8: /* a text without an end, and one for the terminal */
      memset (self->failed.text, 'x', sizeof self->failed.text);
      break;
    case 9:
      g_strlcpy (self->failed.text, "\033[2J", sizeof self->failed.text);
      break;
    case 10:
      self->n_fds = SONDE_MESSAGE_MAX_FDS;
      break;
    }
}

typedef enum
{
  PLAIN, /* control's own, and numbers next to those that are types */
  SHORT,
  LONG,
  WITH_FD,
  FULL, /* of bits */
  N_WRONGS,
} Wrong;

/* FALSE: there is no such packet, or nothing is wrong with it. */
static gboolean
make_wrong (HostileMessage *self, SondeMessageWay way, guint32 type, Wrong wrong)
{
  size_t size_bytes;

  if (!hostile_is_of_worker (type, way))
    {
      make_plain (self, type, sizeof self->header);
      return wrong == PLAIN
             && (is_known (type) || is_known (type + 1) || (type > 0 && is_known (type - 1)));
    }
  size_bytes = size_of (type, way);
  make_plain (self, type, size_bytes + (wrong == LONG ? 8 : 0) - (wrong == SHORT ? 1 : 0));
  self->n_fds = wrong == WITH_FD;
  if (wrong == FULL)
    memset (self->bytes + sizeof self->header, 0xff, size_bytes - sizeof self->header);
  return judge (self, way) != NULL;
}

gboolean
hostile_make_bad (HostileMessage *self, SondeMessageWay way, unsigned index)
{
  if (index < N_ODD)
    {
      make_odd (self, index);
      return TRUE;
    }
  index -= N_ODD;
  for (guint32 type = 0; type <= HOSTILE_MAX_TYPE; type++)
    for (Wrong wrong = PLAIN; wrong < N_WRONGS; wrong++)
      if (make_wrong (self, way, type, wrong) && index-- == 0)
        return TRUE;
  return FALSE;
}
