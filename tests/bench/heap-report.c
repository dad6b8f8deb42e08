/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures how long sondectl heap takes for 10 million events: heap-report [FILE], which keeps the
 * capture. */
#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/writer.h"

#define N_EVENTS    10000000u
#define N_THREADS   4u
#define RUN         2048u /* events of a thread that stand together */
#define N_LIVE      100000u
#define N_STACKS    5000u
#define DEPTH       20u
#define BUFFER_SIZE (1u << 20)

typedef struct
{
  int fd;
  SondeWriter *writer;
  guint32 random;
  gint64 times_ns[N_THREADS];
  guint64 blocks[N_LIVE]; /* address, 0: free */
  guint64 next_address;
} Maker;

static void *
flush (void *user_data, void *buffer, size_t used_bytes)
{
  const Maker *self = user_data;

  if (write (self->fd, buffer, used_bytes) != (gssize) used_bytes)
    g_error ("Cannot write the capture: %s", g_strerror (errno));
  return buffer;
}

/* Xorshift: the same capture each time. */
static guint32
random_below (Maker *self, guint32 limit)
{
  self->random ^= self->random << 13;
  self->random ^= self->random >> 17;
  self->random ^= self->random << 5;
  return self->random % limit;
}

/* Stacks share their outer half, as those of programs do. */
static void
add_event (Maker *self, guint thread)
{
  SondeFrameOrigin origin = { .pid = 100, .cpu = 0, .time_ns = self->times_ns[thread] += 200 };
  guint block = random_below (self, N_LIVE / N_THREADS) * N_THREADS + thread;
  guint64 addrs[DEPTH];
  guint stack;

  if (self->blocks[block] != 0)
    {
      sonde_writer_add_allocation (self->writer, &origin, 100 + (int) thread, self->blocks[block],
                                   0, NULL, 0);
      self->blocks[block] = 0;
      return;
    }
  stack = random_below (self, N_STACKS);
  for (guint i = 0; i < DEPTH; i++)
    addrs[i] = i < DEPTH / 2 ? 0x500000 + (guint64) stack * 64 * (DEPTH - i) : 0x400000 + i * 64;
  self->blocks[block] = self->next_address += 16 * (1 + random_below (self, 64));
  sonde_writer_add_allocation (self->writer, &origin, 100 + (int) thread, self->blocks[block],
                               16 + random_below (self, 4096), addrs, DEPTH);
}

static void
make_capture (const char *path)
{
  g_autofree Maker *self = g_new0 (Maker, 1);
  g_autofree void *buffer = g_malloc (BUFFER_SIZE);

  self->fd = g_open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  self->writer = sonde_writer_new (buffer, BUFFER_SIZE, flush, self);
  self->random = 1;
  self->next_address = 0x10000;
  if (self->fd < 0 || self->writer == NULL
      || sonde_writer_add_file_header (self->writer, 0, 1000) < 0)
    g_error ("Cannot begin the capture");
  for (guint i = 0; i < N_EVENTS; i++)
    add_event (self, i / RUN % N_THREADS);
  sonde_writer_flush (self->writer);
  sonde_writer_free (self->writer);
  close (self->fd);
}

int
main (int argc, char **argv)
{
  g_autofree char *own = NULL;
  const char *path = argc > 2 ? argv[2] : NULL;
  g_autoptr (GError) error = NULL;
  struct rusage usage;
  int status = -1;

  if (argc < 2)
    g_error ("usage: heap-report SONDECTL [FILE]");
  if (path == NULL)
    {
      int fd = g_file_open_tmp ("sonde-bench-XXXXXX.syscap", &own, NULL);

      close (fd);
      path = own;
    }
  make_capture (path);
  if (!g_spawn_sync (NULL, (char *[]){ argv[1], (char *) "heap", (char *) path, NULL }, NULL,
                     G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, NULL, &status, &error))
    g_error ("%s", error->message);
  if (own != NULL)
    g_unlink (own);
  getrusage (RUSAGE_CHILDREN, &usage);
  g_print ("bench heap-report events=%u cpu_seconds=%.2f rss_mib=%ld status=%d\n", N_EVENTS,
           (double) usage.ru_utime.tv_sec + (double) usage.ru_utime.tv_usec / 1e6
               + (double) usage.ru_stime.tv_sec + (double) usage.ru_stime.tv_usec / 1e6,
           usage.ru_maxrss / 1024, WEXITSTATUS (status));
  return status == 0 ? 0 : 1;
}
