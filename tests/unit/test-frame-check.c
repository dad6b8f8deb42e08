/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* frame-check: what it refuses, by name, and what it must let through. */
#include <glib.h>
#include <string.h>

#include "protocol/frame-check.h"

/* Room for the largest frame, 8-aligned. */
typedef union
{
  guint64 align;
  guint8 bytes[65536];
  SondeFrame frame;
  SondeFrameSample sample;
  SondeFrameMap map;
  SondeFrameJitmap jitmap;
  SondeFrameCounterDefine define;
  SondeFrameCounterSet set;
  SondeFrameMark mark;
  SondeFrameMetadata metadata;
  SondeFrameLog log;
  SondeFrameFileChunk chunk;
  SondeFrameAllocation allocation;
  SondeFrameOverlay overlay;
} Room;

static Room *
new_room (guint type, guint16 len)
{
  Room *room = g_new0 (Room, 1);

  room->frame.len = len;
  room->frame.cpu = -1;
  room->frame.pid = -1;
  room->frame.type = (guint8) type;

  return room;
}

/* In memory of exactly @size bytes, so that a sanitizer sees the first byte too many. */
static SondeFrameFault
check_exactly (const Room *room, gsize size)
{
  g_autofree void *copy = g_malloc (size);

  if (size > 0)
    memcpy (copy, room, size);

  return sonde_frame_check (copy, size);
}

static SondeFrameFault
check (const Room *room)
{
  return check_exactly (room, room->frame.len);
}

static void
refuses_every_size_below_a_header (void)
{
  g_autofree Room *room = new_room (SONDE_FRAME_EXIT, 24);

  for (gsize size = 0; size < 24; size++)
    g_assert_cmpint (check_exactly (room, size), ==, SONDE_FRAME_FAULT_SHORT_HEADER);
  g_assert_cmpint (check_exactly (room, 24), ==, SONDE_FRAME_OK);
}

static void
refuses_impossible_lengths (void)
{
  static const struct
  {
    guint16 len;
    SondeFrameFault fault;
  } cases[] = {
    { 0, SONDE_FRAME_FAULT_LENGTH_SMALL },     { 8, SONDE_FRAME_FAULT_LENGTH_SMALL },
    { 16, SONDE_FRAME_FAULT_LENGTH_SMALL },    { 23, SONDE_FRAME_FAULT_LENGTH_SMALL },
    { 25, SONDE_FRAME_FAULT_LENGTH_ALIGN },    { 29, SONDE_FRAME_FAULT_LENGTH_ALIGN },
    { 65535, SONDE_FRAME_FAULT_LENGTH_ALIGN }, { 65528, SONDE_FRAME_OK },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree Room *room = new_room (SONDE_FRAME_EXIT, cases[i].len);

      g_assert_cmpint (check_exactly (room, sizeof *room), ==, cases[i].fault);
    }
}

static void
refuses_a_length_past_the_end (void)
{
  g_autofree Room *room = new_room (SONDE_FRAME_TIMESTAMP, 65528);

  for (gsize size = 24; size < 65528; size += 1 + size / 7)
    g_assert_cmpint (check_exactly (room, size), ==, SONDE_FRAME_FAULT_LENGTH_PAST_END);
}

static void
refuses_foreign_types (void)
{
  static const guint8 types[] = { 0, 18, 127, 128, 255 };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autofree Room *room = new_room (types[i], 64);

      g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TYPE);
      /* A stream reader must not wait for the body of what it will refuse. */
      g_assert_cmpint (check_exactly (room, 24), ==, SONDE_FRAME_FAULT_TYPE);
      g_assert_cmpuint (sonde_frame_fixed_size (types[i]), ==, 0);
      g_assert_cmpstr (sonde_frame_type_to_string (types[i]), ==, "?");
    }
}

static void
refuses_each_type_below_its_fixed_part (void)
{
  for (guint type = 1; type < SONDE_FRAME_LAST; type++)
    {
      gsize fixed = sonde_frame_fixed_size (type);

      for (guint16 len = 24; len < fixed; len += 8)
        {
          g_autofree Room *room = new_room (type, len);

          g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_LENGTH_SMALL);
        }
    }
}

static void
refuses_text_without_room_for_its_nul (void)
{
  static const guint8 types[] = { SONDE_FRAME_MAP, SONDE_FRAME_PROCESS, SONDE_FRAME_MARK,
                                  SONDE_FRAME_METADATA, SONDE_FRAME_LOG };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      guint16 fixed = (guint16) sonde_frame_fixed_size (types[i]);
      g_autofree Room *room = new_room (types[i], fixed);

      g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_LENGTH_SMALL);

      room->frame.len = fixed + 8;
      g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
      memset (room->bytes + fixed, 'x', 8);
      g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
    }
}

