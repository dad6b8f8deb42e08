/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Perf records made by hand, whole, cut and wrong. */
#include "daemon/capture/perf/perf-decoder.h"

#include <glib.h>
#include <string.h>
#include <sys/mman.h>

#define SAMPLE_TYPE                                                                                \
  (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU  \
   | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define REGS 0x103u /* three registers */

static const uint64_t walk_ids[] = { 5, 9, 12 };
static const uint64_t probe_ids[] = { 7 };
static const SondePerfDecoder decoder = { SAMPLE_TYPE, REGS,
                                          walk_ids,    sizeof walk_ids / sizeof walk_ids[0],
                                          probe_ids,   sizeof probe_ids / sizeof probe_ids[0] };

typedef struct
{
  _Alignas(8) uint8_t bytes[1024];
  size_t used;
} Builder;

static void
put (Builder *self, const void *bytes, size_t size_bytes)
{
  g_assert_cmpuint (self->used + size_bytes, <=, sizeof self->bytes);
  memcpy (self->bytes + self->used, bytes, size_bytes);
  self->used += size_bytes;
}

static void
put64 (Builder *self, uint64_t value)
{
  put (self, &value, sizeof value);
}

static void
put32 (Builder *self, uint32_t first, uint32_t second)
{
  put (self, &first, sizeof first);
  put (self, &second, sizeof second);
}

static void
begin (Builder *self, uint32_t type, uint16_t misc)
{
  struct perf_event_header header = { .type = type, .misc = misc };

  self->used = 0;
  put (self, &header, sizeof header);
}

static const struct perf_event_header *
end (Builder *self)
{
  struct perf_event_header *header = (void *) self->bytes;

  header->size = (uint16_t) self->used;
  return header;
}

static void
put_trailer (Builder *self)
{
  put32 (self, 10, 11);
  put64 (self, 5000);
  put32 (self, 1, 0);
  put64 (self, 77); /* identifier */
}

static void
put_text (Builder *self, const char *text)
{
  char padded[64] = { 0 };

  g_strlcpy (padded, text, sizeof padded);
  put (self, padded, (strlen (text) + 8) & ~(size_t) 7);
}

static void
put_sample_head (Builder *self, uint16_t misc)
{
  begin (self, PERF_RECORD_SAMPLE, misc);
  put64 (self, 77);       /* identifier */
  put64 (self, 0x401000); /* ip */
  put32 (self, 10, 11);
  put64 (self, 5000);
  put32 (self, 1, 0);
  put64 (self, 1000000); /* period */
}

static const struct perf_event_header *
whole_sample (Builder *self)
{
  put_sample_head (self, PERF_RECORD_MISC_USER);
  put64 (self, 2); /* chain */
  put64 (self, (uint64_t) PERF_CONTEXT_USER);
  put64 (self, 0x401000);
  put64 (self, PERF_SAMPLE_REGS_ABI_64);
  for (uint64_t i = 0; i < 3; i++)
    put64 (self, 0x100 + i);
  put64 (self, 32); /* stack */
  for (uint64_t i = 0; i < 4; i++)
    put64 (self, 0x200 + i);
  put64 (self, 16);

  return end (self);
}

static void
assert_refused (const struct perf_event_header *header, SondePerfRecordFault fault)
{
  SondePerfRecord record;

  memset (&record, 0x5a, sizeof record);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), ==, fault);
  g_assert_cmpint (record.pid, ==, 0x5a5a5a5a);
  g_assert_cmpstr (sonde_perf_record_fault_to_string (fault), !=, "?");
}

static void
refuses_a_sample_cut_anywhere (void)
{
  Builder builder;
  const struct perf_event_header *header = whole_sample (&builder);
  uint16_t whole = header->size;

  for (uint16_t size_bytes = 0; size_bytes < whole; size_bytes++)
    {
      /* A copy that ends there, so that a read beyond it is seen. */
      g_autofree struct perf_event_header *cut = g_malloc (MAX (size_bytes, sizeof *cut));
      SondePerfRecord record;

      memcpy (cut, header, MAX (size_bytes, sizeof *cut));
      cut->size = size_bytes;
      g_assert_cmpint (sonde_perf_decoder_decode (&decoder, cut, &record), !=,
                       SONDE_PERF_RECORD_OK);
      g_assert_cmpint (sonde_perf_decoder_time (&decoder, cut), >=, 0);
    }
}

