/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lets a hostile kernel write perf rings, and merges them. */
#include <glib.h>
#include <stdbool.h>

#include "daemon/capture/perf/rings.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_RINGS     3
#define MAX_TURNS     64
#define MAX_PER_TURN  256 /* more records than fit into all rings */
#define MIN_RING_SIZE 64u /* bytes */
#define N_RING_SIZES  5
#define WAITS         0x40
#define DRAINS        0x80

typedef struct
{
  struct perf_event_mmap_page page;
  uint8_t *data;
  size_t size_bytes;
  bool is_damaged; /* its head was moved: where there is room is not known */
} Kernel;

typedef struct
{
  Kernel kernels[MAX_RINGS];
  unsigned n_rings;
  bool waits; /* for the records of this turn */
} Machine;

static volatile uint8_t sink; /* of bytes that are read only to see whether that is allowed */

static void
touch (const struct perf_event_header *record)
{
  for (size_t i = 0; i < record->size; i++)
    sink ^= ((const uint8_t *) record)[i];
}

/* The first word behind the header. */
static int64_t
time_of (const struct perf_event_header *record, gpointer user_data)
{
  int64_t time_ns = 0;

  if (record->size >= sizeof *record + sizeof time_ns)
    memcpy (&time_ns, record + 1, sizeof time_ns);

  return time_ns;
}

static SondeRingsAnswer
take_record (const struct perf_event_header *record,
             unsigned kind,
             gboolean pressed,
             gpointer user_data)
{
  const Machine *machine = user_data;

  if (kind >= machine->n_rings || record->size < sizeof *record)
    abort ();
  touch (record);

  return machine->waits && !pressed ? SONDE_RINGS_WAIT : SONDE_RINGS_TAKEN;
}

static void
take_damage (unsigned kind, gpointer user_data)
{
}

static void
foresee (const struct perf_event_header *record, gpointer user_data)
{
  touch (record);
}

static const SondeRingsHandler handler = { time_of, take_record, take_damage, foresee, NULL };

static void
add_rings (Machine *machine, SondeRings *rings, Input *input)
{
  machine->n_rings = 1 + input_take_byte (input) % MAX_RINGS;
  for (unsigned i = 0; i < machine->n_rings; i++)
    {
      Kernel *kernel = &machine->kernels[i];

      kernel->size_bytes = (size_t) MIN_RING_SIZE << (input_take_byte (input) % N_RING_SIZES);
      kernel->data = g_malloc0 (kernel->size_bytes);
      kernel->page.data_head = kernel->page.data_tail = input_take_u64 (input) & ~UINT64_C (7);
      sonde_rings_add (
          rings, sonde_perf_ring_new_for_memory (&kernel->page, kernel->data, kernel->size_bytes),
          i);
    }
}

/* Bytes of the input at the head of the ring, as a kernel writes them: never over what waits. */
static void
write_bytes (Kernel *kernel, Input *input)
{
  uint16_t n = input_take_u16 (input) & ~7u;

  if (kernel->is_damaged
      || n > kernel->size_bytes - (kernel->page.data_head - kernel->page.data_tail))
    return;

  for (uint16_t i = 0; i < n && input->left > 0; i++)
    kernel->data[(kernel->page.data_head + i) & (kernel->size_bytes - 1)] = input_take_byte (input);
  kernel->page.data_head += n;
}

static void
work (Kernel *kernel, unsigned how, Input *input)
{
  switch (how)
    {
    case 0:
      write_bytes (kernel, input);
      break;
    case 1:
      kernel->page.data_head += (uint64_t) (int64_t) (int16_t) input_take_u16 (input);
      kernel->is_damaged = true;
      break;
    case 2:
      kernel->page.data_head = input_take_u64 (input);
      kernel->is_damaged = true;
      break;
    default:
      break;
    }
}

static SondeRingsState
merge_some (Machine *machine, SondeRings *rings, int64_t now_ns, bool drains, unsigned budget)
{
  SondeRingsState state = sonde_rings_run (rings, now_ns, drains, budget);

  if (state == SONDE_RINGS_EMPTY)
    for (unsigned i = 0; i < machine->n_rings; i++)
      machine->kernels[i].is_damaged = false;
  return state;
}

/* Whatever was there, nothing is left when nobody writes any more. */
static void
drain (Machine *machine, SondeRings *rings)
{
  machine->waits = false;
  for (unsigned i = 0; i <= MAX_TURNS; i++)
    if (merge_some (machine, rings, 0, true, MAX_PER_TURN) == SONDE_RINGS_EMPTY)
      break;
  for (unsigned i = 0; i < machine->n_rings; i++)
    if (machine->kernels[i].page.data_tail != machine->kernels[i].page.data_head)
      abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  Machine machine = { .n_rings = 0 };
  SondeRings *rings = sonde_rings_new (&(SondeMessageSetup){ 0 }, &handler, &machine);

  add_rings (&machine, rings, &input);
  for (unsigned i = 0; i < MAX_TURNS && input.left > 0; i++)
    {
      unsigned what = input_take_byte (&input);

      work (&machine.kernels[(what & 3) % machine.n_rings], what >> 2 & 3, &input);
      machine.waits = (what & WAITS) != 0;
      sonde_rings_foresee (rings, (what & 3) % machine.n_rings, what & 15);
      merge_some (&machine, rings, (int64_t) (what >> 4) * SONDE_RINGS_WINDOW_NS,
                  (what & DRAINS) != 0, what & 31);
    }
  drain (&machine, rings);

  sonde_rings_free (rings);
  for (unsigned i = 0; i < machine.n_rings; i++)
    g_free (machine.kernels[i].data);

  return 0;
}
