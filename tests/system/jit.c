/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes code, says in a map file what it is, and runs it:
 * jit [--dump FOLDER | --late | --trampoline | --new-trampoline] SECONDS [NAME...]
 *
 * The file is "/tmp/perf-PID.map", as the process sees itself and its files, or a jitdump in
 * FOLDER. Of several names each has the same time, one after the other, and all have the same
 * place. With
 * --late the file is written when all is over. With --trampoline the code calls spin_below(), as
 * CPython's trampolines do for profilers; with --new-trampoline as those from 3.14 on. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Counts down from its argument. */
#if defined(__x86_64__)
static const uint8_t code[] = { 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3 };
#elif defined(__aarch64__)
static const uint32_t code[] = { 0xf1000400, 0x54ffffe1, 0xd65f03c0 };
#else
#error "no code for this architecture"
#endif

typedef uint64_t Callee (uint64_t n, uint64_t unused, uint64_t unused_too);

#if defined(__x86_64__)
/* They call their fourth argument with the other three. */
static const uint8_t trampoline[]
    = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
static const uint8_t new_trampoline[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3 };
#endif

__attribute__ ((noinline)) static uint64_t
spin_below (uint64_t n, uint64_t unused, uint64_t unused_too)
{
  for (uint64_t i = 0; i < n; i++)
    __asm__ volatile("" ::: "memory");
  return n;
}

/* With something of its own on the stack. */
__attribute__ ((noinline)) static uint64_t
call_through (void *memory, uint64_t n)
{
  uint64_t (*call) (uint64_t, uint64_t, uint64_t, Callee *);
  volatile uint64_t own[5] = { n, n, n, n, n };

  memcpy (&call, &memory, sizeof memory);
  return call (own[3], 0, 0, spin_below) + own[4];
}

static uint64_t
now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

static FILE *
open_map (void)
{
  char path[64];

  snprintf (path, sizeof path, "/tmp/perf-%d.map", (int) getpid ());
  return fopen (path, "w");
}

static void
put_number (FILE *file, uint64_t number, size_t size)
{
  fwrite (&number, size, 1, file); /* of a little-endian machine */
}

/* Its mapping is how others learn of it. */
static FILE *
open_dump (const char *folder)
{
  char path[4096];
  FILE *file;

  snprintf (path, sizeof path, "%s/jit-%d.dump", folder, (int) getpid ());
  file = fopen (path, "w+");
  if (file == NULL)
    return NULL;
  put_number (file, 0x4A695444, 4);
  put_number (file, 1, 4);
  put_number (file, 40, 4);
  put_number (file, 62, 4);
  put_number (file, 0, 4);
  put_number (file, (uint64_t) getpid (), 4);
  put_number (file, now_ns (), 8);
  put_number (file, 0, 8);
  fflush (file);
  return mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno (file), 0) != MAP_FAILED
             ? file
             : NULL;
}

static void
tell (FILE *file, int is_dump, const void *memory, const char *name)
{
  if (!is_dump)
    fprintf (file, "%lx %x %s\n", (unsigned long) (uintptr_t) memory, 16, name);
  else
    {
      put_number (file, 0, 4);
      put_number (file, 16 + 40 + strlen (name) + 1 + sizeof code, 4);
      put_number (file, now_ns (), 8);
      put_number (file, (uint64_t) getpid (), 4);
      put_number (file, (uint64_t) getpid (), 4);
      put_number (file, (uintptr_t) memory, 8);
      put_number (file, (uintptr_t) memory, 8);
      put_number (file, sizeof code, 8);
      put_number (file, 1, 8);
      fwrite (name, strlen (name) + 1, 1, file);
      fwrite (code, sizeof code, 1, file);
    }
  fflush (file);
}

int
main (int argc, char *argv[])
{
  static const char *const usual[] = { "count_down" };
  int is_dump = argc > 2 && strcmp (argv[1], "--dump") == 0;
  int is_late = argc > 1 && strcmp (argv[1], "--late") == 0;
  int is_trampoline = argc > 1 && strcmp (argv[1], "--trampoline") == 0;
  int is_new = argc > 1 && strcmp (argv[1], "--new-trampoline") == 0;
  int n_options = is_dump ? 2 : is_late || is_trampoline || is_new;
  double seconds = argc > 1 + n_options ? atof (argv[1 + n_options]) : 1;
  int n_names = argc > 2 + n_options ? argc - 2 - n_options : 1;
  const char *const *names
      = argc > 2 + n_options ? (const char *const *) argv + 2 + n_options : usual;
  void *memory
      = mmap (NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void (*count_down) (uint64_t from);
  FILE *file = NULL;

  if (memory == MAP_FAILED)
    return 1;
  memcpy (memory, code, sizeof code);
#if defined(__x86_64__)
  if (is_trampoline)
    memcpy (memory, trampoline, sizeof trampoline);
  if (is_new)
    memcpy (memory, new_trampoline, sizeof new_trampoline);
#endif
  __builtin___clear_cache (memory, (char *) memory + sizeof code);
  memcpy (&count_down, &memory, sizeof memory);
  if (!is_late)
    {
      file = is_dump ? open_dump (argv[2]) : open_map ();
      if (file == NULL)
        return 1;
    }
  for (int i = 0; i < n_names; i++)
    {
      uint64_t end_ns = now_ns () + (uint64_t) (seconds / n_names * 1e9);

      if (file != NULL)
        tell (file, is_dump, memory, names[i]);
      if (i == 0)
        puts ("ready");
      fflush (stdout);
      while (now_ns () < end_ns)
        if (is_trampoline || is_new)
          call_through (memory, 1000000);
        else
          count_down (1000000);
    }
  if (is_late)
    {
      file = open_map ();
      if (file == NULL)
        return 1;
      tell (file, 0, memory, names[n_names - 1]);
      usleep (1000000); /* it is looked for again and again */
    }
  return 0;
}
