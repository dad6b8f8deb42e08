/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes captures whose every figure is known: make-capture KIND FILE */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/calls.h"
#include "protocol/writer.h"

#define BUFFER_BYTES (1u << 20)
#define START_NS     5000000000ll
#define STEP_NS      1000000ll
#define CODE         0x400000ull
#define FUNCTION     0x100ull /* bytes each */
#define KERNEL_NAME  SONDE_JIT_ADDRESS_BASE

/* Functions of the small captures: number = place in the program's code. */
enum
{
  MAIN,
  PARSE,
  READ_TOKEN,
  RENDER,
  BLEND,
  WORK,
  HASH,
  COPY,
  N_FUNCTIONS,
};

static const struct
{
  const char *name;
  const char *module;
} functions[N_FUNCTIONS] = {
  { "main", "server" },
  { "parse_request", "server" },
  { "read_token(char const*, unsigned long)", "server" },
  { "render_page", "server" },
  { "blend<std::vector<unsigned char>, Gamma::Linear>", "libpaint.so.2" },
  { "work_loop", "worker" },
  { "sha256_block", "libcrypto.so.3" },
  { "memcpy", "libc.so.6" },
};

static void *
write_out (void *user_data, void *buffer, size_t used_bytes)
{
  int fd = *(int *) user_data;

  for (size_t done = 0; done < used_bytes;)
    {
      ssize_t n = write (fd, (const char *) buffer + done, used_bytes - done);

      if (n < 0)
        return NULL;
      done += (size_t) n;
    }
  return buffer;
}

static void
check (int result)
{
  if (result >= 0)
    return;
  fprintf (stderr, "make-capture: %s\n", strerror (-result));
  exit (1);
}

static SondeFrameOrigin
at (int32_t pid, int64_t time_ns)
{
  return (SondeFrameOrigin){ .time_ns = time_ns, .cpu = 0, .pid = pid };
}

static uint64_t
address_of (uint32_t function)
{
  return CODE + function * FUNCTION + 8;
}

static void
add_process (SondeWriter *writer, int32_t pid, const char *cmdline)
{
  SondeFrameOrigin origin = at (pid, START_NS);

  check (sonde_writer_add_process (writer, &origin, cmdline));
}

/* The embedded names of @pids: records sorted by pid and address, an empty one, then the texts. */
static void
add_symbols (SondeWriter *writer, const int32_t *pids, size_t n_pids)
{
  SondeSymbolRecord records[3 * N_FUNCTIONS + 1] = { { 0 } };
  char texts[2048];
  size_t n_records = n_pids * N_FUNCTIONS;
  uint32_t texts_at = (uint32_t) ((n_records + 1) * sizeof *records);
  uint32_t used = 0;
  SondeFrameOrigin origin = at (-1, START_NS);

  for (uint32_t f = 0; f < N_FUNCTIONS; f++)
    {
      uint32_t name = used;
      uint32_t tag = name + (uint32_t) strlen (functions[f].name) + 1;

      memcpy (texts + name, functions[f].name, strlen (functions[f].name) + 1);
      memcpy (texts + tag, functions[f].module, strlen (functions[f].module) + 1);
      used = tag + (uint32_t) strlen (functions[f].module) + 1;
      for (size_t p = 0; p < n_pids; p++)
        records[p * N_FUNCTIONS + f] = (SondeSymbolRecord){ .begin = CODE + f * FUNCTION,
                                                            .end = CODE + (f + 1) * FUNCTION - 1,
                                                            .pid = (uint32_t) pids[p],
                                                            .name_offset = texts_at + name,
                                                            .tag_offset = texts_at + tag };
    }
  check (sonde_writer_add_file_chunk (writer, &origin, "__symbols__", records, texts_at, false));
  check (sonde_writer_add_file_chunk (writer, &origin, "__symbols__", texts, used, true));
}

static void
add_counters (SondeWriter *writer, int64_t time_ns, unsigned step)
{
  static const SondeCounter counters[] = {
    { "CPU", "Total", "Use of all processors in percent", 1, SONDE_COUNTER_DOUBLE, { 0 } },
    { "Memory", "Resident", "Bytes of the server", 2, SONDE_COUNTER_INT64, { 0 } },
  };
  const uint32_t ids[] = { 1, 2 };
  SondeCounterValue values[2];
  SondeFrameOrigin origin = at (-1, time_ns);

  if (step == 0)
    check (sonde_writer_add_counter_define (writer, &origin, counters, 2));
  values[0].vdbl = step < 400 ? 40 + step % 100 / 4.0 : 90 - step % 70 / 8.0;
  values[1].v64 = (int64_t) (32 + (step < 400 ? step / 4 : 100 - step / 20)) << 20;
  check (sonde_writer_add_counter_set (writer, &origin, ids, values, 2));
}

