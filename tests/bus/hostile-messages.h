/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker could say that it should not: made from the judge's own answers, so that a new type
 * of message is among it. */
#pragma once

#include <glib.h>

#include "daemon/base/message.h"

#define HOSTILE_MAX_TYPE 400 /* the last number that is looked at as a type */

typedef struct
{
  union
  {
    SondeMessageHeader header;
    SondeMessageSetup setup;
    SondeMessageHello hello;
    SondeMessageRingsMapped mapped;
    SondeMessageProcessRequest process_request;
    SondeMessageFileRequest file_request;
    SondeMessageCountersRequest counters_request;
    SondeMessageControls controls;
    SondeMessageSnapped snapped;
    SondeMessageSinkClosed sink_closed;
    SondeMessageFailed failed;
    SondeMessageProcess process;
    SondeMessageFile file;
    char bytes[SONDE_MESSAGE_MAX_SIZE + 4096];
  };
  size_t size_bytes;
  unsigned n_fds;
} HostileMessage;

/* Whether workers have messages of this type that go that way. */
gboolean hostile_is_of_worker (guint32 type, SondeMessageWay way);

/* One of a worker that sonded, or its broker, would take in its turn. Aborts if that cannot be
 * made: a type whose fields must not be 0 is to be told of in there. */
void hostile_make_good (HostileMessage *self, guint32 type);

/* The packet of this number, which cannot go that way; FALSE: there are no more. */
gboolean hostile_make_bad (HostileMessage *self, SondeMessageWay way, unsigned index);
