/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the decoder of perf records, under any sample_type that it knows. */
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/perf/perf-decoder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_RECORD_BYTES 65528u

static const uint64_t walk_ids[] = { 1001, 1002, 2001 };

static volatile uint8_t sink; /* of bytes that are read only to see whether that is allowed */

static void
touch (const struct perf_event_header *header, const void *field, size_t size_bytes)
{
  const uint8_t *begin = (const uint8_t *) header;
  const uint8_t *at = field;

  if (size_bytes == 0)
    return;
  if (at < begin || size_bytes > header->size || (size_t) (at - begin) > header->size - size_bytes)
    abort ();
  for (size_t i = 0; i < size_bytes; i++)
    sink ^= at[i];
}

static void
check_sample (const struct perf_event_header *header, const SondePerfRecordSample *sample)
{
  touch (header, sample->chain, sample->n_chain * sizeof *sample->chain);
  touch (header, sample->regs, sample->n_regs * sizeof *sample->regs);
  touch (header, sample->stack, sample->dump_size_bytes);
  if (sample->stack_size_bytes > sample->dump_size_bytes)
    abort ();
}

static void
check_record (const SondePerfDecoder *decoder,
              const struct perf_event_header *header,
              const SondePerfRecord *record)
{
  bool tells_its_own_time
      = record->type == SONDE_PERF_RECORD_FORK || record->type == SONDE_PERF_RECORD_EXIT
        || record->type == SONDE_PERF_RECORD_WALK;

  if (record->cpu < -1
      || (!tells_its_own_time && sonde_perf_decoder_time (decoder, header) != record->time_ns))
    abort ();
  if (record->type == SONDE_PERF_RECORD_SAMPLE)
    check_sample (header, &record->sample);
  if (record->type == SONDE_PERF_RECORD_CHAIN)
    touch (header, record->chain.addrs, record->chain.n_addrs * sizeof *record->chain.addrs);
  if (record->type == SONDE_PERF_RECORD_WALK)
    {
      touch (header, record->walk.bytes, record->walk.size_bytes);
      if (sonde_perf_decoder_time (decoder, header) != 0)
        abort ();
    }
  if (record->type == SONDE_PERF_RECORD_COMM)
    touch (header, record->comm.name, strlen (record->comm.name) + 1);
  if (record->type == SONDE_PERF_RECORD_MAP)
    {
      touch (header, record->map.path, strlen (record->map.path) + 1);
      if (record->map.start >= record->map.end)
        abort ();
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  SondePerfDecoder decoder = { .walk_ids = walk_ids, .n_walk_ids = 3 };
  struct perf_event_header *header;
  SondePerfRecord record;
  SondePerfRecordFault fault;

  decoder.sample_type = input_take_u64 (&input);
  decoder.regs_user = input_take_u64 (&input);
  size = input.left & ~(size_t) 7;
  if (size < sizeof *header || size > MAX_RECORD_BYTES
      || !sonde_perf_decoder_supports (decoder.sample_type))
    return 0;

  header = malloc (size);
  if (header == NULL)
    return 0;
  input_take (&input, header, size);
  if (header->size >= sizeof *header)
    header->size = (uint16_t) size;
  sonde_perf_decoder_time (&decoder, header);
  fault = sonde_perf_decoder_decode (&decoder, header, &record);
  if (fault == SONDE_PERF_RECORD_OK)
    check_record (&decoder, header, &record);
  else if (sonde_perf_record_fault_to_string (fault)[0] == '?')
    abort ();
  free (header);

  return 0;
}
