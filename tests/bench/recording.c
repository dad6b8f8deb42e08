/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/bench/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/capture/perf/perf-ring.h"
#include "unwind/unwinder.h"

enum
{
  PERIOD_NS = 250000, /* of CPU time */
  MAX_RING_BYTES = 16 << 20,
  MIN_RING_BYTES = 256 << 10,
  POLL_MS = 10,
  MAX_POLLS = 3000, /* half a minute: no command may take longer */
};

/* A command being recorded. */
typedef struct
{
  Recording *recording;
  size_t max_samples;
  pid_t child;
  int start_fd; /* closing it lets the child exec */
  GArray *fds;  /* of int */
  GPtrArray *rings;
} Recorder;

static void
recorder_clear (Recorder *self)
{
  if (self->start_fd >= 0)
    close (self->start_fd);
  for (guint i = 0; i < self->fds->len; i++)
    close (g_array_index (self->fds, int, i));
  g_array_unref (self->fds);
  g_ptr_array_unref (self->rings);
}

static void
run_child (const char *const *argv, int start_fd)
{
  int null_fd = open ("/dev/null", O_RDWR | O_CLOEXEC);
  char byte;

  setpgid (0, 0);
  if (read (start_fd, &byte, 1) < 0 || null_fd < 0)
    _exit (126);
  dup2 (null_fd, STDIN_FILENO);
  dup2 (null_fd, STDOUT_FILENO);
  dup2 (null_fd, STDERR_FILENO);
  execv (argv[0], (char *const *) argv);
  _exit (127);
}

/* A child of its own process group that waits before it execs. */
static gboolean
spawn (Recorder *self, const char *const *argv)
{
  int pipe_fds[2];

  if (pipe2 (pipe_fds, O_CLOEXEC) < 0)
    return FALSE;
  self->child = fork ();
  if (self->child == 0)
    {
      close (pipe_fds[1]);
      run_child (argv, pipe_fds[0]);
    }
  close (pipe_fds[0]);
  self->start_fd = pipe_fds[1];
  setpgid (self->child, self->child);

  return self->child > 0;
}

