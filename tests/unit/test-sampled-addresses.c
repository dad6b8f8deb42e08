/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses of samples, and the names that they get. */
#include "daemon/capture/names/sampled-addresses.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <search.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/capture/names/symbolizer.h"
#include "protocol/frame.h"
#include "tests/lib/fake-elf.h"

#define N_PROCESSES 8 /* that run */

typedef struct
{
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeUnwindModule *module; /* libc */
  uint64_t bias;
  SondeSampledAddresses *set;
  GBytes *symbols;
  gboolean done;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  SondeFileId id = { .inode = 1, .dev_major = 1 };
  Dl_info info;

  g_assert_cmpint (dladdr ((void *) (uintptr_t) lsearch, &info), !=, 0);
  fixture->bias = (uint64_t) (uintptr_t) info.dli_fbase;
  fixture->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  g_assert_cmpint (
      sonde_module_store_load (fixture->modules, &id, open (info.dli_fname, O_RDONLY | O_CLOEXEC)),
      ==, 0);
  g_assert_cmpint (sonde_module_store_lookup (fixture->modules, &id, &fixture->module), ==,
                   SONDE_MODULE_READY);
  fixture->processes = sonde_process_table_new (fixture->modules);
  for (int32_t pid = 0; pid < N_PROCESSES; pid++)
    g_assert_nonnull (sonde_process_table_ensure (fixture->processes, pid, 1));
  fixture->set = sonde_sampled_addresses_new (fixture->processes);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_sampled_addresses_free (fixture->set);
  sonde_process_table_free (fixture->processes);
  sonde_module_store_free (fixture->modules);
  g_clear_pointer (&fixture->symbols, g_bytes_unref);
}

static void
on_symbols (GBytes *symbols, gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->symbols = symbols != NULL ? g_bytes_ref (symbols) : NULL;
  fixture->done = TRUE;
}

static void
name_all (Fixture *fixture)
{
  g_autoptr (SondeSymbolizer) symbolizer
      = sonde_symbolizer_start (fixture->set, NULL, on_symbols, fixture);

  g_assert_nonnull (symbolizer);
  while (!fixture->done)
    g_main_context_iteration (NULL, TRUE);
}

/* @bias: of the module in that process */
static gboolean
add_at (Fixture *fixture, int32_t pid, uint64_t address, uint64_t bias, gboolean is_return)
{
  const SondeProcessMapping mapping
      = { .path = "/lib/libx.so.6", .module = fixture->module, .bias = bias };

  return sonde_sampled_addresses_add (fixture->set, pid, address, &mapping, is_return);
}

static void
add (Fixture *fixture, int32_t pid, uint64_t address, gboolean is_return)
{
  g_assert_true (add_at (fixture, pid, address, fixture->bias, is_return));
}

/* The name of @address, or NULL; checks that records are sorted and apart. */
static const char *
find_name (Fixture *fixture, uint32_t pid, uint64_t address, const char **tag)
{
  gsize size_bytes;
  const char *file = g_bytes_get_data (fixture->symbols, &size_bytes);
  const SondeSymbolRecord *records = (const void *) file;
  const char *name = NULL;

  for (guint i = 0; records[i].begin != 0; i++)
    {
      g_assert_cmpuint ((i + 2) * sizeof *records, <=, size_bytes);
      g_assert_cmpuint (records[i].begin, <=, records[i].end);
      g_assert_cmpuint (records[i].name_offset, <, size_bytes);
      if (i > 0 && records[i].pid == records[i - 1].pid)
        g_assert_cmpuint (records[i].begin, >, records[i - 1].end);
      if (records[i].pid == pid && records[i].begin <= address && address <= records[i].end)
        {
          name = file + records[i].name_offset;
          *tag = file + records[i].tag_offset;
        }
    }

  return name;
}

/* --- cases --- */