/* As a file of sysprof-cli --merge has it: the bytes behind the NUL are of older frames. */
static void
accepts_rubbish_behind_a_text (void)
{
  static const guint8 types[] = { SONDE_FRAME_MARK, SONDE_FRAME_METADATA, SONDE_FRAME_LOG };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      guint16 fixed = (guint16) sonde_frame_fixed_size (types[i]);
      g_autofree Room *room = new_room (types[i], fixed + 16);

      memset (room->bytes + fixed, 'x', 16);
      g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
      room->bytes[fixed + 7] = '\0';
      g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
    }
}

/* Behind a path stands a build id, if anything: there rubbish would be one that does not end. */
static void
refuses_rubbish_behind_a_path (void)
{
  guint16 fixed = (guint16) sonde_frame_fixed_size (SONDE_FRAME_MAP);
  g_autofree Room *room = new_room (SONDE_FRAME_MAP, fixed + 16);

  memset (room->bytes + fixed, '@', 16);
  room->bytes[fixed + 7] = '\0';
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
}

static void
accepts_what_newer_versions_of_sysprof_write (void)
{
  static const guint8 types[] = { SONDE_FRAME_TRACE, SONDE_FRAME_DBUS_MESSAGE };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autofree Room *room = new_room (types[i], 24);

      g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_LENGTH_SMALL);
      room->frame.len = 32;
      memset (room->bytes + 24, 0xff, 8);
      g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
      g_assert_cmpstr (sonde_frame_type_to_string (types[i]), !=, "?");
    }
}

static void
refuses_address_counts_that_lie (void)
{
  g_autofree Room *sample = new_room (SONDE_FRAME_SAMPLE, 32 + 3 * 8);
  g_autofree Room *allocation = new_room (SONDE_FRAME_ALLOCATION, 48 + 2 * 8);

  for (guint n = 0; n <= G_MAXUINT16; n++)
    {
      sample->sample.n_addrs = (guint16) n;
      allocation->allocation.n_addrs = (guint16) n;
      g_assert_cmpint (sonde_frame_check (sample, 56), ==,
                       n <= 3 ? SONDE_FRAME_OK : SONDE_FRAME_FAULT_COUNT);
      g_assert_cmpint (sonde_frame_check (allocation, 64), ==,
                       n <= 2 ? SONDE_FRAME_OK : SONDE_FRAME_FAULT_COUNT);
    }
}

static void
refuses_counter_counts_that_lie (void)
{
  g_autofree Room *define = new_room (SONDE_FRAME_CTRDEF, 32 + 2 * 128);
  g_autofree Room *set = new_room (SONDE_FRAME_CTRSET, 32 + 2 * 96);

  for (guint n = 0; n <= G_MAXUINT16; n += n < 10 ? 1 : 97)
    {
      define->define.n_counters = (guint16) n;
      set->set.n_groups = (guint16) n;
      g_assert_cmpint (check (define), ==, n <= 2 ? SONDE_FRAME_OK : SONDE_FRAME_FAULT_COUNT);
      g_assert_cmpint (check (set), ==, n <= 2 ? SONDE_FRAME_OK : SONDE_FRAME_FAULT_COUNT);
    }

  /* Counted as 32 bytes each, as a famous reader does, eight would fit. */
  define->define.n_counters = 8;
  g_assert_cmpint (check (define), ==, SONDE_FRAME_FAULT_COUNT);
}

static void
refuses_counters_that_cannot_be (void)
{
  g_autofree Room *room = new_room (SONDE_FRAME_CTRDEF, 32 + 2 * 128);
  SondeCounterDefinition *second = &room->define.counters[1];

  room->define.n_counters = 2;
  second->id_type = 5u << SONDE_COUNTER_ID_SHIFT | 2u << SONDE_COUNTER_TYPE_SHIFT;
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_VALUE);
  second->id_type = 5u << SONDE_COUNTER_ID_SHIFT | 1u << SONDE_COUNTER_TYPE_SHIFT;
  g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
  g_assert_cmpuint (sonde_counter_id (second->id_type), ==, 5);
  g_assert_cmpuint (sonde_counter_type (second->id_type), ==, SONDE_COUNTER_DOUBLE);

  memset (second->category, 'x', sizeof second->category);
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
  second->category[31] = '\0';
  memset (second->name, 'x', sizeof second->name);
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
  second->name[0] = '\0';
  memset (second->description, 'x', sizeof second->description);
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
  second->description[51] = '\0';
  g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
}

static void
refuses_jit_names_that_do_not_end (void)
{
  g_autofree Room *room = new_room (SONDE_FRAME_JITMAP, 48);
  char *name = (char *) room->jitmap.data + 8;

  room->jitmap.n_names = 1;
  memset (name, 'x', 12); /* to the frame's last byte */
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_TERMINATION);
  name[11] = '\0';
  g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
}

