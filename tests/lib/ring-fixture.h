/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A ring with its reader, and its writer where the test is not the writer itself. */
#pragma once

#include <glib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared-ring/ring-reader.h"
#include "shared-ring/ring-writer.h"

#define RING_PID 4242

typedef enum
{
  RING_NO_WRITER,
  RING_OWN_MAPPING,  /* the writer maps the file, as in another process */
  RING_SAME_MAPPING, /* both use one, so that ThreadSanitizer knows that it is the same memory */
} RingFixtureWriter;

typedef struct
{
  SondeRingReader *reader;
  SondeRingWriter *writer;
  int ring_fd;
  int link[2];  /* the reader's end, the writer's end */
  guint8 *file; /* the ring's file, as a writer without manners would map it */
  gsize file_bytes;
} RingFixture;

static inline RingFixture *
ring_fixture_new_with (const SondeRingOptions *options, RingFixtureWriter writer)
{
  RingFixture *self = g_new0 (RingFixture, 1);
  SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, RING_PID };
  SondeRingMemory memory;

  g_assert_cmpint (sonde_ring_memory_create (options, &memory, &self->ring_fd), ==, 0);
  self->file_bytes = memory.header_bytes + memory.size_bytes;
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, self->link), ==, 0);
  if (writer == RING_OWN_MAPPING)
    g_assert_cmpint (sonde_ring_writer_open (self->ring_fd, self->link[1], &self->writer), ==, 0);
  else if (writer == RING_SAME_MAPPING)
    g_assert_cmpint (sonde_ring_writer_new (&memory, self->link[1], &self->writer), ==, 0);
  g_assert_cmpint (sonde_ring_reader_new (&memory, &rights, &self->reader), ==, 0);
  self->file = mmap (NULL, self->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->ring_fd, 0);
  g_assert_true (self->file != MAP_FAILED);

  return self;
}

static inline RingFixture *
ring_fixture_new (SondeRingKind kind, guint32 wait_us, RingFixtureWriter writer)
{
  const SondeRingOptions options = { kind, SONDE_RING_MIN_BYTES, wait_us, 0 };

  return ring_fixture_new_with (&options, writer);
}

static inline void
ring_fixture_free (RingFixture *self)
{
  sonde_ring_writer_close (self->writer);
  sonde_ring_reader_free (self->reader);
  munmap (self->file, self->file_bytes);
  close (self->ring_fd);
  close (self->link[0]);
  close (self->link[1]);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RingFixture, ring_fixture_free)

static inline SondeRingHeader *
ring_fixture_header (RingFixture *self)
{
  return (gpointer) self->file;
}

static inline guint8 *
ring_fixture_body (RingFixture *self)
{
  return self->file + self->file_bytes - SONDE_RING_MIN_BYTES;
}

/* How often the doorbell rang since the last question. */
static inline guint
ring_fixture_n_bells (RingFixture *self)
{
  guint8 message[64];
  guint n = 0;

  while (recv (self->link[0], message, sizeof message, MSG_DONTWAIT) > 0)
    n++;

  return n;
}

/* A LOG frame of this many bytes, whose severity says which it is. */
static inline void
ring_fixture_fill (gpointer place, gsize size_bytes, guint16 number)
{
  SondeFrameLog *log = place;

  memset (log, 0, size_bytes);
  log->frame.len = (guint16) size_bytes;
  log->frame.cpu = -1;
  log->frame.pid = RING_PID;
  log->frame.type = SONDE_FRAME_LOG;
  log->severity = number;
}

/* What sonde_ring_writer_reserve() said. */
static inline int
ring_fixture_write (RingFixture *self, gsize size_bytes, guint16 number)
{
  gpointer place;
  int r = sonde_ring_writer_reserve (self->writer, size_bytes, &place);

  if (r < 0)
    return r;
  ring_fixture_fill (place, size_bytes, number);
  sonde_ring_writer_commit (self->writer);

  return 0;
}

/* Takes one frame, which must be there, and gives its room back. */
static inline const SondeFrameLog *
ring_fixture_take (RingFixture *self)
{
  const SondeFrame *frame = NULL;

  g_assert_cmpint (sonde_ring_reader_begin (self->reader, SIZE_MAX), ==, 0);
  g_assert_cmpint (sonde_ring_reader_next (self->reader, &frame), ==, 1);
  sonde_ring_reader_release (self->reader);
  g_assert_cmpuint (frame->type, ==, SONDE_FRAME_LOG);

  return (const SondeFrameLog *) frame;
}