static void
add_sample (SondeWriter *writer,
            int32_t pid,
            int32_t tid,
            int64_t time_ns,
            const uint64_t *addrs,
            size_t n_addrs)
{
  SondeFrameOrigin origin = at (pid, time_ns);

  check (sonde_writer_add_sample (writer, &origin, tid, addrs, n_addrs));
}

/* Ten seconds, 1,000 samples. 0 s to 4 s the server: of ten samples six read tokens, three blend
 * (in the second thread) and one is in the kernel. 4 s to 10 s the worker: of ten samples @n_hash
 * hash, the others copy. */
static void
write_small (SondeWriter *writer, unsigned n_hash)
{
  static const int32_t pids[] = { 100, 200 };
  const uint64_t read_stack[] = { address_of (READ_TOKEN), address_of (PARSE), address_of (MAIN) };
  const uint64_t blend_stack[] = { address_of (BLEND), address_of (RENDER), address_of (MAIN) };
  const uint64_t kernel_stack[]
      = { SONDE_CONTEXT_KERNEL,    KERNEL_NAME,        SONDE_CONTEXT_USER,
          address_of (READ_TOKEN), address_of (PARSE), address_of (MAIN) };
  const uint64_t hash_stack[] = { address_of (HASH), address_of (WORK), address_of (MAIN) };
  const uint64_t copy_stack[] = { address_of (COPY), address_of (WORK), address_of (MAIN) };
  const SondeJitName kernel_name = { KERNEL_NAME, "copy_to_user" };
  SondeFrameOrigin origin = at (-1, START_NS);

  add_process (writer, 100, "/usr/bin/server --port 80");
  add_process (writer, 200, "/usr/bin/worker <queue> & \"more\"");
  check (sonde_writer_add_jitmap (writer, &origin, &kernel_name, 1));
  for (unsigned i = 0; i < 1000; i++)
    {
      int64_t time_ns = START_NS + i * 10 * STEP_NS;

      add_counters (writer, time_ns, i);
      if (i >= 400 && i % 10 < n_hash)
        add_sample (writer, 200, 200, time_ns, hash_stack, 3);
      else if (i >= 400)
        add_sample (writer, 200, 200, time_ns, copy_stack, 3);
      else if (i % 10 < 6)
        add_sample (writer, 100, 100, time_ns, read_stack, 3);
      else if (i % 10 < 9)
        add_sample (writer, 100, 101, time_ns, blend_stack, 3);
      else
        add_sample (writer, 100, 100, time_ns, kernel_stack, 6);
      if (i % 50 == 0)
        {
          SondeFrameOrigin mark = at (100, time_ns);

          check (sonde_writer_add_mark (writer, &mark, (int64_t) (1 + i / 50 % 4) * 80 * STEP_NS,
                                        i < 400 ? "requests" : "jobs",
                                        i < 400 ? "GET /page" : "job", "text of the mark"));
        }
    }
  add_symbols (writer, pids, 2);
}

/* Ten seconds of counters as sonded has them: of four processors, of memory, and of a network that
 * receives 1 MiB in each second, and sends nothing for five seconds, then 10 KiB in each; three
 * groups of marks. */
static void
write_counters (SondeWriter *writer)
{
  static const SondeCounter counters[] = {
    { "CPU Percent", "Total", "time not idle, %", 1, SONDE_COUNTER_DOUBLE, { 0 } },
    { "CPU Percent", "cpu0", "time not idle, %", 2, SONDE_COUNTER_DOUBLE, { 0 } },
    { "CPU Percent", "cpu1", "time not idle, %", 3, SONDE_COUNTER_DOUBLE, { 0 } },
    { "Memory", "Used", "bytes: all but what is available", 4, SONDE_COUNTER_INT64, { 0 } },
    { "Network", "RX Bytes (eth0)", "received since first seen", 5, SONDE_COUNTER_INT64, { 0 } },
    { "Network", "TX Bytes (eth0)", "sent since first seen", 6, SONDE_COUNTER_INT64, { 0 } },
  };
  static const char *const groups[] = { "frames", "<b>input</b>", "timers" };
  static const int32_t pids[] = { 100, 200 };
  const uint32_t ids[] = { 1, 2, 3, 4, 5, 6 };
  const uint64_t stack[] = { address_of (HASH), address_of (WORK), address_of (MAIN) };

  add_process (writer, 100, "/usr/bin/server");
  add_process (writer, 200, "/usr/bin/worker");
  for (unsigned i = 0; i <= 100; i++)
    {
      int64_t time_ns = START_NS + i * 100 * STEP_NS;
      SondeFrameOrigin origin = at (-1, time_ns);
      SondeFrameOrigin mark = at (100, time_ns);
      SondeCounterValue values[6];

      if (i == 0)
        check (sonde_writer_add_counter_define (writer, &origin, counters, 6));
      values[0].vdbl = (i % 20 + i % 30) / 2.0;
      values[1].vdbl = i % 20;
      values[2].vdbl = i % 30;
      values[3].v64 = (int64_t) (512 + i) << 20; /* grows, and is no sum */
      values[4].v64 = (int64_t) i * (1 << 20) / 10;
      values[5].v64 = i < 50 ? 0 : (int64_t) (i - 50) << 10;
      check (sonde_writer_add_counter_set (writer, &origin, ids, values, 6));
      check (sonde_writer_add_mark (writer, &mark, 20 * STEP_NS, groups[i % 3], "mark", "text"));
      add_sample (writer, pids[i % 2], pids[i % 2], time_ns, stack, 3);
    }
  add_symbols (writer, pids, 2);
}