static void
refuses_jit_counts_that_lie (void)
{
  static const guint32 counts[] = { 3, 4, 1000, G_MAXUINT32 / 9, G_MAXUINT32 };
  g_autofree Room *room = new_room (SONDE_FRAME_JITMAP, 48);

  /* Two names of 9 bytes each leave 2 bytes, no room for a third address. */
  room->jitmap.n_names = 2;
  g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
  for (gsize i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      room->jitmap.n_names = counts[i];
      g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_COUNT);
    }

  /* The count could be true for short names, but the first name takes all the room. */
  room->jitmap.n_names = 2;
  memset (room->jitmap.data + 8, 'x', 11);
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_COUNT);
  /* Eight bytes of address and then nothing, not even a NUL. */
  memset (room->jitmap.data + 8, 'x', 3);
  memset (room->jitmap.data + 11, 0, 9);
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_COUNT);
}

static void
refuses_fixed_text_that_does_not_end (void)
{
  g_autofree Room *mark = new_room (SONDE_FRAME_MARK, 104);
  g_autofree Room *metadata = new_room (SONDE_FRAME_METADATA, 72);
  g_autofree Room *log = new_room (SONDE_FRAME_LOG, 72);
  g_autofree Room *chunk = new_room (SONDE_FRAME_FILE_CHUNK, 288);

  memset (mark->mark.group, 'x', 24);
  g_assert_cmpint (check (mark), ==, SONDE_FRAME_FAULT_TERMINATION);
  mark->mark.group[23] = '\0';
  g_assert_cmpint (check (mark), ==, SONDE_FRAME_OK);
  memset (mark->mark.name, 'x', 40);
  g_assert_cmpint (check (mark), ==, SONDE_FRAME_FAULT_TERMINATION);
  memset (metadata->metadata.id, 'x', 40);
  g_assert_cmpint (check (metadata), ==, SONDE_FRAME_FAULT_TERMINATION);
  memset (log->log.domain, 'x', 32);
  g_assert_cmpint (check (log), ==, SONDE_FRAME_FAULT_TERMINATION);
  memset (chunk->chunk.path, 'x', 256);
  g_assert_cmpint (check (chunk), ==, SONDE_FRAME_FAULT_TERMINATION);
}

static void
refuses_data_lengths_that_lie (void)
{
  g_autofree Room *room = new_room (SONDE_FRAME_FILE_CHUNK, 304);

  for (guint n = 0; n <= G_MAXUINT16; n++)
    {
      room->chunk.data_len = (guint16) n;
      g_assert_cmpint (sonde_frame_check (room, 304), ==,
                       n <= 20 ? SONDE_FRAME_OK : SONDE_FRAME_FAULT_COUNT);
    }
}

static void
refuses_overlay_lengths_that_lie (void)
{
  static const struct
  {
    guint16 src_len;
    guint16 dst_len;
    SondeFrameFault fault;
  } cases[] = {
    { 7, 7, SONDE_FRAME_OK },
    { 8, 7, SONDE_FRAME_FAULT_COUNT },
    { 7, 8, SONDE_FRAME_FAULT_COUNT },
    { 65535, 0, SONDE_FRAME_FAULT_COUNT },
    { 0, 65535, SONDE_FRAME_FAULT_COUNT },
    { 65535, 65535, SONDE_FRAME_FAULT_COUNT },
    { 6, 7, SONDE_FRAME_FAULT_TERMINATION },
    { 7, 6, SONDE_FRAME_FAULT_TERMINATION },
  };
  g_autofree Room *room = new_room (SONDE_FRAME_OVERLAY, 48);

  memcpy (room->overlay.data, "sources\0targets", 16);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      room->overlay.src_len = cases[i].src_len;
      room->overlay.dst_len = cases[i].dst_len;
      g_assert_cmpint (check (room), ==, cases[i].fault);
    }

  /* The fixed part alone has no room for the two NULs. */
  room->frame.len = 32;
  room->overlay.src_len = room->overlay.dst_len = 0;
  g_assert_cmpint (check (room), ==, SONDE_FRAME_FAULT_COUNT);
}

static void
refuses_ranges_and_sizes_below_zero (void)
{
  g_autofree Room *map = new_room (SONDE_FRAME_MAP, 64);
  g_autofree Room *allocation = new_room (SONDE_FRAME_ALLOCATION, 48);

  map->map.start = 0x2000;
  map->map.end = 0x1000;
  g_assert_cmpint (check (map), ==, SONDE_FRAME_FAULT_VALUE);
  allocation->allocation.size_bytes = -1;
  g_assert_cmpint (check (allocation), ==, SONDE_FRAME_FAULT_VALUE);
}

