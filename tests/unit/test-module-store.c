/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One module for one file, asked for again only after a while, and never too many of them. */
#include <errno.h>
#include <libelf.h>
#include <sys/resource.h>

#include "tests/lib/fake-go.h"
#include "tests/lib/module-fixture.h"

static void
test_one_module_for_one_file (Fixture *f, gconstpointer data)
{
  SondeUnwindModule *a = load_path (f, "/proc/self/exe");
  SondeUnwindModule *b = load_path (f, "/proc/self/exe");

  g_assert_true (a == b);
  g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 1);
}

static void
test_generations (Fixture *f, gconstpointer data)
{
  SondeFileId unknown = { .inode = 5 };
  SondeFileId first = { .inode = 5, .generation = 1 };
  SondeFileId second = { .inode = 5, .generation = 2 };
  SondeUnwindModule *module;

  sonde_module_store_set_asked (f->store, &unknown);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &first, &module), ==, SONDE_MODULE_ASKED);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &second, &module), ==,
                   SONDE_MODULE_UNKNOWN);
}

static int64_t fake_now_ns;

static int64_t
fake_clock (void)
{
  return fake_now_ns;
}

static void
test_back_off (Fixture *f, gconstpointer data)
{
  SondeFileId id = { .inode = 5 };
  SondeUnwindModule *module;
  int64_t wait_ns = 1000000000;

  sonde_module_store_set_clock (f->store, fake_clock);
  for (guint i = 0; i < 12; i++)
    {
      g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==,
                       SONDE_MODULE_UNKNOWN);
      sonde_module_store_set_asked (f->store, &id);
      g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_ASKED);
      sonde_module_store_set_failed (f->store, &id, ENOENT);
      fake_now_ns += wait_ns - 1;
      g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_FAILED);
      fake_now_ns += 1;
      if (i < 6)
        wait_ns *= 2;
    }
}

static void
test_unknown_again (Fixture *f, gconstpointer data)
{
  SondeFileId id = { .inode = 5 };
  SondeUnwindModule *module;

  sonde_module_store_set_asked (f->store, &id);
  sonde_module_store_set_unknown (f->store, &id);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_UNKNOWN);
  sonde_module_store_set_failed (f->store, &id, EACCES);
  sonde_module_store_set_unknown (f->store, &id);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_FAILED);
}

static void
test_eviction (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  guint64 rows[6];
  SondeUnwindModule *held = NULL;
  size_t one;
  int error;

  add_three_functions (f, rows);
  file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  load_bytes (f, file->data, file->len, &error);
  one = sonde_module_store_bytes (f->store);
  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (4 * one);

  held = sonde_module_ref (load_bytes (f, file->data, file->len, &error));
  for (guint i = 0; i < 10; i++)
    {
      g_assert_nonnull (load_bytes (f, file->data, file->len, &error));
      g_assert_cmpuint (sonde_module_store_bytes (f->store), <=, 4 * one);
    }
  g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 4);
  assert_has_three_functions (held);
  sonde_module_unref (held);
}

static void
test_full_of_modules_in_use (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  SondeUnwindModule *held;
  int error;

  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (sizeof (SondeUnwindModule) + 100);
  held = sonde_module_ref (load_bytes (f, file->data, file->len, &error));
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, -ENOSPC);
  sonde_module_unref (held);
  g_assert_nonnull (load_bytes (f, file->data, file->len, &error));
}

/* A program of Go, whose table is longer than all that others have. */
static GByteArray *
make_go_program (void)
{
  static const FakeGoFunction functions[]
      = { { "main.main", 0, "\2\x7f", 0 }, { NULL, 0x100, NULL, 0 } };
  static const guint8 nothing[1 << 16];
  g_autoptr (GByteArray) table = fake_go_build (FAKE_GO_1_20, functions, FAKE_ELF_TEXT);

  g_byte_array_append (table, nothing, sizeof nothing);
  return fake_elf_build (table, &(FakeElf){ .section = ".gopclntab" });
}