static void
refuses_other_records_cut_anywhere (void)
{
  static const uint32_t types[]
      = { PERF_RECORD_MMAP, PERF_RECORD_MMAP2, PERF_RECORD_COMM,     PERF_RECORD_FORK,
          PERF_RECORD_EXIT, PERF_RECORD_LOST,  PERF_RECORD_THROTTLE, PERF_RECORD_LOST_SAMPLES };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    for (size_t size_bytes = 8; size_bytes < 40; size_bytes++)
      {
        g_autofree struct perf_event_header *cut = g_malloc0 (size_bytes);
        SondePerfRecord record;

        cut->type = types[i];
        cut->size = (uint16_t) size_bytes;
        g_assert_cmpint (sonde_perf_decoder_decode (&decoder, cut, &record), !=,
                         SONDE_PERF_RECORD_OK);
      }
}

static void
refuses_more_addresses_than_bytes (void)
{
  static const uint64_t counts[] = { 2, UINT64_MAX, UINT64_MAX / 8 + 1, 1u << 29 };

  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      Builder builder;

      put_sample_head (&builder, PERF_RECORD_MISC_USER);
      put64 (&builder, counts[i]);
      put64 (&builder, 0x401000);
      assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_CHAIN);
    }
}

static void
refuses_an_unknown_register_abi (void)
{
  Builder builder;

  put_sample_head (&builder, PERF_RECORD_MISC_USER);
  put64 (&builder, 0);
  put64 (&builder, 3);
  for (int i = 0; i < 5; i++)
    put64 (&builder, 0);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_REGS);
}

static void
refuses_fewer_bytes_than_registers (void)
{
  Builder builder;

  put_sample_head (&builder, PERF_RECORD_MISC_USER);
  put64 (&builder, 0);
  put64 (&builder, PERF_SAMPLE_REGS_ABI_64);
  put64 (&builder, 1);
  put64 (&builder, 2);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_REGS);
}

static void
refuses_a_stack_longer_than_the_record (void)
{
  static const uint64_t sizes[] = { 24, 65528, UINT64_MAX & ~UINT64_C (7), 12 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      Builder builder;

      put_sample_head (&builder, PERF_RECORD_MISC_USER);
      put64 (&builder, 0);
      put64 (&builder, PERF_SAMPLE_REGS_ABI_NONE);
      put64 (&builder, sizes[i]);
      put64 (&builder, 1);
      put64 (&builder, 8);
      assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_STACK);
    }
}

static void
refuses_more_valid_stack_than_there_is (void)
{
  Builder builder;

  put_sample_head (&builder, PERF_RECORD_MISC_USER);
  put64 (&builder, 0);
  put64 (&builder, PERF_SAMPLE_REGS_ABI_NONE);
  put64 (&builder, 8);
  put64 (&builder, 1);
  put64 (&builder, 9);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_STACK);
}

static void
refuses_a_name_without_an_end (void)
{
  Builder builder;

  begin (&builder, PERF_RECORD_COMM, 0);
  put32 (&builder, 10, 11);
  put (&builder, "12345678", 8);
  put_trailer (&builder);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_TERMINATION);
}

static void
begin_map2 (Builder *builder, uint64_t start, uint64_t len)
{
  begin (builder, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
  put32 (builder, 10, 11);
  put64 (builder, start);
  put64 (builder, len);
  put64 (builder, 0x1000);
  put32 (builder, 8, 1);
  put64 (builder, 4711);
  put64 (builder, 5);
  put32 (builder, PROT_READ | PROT_EXEC, MAP_PRIVATE);
}

static void
refuses_a_mapping_that_ends_before_it_starts (void)
{
  Builder builder;

  begin_map2 (&builder, 0x7000, UINT64_MAX - 0x6000);
  put_text (&builder, "/bin/true");
  put_trailer (&builder);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_RANGE);

  begin_map2 (&builder, 0x7000, 0);
  put_text (&builder, "/bin/true");
  put_trailer (&builder);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_RANGE);
}