/* The same numbers each time: xorshift64. */
static uint64_t
next_random (uint64_t *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* @n_samples of 30 frames in four threads, of @n_stacks different ones, of which some are far more
 * frequent than others. */
static void
write_many (SondeWriter *writer, unsigned n_samples, unsigned n_stacks)
{
  uint64_t state = 88172645463325252ull;

  add_process (writer, 100, "/usr/bin/many");
  for (uint32_t f = 0; f < 4000; f++)
    {
      char name[64];
      SondeJitName jit = { SONDE_JIT_ADDRESS_BASE + f, name };
      SondeFrameOrigin origin = at (-1, START_NS);

      snprintf (name, sizeof name, "library_%u::component_%u::function_%u(int)", f % 7, f % 97, f);
      check (sonde_writer_add_jitmap (writer, &origin, &jit, 1));
    }
  for (unsigned i = 0; i < n_samples; i++)
    {
      uint64_t random = next_random (&state);
      /* the smaller of two: stacks of low numbers come more often */
      uint64_t stack = i < n_stacks ? i
                                    : (random % n_stacks) * (random >> 32) % n_stacks
                                          % (1 + random % n_stacks);
      uint64_t addrs[30];

      for (unsigned depth = 0; depth < 30; depth++)
        {
          /* the outer frames of many stacks are the same */
          uint64_t prefix = depth < 17 ? stack >> (17 - depth) : stack;

          addrs[29 - depth] = SONDE_JIT_ADDRESS_BASE + (prefix * 31 + depth * 131) % 4000;
        }
      add_sample (writer, 100, 100 + (int32_t) (random >> 60) % 4, START_NS + i * (STEP_NS / 10),
                  addrs, 30);
    }
}

/* More runs than a page has: 450,000 samples, of which two hash, one copies, and so on. */
static void
write_runs (SondeWriter *writer)
{
  static const int32_t pids[] = { 200 };
  const uint64_t hash_stack[] = { address_of (HASH), address_of (WORK), address_of (MAIN) };
  const uint64_t copy_stack[] = { address_of (COPY), address_of (WORK), address_of (MAIN) };

  add_process (writer, 200, "/usr/bin/worker");
  for (unsigned i = 0; i < 450000; i++)
    add_sample (writer, 200, 200, START_NS + i * (STEP_NS / 10),
                i % 3 < 2 ? hash_stack : copy_stack, 3);
  add_symbols (writer, pids, 1);
}

/* Of the file at @at a record, whose numbers are less than 2^32. Returns: behind it */
static uint8_t *
put_record (uint8_t *at, uint64_t kind, const uint64_t *numbers, size_t n)
{
  uint8_t body[256];
  uint8_t *end = body;

  for (size_t i = 0; i < n; i++)
    {
      uint64_t number = numbers[i];

      for (; number >= 0x80; number >>= 7)
        *end++ = (uint8_t) (number | 0x80);
      *end++ = (uint8_t) number;
    }
  if (kind > 0)
    {
      *at++ = (uint8_t) kind;
      *at++ = (uint8_t) (end - body);
    }
  memcpy (at, body, (size_t) (end - body));
  return at + (end - body);
}

#define PUT(at, kind, ...)                                                                         \
  put_record (at, kind, (const uint64_t[]){ __VA_ARGS__ },                                         \
              sizeof (const uint64_t[]){ __VA_ARGS__ } / sizeof (uint64_t))

/* main() took 100 us, and calls parse_request() a hundred times: 90 took from 128 ns on, ten from
 * 2,048 ns on, 32,200 ns together. */
static void
write_calls (SondeWriter *writer)
{
  static const int32_t pids[] = { 100 };
  const uint64_t per_s = 1000000000;
  SondeFrameOrigin origin = at (100, START_NS + 1000 * STEP_NS);
  uint8_t file[512];
  uint8_t *end = file + SONDE_CALLS_MAGIC_BYTES;
  uint8_t *last;

  add_process (writer, 100, "/usr/bin/server --port 80");
  memcpy (file, SONDE_CALLS_MAGIC, SONDE_CALLS_MAGIC_BYTES);
  end = PUT (end, 0, SONDE_CALLS_VERSION, per_s, 3, 64, START_NS, START_NS + 1000 * STEP_NS);
  end = PUT (end, SONDE_CALLS_PATH, 1, 0, 0);
  end = PUT (end, SONDE_CALLS_PATH, 2, 1, CODE + MAIN * FUNCTION);
  end = PUT (end, SONDE_CALLS_PATH, 3, 2, CODE + PARSE * FUNCTION);
  end = PUT (end, SONDE_CALLS_CALLS, 2, 1);
  end = PUT (end, SONDE_CALLS_CALLS, 3, 100);
  end = PUT (end, SONDE_CALLS_TIMES, 2, 1, 100000, 67800, 100, 100000, 100000, 1,
             sonde_calls_bucket (100000), 1);
  end = PUT (end, SONDE_CALLS_TIMES, 3, 100, 32200, 32200, 0, 130, 2050, 2,
             sonde_calls_bucket (128), 90, sonde_calls_bucket (2048) - sonde_calls_bucket (128),
             10);
  end = PUT (end, SONDE_CALLS_ACCOUNT, 101, 101, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3);
  last = end;
  end = PUT (end, SONDE_CALLS_END, (uint64_t) (last - file));
  check (sonde_writer_add_file_chunk (writer, &origin, SONDE_CALLS_FOLDER "100-0/1", file,
                                      (size_t) (end - file), true));
  add_symbols (writer, pids, 1);
}

/* A sample in this very program, whose debug information says where. */
__attribute__ ((noinline)) static void
write_self (SondeWriter *writer)
{
  const uint64_t addrs[] = { (uint64_t) (uintptr_t) write_self + 4 };
  SondeFrameOrigin origin = at (100, START_NS);
  FILE *maps = fopen ("/proc/self/maps", "re");
  char line[512];

  add_process (writer, 100, "/usr/bin/self");
  while (maps != NULL && fgets (line, sizeof line, maps) != NULL)
    {
      unsigned long long start, end, offset, inode;
      char path[256] = "";

      if (sscanf (line, "%llx-%llx %*s %llx %*s %llu %255s", &start, &end, &offset, &inode, path)
              == 5
          && addrs[0] >= start && addrs[0] < end)
        check (sonde_writer_add_map (writer, &origin, start, end, offset, inode, path, NULL));
    }
  if (maps != NULL)
    fclose (maps);
  add_sample (writer, 100, 100, START_NS, addrs, 1);
}

static void
write_kind (SondeWriter *writer, const char *kind)
{
  check (sonde_writer_add_file_header (writer, 1700000000ll * 1000000000ll, START_NS));
  if (strcmp (kind, "small") == 0)
    write_small (writer, 7);
  else if (strcmp (kind, "before") == 0)
    write_small (writer, 4);
  else if (strcmp (kind, "stacks") == 0)
    write_many (writer, 200000, 100000);
  else if (strcmp (kind, "large") == 0)
    write_many (writer, 5000000, 100000);
  else if (strcmp (kind, "runs") == 0)
    write_runs (writer);
  else if (strcmp (kind, "counters") == 0)
    write_counters (writer);
  else if (strcmp (kind, "self") == 0)
    write_self (writer);
  else if (strcmp (kind, "calls") == 0)
    write_calls (writer);
  else
    check (-EINVAL);
  check (sonde_writer_flush (writer));
}

int
main (int argc, char **argv)
{
  void *buffer = aligned_alloc (8, BUFFER_BYTES);
  SondeWriter *writer;
  int fd;

  if (argc != 3 || buffer == NULL)
    {
      fprintf (stderr,
               "usage: make-capture small|before|stacks|large|counters|runs|self|calls FILE\n");
      return 2;
    }
  fd = open (argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0)
    {
      perror (argv[2]);
      return 1;
    }
  writer = sonde_writer_new (buffer, BUFFER_BYTES, write_out, &fd);
  if (writer == NULL)
    return 1;
  write_kind (writer, argv[1]);
  sonde_writer_free (writer);
  free (buffer);
  return close (fd) < 0;
}