/* Programs of Go that run may leave no room for others: call frame information comes first. */
static void
test_full_of_go_programs (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) go = make_go_program ();
  g_autoptr (GByteArray) other = NULL;
  SondeUnwindModule *held[3];
  guint64 rows[6];
  uint64_t begin, end;
  size_t one;
  int error;

  add_three_functions (f, rows);
  other = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  load_bytes (f, go->data, go->len, &error);
  one = sonde_module_store_bytes (f->store);
  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (one + sizeof **held + 100);

  held[0] = sonde_module_ref (load_bytes (f, go->data, go->len, &error));
  held[1] = sonde_module_ref (load_bytes (f, go->data, go->len, &error));
  g_assert_true (sonde_module_find_function (held[0], FAKE_ELF_TEXT, &begin, &end));
  g_assert_false (sonde_module_find_function (held[1], FAKE_ELF_TEXT, &begin, &end));
  held[2] = sonde_module_ref (load_bytes (f, other->data, other->len, &error));
  assert_has_three_functions (held[2]);
  g_assert_false (sonde_module_find_function (held[0], FAKE_ELF_TEXT, &begin, &end));
  g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 3);
  g_assert_cmpuint (sonde_module_store_bytes (f->store), <, one);
  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    sonde_module_unref (held[i]);
}

static void
test_open_files (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  const guint max_fds = 16, n_files = 40;
  g_autofree SondeUnwindModule **modules = g_new (SondeUnwindModule *, n_files);
  struct rlimit before, limit;
  int error;

  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &before), ==, 0);
  limit = before;
  limit.rlim_cur = 4 * max_fds;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  for (guint i = 0; i < n_files; i++)
    {
      modules[i] = load_bytes (f, file->data, file->len, &error);
      g_assert_nonnull (modules[i]);
    }
  for (guint i = 0; i < n_files; i++)
    g_assert_cmpint (sonde_module_fd (modules[i]) >= 0, ==, i >= n_files - max_fds);
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &before), ==, 0);
}

/* A file with more functions than a slice reads, in no order. */
static int
open_large (Fixture *f, guint salt)
{
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (cfi, "zR", NULL, 0);

  for (guint64 i = 0; i < 65536; i++)
    fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + (i + salt) * 40503 % 65536 * 2, 2, NULL, 0);
  file = fake_elf_build (cfi, &(FakeElf){ .section = ".eh_frame" });
  return fake_elf_open (file->data, file->len);
}

static SondeModuleState
state_of (Fixture *f, guint64 inode, SondeUnwindModule **module)
{
  return sonde_module_store_lookup (f->store, &(SondeFileId){ .inode = inode }, module);
}

static void
test_slices (Fixture *f, gconstpointer data)
{
  const SondeFileId first = { .inode = 1 }, second = { .inode = 2 };
  int fd = open_large (f, 0);
  int again = fcntl (fd, F_DUPFD_CLOEXEC, 0);
  SondeUnwindModule *a = NULL, *b = NULL;
  uint64_t begin, end;
  guint n_slices = 1;

  g_assert_cmpint (sonde_module_store_begin (f->store, &first, fd), ==, 1);
  g_assert_cmpint (sonde_module_store_begin (f->store, &second, again), ==, 1);
  while (state_of (f, 1, &a) == SONDE_MODULE_READING)
    {
      g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 0);
      g_assert_cmpint (state_of (f, 2, &b), ==, SONDE_MODULE_READING);
      sonde_module_store_set_asked (f->store, &first); /* changes nothing */
      sonde_module_store_set_failed (f->store, &first, ENOENT);
      sonde_module_store_work (f->store);
      n_slices++;
    }
  g_assert_cmpint (state_of (f, 1, &a), ==, SONDE_MODULE_READY);
  g_assert_cmpint (state_of (f, 2, &b), ==, SONDE_MODULE_READY);
  g_assert_true (a == b);
  g_assert_false (sonde_module_store_work (f->store));
  /* each of the functions is looked at, and moved twice or so */
  g_assert_cmpuint (n_slices, >, 65536 / SONDE_MODULE_STORE_SLICE);
  g_assert_cmpuint (n_slices, <, 4 * 65536 / SONDE_MODULE_STORE_SLICE);
  for (uint64_t i = 0; i < 65536; i++)
    {
      g_assert_true (sonde_module_find_function (a, FAKE_ELF_TEXT + 2 * i + 1, &begin, &end));
      g_assert_cmphex (begin, ==, FAKE_ELF_TEXT + 2 * i);
    }
}