static void
refuses_sample_types_it_cannot_read (void)
{
  g_assert_true (sonde_perf_decoder_supports (SAMPLE_TYPE));
  g_assert_false (sonde_perf_decoder_supports (SAMPLE_TYPE | PERF_SAMPLE_RAW));
  g_assert_false (sonde_perf_decoder_supports (PERF_SAMPLE_BRANCH_STACK));
}

static void
reads_a_sample (void)
{
  Builder builder;
  const struct perf_event_header *header = whole_sample (&builder);
  SondePerfRecord record;

  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), ==, SONDE_PERF_RECORD_OK);
  g_assert_cmpint (record.type, ==, SONDE_PERF_RECORD_SAMPLE);
  g_assert_cmpint (record.pid, ==, 10);
  g_assert_cmpint (record.tid, ==, 11);
  g_assert_cmpint (record.cpu, ==, 1);
  g_assert_cmpint (record.time_ns, ==, 5000);
  g_assert_cmpint (sonde_perf_decoder_time (&decoder, header), ==, 5000);
  g_assert_cmpint (record.sample.mode, ==, SONDE_PERF_RECORD_MODE_USER);
  g_assert_cmpuint (record.sample.ip, ==, 0x401000);
  g_assert_cmpuint (record.sample.period, ==, 1000000);
  g_assert_cmpuint (record.sample.n_chain, ==, 2);
  g_assert_cmpuint (record.sample.chain[1], ==, 0x401000);
  g_assert_cmpuint (record.sample.n_regs, ==, 3);
  g_assert_cmpuint (record.sample.regs[2], ==, 0x102);
  g_assert_cmpuint (record.sample.dump_size_bytes, ==, 32);
  g_assert_cmpuint (record.sample.stack_size_bytes, ==, 16);
}

static void
reads_a_sample_without_user_state (void)
{
  Builder builder;
  SondePerfRecord record;

  put_sample_head (&builder, PERF_RECORD_MISC_KERNEL);
  put64 (&builder, 0);
  put64 (&builder, PERF_SAMPLE_REGS_ABI_NONE);
  put64 (&builder, 0);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_cmpint (record.sample.mode, ==, SONDE_PERF_RECORD_MODE_KERNEL);
  g_assert_null (record.sample.regs);
  g_assert_cmpuint (record.sample.stack_size_bytes, ==, 0);
}

static void
reads_a_mapping (void)
{
  Builder builder;
  SondePerfRecord record;

  begin_map2 (&builder, 0x7000, 0x2000);
  put_text (&builder, "/bin/tr\nue");
  put_trailer (&builder);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_cmpint (record.type, ==, SONDE_PERF_RECORD_MAP);
  g_assert_cmpuint (record.map.start, ==, 0x7000);
  g_assert_cmpuint (record.map.end, ==, 0x9000);
  g_assert_cmpuint (record.map.offset, ==, 0x1000);
  g_assert_cmpuint (record.map.dev_major, ==, 8);
  g_assert_cmpuint (record.map.dev_minor, ==, 1);
  g_assert_cmpuint (record.map.inode, ==, 4711);
  g_assert_true (record.map.executable);
  g_assert_cmpstr (record.map.path, ==, "/bin/tr\nue");
  g_assert_cmpint (record.time_ns, ==, 5000);
}

