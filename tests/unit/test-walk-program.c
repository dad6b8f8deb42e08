/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The BPF program that walks interpreters, as the kernel of this machine takes it. */
#include "config.h"

#include "daemon/broker/walk-program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/capture/interpreter/python-finder.h"
#include "daemon/capture/interpreter/walk-pairs.h"
#include "daemon/broker/rights.h"

/* NULL: skipped */
static SondeWalkProgram *
program_new_of (gboolean shows_closed)
{
  g_autofree char *why = NULL;
  SondeWalkProgram *program = sonde_walk_program_new (shows_closed, &why);

  if (program != NULL)
    return program;
  g_assert_nonnull (why);
  if (HAVE_WALK_PROGRAM && getuid () == 0)
    g_test_message ("%s", why);
  g_test_skip (why);
  return NULL;
}

static SondeWalkProgram *
program_new (void)
{
  return program_new_of (FALSE);
}

static int
open_event (guint64 config, guint64 sample_type)
{
  struct perf_event_attr attr = { .size = sizeof attr,
                                  .type = PERF_TYPE_SOFTWARE,
                                  .config = config,
                                  .sample_period = 1000000,
                                  .sample_type = sample_type,
                                  .read_format = PERF_FORMAT_LOST,
                                  .disabled = 1 };

  return (int) syscall (SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* --- cases --- */

static void
runs_at_one_event_once (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  sonde_autofd int clock_fd = -1;
  sonde_autofd int output_fd = -1;

  if (program == NULL)
    return;
  clock_fd = open_event (PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_IP);
  output_fd = open_event (PERF_COUNT_SW_BPF_OUTPUT, PERF_SAMPLE_RAW);
  if (clock_fd < 0 || output_fd < 0)
    {
      g_test_skip ("needs the right to events of whole processors");
      return;
    }
  g_assert_cmpint (sonde_walk_program_set_output (program, 0, output_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_attach (program, clock_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_attach (program, clock_fd), ==, -EEXIST);
}

static void
takes_outputs_of_its_kind_alone (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();

  if (program == NULL)
    return;
  g_assert_cmpint (sonde_walk_program_set_output (program, 0, STDIN_FILENO), <, 0);
  g_assert_cmpint (sonde_walk_program_set_output (program, -1, STDIN_FILENO), <, 0);
}

static void
is_told_of_more_processes_than_it_has_room_for (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  SondeWalkPlace place = { .generation = 1 };

  if (program == NULL)
    return;
  for (pid_t pid = 1; pid <= 5000; pid++)
    g_assert_cmpint (sonde_walk_program_set_place (program, pid, &place), ==, 0);
  for (pid_t pid = 1; pid <= 5000; pid++)
    g_assert_cmpint (sonde_walk_program_set_place (program, pid, NULL), ==, 0);
}

/* In a process of its own: what is given up does not come back. */
static void
says_why_there_is_none (void)
{
  pid_t pid = fork ();
  int status;

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      cap_t none = cap_init ();
      char *why = NULL;

      /* Where everybody may load programs there is nothing to be refused. */
      _exit (cap_set_proc (none) == 0 && sonde_walk_program_new (FALSE, &why) == NULL && why != NULL
                     && why[0] != '\0'
                 ? EXIT_SUCCESS
                 : EXIT_FAILURE);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

/* As a broker does. */
static void
load_by_what_a_broker_has (void)
{
  g_autofree char *why = NULL;
  SondeWalkProgram *program;

  if (!sonde_capabilities_init (NULL) || !sonde_broker_calls_enforce (STDERR_FILENO, NULL))
    _exit (EXIT_FAILURE);
  program = sonde_walk_program_new (FALSE, &why);
  _exit (program != NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void
needs_two_capabilities_and_the_calls_of_a_broker (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  pid_t pid;
  int status;

  if (program == NULL)
    return;
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    load_by_what_a_broker_has ();
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

/* --- what it costs --- */

/* What the kernel says of our programs and maps, of those lines of it that begin with @key. */
static guint64
sum_of_descriptors (const char *key)
{
  g_autoptr (GDir) folder = g_dir_open ("/proc/self/fdinfo", 0, NULL);
  const char *name;
  guint64 sum = 0;

  while ((name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("/proc/self/fdinfo/%s", name);
      g_autofree char *text = NULL;
      const char *line;

      if (!g_file_get_contents (path, &text, NULL, NULL))
        continue;
      line = strstr (text, key);
      if (line != NULL)
        sum += g_ascii_strtoull (line + strlen (key), NULL, 10);
    }
  return sum;
}

/* The kernel follows all paths of a function at each call of it, unless it is one that it looks at
 * by itself: 50 times as many instructions, for 0.1 s of each session. */
static void
is_loaded_for_little (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  guint64 n_instructions;
  guint64 n_bytes;

  if (program == NULL)
    return;
  n_instructions = sum_of_descriptors ("verified_insns:");
  n_bytes = sum_of_descriptors ("memlock:");
  g_test_message ("%" G_GUINT64_FORMAT " instructions, %" G_GUINT64_FORMAT " bytes", n_instructions,
                  n_bytes);
  g_assert_cmpuint (n_instructions, >, 0);
  g_assert_cmpuint (n_instructions, <, 10000);
  g_assert_cmpuint (n_bytes, >, 0);
  g_assert_cmpuint (n_bytes, <=, (1 << 20) + g_get_num_processors () * (16 << 10));
}

/* --- what stays of it --- */

#define N_LOADS      1000 /* with SONDE_TEST_LONG=1, else a hundredth */
#define N_GRACE_MS   5000 /* the kernel frees a program and its maps in its own time */
#define MAX_OF_OTHER 64

/* Numbers of objects of the kernel that are there: @command: what tells the next one. -1: it may
 * not be asked */
static int
count_objects (int command)
{
  union bpf_attr attr = { 0 };
  int n = 0;

  while (syscall (SYS_bpf, command, &attr, sizeof attr) == 0)
    {
      n++;
      attr = (union bpf_attr){ .start_id = attr.next_id };
    }
  return errno == ENOENT ? n : -1;
}

static guint
count_descriptors (void)
{
  g_autoptr (GDir) folder = g_dir_open ("/proc/self/fd", 0, NULL);
  guint n = 0;

  while (g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

/* As a session does it from its begin to its end. FALSE: skipped */
static gboolean
load_and_leave (pid_t pid)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  const SondeWalkPlace place = { .generation = 1 };
  sonde_autofd int clock_fd = -1;
  sonde_autofd int output_fd = -1;

  if (program == NULL)
    return FALSE;
  clock_fd = open_event (PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_IP);
  output_fd = open_event (PERF_COUNT_SW_BPF_OUTPUT, PERF_SAMPLE_RAW);
  if (clock_fd < 0 || output_fd < 0)
    return FALSE;
  g_assert_cmpint (sonde_walk_program_set_output (program, 0, output_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_attach (program, clock_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_set_place (program, pid, &place), ==, 0);
  return TRUE;
}

/* Of programs, maps and types no more are there than before; others on this machine may have some.
 */
static void
leaves_nothing (void)
{
  static const int commands[] = { BPF_PROG_GET_NEXT_ID, BPF_MAP_GET_NEXT_ID, BPF_BTF_GET_NEXT_ID };
  gboolean is_long = g_getenv ("SONDE_TEST_LONG") != NULL;
  guint n_loads = is_long ? N_LOADS : N_LOADS / 100;
  int before[G_N_ELEMENTS (commands)];
  int after[G_N_ELEMENTS (commands)];
  guint n_fds;
  int n_more = 0;

  if (!load_and_leave (getpid ()))
    {
      g_test_skip ("needs the right to programs and to events of whole processors");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    before[i] = count_objects (commands[i]);
  n_fds = count_descriptors ();
  for (guint i = 0; i < n_loads; i++)
    g_assert_true (load_and_leave (getpid ()));
  g_assert_cmpuint (count_descriptors (), ==, n_fds);
  for (guint ms = 0; ms <= N_GRACE_MS; ms += 100)
    {
      n_more = 0;
      for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
        {
          after[i] = count_objects (commands[i]);
          n_more = MAX (n_more, after[i] - before[i]);
        }
      if (n_more <= 0)
        break;
      g_usleep (100000);
    }
  g_test_message ("%u loads: programs %d, %d; maps %d, %d; types %d, %d; descriptors %u", n_loads,
                  before[0], after[0], before[1], after[1], before[2], after[2], n_fds);
  if (before[0] < 0)
    g_test_skip ("the kernel does not tell what programs there are");
  else
    g_assert_cmpint (n_more, <, is_long ? MAX_OF_OTHER : (int) n_loads);
}

/* --- an interpreter of our own --- */

#define RING_PAGES 64 /* a power of two, as the other */
#define FEW_PAGES  1
#define RUN_MS     300
#define N_FRAMES   3

typedef struct
{
  uint64_t references;
  const void *type;
  uint64_t length;
  uint64_t hash;
  uint32_t state;
  char ascii[60];
} FakeText;

typedef struct
{
  uint64_t references;
  const void *type;
  uint64_t length;
  uint8_t bytes[48]; /* from byte 32 on, as CPython's */
} FakeLines;

typedef struct
{
  uint64_t references;
  const void *type;
  uint32_t line;
  const FakeText *file;
  const FakeText *name;
  const void *lines;
} FakeCode;

typedef struct FakeFrame
{
  const struct FakeFrame *caller;
  const void *code;
  const uint8_t *at;
  uint8_t entry;
} FakeFrame;

typedef struct
{
  const FakeFrame *frame;
} FakeState;

static char code_type[8];
static char text_type[8];

typedef struct
{
  uint32_t key[2]; /* it is there; which it is */
  pthread_key_t made;
  FakeText texts[N_FRAMES + 1];
  FakeLines lines;
  FakeCode codes[N_FRAMES];
  FakeFrame frames[N_FRAMES];
  FakeState state;
  SondeWalkPlace place;
} FakeInterpreter;

static void
fake_text (FakeText *text, const char *characters)
{
  *text = (FakeText){ .type = text_type,
                      .length = strlen (characters),
                      .hash = strlen (characters),
                      .state = 1 << 2 | 1 << 5 | 1 << 6 };
  g_strlcpy (text->ascii, characters, sizeof text->ascii);
}

/* What it runs: "f2", which "f1" called, which "f0" did. FALSE: skipped */
static gboolean
fake_init (FakeInterpreter *self)
{
  sonde_autofd int libc_fd = open ("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);

  *self = (FakeInterpreter){ .place = { .generation = 5,
                                        .key = (guintptr) self->key,
                                        .code_type = (guintptr) code_type,
                                        .text_type = (guintptr) text_type,
                                        .kind = SONDE_WALK_PYTHON,
                                        .layout = { .state_frame = offsetof (FakeState, frame),
                                                    .frame_size = sizeof (FakeFrame),
                                                    .frame_code = offsetof (FakeFrame, code),
                                                    .frame_caller = offsetof (FakeFrame, caller),
                                                    .frame_at = offsetof (FakeFrame, at),
                                                    .frame_entry = offsetof (FakeFrame, entry),
                                                    .entry = SONDE_WALK_ENTRY_FLAG,
                                                    .code_line = offsetof (FakeCode, line),
                                                    .code_file = offsetof (FakeCode, file),
                                                    .code_name = offsetof (FakeCode, name),
                                                    .code_lines = offsetof (FakeCode, lines),
                                                    .text_length = offsetof (FakeText, length),
                                                    .text_hash = offsetof (FakeText, hash),
                                                    .text_state = offsetof (FakeText, state),
                                                    .text_ascii = offsetof (FakeText, ascii),
                                                    .text_other = offsetof (FakeText, ascii) } } };
  if (libc_fd < 0 || sonde_python_find_threads (libc_fd, &self->place.layout) < 0)
    {
      g_test_skip ("the C library does not tell how it keeps data of threads");
      return FALSE;
    }
  fake_text (&self->texts[N_FRAMES], "/srv/prog.py");
  self->lines = (FakeLines){ .length = 5 };
  for (guint i = 0; i < N_FRAMES; i++)
    {
      const char name[] = { 'f', (char) ('0' + i), '\0' };

      fake_text (&self->texts[i], name);
      self->codes[i] = (FakeCode){ .type = code_type,
                                   .line = 10 + i,
                                   .file = &self->texts[N_FRAMES],
                                   .name = &self->texts[i],
                                   .lines = &self->lines };
      self->frames[i] = (FakeFrame){ .caller = i > 0 ? &self->frames[i - 1] : NULL,
                                     .code = &self->codes[i],
                                     .at = (const uint8_t *) &self->codes[i] + 200 + i,
                                     .entry = i == 0 };
    }
  self->state.frame = &self->frames[N_FRAMES - 1];
  g_assert_cmpint (pthread_key_create (&self->made, NULL), ==, 0);
  g_assert_cmpint (pthread_setspecific (self->made, &self->state), ==, 0);
  self->key[0] = 1;
  self->key[1] = self->made;
  return TRUE;
}

static void
fake_clear (FakeInterpreter *self)
{
  pthread_key_delete (self->made);
}

/* --- this thread, sampled on one processor --- */

typedef struct
{
  SondeWalkProgram *program;
  int clock_fd;
  int output_fd;
  uint8_t *ring; /* its head in the first page */
  gsize ring_bytes;
  GArray *codes; /* SondeWalkCode */
  GArray *walks; /* SondeWalkRecord */
  guint n_strange;
} Sampled;

static gboolean
sampled_init_of (Sampled *self, gsize n_pages, gboolean shows_closed)
{
  gsize page_bytes = (gsize) sysconf (_SC_PAGESIZE);
  cpu_set_t cpus;

  *self = (Sampled){ .program = program_new_of (shows_closed), .clock_fd = -1, .output_fd = -1 };
  if (self->program == NULL)
    return FALSE;
  CPU_ZERO (&cpus);
  CPU_SET (0, &cpus);
  self->clock_fd = open_event (PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_IP);
  self->output_fd = open_event (PERF_COUNT_SW_BPF_OUTPUT, PERF_SAMPLE_RAW);
  if (self->clock_fd < 0 || self->output_fd < 0 || sched_setaffinity (0, sizeof cpus, &cpus) < 0)
    {
      g_test_skip ("needs the right to events of whole processors");
      return FALSE;
    }
  self->ring_bytes = (1 + n_pages) * page_bytes;
  self->ring
      = mmap (NULL, self->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->output_fd, 0);
  g_assert_true (self->ring != MAP_FAILED);
  g_assert_cmpint (sonde_walk_program_set_output (self->program, 0, self->output_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_attach (self->program, self->clock_fd), ==, 0);
  g_assert_cmpint (ioctl (self->output_fd, PERF_EVENT_IOC_ENABLE, 0), ==, 0);
  g_assert_cmpint (ioctl (self->clock_fd, PERF_EVENT_IOC_ENABLE, 0), ==, 0);
  self->codes = g_array_new (FALSE, FALSE, sizeof (SondeWalkCode));
  self->walks = g_array_new (FALSE, FALSE, sizeof (SondeWalkRecord));
  return TRUE;
}

static gboolean
sampled_init (Sampled *self, gsize n_pages)
{
  return sampled_init_of (self, n_pages, FALSE);
}

static void
sampled_clear (Sampled *self)
{
  cpu_set_t cpus;

  memset (&cpus, 0xff, sizeof cpus);
  sched_setaffinity (0, sizeof cpus, &cpus);
  if (self->ring != NULL)
    munmap (self->ring, self->ring_bytes);
  sonde_clear_fd (&self->clock_fd);
  sonde_clear_fd (&self->output_fd);
  g_clear_pointer (&self->codes, g_array_unref);
  g_clear_pointer (&self->walks, g_array_unref);
  g_clear_pointer (&self->program, sonde_walk_program_free);
}

static void
take_raw (Sampled *self, const uint8_t *bytes, uint32_t size_bytes)
{
  SondeWalkCode code;
  SondeWalkRecord walk;

  if (sonde_walk_code_parse (bytes, size_bytes, &code))
    g_array_append_val (self->codes, code);
  else if (sonde_walk_record_parse (bytes, size_bytes, &walk))
    g_array_append_val (self->walks, walk);
  else
    self->n_strange++;
}

/* All that was written: of PERF_SAMPLE_RAW each record is a header, a size, and the bytes. */
static void
sampled_read (Sampled *self)
{
  struct perf_event_mmap_page *head = (gpointer) self->ring;
  const uint8_t *data = self->ring + head->data_offset;
  uint64_t end = __atomic_load_n (&head->data_head, __ATOMIC_ACQUIRE);
  uint64_t at = head->data_tail;
  g_autofree uint8_t *whole = g_malloc (G_MAXUINT16);

  while (at < end)
    {
      struct perf_event_header header;
      uint32_t size_bytes;

      for (gsize i = 0; i < sizeof header; i++)
        ((uint8_t *) &header)[i] = data[(at + i) % head->data_size];
      for (gsize i = 0; i < header.size; i++)
        whole[i] = data[(at + i) % head->data_size];
      memcpy (&size_bytes, whole + sizeof header, sizeof size_bytes);
      if (header.type == PERF_RECORD_SAMPLE)
        take_raw (self, whole + sizeof header + sizeof size_bytes, size_bytes);
      at += header.size;
    }
  __atomic_store_n (&head->data_tail, at, __ATOMIC_RELEASE);
}

/* What the kernel says that it had no room for. */
static guint64
sampled_n_lost (const Sampled *self)
{
  guint64 values[2]; /* count, lost */

  g_assert_cmpint (read (self->output_fd, values, sizeof values), ==, sizeof values);
  return values[1];
}

static gint64
cpu_time_us (void)
{
  struct timespec now;

  g_assert_cmpint (clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now), ==, 0);
  return now.tv_sec * G_GINT64_CONSTANT (1000000) + now.tv_nsec / 1000;
}

/* Of time of its own, in which there are samples, whatever else the machine does. */
static void
burn (guint ms)
{
  gint64 end = cpu_time_us () + ms * G_GINT64_CONSTANT (1000);

  while (cpu_time_us () < end)
    ;
}

static void
walks_what_runs (void)
{
  FakeInterpreter fake;
  Sampled sampled;

  if (!sampled_init (&sampled, RING_PAGES) || !fake_init (&fake))
    {
      sampled_clear (&sampled);
      return;
    }
  g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &fake.place), ==, 0);
  burn (RUN_MS);
  g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), NULL), ==, 0);
  sampled_read (&sampled);
  g_test_message ("%u walks, %u codes", sampled.walks->len, sampled.codes->len);
  g_assert_cmpuint (sampled.n_strange, ==, 0);
  /* each function once */
  g_assert_cmpuint (sampled.codes->len, ==, N_FRAMES);
  for (guint i = 0; i < N_FRAMES; i++)
    {
      const SondeWalkCode *code = &g_array_index (sampled.codes, SondeWalkCode, i);

      g_assert_cmpuint (code->code, ==, (guintptr) &fake.codes[N_FRAMES - 1 - i]);
      g_assert_cmpuint (code->first_line, ==, 10 + N_FRAMES - 1 - i);
      g_assert_cmpuint (code->lines_bytes, ==, 5);
      g_assert_cmpuint (code->name.size_bytes, ==, 2);
      g_assert_cmpint (code->name_bytes[1], ==, '0' + (int) (N_FRAMES - 1 - i));
      g_assert_cmpint (memcmp (code->file_bytes, "/srv/prog.py", 12), ==, 0);
    }
  g_assert_cmpuint (sampled.walks->len, >, 0);
  for (guint i = 0; i < sampled.walks->len; i++)
    {
      const SondeWalkRecord *walk = &g_array_index (sampled.walks, SondeWalkRecord, i);

      g_assert_cmpuint (walk->flags, ==, 0);
      g_assert_cmpuint (walk->generation, ==, 5);
      g_assert_cmpuint (walk->pid, ==, (guint) getpid ());
      g_assert_cmpuint (walk->n_frames, ==, N_FRAMES);
      for (guint j = 0; j < N_FRAMES; j++)
        {
          g_assert_cmpuint (walk->frames[j].code, ==, (guintptr) &fake.codes[N_FRAMES - 1 - j]);
          g_assert_cmpuint (walk->frames[j].at, ==, 200 + N_FRAMES - 1 - j);
          g_assert_cmpuint (walk->frames[j].entry, ==, j == N_FRAMES - 1);
        }
    }
  fake_clear (&fake);
  sampled_clear (&sampled);
}

/* What a program may do to its own list. Returns: the flags of the walks that came */
static guint32
walk_hostile (void (*spoil) (FakeInterpreter *fake), guint *n_frames)
{
  FakeInterpreter fake;
  Sampled sampled;
  guint32 flags = 0;

  *n_frames = 0;
  if (!sampled_init (&sampled, RING_PAGES) || !fake_init (&fake))
    {
      sampled_clear (&sampled);
      return G_MAXUINT32;
    }
  spoil (&fake);
  g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &fake.place), ==, 0);
  burn (RUN_MS);
  sampled_read (&sampled);
  g_assert_cmpuint (sampled.n_strange, ==, 0);
  for (guint i = 0; i < sampled.walks->len; i++)
    {
      flags |= g_array_index (sampled.walks, SondeWalkRecord, i).flags;
      *n_frames = MAX (*n_frames, g_array_index (sampled.walks, SondeWalkRecord, i).n_frames);
    }
  fake_clear (&fake);
  sampled_clear (&sampled);
  return flags;
}

static void
make_circle (FakeInterpreter *fake)
{
  fake->frames[0].caller = &fake->frames[N_FRAMES - 1];
}

static void
point_nowhere (FakeInterpreter *fake)
{
  fake->frames[1].caller = (const FakeFrame *) 8;
}

/* Its caller would end behind all addresses, as far from the frame as whole windows are long. */
static void
point_to_the_last_address (FakeInterpreter *fake)
{
  static _Alignas(2048) uint8_t window[4096];
  FakeFrame *frame = (FakeFrame *) (window + 2048 - 24);

  *frame = fake->frames[1];
  frame->caller = (const FakeFrame *) -24;
  fake->frames[2].caller = frame;
}

static void
call_text_code (FakeInterpreter *fake)
{
  fake->frames[1].code = &fake->texts[0];
}

static void
call_what_has_its_name_nowhere (FakeInterpreter *fake)
{
  fake->codes[1].name = (const FakeText *) 8;
}

static void
ends_where_the_list_does_not (void)
{
  guint n_frames;
  guint32 flags = walk_hostile (make_circle, &n_frames);

  if (flags == G_MAXUINT32)
    return;
  g_assert_cmpuint (flags, ==, SONDE_WALK_DEEP);
  g_assert_cmpuint (n_frames, ==, SONDE_WALK_MAX_FRAMES);
  g_assert_cmpuint (walk_hostile (point_nowhere, &n_frames), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, N_FRAMES - 1);
  g_assert_cmpuint (walk_hostile (point_to_the_last_address, &n_frames), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, N_FRAMES - 1);
  g_assert_cmpuint (walk_hostile (call_text_code, &n_frames), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 1);
  g_assert_cmpuint (walk_hostile (call_what_has_its_name_nowhere, &n_frames), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 1);
}

/* --- PHP of our own --- */

#define PHP_TOP     (1u << 17)
#define PHP_CLOSURE (1u << 22)
#define N_CALLS     4

typedef struct
{
  uint32_t references;
  uint32_t flags; /* 6: a string */
  uint64_t hash;
  uint64_t length;
  char bytes[300];
} PhpText;

typedef struct
{
  uint64_t unused;
  const PhpText *name;
} PhpClass;

typedef struct
{
  uint8_t unused[24];
  uint32_t line;
  uint32_t unused_too;
} PhpInstruction;

typedef struct
{
  uint64_t type; /* 1: built in, 2: the program's */
  const PhpText *name;
  const PhpClass *scope;
  uint32_t n_instructions;
  const PhpInstruction *instructions;
  const PhpText *file;
  uint32_t line;
} PhpFunction;

typedef struct PhpCall
{
  const PhpInstruction *at;
  const PhpFunction *function;
  uint64_t info;
  const struct PhpCall *caller;
} PhpCall;

typedef struct
{
  const void *chunk;
  const PhpCall *call;
} PhpGlobals;

typedef struct
{
  PhpGlobals globals;
  PhpText names[3];
  PhpText file;
  PhpText class_name;
  PhpClass class;
  PhpInstruction instructions[2];
  PhpFunction functions[3];
  PhpCall calls[N_CALLS];
  SondeWalkPlace place;
} FakePhp;

static void
php_text (PhpText *text, const char *characters)
{
  *text = (PhpText){ .flags = 6, .hash = strlen (characters), .length = strlen (characters) };
  g_strlcpy (text->bytes, characters, sizeof text->bytes);
}

/* What it runs: the closure of "Tree" that "usort" has called, which "Tree::run" did, which the
 * code outside of functions did. */
static void
php_init (FakePhp *self)
{
  *self = (FakePhp){
    .place = { .generation = 6,
               .key = (guintptr) &self->globals,
               .kind = SONDE_WALK_PHP,
               .layout = { .state_frame = offsetof (PhpGlobals, call),
                           .state_chunk = offsetof (PhpGlobals, chunk),
                           .frame_size = sizeof (PhpCall),
                           .frame_code = offsetof (PhpCall, function),
                           .frame_caller = offsetof (PhpCall, caller),
                           .frame_at = offsetof (PhpCall, at),
                           .frame_entry = offsetof (PhpCall, info),
                           .entry = SONDE_WALK_ENTRY_FLAG,
                           .code_line = offsetof (PhpFunction, line),
                           .code_file = offsetof (PhpFunction, file),
                           .code_name = offsetof (PhpFunction, name),
                           .code_lines = offsetof (PhpFunction, instructions),
                           .code_n_lines = offsetof (PhpFunction, n_instructions),
                           .code_scope = offsetof (PhpFunction, scope),
                           .scope_name = offsetof (PhpClass, name),
                           .instruction_line = offsetof (PhpInstruction, line),
                           .text_length = offsetof (PhpText, length),
                           .text_hash = offsetof (PhpText, hash),
                           .text_state = offsetof (PhpText, flags),
                           .text_ascii = offsetof (PhpText, bytes) } },
    .class = { .name = &self->class_name },
    .instructions = { { .line = 70 }, { .line = 71 } },
    .functions = { { .type = 2,
                     .name = &self->names[0],
                     .scope = &self->class,
                     .n_instructions = 2,
                     .instructions = self->instructions,
                     .file = &self->file,
                     .line = 69 },
                   { .type = 1, .name = &self->names[1] },
                   /* The code outside of functions has no name. */
                   { .type = 2,
                     .n_instructions = 2,
                     .instructions = &self->instructions[1],
                     .file = &self->file,
                     .line = 1 } },
    .calls
    = { { .at = self->instructions,
          .function = &self->functions[0],
          .info = PHP_TOP | PHP_CLOSURE,
          .caller = &self->calls[1] },
        { .at = (const void *) 8, .function = &self->functions[1], .caller = &self->calls[2] },
        /* It stands for a call from outside. */
        { .info = PHP_TOP, .caller = &self->calls[3] },
        { .at = &self->instructions[1], .function = &self->functions[2], .info = PHP_TOP } },
  };
  php_text (&self->names[0], "{closure}");
  php_text (&self->names[1], "usort");
  php_text (&self->file, "/srv/gr\xc3\xbcn.php");
  php_text (&self->class_name, "Tree");
  self->globals = (PhpGlobals){ .chunk = self->calls, .call = self->calls };
}

/* FALSE: skipped */
static gboolean
walk_php (void (*spoil) (FakePhp *fake), FakePhp *fake, Sampled *sampled)
{
  php_init (fake);
  if (!sampled_init (sampled, RING_PAGES))
    {
      sampled_clear (sampled);
      return FALSE;
    }
  if (spoil != NULL)
    spoil (fake);
  g_assert_cmpint (sonde_walk_program_set_place (sampled->program, getpid (), &fake->place), ==, 0);
  burn (RUN_MS);
  g_assert_cmpint (sonde_walk_program_set_place (sampled->program, getpid (), NULL), ==, 0);
  sampled_read (sampled);
  g_assert_cmpuint (sampled->n_strange, ==, 0);
  g_assert_cmpuint (sampled->walks->len, >, 0);
  return TRUE;
}

static void
walks_what_runs_in_php (void)
{
  FakePhp fake;
  Sampled sampled;
  const SondeWalkCode *codes;

  if (!walk_php (NULL, &fake, &sampled))
    return;
  /* each function once */
  g_assert_cmpuint (sampled.codes->len, ==, 3);
  codes = (const void *) sampled.codes->data;
  /* A closure is known by its code. */
  g_assert_cmpuint (codes[0].code, ==, (guintptr) fake.instructions);
  g_assert_cmpint (memcmp (codes[0].name_bytes, "{closure}", 9), ==, 0);
  g_assert_cmpuint (codes[0].name.width, ==, SONDE_WALK_UTF8);
  g_assert_cmpint (memcmp (codes[0].scope_bytes, "Tree", 4), ==, 0);
  g_assert_cmpuint (codes[0].scope.size_bytes, ==, 4);
  g_assert_cmpint (memcmp (codes[0].file_bytes, "/srv/gr\xc3\xbcn.php", 14), ==, 0);
  g_assert_cmpuint (codes[0].first_line, ==, 69);
  g_assert_cmpuint (codes[1].code, ==, (guintptr) &fake.functions[1]);
  g_assert_cmpuint (codes[1].name.size_bytes, ==, 5);
  g_assert_cmpuint (codes[1].file.size_bytes, ==, 0);
  g_assert_cmpuint (codes[1].scope.size_bytes, ==, 0);
  g_assert_cmpuint (codes[2].name.size_bytes, ==, 0);
  g_assert_cmpuint (codes[2].name.width, ==, 1);
  for (guint i = 0; i < sampled.walks->len; i++)
    {
      const SondeWalkRecord *walk = &g_array_index (sampled.walks, SondeWalkRecord, i);

      g_assert_cmpuint (walk->flags, ==, 0);
      g_assert_cmpuint (walk->n_frames, ==, 3);
      g_assert_cmpuint (walk->frames[0].code, ==, (guintptr) fake.instructions);
      g_assert_cmpuint (walk->frames[0].at, ==, 70);
      g_assert_cmpuint (walk->frames[0].entry, ==, 1);
      g_assert_cmpuint (walk->frames[1].at, ==, 0);
      g_assert_cmpuint (walk->frames[1].entry, ==, 0);
      g_assert_cmpuint (walk->frames[2].at, ==, 71);
      g_assert_cmpuint (walk->frames[2].entry, ==, 1);
    }
  sampled_clear (&sampled);
}

/* What a file has outside of functions is freed when it was included, and that of the next file has
 * the same address. It has no name. */
static void
tells_again_of_code_without_a_name_whose_file_is_another (void)
{
  FakePhp fake;
  PhpText other;
  Sampled sampled;
  const SondeWalkCode *codes;

  if (!walk_php (NULL, &fake, &sampled))
    return;
  php_text (&other, "/srv/b.php");
  fake.functions[2].file = &other;
  g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &fake.place), ==, 0);
  burn (RUN_MS);
  /* So does it where only the line is another: of the same text, evaluated twice. */
  fake.functions[2].line = 9;
  burn (RUN_MS);
  sampled_read (&sampled);
  g_assert_cmpuint (sampled.codes->len, ==, 5);
  codes = (const void *) sampled.codes->data;
  for (guint i = 2; i < 5; i++)
    g_assert_cmpuint (codes[i].code, ==, (guintptr) &fake.functions[2]);
  g_assert_cmpint (memcmp (codes[2].file_bytes, "/srv/gr\xc3\xbcn.php", 14), ==, 0);
  g_assert_cmpint (memcmp (codes[3].file_bytes, "/srv/b.php", 10), ==, 0);
  g_assert_cmpuint (codes[3].first_line, ==, 1);
  g_assert_cmpuint (codes[4].first_line, ==, 9);
  sampled_clear (&sampled);
}

/* Returns: the flags of the first walk; G_MAXUINT32: skipped. @code: (out): the first that came */
static guint32
spoil_php (void (*spoil) (FakePhp *fake), guint *n_frames, SondeWalkCode *code)
{
  FakePhp fake;
  Sampled sampled;
  guint32 flags;

  *n_frames = 0;
  *code = (SondeWalkCode){ 0 };
  if (!walk_php (spoil, &fake, &sampled))
    return G_MAXUINT32;
  flags = g_array_index (sampled.walks, SondeWalkRecord, 0).flags;
  *n_frames = g_array_index (sampled.walks, SondeWalkRecord, 0).n_frames;
  if (sampled.codes->len > 0)
    *code = g_array_index (sampled.codes, SondeWalkCode, 0);
  sampled_clear (&sampled);
  return flags;
}

static void
call_itself (FakePhp *fake)
{
  fake->calls[0].caller = &fake->calls[0];
}

static void
call_from_nowhere (FakePhp *fake)
{
  fake->calls[1].caller = (const PhpCall *) 8;
}

static void
call_outside_for_ever (FakePhp *fake)
{
  fake->calls[0].function = NULL;
  fake->calls[0].caller = &fake->calls[0];
}

static void
call_no_function (FakePhp *fake)
{
  fake->functions[1].type = 77;
}

static void
name_without_end (FakePhp *fake)
{
  fake->names[0].length = UINT64_MAX;
  memset (fake->names[0].bytes, 'x', sizeof fake->names[0].bytes);
}

static void
name_by_no_text (FakePhp *fake)
{
  fake->names[0].flags = 7;
}

static void
stand_at_no_instruction (FakePhp *fake)
{
  fake->calls[0].at = (const PhpInstruction *) &fake->names[0];
}

static void
name_nowhere (FakePhp *fake)
{
  fake->functions[1].name = (const PhpText *) 8;
}

static void
stand_nowhere (FakePhp *fake)
{
  fake->calls[3].at = (const PhpInstruction *) 8;
}

/* Its frame is in memory, and where it leads to ends before what is the key of a closure. */
static void
close_over_nowhere (FakePhp *fake)
{
  gsize page_bytes = (gsize) sysconf (_SC_PAGESIZE);
  uint8_t *pages
      = mmap (NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *at = pages + page_bytes - offsetof (PhpFunction, instructions);

  g_assert_true (pages != MAP_FAILED);
  memcpy (at, &fake->functions[0], offsetof (PhpFunction, instructions));
  g_assert_cmpint (munmap (pages + page_bytes, page_bytes), ==, 0);
  fake->calls[0].function = (const PhpFunction *) (const void *) at;
}

static void
ends_where_the_list_of_php_does_not (void)
{
  SondeWalkCode code;
  guint n_frames;
  guint32 flags = spoil_php (call_itself, &n_frames, &code);

  if (flags == G_MAXUINT32)
    return;
  g_assert_cmpuint (flags, ==, SONDE_WALK_DEEP);
  g_assert_cmpuint (n_frames, ==, SONDE_WALK_MAX_FRAMES);
  g_assert_cmpuint (spoil_php (call_outside_for_ever, &n_frames, &code), ==, SONDE_WALK_DEEP);
  g_assert_cmpuint (n_frames, ==, 0);
  g_assert_cmpuint (spoil_php (call_from_nowhere, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 2);
  g_assert_cmpuint (spoil_php (call_no_function, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 1);
  g_assert_cmpuint (spoil_php (name_without_end, &n_frames, &code), ==, 0);
  g_assert_cmpuint (code.name.size_bytes, ==, SONDE_WALK_TEXT_BYTES - 1);
  g_assert_cmpuint (spoil_php (name_by_no_text, &n_frames, &code), ==, 0);
  g_assert_cmpuint (code.name.width, ==, 0);
  g_assert_cmpuint (spoil_php (stand_at_no_instruction, &n_frames, &code), ==, 0);
  g_assert_cmpuint (n_frames, ==, 3);
  g_assert_cmpuint (spoil_php (name_nowhere, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 1);
  g_assert_cmpuint (spoil_php (stand_nowhere, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 2);
  g_assert_cmpuint (spoil_php (close_over_nowhere, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 0);
}

#define N_NESTED 300

static PhpCall nested[2 * N_NESTED];

/* Between each two is one that makes no frame. */
static void
nest (FakePhp *fake, guint n)
{
  for (guint i = 0; i < 2 * n - 1; i++)
    nested[i] = (PhpCall){ .at = fake->instructions,
                           .function = i % 2 == 0 ? &fake->functions[0] : NULL,
                           .caller = i + 2 < 2 * n ? &nested[i + 1] : NULL };
  fake->globals = (PhpGlobals){ .chunk = nested, .call = nested };
}

static void
nest_200 (FakePhp *fake)
{
  nest (fake, 200);
}

static void
nest_256 (FakePhp *fake)
{
  nest (fake, 256);
}

static void
nest_257 (FakePhp *fake)
{
  nest (fake, 257);
}

/* What is on the list and no function takes no room of one. */
static void
has_room_for_frames_that_others_lie_between (void)
{
  SondeWalkCode code;
  guint n_frames;
  guint32 flags = spoil_php (nest_200, &n_frames, &code);

  if (flags == G_MAXUINT32)
    return;
  g_assert_cmpuint (flags, ==, 0);
  g_assert_cmpuint (n_frames, ==, 200);
  g_assert_cmpuint (spoil_php (nest_256, &n_frames, &code), ==, 0);
  g_assert_cmpuint (n_frames, ==, 256);
  g_assert_cmpuint (spoil_php (nest_257, &n_frames, &code), ==, SONDE_WALK_DEEP);
  g_assert_cmpuint (n_frames, ==, 256);
}

static void
lie_in_no_file (FakePhp *fake)
{
  fake->functions[0].file = (const PhpText *) 8;
  fake->functions[2].file = (const PhpText *) 8;
}

/* A text that is not in memory at present is no reason to leave out functions. */
static void
tells_of_nothing_more_after_what_it_cannot_read (void)
{
  FakePhp fake;
  Sampled sampled;
  const SondeWalkCode *codes;
  const SondeWalkRecord *walks;

  if (!walk_php (lie_in_no_file, &fake, &sampled))
    return;
  g_assert_cmpuint (sampled.codes->len, ==, 3);
  codes = (const void *) sampled.codes->data;
  g_assert_cmpuint (codes[0].name.size_bytes, ==, 9);
  g_assert_cmpuint (codes[0].scope.size_bytes, ==, 4);
  g_assert_cmpuint (codes[0].file.width, ==, 0);
  g_assert_cmpuint (codes[1].name.size_bytes, ==, 5);
  g_assert_cmpuint (codes[1].file.width, ==, 1);
  g_assert_cmpuint (codes[2].file.width, ==, 0);
  /* The first one tells of one function, the second one of the others. */
  g_assert_cmpuint (sampled.walks->len, >, 1);
  walks = (const void *) sampled.walks->data;
  g_assert_cmpuint (codes[0].number, ==, 1);
  g_assert_cmpuint (walks[0].number, ==, 2);
  g_assert_cmpuint (walks[1].number, ==, 5);
  g_assert_cmpuint (walks[0].flags | walks[1].flags, ==, 0);
  g_assert_cmpuint (walks[0].n_frames, ==, 3);
  sampled_clear (&sampled);
}

/* --- Ruby of our own --- */

#define RUBY_METHOD    0x11110001
#define RUBY_BLOCK     0x22220001
#define RUBY_C         0x55550001
#define RUBY_DUMMY     0x79990001
#define RUBY_OLDEST    0x20
#define RUBY_ELSEWHERE (1 << 13)
#define N_CONTROLS     4
#define N_WORDS        3

typedef struct
{
  uint64_t flags;
  uint64_t class;
  union
  {
    struct
    {
      uint64_t length;
      const char *bytes;
    } elsewhere;
    char here[24];
    const void *items[3];
  };
} RubyObject;

typedef struct
{
  const RubyObject *file;
  const RubyObject *name;
  uint64_t line; /* twice as much, and one */
  const uint64_t *instructions;
  const int32_t *entries;
  const void *index;
  uint32_t size;
  uint32_t n_entries;
} RubyBody;

typedef struct
{
  uint64_t flags;
  uint64_t wrapper;
  const RubyBody *body;
} RubyCode;

typedef struct
{
  const uint64_t *at;
  const RubyCode *code;
  const uint64_t *environment;
} RubyControl;

typedef struct
{
  const void *stack;
  uint64_t n_words;
  const RubyControl *control;
} RubyState;

typedef struct
{
  uint64_t variable[2]; /* module, offset */
  RubyObject path;
  RubyObject paths;
  RubyObject names[2];
  uint64_t instructions[N_WORDS];
  int32_t entries[3];
  RubyBody bodies[2];
  RubyCode codes[2];
  uint64_t environments[N_CONTROLS];
  RubyControl controls[N_CONTROLS];
  RubyState state;
  SondeWalkPlace place;
} FakeRuby;

static __thread RubyState *ruby_state;

/* What it runs: a block, which "each" of C has called, which a method did, which is the first. */
static void
ruby_init (FakeRuby *self)
{
  const guint8 *thread = __builtin_thread_pointer ();
  const guint8 *const *modules;
  RubyObject path = { .flags = 5 | RUBY_ELSEWHERE, .elsewhere = { 19, "/srv/longer/than/24.rb" } };

  memcpy (&modules, thread + 8, sizeof modules);
  *self = (FakeRuby){
    /* The first module is the program; each has two words. */
    .variable = { 1, (uint64_t) ((guint8 *) &ruby_state - modules[2]) },
    .path = path,
    .paths = { .flags = 7 | 1 << 13, .items = { &self->path, &self->path } },
    .names = { { .flags = 5 | 12 << 14, .here = "block in run" },
               { .flags = 5 | 3 << 14, .here = "run" } },
    .entries = { 40, 0, 0 },
    .codes = { { .flags = 0x701a, .body = &self->bodies[0] },
               { .flags = 0x701a, .body = &self->bodies[1] } },
    .environments
    = { RUBY_BLOCK | RUBY_OLDEST, RUBY_C, RUBY_METHOD | RUBY_OLDEST, RUBY_DUMMY | RUBY_OLDEST },
    .controls = { { &self->instructions[2], &self->codes[0], &self->environments[0] },
                  { NULL, NULL, &self->environments[1] },
                  { &self->instructions[1], &self->codes[1], &self->environments[2] },
                  { NULL, NULL, &self->environments[3] } },
    .state = { self->controls, sizeof self->controls / 8, self->controls },
    .place = { .generation = 7,
               .key = (guintptr) self->variable,
               .kind = SONDE_WALK_RUBY,
               .layout = { .state_chunk = offsetof (RubyState, stack),
                           .state_chunk_size = offsetof (RubyState, n_words),
                           .state_frame = offsetof (RubyState, control),
                           .frame_size = sizeof (RubyControl),
                           .frame_at = offsetof (RubyControl, at),
                           .frame_code = offsetof (RubyControl, code),
                           .frame_entry = offsetof (RubyControl, environment),
                           .entry = SONDE_WALK_ENTRY_FLAG,
                           .is_code_tagged = 1,
                           .code_body = offsetof (RubyCode, body),
                           .code_size = offsetof (RubyBody, size),
                           .code_instructions = offsetof (RubyBody, instructions),
                           .code_file = offsetof (RubyBody, file),
                           .code_name = offsetof (RubyBody, name),
                           .code_line = offsetof (RubyBody, line),
                           .code_lines = offsetof (RubyBody, entries),
                           .code_n_lines = offsetof (RubyBody, n_entries),
                           .code_index = offsetof (RubyBody, index),
                           .text_length = 16,
                           .text_ascii = 16,
                           .text_other = 24 } },
  };
  for (guint i = 0; i < 2; i++)
    self->bodies[i] = (RubyBody){ .file = &self->paths,
                                  .name = &self->names[i],
                                  .line = 2 * (39 + i) + 1,
                                  .instructions = self->instructions,
                                  .entries = self->entries,
                                  .size = N_WORDS,
                                  .n_entries = 1 };
  ruby_state = &self->state;
}

/* FALSE: skipped */
static gboolean
walk_ruby (void (*spoil) (FakeRuby *fake), FakeRuby *fake, Sampled *sampled)
{
  ruby_init (fake);
  if (!sampled_init (sampled, RING_PAGES))
    {
      sampled_clear (sampled);
      return FALSE;
    }
  if (spoil != NULL)
    spoil (fake);
  g_assert_cmpint (sonde_walk_program_set_place (sampled->program, getpid (), &fake->place), ==, 0);
  burn (RUN_MS);
  g_assert_cmpint (sonde_walk_program_set_place (sampled->program, getpid (), NULL), ==, 0);
  sampled_read (sampled);
  g_assert_cmpuint (sampled->n_strange, ==, 0);
  return TRUE;
}

static void
walks_what_runs_in_ruby (void)
{
  FakeRuby fake;
  Sampled sampled;
  const SondeWalkCode *codes;

  if (!walk_ruby (NULL, &fake, &sampled))
    return;
  g_assert_cmpuint (sampled.codes->len, ==, 2);
  codes = (const void *) sampled.codes->data;
  g_assert_cmpuint (codes[0].code, ==, (guintptr) &fake.codes[0]);
  g_assert_cmpuint (codes[0].first_line, ==, 39);
  g_assert_cmpuint (codes[0].first_instruction, ==, (guint32) (guintptr) fake.instructions);
  g_assert_cmpuint (codes[0].name.size_bytes, ==, 12);
  g_assert_cmpint (memcmp (codes[0].name_bytes, "block in run", 12), ==, 0);
  g_assert_cmpuint (codes[0].file.size_bytes, ==, 19);
  g_assert_cmpint (memcmp (codes[0].file_bytes, "/srv/longer/than/24", 19), ==, 0);
  g_assert_cmpuint (codes[0].lines_bytes, ==, sizeof (SondeWalkLines) + sizeof fake.entries);
  g_assert_cmpint (memcmp (codes[1].name_bytes, "run", 3), ==, 0);
  g_assert_cmpuint (sampled.walks->len, >, 0);
  for (guint i = 0; i < sampled.walks->len; i++)
    {
      const SondeWalkRecord *walk = &g_array_index (sampled.walks, SondeWalkRecord, i);

      g_assert_cmpuint (walk->flags, ==, 0);
      g_assert_cmpuint (walk->n_frames, ==, 2);
      g_assert_cmpuint (walk->frames[0].code, ==, (guintptr) &fake.codes[0]);
      g_assert_cmpuint (walk->frames[0].at - codes[0].first_instruction, ==, 16);
      g_assert_cmpuint (walk->frames[0].entry, ==, 1);
      g_assert_cmpuint (walk->frames[1].code, ==, (guintptr) &fake.codes[1]);
      g_assert_cmpuint (walk->frames[1].entry, ==, 1);
    }
  sampled_clear (&sampled);
}

static void
tells_again_of_code_of_ruby_whose_file_is_another (void)
{
  FakeRuby fake;
  RubyObject other = { .flags = 5 | 5 << 14, .here = "/b.rb" };
  Sampled sampled;
  const SondeWalkCode *codes;

  if (!walk_ruby (NULL, &fake, &sampled))
    return;
  fake.bodies[1].file = &other;
  g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &fake.place), ==, 0);
  burn (RUN_MS);
  sampled_read (&sampled);
  g_assert_cmpuint (sampled.codes->len, ==, 3);
  codes = (const void *) sampled.codes->data;
  g_assert_cmpuint (codes[2].code, ==, (guintptr) &fake.codes[1]);
  g_assert_cmpuint (codes[2].file.size_bytes, ==, 5);
  g_assert_cmpint (memcmp (codes[2].file_bytes, "/b.rb", 5), ==, 0);
  sampled_clear (&sampled);
}

/* Strings of 3.3 have their length always, and in front of what they have in themselves. */
static void
make_newer (FakeRuby *fake)
{
  fake->names[0] = (RubyObject){ .flags = 5 | 31 << 14, .elsewhere.length = 9 };
  memcpy (fake->names[0].here + 8, "block in ", 9);
  for (guint i = 0; i < 2; i++)
    fake->bodies[i].line = G_GUINT64_CONSTANT (7) << 32 | (39 + i);
  fake->place.layout.is_code_tagged = 0;
  fake->place.layout.text_ascii = fake->place.layout.text_other;
}

static void
reads_texts_and_lines_of_newer_ruby (void)
{
  FakeRuby fake;
  Sampled sampled;
  const SondeWalkCode *codes;

  if (!walk_ruby (make_newer, &fake, &sampled))
    return;
  g_assert_cmpuint (sampled.codes->len, ==, 2);
  codes = (const void *) sampled.codes->data;
  g_assert_cmpuint (codes[0].first_line, ==, 39);
  g_assert_cmpuint (codes[0].name.size_bytes, ==, 9);
  g_assert_cmpint (memcmp (codes[0].name_bytes, "block in ", 9), ==, 0);
  g_assert_cmpuint (codes[0].file.size_bytes, ==, 19);
  g_assert_cmpint (memcmp (codes[0].file_bytes, "/srv/longer/than/24", 19), ==, 0);
  g_assert_cmpuint (codes[1].first_line, ==, 40);
  sampled_clear (&sampled);
}

/* Returns: the flags of the first walk, 0 if there is none; G_MAXUINT32: skipped */
static guint32
spoil_ruby (void (*spoil) (FakeRuby *fake), guint *n_frames, SondeWalkCode *code)
{
  FakeRuby fake;
  Sampled sampled;
  guint32 flags = 0;

  *n_frames = G_MAXUINT;
  *code = (SondeWalkCode){ 0 };
  if (!walk_ruby (spoil, &fake, &sampled))
    return G_MAXUINT32;
  if (sampled.walks->len > 0)
    {
      flags = g_array_index (sampled.walks, SondeWalkRecord, 0).flags;
      *n_frames = g_array_index (sampled.walks, SondeWalkRecord, 0).n_frames;
    }
  if (sampled.codes->len > 0)
    *code = g_array_index (sampled.codes, SondeWalkCode, 0);
  sampled_clear (&sampled);
  return flags;
}

static void
stack_without_end (FakeRuby *fake)
{
  fake->state.n_words = UINT64_MAX / 16;
}

static void
stack_elsewhere (FakeRuby *fake)
{
  fake->state.stack = &fake->state;
}

static void
variable_of_no_module (FakeRuby *fake)
{
  fake->variable[0] = UINT64_MAX;
}

static void
environment_nowhere (FakeRuby *fake)
{
  fake->controls[2].environment = (const uint64_t *) 8;
}

static void
block_of_text (FakeRuby *fake)
{
  fake->controls[0].code = (const RubyCode *) &fake->names[0];
}

static void
lines_without_end (FakeRuby *fake)
{
  fake->bodies[0].n_entries = UINT32_MAX;
  fake->bodies[0].size = UINT32_MAX;
  fake->names[0].flags |= RUBY_ELSEWHERE;
  fake->names[0].elsewhere.length = UINT64_MAX;
  fake->names[0].elsewhere.bytes = (const char *) fake;
}

static void
code_without_a_body (FakeRuby *fake)
{
  fake->codes[1].body = (const RubyBody *) 8;
}

static void
ends_where_the_list_of_ruby_does_not (void)
{
  SondeWalkCode code;
  guint n_frames;
  guint32 flags = spoil_ruby (stack_without_end, &n_frames, &code);

  if (flags == G_MAXUINT32)
    return;
  /* Behind the frames is what makes none. */
  g_assert_cmpuint (flags, ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 2);
  g_assert_cmpuint (spoil_ruby (stack_elsewhere, &n_frames, &code), ==, 0);
  g_assert_cmpuint (n_frames, ==, G_MAXUINT);
  g_assert_cmpuint (spoil_ruby (variable_of_no_module, &n_frames, &code), ==, 0);
  g_assert_cmpuint (n_frames, ==, G_MAXUINT);
  g_assert_cmpuint (spoil_ruby (environment_nowhere, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 1);
  g_assert_cmpuint (spoil_ruby (block_of_text, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 0);
  g_assert_cmpuint (spoil_ruby (code_without_a_body, &n_frames, &code), ==, SONDE_WALK_TORN);
  g_assert_cmpuint (n_frames, ==, 1);
  g_assert_cmpuint (spoil_ruby (lines_without_end, &n_frames, &code), ==, 0);
  g_assert_cmpuint (code.lines_bytes, <=, SONDE_WALK_LINES_BYTES);
  g_assert_cmpuint (code.name.size_bytes, <=, SONDE_WALK_TEXT_BYTES);
}

/* Two counts that know nothing of each other: the program's and the kernel's. */
static void
numbers_all_that_it_tells_also_what_is_lost (void)
{
  FakeInterpreter fake;
  Sampled sampled;
  guint64 n_lost;
  uint32_t before = 0;
  guint n_records;

  if (!sampled_init (&sampled, FEW_PAGES) || !fake_init (&fake))
    {
      sampled_clear (&sampled);
      return;
    }
  g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &fake.place), ==, 0);
  for (guint i = 0; i < 5; i++)
    {
      burn (RUN_MS / 3);
      sampled_read (&sampled);
    }
  /* There is room for the last ones. */
  burn (20);
  g_assert_cmpint (ioctl (sampled.clock_fd, PERF_EVENT_IOC_DISABLE, 0), ==, 0);
  sampled_read (&sampled);
  n_lost = sampled_n_lost (&sampled);
  n_records = sampled.walks->len + sampled.codes->len;
  g_test_message ("%u records, %" G_GUINT64_FORMAT " lost", n_records, n_lost);
  g_assert_cmpuint (sampled.n_strange, ==, 0);
  g_assert_cmpuint (n_lost, >, 0);
  for (guint i = 0; i < sampled.walks->len; i++)
    {
      g_assert_cmpuint (g_array_index (sampled.walks, SondeWalkRecord, i).number, >, before);
      before = g_array_index (sampled.walks, SondeWalkRecord, i).number;
    }
  g_assert_cmpuint (before, ==, n_records + n_lost);
  fake_clear (&fake);
  sampled_clear (&sampled);
}

/* How often it is walked in some time. */
static guint
count_walks (Sampled *sampled)
{
  guint n_before = sampled->walks->len;

  burn (RUN_MS / 3);
  sampled_read (sampled);
  return sampled->walks->len - n_before;
}

static void
walks_nothing_that_has_closed_itself (void)
{
  for (gboolean shows_closed = FALSE; shows_closed <= TRUE; shows_closed++)
    {
      FakeInterpreter fake;
      Sampled sampled;

      if (!sampled_init_of (&sampled, RING_PAGES, shows_closed) || !fake_init (&fake))
        {
          sampled_clear (&sampled);
          return;
        }
      g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &fake.place), ==,
                       0);
      g_assert_cmpuint (count_walks (&sampled), >, 0);
      g_assert_cmpint (prctl (PR_SET_DUMPABLE, 0), ==, 0);
      /* What was on its way. */
      sampled_read (&sampled);
      g_assert_cmpint (count_walks (&sampled) > 0, ==, shows_closed);
      g_assert_cmpint (prctl (PR_SET_DUMPABLE, 1), ==, 0);
      g_assert_cmpuint (count_walks (&sampled), >, 0);
      fake_clear (&fake);
      sampled_clear (&sampled);
    }
}

/* As a worker could say it that was taken over. */
static void
outlives_places_that_mean_nothing (void)
{
  FakeInterpreter fake;
  Sampled sampled;
  gint64 end = g_get_monotonic_time () + RUN_MS * G_GINT64_CONSTANT (2000);

  if (!sampled_init (&sampled, RING_PAGES) || !fake_init (&fake))
    {
      sampled_clear (&sampled);
      return;
    }
  while (g_get_monotonic_time () < end)
    {
      SondeWalkPlace place = fake.place;
      guint32 *fields = (guint32 *) &place.layout;

      for (guint n = (guint) g_test_rand_int_range (1, 6); n > 0; n--)
        fields[g_test_rand_int_range (0, sizeof place.layout / sizeof fields[0])]
            = (guint32) g_test_rand_int_range (0, SONDE_WALK_MAX_OFFSET);
      place.kind = (guint32) g_test_rand_int_range (SONDE_WALK_PYTHON, SONDE_N_WALK_KINDS);
      if (g_test_rand_bit ())
        place.code_type = (guintptr) &sampled + (guint) g_test_rand_int_range (0, 4096);
      g_assert_cmpint (sonde_walk_program_set_place (sampled.program, getpid (), &place), ==, 0);
      burn (2);
      sampled_read (&sampled);
    }
  /* Whatever was read, it is of its form. */
  g_assert_cmpuint (sampled.n_strange, ==, 0);
  fake_clear (&fake);
  sampled_clear (&sampled);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/walk-program/says-why-there-is-none", says_why_there_is_none);
  g_test_add_func ("/walk-program/takes-outputs-of-its-kind-alone",
                   takes_outputs_of_its_kind_alone);
  g_test_add_func ("/walk-program/runs-at-one-event-once", runs_at_one_event_once);
  g_test_add_func ("/walk-program/is-told-of-more-processes-than-it-has-room-for",
                   is_told_of_more_processes_than_it_has_room_for);
  g_test_add_func ("/walk-program/needs-two-capabilities-and-the-calls-of-a-broker",
                   needs_two_capabilities_and_the_calls_of_a_broker);
  g_test_add_func ("/walk-program/is-loaded-for-little", is_loaded_for_little);
  g_test_add_func ("/walk-program/leaves-nothing", leaves_nothing);
  g_test_add_func ("/walk-program/ends-where-the-list-does-not", ends_where_the_list_does_not);
  g_test_add_func ("/walk-program/ends-where-the-list-of-php-does-not",
                   ends_where_the_list_of_php_does_not);
  g_test_add_func ("/walk-program/walks-what-runs-in-php", walks_what_runs_in_php);
  g_test_add_func ("/walk-program/ends-where-the-list-of-ruby-does-not",
                   ends_where_the_list_of_ruby_does_not);
  g_test_add_func ("/walk-program/walks-what-runs-in-ruby", walks_what_runs_in_ruby);
  g_test_add_func ("/walk-program/reads-texts-and-lines-of-newer-ruby",
                   reads_texts_and_lines_of_newer_ruby);
  g_test_add_func ("/walk-program/tells-again-of-code-without-a-name-whose-file-is-another",
                   tells_again_of_code_without_a_name_whose_file_is_another);
  g_test_add_func ("/walk-program/has-room-for-frames-that-others-lie-between",
                   has_room_for_frames_that_others_lie_between);
  g_test_add_func ("/walk-program/tells-of-nothing-more-after-what-it-cannot-read",
                   tells_of_nothing_more_after_what_it_cannot_read);
  g_test_add_func ("/walk-program/tells-again-of-code-of-ruby-whose-file-is-another",
                   tells_again_of_code_of_ruby_whose_file_is_another);
  g_test_add_func ("/walk-program/numbers-all-that-it-tells-also-what-is-lost",
                   numbers_all_that_it_tells_also_what_is_lost);
  g_test_add_func ("/walk-program/walks-nothing-that-has-closed-itself",
                   walks_nothing_that_has_closed_itself);
  g_test_add_func ("/walk-program/outlives-places-that-mean-nothing",
                   outlives_places_that_mean_nothing);
  g_test_add_func ("/walk-program/walks-what-runs", walks_what_runs);
  return g_test_run ();
}