static void
refuses_more_than_its_bound (Fixture *fixture, gconstpointer data)
{
  for (uint64_t i = 0; i < SONDE_SAMPLED_ADDRESSES_MAX; i++)
    add (fixture, 1, fixture->bias + i, FALSE);
  g_assert_false (add_at (fixture, 2, 1, 0, FALSE));
  g_assert_cmpuint (sonde_sampled_addresses_n_left_out (fixture->set), ==, 1);
  g_assert_cmpuint (sonde_sampled_addresses_size (fixture->set), ==, SONDE_SAMPLED_ADDRESSES_MAX);
  /* What is there already is no loss. */
  add (fixture, 1, fixture->bias, FALSE);
  g_assert_cmpuint (sonde_sampled_addresses_n_left_out (fixture->set), ==, 1);
}

static void
keeps_processes_apart (Fixture *fixture, gconstpointer data)
{
  add (fixture, 1, 0x1000, FALSE);
  g_assert_true (sonde_sampled_addresses_contains (fixture->set, 1, 0x1000));
  g_assert_false (sonde_sampled_addresses_contains (fixture->set, 2, 0x1000));
  g_assert_false (sonde_sampled_addresses_contains (fixture->set, 1, 0x1001));
  add (fixture, 2, 0x1000, FALSE);
  g_assert_cmpuint (sonde_sampled_addresses_size (fixture->set), ==, 2);
}

static void
finds_all_after_it_grew (Fixture *fixture, gconstpointer data)
{
  for (uint64_t i = 0; i < 50000; i++)
    add (fixture, (int32_t) (i % 7), i * 4096, FALSE);
  for (uint64_t i = 0; i < 50000; i++)
    g_assert_true (sonde_sampled_addresses_contains (fixture->set, (int32_t) (i % 7), i * 4096));
  g_assert_cmpuint (sonde_sampled_addresses_size (fixture->set), ==, 50000);
}

/* Slots of the hash are taken by chance: in some of the sets the first is. */
static void
archives_what_was_added (Fixture *fixture, gconstpointer data)
{
  const guint n_sets = 20, n_addresses = 2000;

  for (guint k = 0; k < n_sets; k++)
    {
      g_autoptr (GHashTable) found = g_hash_table_new (NULL, NULL);
      guint n_groups;

      sonde_sampled_addresses_free (fixture->set);
      fixture->set = sonde_sampled_addresses_new (fixture->processes);
      for (guint i = 0; i < n_addresses; i++)
        {
          uint64_t address = k << 20 | i;

          g_assert_true (add_at (fixture, (int32_t) (i % 7), address, address - i % 11, FALSE));
        }
      n_groups = sonde_sampled_addresses_end (fixture->set);
      for (guint i = 0; i < n_groups; i++)
        {
          SondeSiteGroup group = sonde_sampled_addresses_group (fixture->set, i);

          for (guint n = 0; n < group.n_sites; n++)
            {
              const SondeSite *site = sonde_sampled_addresses_site (fixture->set, group.sites[n]);
              uint64_t number = (group.bias + site->vaddr) ^ k << 20;

              g_assert_cmpuint (number, <, n_addresses);
              g_assert_cmpuint (site->vaddr, ==, number % 11);
              g_assert_cmpint (group.pid, ==, number % 7);
              g_assert_true (g_hash_table_add (found, GSIZE_TO_POINTER (number)));
            }
        }
      g_assert_cmpuint (g_hash_table_size (found), ==, n_addresses);
    }
}

/* Code of a program of which there are many, each at an address of its own. */
static void
add_process (Fixture *fixture, int32_t pid, guint n_addresses)
{
  uint64_t bias = fixture->bias + (uint64_t) pid * 0x10000000;

  g_assert_nonnull (sonde_process_table_ensure (fixture->processes, pid, pid));
  for (uint64_t i = 0; i < n_addresses; i++)
    g_assert_true (add_at (fixture, pid, bias + 0x1000 + 16 * i, bias, FALSE));
}

static void
end_process (Fixture *fixture, int32_t pid)
{
  sonde_process_table_exit (fixture->processes, pid, pid);
  /* The second look drops what was used after its end. */
  sonde_process_table_expire (fixture->processes, G_MAXINT64);
  sonde_process_table_expire (fixture->processes, G_MAXINT64);
  g_assert_false (sonde_process_table_has (fixture->processes, pid));
}