static void
reads_tasks_names_and_losses (void)
{
  Builder builder;
  SondePerfRecord record;

  begin (&builder, PERF_RECORD_FORK, 0);
  put32 (&builder, 20, 10);
  put32 (&builder, 21, 11);
  put64 (&builder, 4999);
  put_trailer (&builder);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_cmpint (record.pid, ==, 20);
  g_assert_cmpint (record.tid, ==, 21);
  g_assert_cmpint (record.task.parent_pid, ==, 10);
  g_assert_cmpint (record.task.parent_tid, ==, 11);

  begin (&builder, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
  put32 (&builder, 20, 20);
  put_text (&builder, "python3");
  put_trailer (&builder);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_true (record.comm.exec);
  g_assert_cmpstr (record.comm.name, ==, "python3");
  g_assert_cmpint (sonde_perf_decoder_time (&decoder, end (&builder)), ==, 5000);

  begin (&builder, PERF_RECORD_LOST, 0);
  put64 (&builder, 77);
  put64 (&builder, 123);
  put_trailer (&builder);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_cmpuint (record.n_lost, ==, 123);
}

/* --- walks --- */

static const struct perf_event_header *
build_walk (Builder *builder, uint64_t id, uint32_t size_bytes)
{
  begin (builder, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
  put64 (builder, id);
  put64 (builder, 0x401000);
  put32 (builder, 10, 11);
  put64 (builder, 5000);
  put32 (builder, 3, 0);
  put (builder, &size_bytes, sizeof size_bytes);
  put (builder, "a walk of 20 bytes..", 20);
  return end (builder);
}

static void
knows_walks_by_their_event (void)
{
  Builder builder;
  SondePerfRecord record;

  for (gsize i = 0; i < G_N_ELEMENTS (walk_ids); i++)
    {
      const struct perf_event_header *header = build_walk (&builder, walk_ids[i], 20);

      g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), ==,
                       SONDE_PERF_RECORD_OK);
      g_assert_cmpint (record.type, ==, SONDE_PERF_RECORD_WALK);
      g_assert_cmpint (record.cpu, ==, 3);
      g_assert_cmpint (record.tid, ==, 11);
      g_assert_cmpuint (record.walk.size_bytes, ==, 20);
      g_assert_cmpint (memcmp (record.walk.bytes, "a walk", 6), ==, 0);
      /* at once */
      g_assert_cmpint (sonde_perf_decoder_time (&decoder, header), ==, 0);
    }
  g_assert_cmpint (sonde_perf_decoder_time (&decoder, build_walk (&builder, 6, 20)), ==, 5000);
}

/* --- hits of probes --- */

#define N_PROBE_REGS 17

static const struct perf_event_header *
build_hit (Builder *builder, uint64_t id)
{
  begin (builder, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
  put64 (builder, id);
  put64 (builder, 0x401000);
  put32 (builder, 10, 11);
  put64 (builder, 5000);
  put32 (builder, 3, 0);
  put64 (builder, PERF_SAMPLE_REGS_ABI_64);
  for (uint64_t i = 0; i < N_PROBE_REGS; i++)
    put64 (builder, 100 + i);
  put64 (builder, 16);
  put64 (builder, 0x11);
  put64 (builder, 0x22);
  put64 (builder, 8);
  return end (builder);
}

/* They have other fields than the session's samples, whatever these are. */
static void
knows_hits_by_their_event (void)
{
  SondePerfDecoder other = decoder;
  Builder builder;
  SondePerfRecord record;
  const struct perf_event_header *header = build_hit (&builder, 7);

  other.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  other.regs_user = 0;
  for (int i = 0; i < 2; i++)
    {
      const SondePerfDecoder *self = i == 0 ? &decoder : &other;

      g_assert_cmpint (sonde_perf_decoder_decode (self, header, &record), ==, SONDE_PERF_RECORD_OK);
      g_assert_cmpint (record.type, ==, SONDE_PERF_RECORD_PROBE);
      g_assert_cmpint (record.pid, ==, 10);
      g_assert_cmpint (record.cpu, ==, 3);
      g_assert_cmphex (record.sample.ip, ==, 0x401000);
      g_assert_cmpuint (record.sample.n_regs, ==, N_PROBE_REGS);
      g_assert_cmpuint (record.sample.regs[16], ==, 116);
      g_assert_cmpuint (record.sample.stack_size_bytes, ==, 8);
      g_assert_cmpuint (record.sample.dump_size_bytes, ==, 16);
      g_assert_cmpint (sonde_perf_decoder_time (self, header), ==, 5000);
    }
  header = build_hit (&builder, 6);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), !=, SONDE_PERF_RECORD_OK);
}

