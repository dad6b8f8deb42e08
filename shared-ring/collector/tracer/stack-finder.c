/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/stack-finder.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shared-ring/ring-atomic.h"

#define MAX_COROUTINES 256u

/* A program may have a great many mappings: what is behind these is unknown. */
#define MAX_TEXT_BYTES (1u << 20)

/* Written in turn by whoever makes a coroutine; a size of 0 while it is. */
static SondeTrieRange coroutines[MAX_COROUTINES];
static uint32_t n_coroutines;

void
sonde_stack_finder_add (uint64_t lo, uint64_t size_bytes)
{
  uint32_t i = __atomic_fetch_add (&n_coroutines, 1, __ATOMIC_RELAXED) % MAX_COROUTINES;

  sonde_ring_store_relaxed (&coroutines[i].size_bytes, 0);
  sonde_ring_store_release (&coroutines[i].lo, lo);
  sonde_ring_store_release (&coroutines[i].size_bytes, size_bytes);
}

static bool
find_coroutine (uint64_t sp, SondeTrieRange *range)
{
  for (uint32_t i = 0; i < MAX_COROUTINES; i++)
    {
      range->size_bytes = sonde_ring_load_acquire (&coroutines[i].size_bytes);
      range->lo = sonde_ring_load_acquire (&coroutines[i].lo);
      if (sp - range->lo < range->size_bytes)
        return true;
    }
  return false;
}

static bool
find_signal_stack (uint64_t sp, SondeTrieRange *range)
{
  stack_t stack;

  if (sigaltstack (NULL, &stack) < 0 || (stack.ss_flags & SS_DISABLE) != 0)
    return false;
  *range = (SondeTrieRange){ (uintptr_t) stack.ss_sp, stack.ss_size };
  return sp - range->lo < range->size_bytes;
}

/* The text of /proc/self/maps, byte by byte: each line begins with two numbers. */
typedef struct
{
  uint64_t numbers[2];
  uint32_t n_numbers; /* 2: the rest of the line means nothing */
} Line;

static bool
take_byte (Line *line, char byte, uint64_t sp)
{
  if (byte == '\n')
    *line = (Line){ 0 };
  else if (line->n_numbers == 2)
    return false;
  else if (byte >= '0' && byte <= '9')
    line->numbers[line->n_numbers] = line->numbers[line->n_numbers] << 4 | (uint64_t) (byte - '0');
  else if (byte >= 'a' && byte <= 'f')
    line->numbers[line->n_numbers]
        = line->numbers[line->n_numbers] << 4 | (uint64_t) (byte - 'a' + 10);
  else
    line->n_numbers++;
  return line->n_numbers == 2 && sp >= line->numbers[0] && sp < line->numbers[1];
}

/* As struct procmap_query of linux/fs.h since 6.11. */
typedef struct
{
  uint64_t size_bytes;
  uint64_t flags; /* 0: the mapping at @address */
  uint64_t address;
  uint64_t begin; /* of the kernel, as what follows */
  uint64_t end;
  uint64_t others[4];
  uint32_t others_2[4];
  uint64_t places[2]; /* of texts that are not wanted */
} MapQuery;

static_assert (sizeof (MapQuery) == 104, "the query is as long as the kernel has it");

/* However many mappings there are. */
static bool
ask_for_mapping (int fd, uint64_t sp, SondeTrieRange *range)
{
  MapQuery query = { .size_bytes = sizeof query, .address = sp };

  if (ioctl (fd, _IOWR ('f', 17, MapQuery), &query) < 0 || sp < query.begin || sp >= query.end)
    return false;
  *range = (SondeTrieRange){ query.begin, query.end - query.begin };
  return true;
}

static bool
find_mapping (uint64_t sp, SondeTrieRange *range)
{
  int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  bool is_found = false;
  Line line = { 0 };
  char text[1024];
  ssize_t n = 1;

  if (fd < 0)
    return false;
  if (ask_for_mapping (fd, sp, range))
    {
      close (fd);
      return true;
    }
  for (uint32_t n_read = 0; n > 0 && !is_found && n_read < MAX_TEXT_BYTES; n_read += (uint32_t) n)
    {
      n = read (fd, text, sizeof text);
      for (ssize_t i = 0; i < n && !is_found; i++)
        is_found = take_byte (&line, text[i], sp);
    }
  close (fd);
  if (is_found)
    *range = (SondeTrieRange){ line.numbers[0], line.numbers[1] - line.numbers[0] };
  return is_found;
}

bool
sonde_stack_finder_find (uint64_t sp, SondeTrieRange *range)
{
  int saved_errno = errno;
  bool is_found
      = find_coroutine (sp, range) || find_signal_stack (sp, range) || find_mapping (sp, range);

  errno = saved_errno;
  return is_found;
}