static void
accepts_a_build_id_behind_the_path (void)
{
  static const char text[] = "/bin/x\0@0badc0de";
  g_autofree Room *room = new_room (SONDE_FRAME_MAP, 56 + 24);

  memcpy (room->map.path, text, sizeof text);
  g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
}

static void
accepts_longer_frames_than_the_fields_need (void)
{
  for (guint type = 1; type < SONDE_FRAME_LAST; type++)
    {
      g_autofree Room *room = new_room (type, 65528);

      g_assert_cmpint (check (room), ==, SONDE_FRAME_OK);
    }
}

static void
file_header_refuses_by_name (void)
{
  SondeFileHeader header = { .magic = GUINT32_TO_LE (SONDE_CAPTURE_MAGIC),
                             .version = 1,
                             .little_endian = G_BYTE_ORDER == G_LITTLE_ENDIAN };

  g_assert_cmpint (sonde_file_header_check (&header), ==, 0);
  header.little_endian ^= 1;
  g_assert_cmpint (sonde_file_header_check (&header), ==, -ENOTSUP);
  header.version = 2;
  g_assert_cmpint (sonde_file_header_check (&header), ==, -EPROTONOSUPPORT);
  header.version = 0;
  g_assert_cmpint (sonde_file_header_check (&header), ==, -EPROTONOSUPPORT);
  header.magic ^= 1;
  g_assert_cmpint (sonde_file_header_check (&header), ==, -EBADMSG);
}

static void
every_fault_and_type_has_its_own_text (void)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < SONDE_N_FRAME_FAULTS; i++)
    g_assert_true (g_hash_table_add (seen, (gpointer) sonde_frame_fault_to_string (i)));
  for (guint i = 1; i < SONDE_FRAME_LAST; i++)
    g_assert_true (g_hash_table_add (seen, (gpointer) sonde_frame_type_to_string (i)));
  g_assert_cmpstr (sonde_frame_fault_to_string (SONDE_N_FRAME_FAULTS), ==, "?");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/frame-check/refuses-every-size-below-a-header",
                   refuses_every_size_below_a_header);
  g_test_add_func ("/frame-check/refuses-impossible-lengths", refuses_impossible_lengths);
  g_test_add_func ("/frame-check/refuses-a-length-past-the-end", refuses_a_length_past_the_end);
  g_test_add_func ("/frame-check/refuses-foreign-types", refuses_foreign_types);
  g_test_add_func ("/frame-check/refuses-each-type-below-its-fixed-part",
                   refuses_each_type_below_its_fixed_part);
  g_test_add_func ("/frame-check/refuses-text-without-room-for-its-nul",
                   refuses_text_without_room_for_its_nul);
  g_test_add_func ("/frame-check/accepts-rubbish-behind-a-text", accepts_rubbish_behind_a_text);
  g_test_add_func ("/frame-check/refuses-rubbish-behind-a-path", refuses_rubbish_behind_a_path);
  g_test_add_func ("/frame-check/accepts-what-newer-versions-of-sysprof-write",
                   accepts_what_newer_versions_of_sysprof_write);
  g_test_add_func ("/frame-check/refuses-address-counts-that-lie", refuses_address_counts_that_lie);
  g_test_add_func ("/frame-check/refuses-counter-counts-that-lie", refuses_counter_counts_that_lie);
  g_test_add_func ("/frame-check/refuses-counters-that-cannot-be", refuses_counters_that_cannot_be);
  g_test_add_func ("/frame-check/refuses-jit-names-that-do-not-end",
                   refuses_jit_names_that_do_not_end);
  g_test_add_func ("/frame-check/refuses-jit-counts-that-lie", refuses_jit_counts_that_lie);
  g_test_add_func ("/frame-check/refuses-fixed-text-that-does-not-end",
                   refuses_fixed_text_that_does_not_end);
  g_test_add_func ("/frame-check/refuses-data-lengths-that-lie", refuses_data_lengths_that_lie);
  g_test_add_func ("/frame-check/refuses-overlay-lengths-that-lie",
                   refuses_overlay_lengths_that_lie);
  g_test_add_func ("/frame-check/refuses-ranges-and-sizes-below-zero",
                   refuses_ranges_and_sizes_below_zero);
  g_test_add_func ("/frame-check/accepts-a-build-id-behind-the-path",
                   accepts_a_build_id_behind_the_path);
  g_test_add_func ("/frame-check/accepts-longer-frames-than-the-fields-need",
                   accepts_longer_frames_than_the_fields_need);
  g_test_add_func ("/frame-check/file-header-refuses-by-name", file_header_refuses_by_name);
  g_test_add_func ("/frame-check/every-fault-and-type-has-its-own-text",
                   every_fault_and_type_has_its_own_text);

  return g_test_run ();
}