static void
refuses_hits_that_are_cut (void)
{
  Builder builder;
  SondePerfRecord record;
  struct perf_event_header *cut = (void *) builder.bytes;
  uint16_t whole = build_hit (&builder, 7)->size;

  for (uint16_t size = sizeof *cut + 8; size < whole; size++)
    {
      cut->size = size;
      g_assert_cmpint (sonde_perf_decoder_decode (&decoder, cut, &record), !=,
                       SONDE_PERF_RECORD_OK);
    }
}

static void
refuses_walks_beyond_their_record (void)
{
  Builder builder;
  SondePerfRecord record;
  const struct perf_event_header *header = build_walk (&builder, 9, 21);

  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), ==,
                   SONDE_PERF_RECORD_FAULT_WALK);
  header = build_walk (&builder, 9, UINT32_MAX);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), ==,
                   SONDE_PERF_RECORD_FAULT_WALK);
  for (uint16_t size = sizeof *header + 8; size < sizeof *header + 44; size++)
    {
      struct perf_event_header *cut = (void *) builder.bytes;

      build_walk (&builder, 9, 20);
      cut->size = size;
      g_assert_cmpint (sonde_perf_decoder_decode (&decoder, cut, &record), ==,
                       SONDE_PERF_RECORD_FAULT_SHORT);
    }
}

#define CALLCHAIN_DEFERRED 22

static const struct perf_event_header *
later_chain (Builder *self, uint64_t n_addrs)
{
  begin (self, CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER);
  put64 (self, 0x100000007); /* cookie */
  put64 (self, n_addrs);
  put64 (self, (uint64_t) PERF_CONTEXT_USER);
  put64 (self, 0x401000);
  put64 (self, 0x402000);
  put_trailer (self);
  return end (self);
}

static void
reads_a_deferred_chain (void)
{
  Builder builder;
  SondePerfRecord record;
  const struct perf_event_header *header = later_chain (&builder, 3);

  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, header, &record), ==, SONDE_PERF_RECORD_OK);
  g_assert_cmpint (record.type, ==, SONDE_PERF_RECORD_CHAIN);
  g_assert_cmpint (record.tid, ==, 11);
  g_assert_cmpint (record.time_ns, ==, 5000);
  g_assert_cmpint (sonde_perf_decoder_time (&decoder, header), ==, 5000);
  g_assert_cmphex (record.chain.cookie, ==, 0x100000007);
  g_assert_cmpuint (record.chain.n_addrs, ==, 3);
  g_assert_cmphex (record.chain.addrs[2], ==, 0x402000);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, later_chain (&builder, 0), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_cmpuint (record.chain.n_addrs, ==, 0);
}

static void
refuses_a_deferred_chain_beyond_its_record (void)
{
  static const uint64_t lies[] = { 4, 7, UINT64_C (1) << 61, UINT64_MAX };
  Builder builder;

  for (size_t i = 0; i < G_N_ELEMENTS (lies); i++)
    assert_refused (later_chain (&builder, lies[i]), SONDE_PERF_RECORD_FAULT_CHAIN);
  begin (&builder, CALLCHAIN_DEFERRED, 0);
  put64 (&builder, 7);
  put_trailer (&builder);
  assert_refused (end (&builder), SONDE_PERF_RECORD_FAULT_SHORT);
}

static SondePerfRecordSwitch
decode_switch (uint32_t type, uint16_t misc)
{
  Builder builder;
  SondePerfRecord record;

  begin (&builder, type, misc);
  if (type == PERF_RECORD_SWITCH_CPU_WIDE)
    put32 (&builder, 666, 667); /* whom nobody may know */
  put_trailer (&builder);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_OK);
  g_assert_cmpint (record.type, ==, SONDE_PERF_RECORD_SWITCH);
  g_assert_cmpint (record.pid, ==, 10);
  g_assert_cmpint (record.tid, ==, 11);
  g_assert_cmpint (record.time_ns, ==, 5000);
  return record.switched;
}

