/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Builds capture frames in place in a buffer and hands full buffers on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/frame.h"

/**
 * SondeWriterFull:
 * @user_data: as given to sonde_writer_new()
 * @buffer: the buffer that is full or flushed
 * @used_bytes: how much of it holds whole frames; never a part of a frame, 0 only never
 *
 * Takes the filled buffer and returns the next one to fill, of the same size and 8-aligned: the
 * same pointer if its bytes are consumed already, another one if @buffer was kept (no copy is
 * needed).
 *
 * Returns: the next buffer; NULL is a failure: the writer then refuses frames with -EPIPE
 */
typedef void *(*SondeWriterFull) (void *user_data, void *buffer, size_t used_bytes);

/**
 * SondeWriterReserve:
 * @size_bytes: of the frame, a multiple of 8
 * @place: (out): 8-aligned room for it, to be filled at once
 *
 * Makes room for one frame where it shall be built, such as in a ring.
 *
 * Returns: 0; or a negative errno, which the function that adds the frame returns
 */
typedef int (*SondeWriterReserve) (void *user_data, size_t size_bytes, void **place);

/* Private, and here so that one can be part of another struct where malloc may not be called. */
typedef struct
{
  SondeWriterReserve place; /* NULL: into the buffer */
  SondeWriterFull full;
  void *user_data;
  uint8_t *buffer; /* NULL once the callback failed */
  size_t size_bytes;
  size_t used_bytes;
  uint64_t n_frames;
} SondeWriter;

#define SONDE_WRITER_MIN_BUFFER_SIZE 65536

/* What every frame has. */
typedef struct
{
  int64_t time_ns; /* CLOCK_MONOTONIC */
  int cpu;         /* -1 unknown */
  int32_t pid;     /* -1 none */
} SondeFrameOrigin;

/**
 * sonde_writer_new:
 * @buffer: (transfer none): first buffer to fill, 8-aligned
 * @buffer_size_bytes: at least SONDE_WRITER_MIN_BUFFER_SIZE
 *
 * One thread at a time. No limit on the size of the capture. All padding is zero.
 *
 * Returns: NULL and errno EINVAL or ENOMEM
 */
SondeWriter *
sonde_writer_new (void *buffer, size_t buffer_size_bytes, SondeWriterFull full, void *user_data);

/**
 * sonde_writer_init_in_place:
 * @self: (out): need not be freed
 *
 * A writer without a buffer: it builds each frame in the room that @place gives, and it is whole
 * when the function that adds it returns. No memory is allocated; adding a frame is safe in a
 * signal handler if @place is. sonde_writer_flush() and what asks for the buffer do not apply.
 */
void sonde_writer_init_in_place (SondeWriter *self, SondeWriterReserve place, void *user_data);

/* Does not flush; the current buffer stays the caller's. Accepts NULL. */
void sonde_writer_free (SondeWriter *self);

/* Hands the current buffer on if it holds anything. 0 or -EPIPE. */
int sonde_writer_flush (SondeWriter *self);

/* Bytes in the current buffer that are not handed on yet. */
size_t sonde_writer_pending (const SondeWriter *self);

/* The buffer being filled (may differ from the first after flushes). */
void *sonde_writer_buffer (const SondeWriter *self);

/* Frames added so far, in total (file header not counted). */
uint64_t sonde_writer_n_frames (const SondeWriter *self);

/*
 * Each of the following adds one frame (or, where said, several) and returns 0, or a negative
 * errno: -EMSGSIZE what was given can never fit a frame (nothing was added), -EPIPE the callback
 * failed (of a writer in place: what its callback returned), -EINVAL an argument is out of its
 * range. Strings longer than fit are cut at a UTF-8 boundary where possible; the paths of embedded
 * files and overlays are refused instead, for half a path is another one. Invalid UTF-8 and
 * newlines are stored as given: the reader decides how to show them. An empty array of names or
 * counters adds no frame.
 */