/* Small files wait for the large one before them, too, but what is known does not. */
static void
test_order (Fixture *f, gconstpointer data)
{
  SondeUnwindModule *module;
  SondeUnwindModule *known = load_path (f, "/proc/self/exe");
  guint n_ready = 0;

  g_assert_cmpint (
      sonde_module_store_begin (f->store, &(SondeFileId){ .inode = 10 }, open_large (f, 0)), ==, 1);
  g_assert_cmpint (sonde_module_store_begin (f->store, &(SondeFileId){ .inode = 11 },
                                             open ("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                   ==, 0);
  g_assert_cmpint (state_of (f, 11, &module), ==, SONDE_MODULE_READY);
  g_assert_true (module == known);
  g_assert_cmpint (
      sonde_module_store_begin (f->store, &(SondeFileId){ .inode = 12 }, open_large (f, 1)), ==, 1);
  while (sonde_module_store_work (f->store))
    {
      n_ready += state_of (f, 10, &module) == SONDE_MODULE_READY;
      g_assert_true (n_ready > 0 || state_of (f, 12, &module) == SONDE_MODULE_READING);
    }
  g_assert_cmpuint (n_ready, >, 0);
  g_assert_cmpint (state_of (f, 12, &module), ==, SONDE_MODULE_READY);
}

static void
test_too_many_to_read (Fixture *f, gconstpointer data)
{
  SondeUnwindModule *module;
  int r = 1;
  guint n = 0;

  for (; r == 1 && n < 200; n++)
    r = sonde_module_store_begin (f->store, &(SondeFileId){ .inode = 100 + n }, open_large (f, n));
  g_assert_cmpint (r, ==, -EAGAIN);
  g_assert_cmpuint (n, >, 32);
  g_assert_cmpint (state_of (f, 99 + n, &module), ==, SONDE_MODULE_UNKNOWN);
  /* the store goes while most of them are still to be read */
}

static void
test_no_room_for_what_was_read (Fixture *f, gconstpointer data)
{
  SondeUnwindModule *module;

  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (1 << 20);
  g_assert_cmpint (
      sonde_module_store_begin (f->store, &(SondeFileId){ .inode = 1 }, open_large (f, 0)), ==, 1);
  while (sonde_module_store_work (f->store))
    ;
  g_assert_cmpint (state_of (f, 1, &module), ==, SONDE_MODULE_FAILED);
  g_assert_cmpint (
      sonde_module_store_load (f->store, &(SondeFileId){ .inode = 1 }, open_large (f, 0)), ==,
      -ENOSPC);
  g_assert_cmpuint (sonde_module_store_bytes (f->store), ==, 0);
}

#define ADD(path, test) g_test_add ("/module-store/" path, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  elf_version (EV_CURRENT);
  g_test_init (&argc, &argv, NULL);
  ADD ("shares-one-module-between-ids-of-one-file", test_one_module_for_one_file);
  ADD ("tells-generations-apart-where-known", test_generations);
  ADD ("asks-again-later-and-later", test_back_off);
  ADD ("asks-again-at-once-if-the-answer-said-nothing", test_unknown_again);
  ADD ("drops-the-oldest-unused-under-the-cap", test_eviction);
  ADD ("keeps-the-files-of-the-newest-open", test_open_files);
  ADD ("reads-a-large-file-in-slices", test_slices);
  ADD ("reads-one-file-after-the-other", test_order);
  ADD ("lets-no-more-than-some-wait-to-be-read", test_too_many_to_read);
  ADD ("fails-when-there-is-no-room-for-what-was-read", test_no_room_for_what_was_read);
  ADD ("is-full-when-all-is-in-use", test_full_of_modules_in_use);
  ADD ("goes-without-tables-of-go-when-it-is-full", test_full_of_go_programs);
  return g_test_run ();
}
