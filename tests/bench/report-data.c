/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/bench/report-data.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/writer.h"
#include "tests/bench/stack-walk.h"

enum
{
  PID = 4711,
  BUFFER_SIZE = 1 << 20,
  NAME_SIZE = 32, /* bytes of a name in the symbols */
};

#define PERIOD_NS 1000000
#define SEED      0x9e3779b97f4a7c15ull

/* --- capture --- */

static void *
write_buffer (void *user_data, void *buffer, size_t used_bytes)
{
  FILE *file = user_data;

  return fwrite (buffer, 1, used_bytes, file) == used_bytes ? buffer : NULL;
}

static int
add_symbols (SondeWriter *writer)
{
  static struct
  {
    SondeSymbolRecord records[WALK_N_FUNCTIONS + 1]; /* the last one is the end */
    char names[WALK_N_FUNCTIONS][NAME_SIZE];
  } symbols;
  SondeFrameOrigin origin = { 0, -1, -1 };
  size_t done = 0;
  int r = 0;

  for (uint32_t i = 0; i < WALK_N_FUNCTIONS; i++)
    {
      symbols.records[i] = (SondeSymbolRecord){
        .begin = stack_walk_function (i),
        .end = stack_walk_function (i) + WALK_FUNCTION_SIZE - 1,
        .pid = PID,
        .name_offset = (uint32_t) (sizeof symbols.records + i * NAME_SIZE),
      };
      snprintf (symbols.names[i], NAME_SIZE, "function_%u", i);
    }
  while (r == 0 && done < sizeof symbols)
    {
      size_t size = sizeof symbols - done;

      if (size > SONDE_WRITER_MAX_CHUNK)
        size = SONDE_WRITER_MAX_CHUNK;
      r = sonde_writer_add_file_chunk (writer, &origin, "__symbols__",
                                       (const char *) &symbols + done, size,
                                       done + size == sizeof symbols);
      done += size;
    }
  return r;
}

static int
add_frames (SondeWriter *writer, uint64_t n_samples)
{
  SondeFrameOrigin origin = { 1, 0, PID };
  StackWalk walk = { SEED };
  uint64_t stack[1 + WALK_DEPTH] = { PERF_CONTEXT_USER };
  int r = sonde_writer_add_file_header (writer, 0, 1);

  if (r == 0)
    r = sonde_writer_add_process (writer, &origin, "synthetic");
  for (uint32_t i = 0; i < WALK_N_MODULES && r == 0; i++)
    {
      char path[64];

      snprintf (path, sizeof path, "/nonexistent/libmodule-%u.so", i);
      r = sonde_writer_add_map (writer, &origin, stack_walk_module (i),
                                stack_walk_module (i) + WALK_MODULE_SIZE, 0, i + 1, path, NULL);
    }
  for (uint64_t i = 0; i < n_samples && r == 0; i++)
    {
      origin.time_ns += PERIOD_NS;
      stack_walk_next (&walk, stack + 1);
      r = sonde_writer_add_sample (writer, &origin, PID, stack, 1 + WALK_DEPTH);
    }
  if (r == 0)
    r = add_symbols (writer);
  return r == 0 ? sonde_writer_flush (writer) : r;
}

bool
report_data_write_capture (const char *path, uint64_t n_samples)
{
  FILE *file = fopen (path, "wbe");
  void *buffer = aligned_alloc (8, BUFFER_SIZE);
  SondeWriter *writer = file != NULL && buffer != NULL
                            ? sonde_writer_new (buffer, BUFFER_SIZE, write_buffer, file)
                            : NULL;
  bool good = writer != NULL && add_frames (writer, n_samples) == 0;

  good = file != NULL && fclose (file) == 0 && good;
  if (!good)
    perror (path);
  sonde_writer_free (writer);
  free (buffer);
  return good;
}

/* --- perf.data --- */

/* Source: tools/perf/Documentation/perf.data-file-format.txt */
typedef struct
{
  uint64_t offset;
  uint64_t size;
} Section;

typedef struct
{
  char magic[8];
  uint64_t size;
  uint64_t attr_size;
  Section attrs;
  Section data;
  Section event_types;
  uint64_t flags[4];
} PerfHeader;

typedef struct
{
  struct perf_event_attr attr;
  Section ids;
} PerfAttr;

typedef struct
{
  struct perf_event_header header;
  uint64_t ip;
  uint32_t pid, tid;
  uint64_t time_ns;
  uint64_t period;
  uint64_t n_addrs;
  uint64_t addrs[1 + WALK_DEPTH];
} PerfSample;

typedef struct
{
  struct perf_event_header header;
  uint32_t pid, tid;
  uint64_t start, size, offset;
  char path[64];
} PerfMap;

typedef struct
{
  struct perf_event_header header;
  uint32_t pid, tid;
  char comm[16];
} PerfComm;

static bool
put (FILE *file, const void *bytes, size_t size)
{
  return fwrite (bytes, size, 1, file) == 1;
}

static bool
put_processes (FILE *file)
{
  PerfComm comm = { { PERF_RECORD_COMM, 0, sizeof comm }, PID, PID, "synthetic" };
  bool good = put (file, &comm, sizeof comm);

  for (uint32_t i = 0; i < WALK_N_MODULES && good; i++)
    {
      PerfMap map = { { PERF_RECORD_MMAP, PERF_RECORD_MISC_USER, sizeof map },
                      PID,
                      PID,
                      stack_walk_module (i),
                      WALK_MODULE_SIZE,
                      0,
                      "" };

      snprintf (map.path, sizeof map.path, "/nonexistent/libmodule-%u.so", i);
      good = put (file, &map, sizeof map);
    }
  return good;
}

static bool
put_samples (FILE *file, uint64_t n_samples)
{
  StackWalk walk = { SEED };
  PerfSample sample = {
    .header = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof sample },
    .pid = PID,
    .tid = PID,
    .time_ns = 1,
    .period = PERIOD_NS,
    .n_addrs = 1 + WALK_DEPTH,
    .addrs = { PERF_CONTEXT_USER },
  };
  bool good = true;

  for (uint64_t i = 0; i < n_samples && good; i++)
    {
      sample.time_ns += PERIOD_NS;
      stack_walk_next (&walk, sample.addrs + 1);
      sample.ip = sample.addrs[1];
      good = put (file, &sample, sizeof sample);
    }
  return good;
}

static bool
put_perf (FILE *file, uint64_t n_samples)
{
  PerfAttr attr = { .attr = { .type = PERF_TYPE_SOFTWARE,
                              .size = sizeof attr.attr,
                              .config = PERF_COUNT_SW_CPU_CLOCK,
                              .sample_period = PERIOD_NS,
                              .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME
                                             | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN } };
  PerfHeader header = { .magic = { 'P', 'E', 'R', 'F', 'I', 'L', 'E', '2' },
                        .size = sizeof header,
                        .attr_size = sizeof attr,
                        .attrs = { sizeof header, sizeof attr } };
  bool good;

  header.data.offset = sizeof header + sizeof attr;
  header.data.size
      = sizeof (PerfComm) + WALK_N_MODULES * sizeof (PerfMap) + n_samples * sizeof (PerfSample);
  good = put (file, &header, sizeof header) && put (file, &attr, sizeof attr);
  return good && put_processes (file) && put_samples (file, n_samples);
}

bool
report_data_write_perf (const char *path, uint64_t n_samples)
{
  FILE *file = fopen (path, "wbe");
  bool good = file != NULL && put_perf (file, n_samples);

  good = file != NULL && fclose (file) == 0 && good;
  if (!good)
    perror (path);
  return good;
}