static int
open_event (const Recorder *self, int cpu)
{
  struct perf_event_attr attr = {
    .type = PERF_TYPE_SOFTWARE,
    .size = sizeof attr,
    .config = PERF_COUNT_SW_CPU_CLOCK,
    .sample_period = PERIOD_NS,
    .sample_type = self->recording->decoder.sample_type,
    .sample_regs_user = self->recording->decoder.regs_user,
    .sample_stack_user = (guint32) self->recording->dump_size_bytes,
    .disabled = 1,
    .enable_on_exec = 1,
    .inherit = 1,
    .mmap = 1,
    .mmap2 = 1,
    .comm = 1,
    .comm_exec = 1,
    .task = 1,
    .sample_id_all = 1,
    .use_clockid = 1,
    .clockid = CLOCK_MONOTONIC,
  };

  return (int) syscall (SYS_perf_event_open, &attr, self->child, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int
open_ring (Recorder *self, int fd)
{
  SondePerfRing *ring = NULL;
  int r = -EPERM;

  for (size_t size = MAX_RING_BYTES; r < 0 && size >= MIN_RING_BYTES; size /= 2)
    r = sonde_perf_ring_open (fd, size, &ring);
  if (r == 0)
    g_ptr_array_add (self->rings, ring);

  return r;
}

/* One event and ring for each CPU. */
static int
open_events (Recorder *self)
{
  int n_cpus = (int) sysconf (_SC_NPROCESSORS_CONF);

  for (int cpu = 0; cpu < n_cpus; cpu++)
    {
      int fd = open_event (self, cpu);
      int r;

      if (fd < 0 && errno == ENODEV) /* a CPU that is off */
        continue;
      if (fd < 0)
        return -errno;
      g_array_append_val (self->fds, fd);
      r = open_ring (self, fd);
      if (r < 0)
        return r;
    }
  return 0;
}

static void
keep_record (Recorder *self, const struct perf_event_header *header)
{
  Recording *recording = self->recording;
  gsize at = recording->bytes->len;
  SondePerfRecord record;

  if (sonde_perf_decoder_decode (&recording->decoder, header, &record) != SONDE_PERF_RECORD_OK)
    return;
  if (record.type == SONDE_PERF_RECORD_LOST)
    recording->n_lost += record.n_lost;
  if (record.type == SONDE_PERF_RECORD_SAMPLE)
    {
      if (record.sample.abi != PERF_SAMPLE_REGS_ABI_64 || recording->n_samples >= self->max_samples)
        return;
      recording->n_samples++;
    }
  g_array_append_val (recording->order, at);
  g_byte_array_append (recording->bytes, (const guint8 *) header, header->size);
}

static void
drain (Recorder *self)
{
  for (guint i = 0; i < self->rings->len; i++)
    {
      SondePerfRing *ring = self->rings->pdata[i];
      const struct perf_event_header *header;

      while (sonde_perf_ring_front (ring, &header) == 1)
        {
          keep_record (self, header);
          sonde_perf_ring_pop (ring);
        }
    }
}

static void
record_until_end (Recorder *self)
{
  gboolean running = TRUE;

  for (unsigned i = 0; running; i++)
    {
      if (self->recording->n_samples >= self->max_samples || i == MAX_POLLS)
        {
          kill (-self->child, SIGKILL);
          waitpid (self->child, NULL, 0);
          running = FALSE;
        }
      else if (waitpid (self->child, NULL, WNOHANG) == self->child)
        {
          kill (-self->child, SIGKILL); /* what it left behind */
          running = FALSE;
        }
      else
        poll (NULL, 0, POLL_MS);
      drain (self);
    }
}

static int
compare_times (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Recording *self = user_data;
  const gsize *left = a;
  const gsize *right = b;
  int64_t left_ns
      = sonde_perf_decoder_time (&self->decoder, (const void *) (self->bytes->data + *left));
  int64_t right_ns
      = sonde_perf_decoder_time (&self->decoder, (const void *) (self->bytes->data + *right));

  return left_ns < right_ns ? -1 : left_ns > right_ns;
}

static Recording *
new_empty (size_t dump_size_bytes)
{
  Recording *self = g_new0 (Recording, 1);

  self->decoder = (SondePerfDecoder){
    .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME
                   | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
    .regs_user = sonde_unwinder_regs_mask (),
  };
  self->dump_size_bytes = dump_size_bytes;
  self->bytes = g_byte_array_new ();
  self->order = g_array_new (FALSE, FALSE, sizeof (gsize));

  return self;
}

Recording *
recording_new (const char *const *argv, size_t max_samples, size_t dump_size_bytes, char **reason)
{
  g_autoptr (Recording) self = new_empty (dump_size_bytes);
  Recorder recorder = {
    .recording = self,
    .max_samples = max_samples,
    .start_fd = -1,
    .fds = g_array_new (FALSE, FALSE, sizeof (int)),
    .rings = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_perf_ring_close),
  };
  int r;

  if (!spawn (&recorder, argv))
    g_error ("Cannot start %s: %s", argv[0], g_strerror (errno));
  r = open_events (&recorder);
  if (r < 0)
    {
      *reason = g_strdup_printf ("cannot record: %s", g_strerror (-r));
      kill (recorder.child, SIGKILL);
      waitpid (recorder.child, NULL, 0);
      recorder_clear (&recorder);
      return NULL;
    }
  close (recorder.start_fd);
  recorder.start_fd = -1;
  record_until_end (&recorder);
  recorder_clear (&recorder);
  g_array_sort_with_data (self->order, compare_times, self);

  return g_steal_pointer (&self);
}

void
recording_free (Recording *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->bytes);
  g_array_unref (self->order);
  g_free (self);
}

const struct perf_event_header *
recording_get (const Recording *self, size_t i)
{
  return (const void *) (self->bytes->data + g_array_index (self->order, gsize, i));
}
