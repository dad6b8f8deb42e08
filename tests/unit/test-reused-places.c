/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Code that comes where a pid had other code. */
#include "daemon/capture/names/reused-places.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <search.h>

#include "tests/lib/recorder-fixture.h"

typedef struct
{
  RecorderFixture base;
  SondeReusedPlaces *places;
} Fixture;

static void
on_sink_closed (guint32 id, int reason, gpointer user_data)
{
  g_assert_not_reached ();
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, on_sink_closed, fixture);
  fixture->places = sonde_reused_places_new (fixture->base.recorder);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_reused_places_free (fixture->places);
  recorder_fixture_clear (&fixture->base);
}

static SondeProcessMapping
mapping_of (uint64_t inode, uint64_t start, uint64_t end, uint64_t offset)
{
  return (SondeProcessMapping){ .start = start,
                                .end = end,
                                .offset = offset,
                                .file = { .inode = inode, .dev_major = 1 },
                                .path = "/lib/libx.so" };
}

static gboolean
claim (Fixture *fixture, int32_t pid, uint64_t inode, uint64_t start, uint64_t end, uint64_t offset)
{
  SondeProcessMapping mapping = mapping_of (inode, start, end, offset);

  return sonde_reused_places_claim (fixture->places, pid, &mapping);
}

static const char *
name_of (Fixture *fixture, const SondeProcessMapping *mapping, uint64_t address)
{
  uint64_t made_up = sonde_reused_places_name (fixture->places, mapping, address, 1);
  const GArray *names = fixture->base.state->names;

  for (guint i = 0; i < names->len; i++)
    if (g_array_index (names, SondeJitName, i).address == made_up)
      return g_array_index (names, SondeJitName, i).name;
  return NULL;
}

/* --- cases --- */

static void
another_file_is_refused_where_one_is (Fixture *fixture, gconstpointer data)
{
  g_assert_true (claim (fixture, 1, 7, 0x2000, 0x4000, 0));
  g_assert_false (claim (fixture, 1, 8, 0x2000, 0x4000, 0));
  g_assert_false (claim (fixture, 1, 8, 0x1000, 0x2001, 0));
  g_assert_false (claim (fixture, 1, 8, 0x3fff, 0x5000, 0));
  g_assert_false (claim (fixture, 1, 8, 0, 0x9000, 0));
}

static void
the_same_file_at_another_distance_is_refused (Fixture *fixture, gconstpointer data)
{
  g_assert_true (claim (fixture, 1, 7, 0x2000, 0x4000, 0x1000));
  g_assert_false (claim (fixture, 1, 7, 0x3000, 0x4000, 0x1000));
}

static void
a_piece_of_the_same_mapping_is_its_own (Fixture *fixture, gconstpointer data)
{
  g_assert_true (claim (fixture, 1, 7, 0x2000, 0x4000, 0x1000));
  g_assert_true (claim (fixture, 1, 7, 0x3000, 0x6000, 0x2000));
  g_assert_true (claim (fixture, 1, 7, 0x3000, 0x4000, 0x2000));
  g_assert_false (claim (fixture, 1, 8, 0x5000, 0x6000, 0));
}

static void
other_places_and_other_pids_are_free (Fixture *fixture, gconstpointer data)
{
  g_assert_true (claim (fixture, 1, 7, 0x2000, 0x4000, 0));
  g_assert_true (claim (fixture, 1, 8, 0x1000, 0x2000, 0));
  g_assert_true (claim (fixture, 1, 8, 0x4000, 0x5000, 0));
  g_assert_true (claim (fixture, 2, 8, 0x2000, 0x4000, 0));
}

static void
a_pid_keeps_no_more_than_its_bound (Fixture *fixture, gconstpointer data)
{
  for (uint64_t i = 0; i < SONDE_REUSED_PLACES_MAX_A_PID + 1; i++)
    g_assert_true (claim (fixture, 1, 7 + i, (i + 1) << 12, (i + 2) << 12, 0));
  g_assert_false (claim (fixture, 1, 6, 1 << 12, 2 << 12, 0));
  /* The last was not kept. */
  g_assert_true (claim (fixture, 1, 6, (SONDE_REUSED_PLACES_MAX_A_PID + 1) << 12,
                        (SONDE_REUSED_PLACES_MAX_A_PID + 2) << 12, 0));
}