static void
keeps_little_of_processes_that_are_over (Fixture *fixture, gconstpointer data)
{
  const guint n_addresses = 32;
  const int32_t n_before = 1000, n_after = 10000;
  gsize before = 0;

  for (int32_t pid = 100; pid < 100 + n_after; pid++)
    {
      if (pid == 100 + n_before)
        before = sonde_sampled_addresses_bytes (fixture->set);
      add_process (fixture, pid, n_addresses);
      end_process (fixture, pid);
    }
  g_assert_cmpuint (sonde_sampled_addresses_size (fixture->set), ==, (guint) n_after * n_addresses);
  /* A header and four bytes each. */
  g_assert_cmpuint ((sonde_sampled_addresses_bytes (fixture->set) - before)
                        / (guint) (n_after - n_before),
                    <=, 16 + 4 * n_addresses);
}

static void
keeps_those_that_run_within_reach (Fixture *fixture, gconstpointer data)
{
  add (fixture, 1, fixture->bias + 0x1000, FALSE);
  for (int32_t pid = 100; pid < 1100; pid++)
    {
      add_process (fixture, pid, 32);
      end_process (fixture, pid);
    }
  g_assert_true (sonde_sampled_addresses_contains (fixture->set, 1, fixture->bias + 0x1000));
  g_assert_false (sonde_sampled_addresses_contains (fixture->set, 100, fixture->bias + 0x1000));
}

static void
names_functions_of_processes_that_are_over (Fixture *fixture, gconstpointer data)
{
  uint64_t address = (uint64_t) (uintptr_t) dlsym (RTLD_DEFAULT, "lsearch");
  const char *tag = NULL;

  for (int32_t pid = 100; pid < 1100; pid++)
    {
      add_process (fixture, pid, 32);
      add (fixture, pid, address + (uint64_t) pid, FALSE);
      end_process (fixture, pid);
    }
  /* Its pid is used again, by a program that is elsewhere. */
  add_process (fixture, 100, 1);
  g_assert_true (add_at (fixture, 100, 0x5004 + address - fixture->bias, 0x5000, FALSE));
  name_all (fixture);
  for (uint32_t pid = 100; pid < 1100; pid++)
    g_assert_nonnull (find_name (fixture, pid, address + pid, &tag));
  g_assert_cmpstr (find_name (fixture, 100, 0x5004 + address - fixture->bias, &tag), ==, "lsearch");
}

/* The store may drop what no process maps any more, however many addresses were in it. */
static void
names_functions_of_files_that_the_store_dropped (Fixture *fixture, gconstpointer data)
{
  uint64_t address = (uint64_t) (uintptr_t) dlsym (RTLD_DEFAULT, "lsearch");
  const char *tag = NULL;

  add (fixture, 1, address + 4, FALSE);
  add (fixture, 1, fixture->bias + 0x10, FALSE);
  g_clear_pointer (&fixture->processes, sonde_process_table_free);
  g_clear_pointer (&fixture->modules, sonde_module_store_free);
  name_all (fixture);
  g_assert_cmpstr (find_name (fixture, 1, address + 4, &tag), ==, "lsearch");
  g_assert_cmpstr (find_name (fixture, 1, fixture->bias + 0x10, &tag), ==, "libx.so.6+0x10");
}

/* Those beyond are told by the place in their file. */
static void
keeps_no_more_files_open_than_it_may (Fixture *fixture, gconstpointer data)
{
  const guint max_fds = 8, n_files = 20;
  struct rlimit before, limit;
  g_autoptr (SondeSampledAddresses) set = NULL;
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) bytes = fake_elf_build (cfi, &(FakeElf){ 0 });
  guint n_open = 0;

  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &before), ==, 0);
  limit = before;
  limit.rlim_cur = 4 * max_fds;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  g_assert_cmpuint (sonde_module_max_fds (), ==, max_fds);
  set = sonde_sampled_addresses_new (fixture->processes);
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &before), ==, 0);

  for (guint i = 0; i < n_files; i++)
    {
      SondeFileId id = { .inode = 2 + i };
      SondeProcessMapping mapping = { .path = "/lib/libx.so" };
      const SondeSite *site;

      g_assert_cmpint (
          sonde_module_store_load (fixture->modules, &id, fake_elf_open (bytes->data, bytes->len)),
          ==, 0);
      g_assert_cmpint (sonde_module_store_lookup (fixture->modules, &id, &mapping.module), ==,
                       SONDE_MODULE_READY);
      g_assert_true (sonde_sampled_addresses_add (set, 1, 0x1000 + i, &mapping, FALSE));
      g_assert_cmpuint (sonde_sampled_addresses_n_sites (set), ==, i + 1);
      site = sonde_sampled_addresses_site (set, i);
      n_open += sonde_sampled_addresses_fd (set, site) >= 0;
    }
  g_assert_cmpuint (n_open, ==, max_fds);
}