int sonde_writer_add_file_header (SondeWriter *self, int64_t realtime_ns, int64_t start_ns);
int sonde_writer_add_timestamp (SondeWriter *self, const SondeFrameOrigin *origin);
int sonde_writer_add_sample (SondeWriter *self,
                             const SondeFrameOrigin *origin,
                             int32_t tid,
                             const uint64_t *addrs,
                             size_t n_addrs);
/* @build_id: hexadecimal text, stored behind the path's NUL as "@HEX", or NULL. */
int sonde_writer_add_map (SondeWriter *self,
                          const SondeFrameOrigin *origin,
                          uint64_t start,
                          uint64_t end,
                          uint64_t offset,
                          uint64_t inode,
                          const char *path,
                          const char *build_id);
int
sonde_writer_add_process (SondeWriter *self, const SondeFrameOrigin *origin, const char *cmdline);
int sonde_writer_add_fork (SondeWriter *self, const SondeFrameOrigin *origin, int32_t child);
int sonde_writer_add_exit (SondeWriter *self, const SondeFrameOrigin *origin);

typedef struct
{
  uint64_t address;
  const char *name;
} SondeJitName;

/* Several frames when the names do not fit one. */
int sonde_writer_add_jitmap (SondeWriter *self,
                             const SondeFrameOrigin *origin,
                             const SondeJitName *names,
                             size_t n_names);

typedef struct
{
  const char *category;
  const char *name;
  const char *description;
  uint32_t id;  /* 1 ... 2^24-1 */
  uint8_t type; /* SONDE_COUNTER_INT64 or SONDE_COUNTER_DOUBLE */
  SondeCounterValue value;
} SondeCounter;

/* Several frames when they do not fit one (511 counters a frame). */
int sonde_writer_add_counter_define (SondeWriter *self,
                                     const SondeFrameOrigin *origin,
                                     const SondeCounter *counters,
                                     size_t n_counters);
int sonde_writer_add_counter_set (SondeWriter *self,
                                  const SondeFrameOrigin *origin,
                                  const uint32_t *ids,
                                  const SondeCounterValue *values,
                                  size_t n_counters);
int sonde_writer_add_mark (SondeWriter *self,
                           const SondeFrameOrigin *origin,
                           int64_t duration_ns,
                           const char *group,
                           const char *name,
                           const char *message);
int sonde_writer_add_metadata (SondeWriter *self,
                               const SondeFrameOrigin *origin,
                               const char *id,
                               const char *text,
                               size_t text_len);
int sonde_writer_add_log (SondeWriter *self,
                          const SondeFrameOrigin *origin,
                          uint16_t severity,
                          const char *domain,
                          const char *message);
/* One piece of an embedded file, at most SONDE_WRITER_MAX_CHUNK bytes: a frame of 16 KiB, as Sysprof's own
 * writer makes them. Its sysprof_capture_writer_cat() (3.46, `sysprof-cli --merge`) copies larger frames past the
 * end of its buffer of that size. */
#define SONDE_WRITER_MAX_CHUNK (16384 - sizeof (SondeFrameFileChunk))
int sonde_writer_add_file_chunk (SondeWriter *self,
                                 const SondeFrameOrigin *origin,
                                 const char *path,
                                 const void *data,
                                 size_t size_bytes,
                                 bool is_last);
int sonde_writer_add_allocation (SondeWriter *self,
                                 const SondeFrameOrigin *origin,
                                 int32_t tid,
                                 uint64_t address,
                                 int64_t size_bytes,
                                 const uint64_t *addrs,
                                 size_t n_addrs);
int sonde_writer_add_overlay (SondeWriter *self,
                              const SondeFrameOrigin *origin,
                              uint8_t layer,
                              const char *src,
                              const char *dst);
/* Copies a whole frame that sonde_frame_check() accepted; its header's padding becomes zero. */
int sonde_writer_add_frame (SondeWriter *self, const SondeFrame *frame);