/* As of a program that loads and unloads plugins that it has just made. */
static void
files_that_are_refused_are_not_kept (Fixture *fixture, gconstpointer data)
{
  size_t n_bytes = mallinfo2 ().uordblks;

  g_assert_true (claim (fixture, 1, 7, 0x2000, 0x4000, 0));
  for (uint64_t i = 0; i < 100000; i++)
    g_assert_false (claim (fixture, 1, 8 + i, 0x2000, 0x4000, 0));
  g_assert_cmpuint (mallinfo2 ().uordblks, <, n_bytes + 65536);
}

static void
a_process_is_contested_from_the_change_on (Fixture *fixture, gconstpointer data)
{
  SondeProcess *process = sonde_process_table_ensure (fixture->base.processes, 1, 1);
  SondeProcessMapping first = mapping_of (7, 0x2000, 0x4000, 0);
  SondeProcessMapping second = mapping_of (8, 0x3000, 0x5000, 0);

  sonde_process_add_mapping (fixture->base.processes, process, &first, SONDE_MAP_FROM_EVENT);
  g_assert_true (sonde_reused_places_claim (fixture->places, 1, &first));
  g_assert_false (sonde_reused_places_is_contested (fixture->places, process));
  sonde_process_add_mapping (fixture->base.processes, process, &second, SONDE_MAP_FROM_EVENT);
  g_assert_false (sonde_reused_places_is_contested (fixture->places, process));
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_SETTLED, false);
  g_assert_true (sonde_reused_places_is_contested (fixture->places, process));

  /* Another process with this pid: what it has counts anew. */
  process = sonde_process_table_fork (fixture->base.processes, 2, 1, 2);
  g_assert_false (sonde_reused_places_is_contested (fixture->places, process));
}

static void
names_are_those_of_the_functions (Fixture *fixture, gconstpointer data)
{
  SondeFileId id = { .inode = 7, .dev_major = 1 };
  uint64_t address = (uint64_t) (uintptr_t) lsearch;
  SondeProcessMapping mapping = mapping_of (7, address & ~UINT64_C (0xfff), address + 0x1000, 0);
  Dl_info info;

  g_assert_cmpstr (name_of (fixture, &mapping, address), ==, "libx.so");
  g_assert_cmpint (dladdr ((void *) (uintptr_t) lsearch, &info), !=, 0);
  mapping.bias = (uint64_t) (uintptr_t) info.dli_fbase;
  g_assert_cmpint (sonde_module_store_load (fixture->base.modules, &id,
                                            open (info.dli_fname, O_RDONLY | O_CLOEXEC)),
                   ==, 0);
  g_assert_cmpint (sonde_module_store_lookup (fixture->base.modules, &id, &mapping.module), ==,
                   SONDE_MODULE_READY);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpstr (name_of (fixture, &mapping, address + i % 2), ==, "lsearch");
  g_assert_cmpstr (name_of (fixture, &mapping, mapping.bias + 8), ==, "libx.so+0x8");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, function)                                                                        \
  g_test_add ("/reused-places/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("another file is refused where one is", another_file_is_refused_where_one_is);
  ADD ("the same file at another distance is refused",
       the_same_file_at_another_distance_is_refused);
  ADD ("a piece of the same mapping is its own", a_piece_of_the_same_mapping_is_its_own);
  ADD ("other places and other pids are free", other_places_and_other_pids_are_free);
  ADD ("a pid keeps no more than its bound", a_pid_keeps_no_more_than_its_bound);
  ADD ("files that are refused are not kept", files_that_are_refused_are_not_kept);
  ADD ("a process is contested from the change on", a_process_is_contested_from_the_change_on);
  ADD ("names are those of the functions", names_are_those_of_the_functions);
#undef ADD
  return g_test_run ();
}
