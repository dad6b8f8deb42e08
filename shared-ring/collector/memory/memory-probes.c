/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/memory/memory-probes.h"

#include <errno.h>
#include <stdlib.h>

#include "shared-ring/collector/memory/heap-recorder.h"
#include "shared-ring/collector/memory/sample-distance.h"

/* Nearer samples would cost a tracer more than it can see. */
#define MIN_INTERVAL_BYTES 1024

/* Samples in one block that are drawn one by one; of what is behind them the mean is taken. */
#define MAX_DRAWN 64

/* Of the process: how many bytes lie between two samples; 0: probes are off. */
static uint64_t interval_bytes;
static _Thread_local uint64_t random_state;

/* --- the probes ---
 *
 * A probe is an instruction that does nothing, and a note that says where it is: three addresses
 * (its own, that of .stapsdt.base, by which tools see that a file was prelinked, and that of its
 * semaphore), its names, and where its arguments are. Tracers count the semaphore up. */
#define SEMAPHORE                                                                                  \
  __attribute__ ((section (".probes"), visibility ("hidden"), used, aligned (2))) uint16_t

SEMAPHORE sonde_probe_semaphore_alloc;
SEMAPHORE sonde_probe_semaphore_free;

#ifdef __LP64__
#define ADDRESS  ".8byte "
#define ARGUMENT "8@"
#else
#define ADDRESS  ".4byte "
#define ARGUMENT "4@"
#endif

/* Of one byte: the one of five is made a call by Linux 6.18, to memory that children of the program
 * do not have. */
#define NOTE(name, arguments)                                                                      \
  "990: nop\n.pushsection .note.stapsdt, \"\", \"note\"\n"                                         \
  ".balign 4\n"                                                                                    \
  ".4byte 992f-991f, 994f-993f, 3\n"                                                               \
  "991: .asciz \"stapsdt\"\n"                                                                      \
  "992: .balign 4\n"                                                                               \
  "993: " ADDRESS "990b\n" ADDRESS "_.stapsdt.base\n" ADDRESS "sonde_probe_semaphore_" name "\n"   \
  ".asciz \"otel_memory\"\n"                                                                       \
  ".asciz \"" name "\"\n"                                                                          \
  ".asciz \"" arguments "\"\n"                                                                     \
  "994: .balign 4\n"                                                                               \
  ".popsection\n"                                                                                  \
  ".ifndef _.stapsdt.base\n"                                                                       \
  ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                      \
  ".weak _.stapsdt.base\n"                                                                         \
  ".hidden _.stapsdt.base\n"                                                                       \
  "_.stapsdt.base: .space 1\n"                                                                     \
  ".size _.stapsdt.base, 1\n"                                                                      \
  ".popsection\n"                                                                                  \
  ".endif\n"

/* Each once in the library: not to be copied into who calls it. */
static __attribute__ ((noinline)) void
fire_alloc (const void *block, size_t size_bytes, size_t weight_bytes)
{
  __asm__ volatile(NOTE ("alloc", ARGUMENT "%0 " ARGUMENT "%1 " ARGUMENT "%2")
                   :
                   : "r"(block), "r"(size_bytes), "r"(weight_bytes));
}

static __attribute__ ((noinline)) void
fire_free (const void *block)
{
  __asm__ volatile(NOTE ("free", ARGUMENT "%0") : : "r"(block));
}

static bool
is_traced (const uint16_t *semaphore)
{
  return *(const volatile uint16_t *) semaphore != 0;
}

/* --- samples --- */

bool
sonde_memory_probes_begin (void)
{
  const char *text = secure_getenv ("SONDE_MEMORY_PROBES");
  int saved_errno = errno;
  char *end = NULL;
  unsigned long long wish;

  if (text == NULL || text[0] < '0' || text[0] > '9')
    return false;
  errno = 0;
  wish = strtoull (text, &end, 10);
  if (errno == 0 && *end == '\0' && wish > 0)
    {
      if (wish > INT64_MAX)
        wish = INT64_MAX;
      sonde_ring_store_relaxed (&interval_bytes,
                                wish > MIN_INTERVAL_BYTES ? (uint64_t) wish : MIN_INTERVAL_BYTES);
    }
  errno = saved_errno;
  return sonde_memory_probes_are_on ();
}

bool
sonde_memory_probes_are_on (void)
{
  return sonde_ring_load_relaxed (&interval_bytes) != 0;
}

/* How many samples lie in a block whose byte @distance has the first; @distance: (inout): of the
 * next one, from the block's end. */
static uint64_t
count_samples (uint64_t size_bytes, uint64_t mean_bytes, uint64_t *distance)
{
  uint64_t left = size_bytes - *distance;
  uint64_t n = 1;

  for (unsigned i = 0; i < MAX_DRAWN; i++)
    {
      *distance = sonde_sample_distance_draw (&random_state, mean_bytes);
      if (*distance > left)
        {
          *distance -= left;
          return n;
        }
      left -= *distance;
      n++;
    }
  *distance = sonde_sample_distance_draw (&random_state, mean_bytes);
  return n + left / mean_bytes;
}

void
sonde_memory_probes_reach (const void *block, size_t size_bytes, uint64_t *bytes_left)
{
  uint64_t mean_bytes = sonde_ring_load_relaxed (&interval_bytes);
  uint64_t distance = *bytes_left;
  uint64_t weight;

  if (random_state == 0)
    random_state = sonde_sample_distance_seed ();
  if (distance == 0)
    distance = sonde_sample_distance_draw (&random_state, mean_bytes);
  if (distance > size_bytes)
    {
      *bytes_left = distance - size_bytes;
      return;
    }

  weight = count_samples (size_bytes, mean_bytes, &distance) * mean_bytes;
  *bytes_left = distance;
  if (is_traced (&sonde_probe_semaphore_alloc)
      && sonde_address_set_add (&sonde_heap_process.sampled, (uintptr_t) block))
    fire_alloc (block, size_bytes, weight > SIZE_MAX ? SIZE_MAX : (size_t) weight);
}

void
sonde_memory_probes_free (const void *block)
{
  if (is_traced (&sonde_probe_semaphore_free))
    fire_free (block);
}