static void
decodes_switches (void)
{
  SondePerfRecordSwitch on = decode_switch (PERF_RECORD_SWITCH, 0);
  SondePerfRecordSwitch off = decode_switch (PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT);
  SondePerfRecordSwitch preempted
      = decode_switch (PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT | 1 << 14);

  g_assert_true (!on.is_out && !on.is_preempted && !on.is_of_cpu);
  g_assert_true (off.is_out && !off.is_preempted && !off.is_of_cpu);
  g_assert_true (preempted.is_out && preempted.is_preempted && preempted.is_of_cpu);
}

static void
refuses_a_short_switch (void)
{
  Builder builder;
  SondePerfRecord record;

  begin (&builder, PERF_RECORD_SWITCH_CPU_WIDE, 0);
  put_trailer (&builder);
  g_assert_cmpint (sonde_perf_decoder_decode (&decoder, end (&builder), &record), ==,
                   SONDE_PERF_RECORD_FAULT_SHORT);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/perf-decoder/refuses-a-sample-cut-anywhere", refuses_a_sample_cut_anywhere);
  g_test_add_func ("/perf-decoder/refuses-other-records-cut-anywhere",
                   refuses_other_records_cut_anywhere);
  g_test_add_func ("/perf-decoder/refuses-more-addresses-than-bytes",
                   refuses_more_addresses_than_bytes);
  g_test_add_func ("/perf-decoder/refuses-an-unknown-register-abi",
                   refuses_an_unknown_register_abi);
  g_test_add_func ("/perf-decoder/refuses-fewer-bytes-than-registers",
                   refuses_fewer_bytes_than_registers);
  g_test_add_func ("/perf-decoder/refuses-a-stack-longer-than-the-record",
                   refuses_a_stack_longer_than_the_record);
  g_test_add_func ("/perf-decoder/refuses-more-valid-stack-than-there-is",
                   refuses_more_valid_stack_than_there_is);
  g_test_add_func ("/perf-decoder/refuses-a-name-without-an-end", refuses_a_name_without_an_end);
  g_test_add_func ("/perf-decoder/refuses-a-mapping-that-ends-before-it-starts",
                   refuses_a_mapping_that_ends_before_it_starts);
  g_test_add_func ("/perf-decoder/refuses-sample-types-it-cannot-read",
                   refuses_sample_types_it_cannot_read);
  g_test_add_func ("/perf-decoder/reads-a-sample", reads_a_sample);
  g_test_add_func ("/perf-decoder/reads-a-sample-without-user-state",
                   reads_a_sample_without_user_state);
  g_test_add_func ("/perf-decoder/reads-a-deferred-chain", reads_a_deferred_chain);
  g_test_add_func ("/perf-decoder/refuses-a-deferred-chain-beyond-its-record",
                   refuses_a_deferred_chain_beyond_its_record);
  g_test_add_func ("/perf-decoder/reads-a-mapping", reads_a_mapping);
  g_test_add_func ("/perf-decoder/reads-tasks-names-and-losses", reads_tasks_names_and_losses);
  g_test_add_func ("/perf-decoder/walk/refuses-those-beyond-their-record",
                   refuses_walks_beyond_their_record);
  g_test_add_func ("/perf-decoder/walk/is-known-by-its-event", knows_walks_by_their_event);
  g_test_add_func ("/perf-decoder/probe/refuses-hits-that-are-cut", refuses_hits_that_are_cut);
  g_test_add_func ("/perf-decoder/probe/is-known-by-its-event", knows_hits_by_their_event);
  g_test_add_func ("/perf-decoder/decodes-switches", decodes_switches);
  g_test_add_func ("/perf-decoder/refuses-a-short-switch", refuses_a_short_switch);
  return g_test_run ();
}