static void
gives_nothing_when_empty (Fixture *fixture, gconstpointer data)
{
  name_all (fixture);
  g_assert_null (fixture->symbols);
}

static void
names_functions_of_each_process (Fixture *fixture, gconstpointer data)
{
  uint64_t address = (uint64_t) (uintptr_t) dlsym (RTLD_DEFAULT, "lsearch");
  const char *tag = NULL;

  add (fixture, 1, address + 4, FALSE);
  add (fixture, 1, address + 9, FALSE);
  add (fixture, 3, address + 4, FALSE);
  name_all (fixture);
  g_assert_cmpstr (find_name (fixture, 1, address + 4, &tag), ==, "lsearch");
  g_assert_cmpstr (tag, ==, "libx.so.6");
  g_assert_cmpstr (find_name (fixture, 1, address + 9, &tag), ==, "lsearch");
  g_assert_cmpstr (find_name (fixture, 3, address, &tag), ==, "lsearch");
  g_assert_null (find_name (fixture, 2, address, &tag));
}

static void
names_the_call_before_a_return_address (Fixture *fixture, gconstpointer data)
{
  uint64_t address = (uint64_t) (uintptr_t) dlsym (RTLD_DEFAULT, "lsearch");
  const char *tag = NULL;
  const char *name;

  /* Where lsearch begins is where a call at the end of what stands before it returns to. */
  add (fixture, 1, address, TRUE);
  name_all (fixture);
  name = fixture->symbols != NULL ? find_name (fixture, 1, address, &tag) : NULL;
  g_assert_nonnull (name);
  g_assert_cmpstr (name, !=, "lsearch");
}

static void
says_module_and_place_where_there_is_no_name (Fixture *fixture, gconstpointer data)
{
  const char *tag = NULL;

  /* The ELF header is no function. */
  add (fixture, 1, fixture->bias + 0x10, FALSE);
  name_all (fixture);
  g_assert_cmpstr (find_name (fixture, 1, fixture->bias + 0x10, &tag), ==, "libx.so.6+0x10");
}

#define ADD(name, function)                                                                        \
  g_test_add ("/sampled-addresses/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-more-than-its-bound", refuses_more_than_its_bound);
  ADD ("keeps-processes-apart", keeps_processes_apart);
  ADD ("finds-all-after-it-grew", finds_all_after_it_grew);
  ADD ("archives-what-was-added", archives_what_was_added);
  ADD ("keeps-little-of-processes-that-are-over", keeps_little_of_processes_that_are_over);
  ADD ("keeps-those-that-run-within-reach", keeps_those_that_run_within_reach);
  ADD ("names-functions-of-processes-that-are-over", names_functions_of_processes_that_are_over);
  ADD ("names-functions-of-files-that-the-store-dropped",
       names_functions_of_files_that_the_store_dropped);
  ADD ("keeps-no-more-files-open-than-it-may", keeps_no_more_files_open_than_it_may);
  ADD ("gives-nothing-when-empty", gives_nothing_when_empty);
  ADD ("names-functions-of-each-process", names_functions_of_each_process);
  ADD ("names-the-call-before-a-return-address", names_the_call_before_a_return_address);
  ADD ("says-module-and-place-where-there-is-no-name",
       says_module_and_place_where_there_is_no_name);
  return g_test_run ();
}
