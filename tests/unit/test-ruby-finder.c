/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of Ruby that say where frames are, as Debian's libruby-3.1 does, and changed. */
#include "daemon/capture/interpreter/ruby-finder.h"

#include <errno.h>

#include "base/fd.h"
#include "tests/lib/module-fixture.h"
#include "tests/lib/runtime-file.h"

#define CALLER       FAKE_ELF_TEXT
#define CALLER_BYTES 0x100
#define PAIR         0x3aea48
#define API_PLACE    0x2cc9f0
#define VARIABLE     2 /* number of the symbol; behind rb_vm_exec */

static const guint32 api[] = { 3, 1, 0 };

typedef struct
{
  const guint32 *api;   /* NULL: it is not exported */
  guint64 caller_bytes; /* 0: it is not exported */
  const char *variable;
  guint8 variable_type;
  const Elf64_Rela *relocations; /* NULL: the section is missing */
  gsize relocations_bytes;
} RubyFile;

static const Elf64_Rela relocations[] = {
  { 0x3ae570, ELF64_R_INFO (0, R_X86_64_DTPMOD64), 0 }, /* of variables that are not exported */
  { PAIR - 8, ELF64_R_INFO (VARIABLE, R_X86_64_GLOB_DAT), 0 },
  { PAIR, ELF64_R_INFO (VARIABLE, R_X86_64_DTPMOD64), 0 },
  { PAIR + 8, ELF64_R_INFO (VARIABLE, R_X86_64_DTPOFF64), 0 },
};
static const RubyFile ruby
    = { api, CALLER_BYTES, "ruby_current_ec", STT_TLS, relocations, sizeof relocations };

static void
ruby_init (RuntimeFile *file, const RubyFile *from)
{
  runtime_file_init (file);
  runtime_file_add (file, "rb_vm_exec", CALLER, from->caller_bytes);
  runtime_file_add_typed (file, from->variable, 8, 8, from->variable_type);
  if (from->api != NULL)
    {
      runtime_file_add (file, "ruby_api_version", API_PLACE, 12);
      runtime_file_put (file, API_PLACE, from->api, sizeof api);
    }
  if (from->relocations != NULL)
    runtime_file_put_section (file, ".rela.dyn", SHT_RELA, from->relocations,
                              from->relocations_bytes);
}

static int
find (const RubyFile *from, SondeRuntime *runtime, const char **why)
{
  g_auto (RuntimeFile) file;
  sonde_autofd int fd = -1;

  ruby_init (&file, from);
  fd = runtime_file_open (&file);
  return sonde_runtime_find (SONDE_WALK_RUBY, fd, "libruby-3.1.so.3.1.2", runtime, why);
}

static void
assert_refused (const RubyFile *from, int expected, const char *phrase)
{
  SondeRuntime runtime = { .key = 77 };
  const char *why = "";

  g_assert_cmpint (find (from, &runtime, &why), ==, expected);
  g_assert_nonnull (strstr (why, phrase));
  g_assert_cmpuint (runtime.key, ==, 77);
}

/* --- cases --- */

static void
refuses_versions_that_it_does_not_know (void)
{
  static const guint32 others[][3]
      = { { 3, 0, 0 }, { 3, 2, 0 }, { 3, 4, 0 }, { 2, 1, 0 }, { 4, 1, 0 } };
  RubyFile changed = ruby;

  for (gsize i = 0; i < G_N_ELEMENTS (others); i++)
    {
      changed.api = others[i];
      assert_refused (&changed, -ENOTSUP, "its version");
    }
}

static void
refuses_what_does_not_say_where_states_are (void)
{
  Elf64_Rela moved[G_N_ELEMENTS (relocations)];
  RubyFile changed = ruby;

  changed.relocations = NULL;
  assert_refused (&changed, -ENOTSUP, "where states of threads are");
  changed = ruby;
  changed.caller_bytes = 0;
  assert_refused (&changed, -ENOTSUP, "where states of threads are");
  changed = ruby;
  changed.relocations_bytes -= sizeof relocations[0];
  assert_refused (&changed, -ENOTSUP, "where states of threads are");
  changed = ruby;
  changed.variable = "ruby_current_vm";
  assert_refused (&changed, -ENOTSUP, "where states of threads are");
  /* A program's own, whose place nobody writes anywhere. */
  changed = ruby;
  changed.variable_type = STT_OBJECT;
  assert_refused (&changed, -ENOTSUP, "where states of threads are");
  /* No pair. */
  memcpy (moved, relocations, sizeof moved);
  moved[3].r_offset += 8;
  changed = ruby;
  changed.relocations = moved;
  assert_refused (&changed, -ENOTSUP, "where states of threads are");
}

static void
takes_no_other_file_for_ruby (void)
{
  sonde_autofd int fd = open ("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  sonde_autofd int text_fd = open ("/proc/self/status", O_RDONLY | O_CLOEXEC);
  RubyFile changed = ruby;
  SondeRuntime runtime;
  const char *why;

  g_assert_cmpint (sonde_runtime_find (SONDE_WALK_RUBY, fd, "ruby3.1", &runtime, &why), ==,
                   -ENOENT);
  g_assert_cmpint (sonde_runtime_find (SONDE_WALK_RUBY, text_fd, "ruby3.1", &runtime, &why), <, 0);
  changed.api = NULL;
  assert_refused (&changed, -ENOENT, "exports nothing");
  g_assert_cmpuint (sonde_runtime_guess ("libruby-3.1.so.3.1.2"), ==, SONDE_WALK_RUBY);
  g_assert_cmpuint (sonde_runtime_guess ("ruby3.1"), ==, SONDE_WALK_RUBY);
}

static void
reads_no_file_beyond_its_end (void)
{
  g_auto (RuntimeFile) file;
  g_autoptr (GByteArray) bytes = NULL;
  SondeRuntime runtime;
  const char *why;

  ruby_init (&file, &ruby);
  bytes = runtime_file_build (&file);
  for (guint size_bytes = 0; size_bytes < bytes->len; size_bytes++)
    {
      sonde_autofd int fd = memfd_create ("cut", MFD_CLOEXEC);

      g_assert_cmpint (write (fd, bytes->data, size_bytes), ==, size_bytes);
      g_assert_cmpint (sonde_runtime_find (SONDE_WALK_RUBY, fd, "libruby.so", &runtime, &why), <,
                       0);
    }
}

static void
finds_the_frames_of_3_1 (void)
{
  SondeRuntime runtime;
  const char *why;

  g_assert_cmpint (find (&ruby, &runtime, &why), ==, 0);
  g_assert_cmpuint (runtime.kind, ==, SONDE_WALK_RUBY);
  g_assert_cmpuint (runtime.version, ==, 301);
  g_assert_cmphex (runtime.key, ==, PAIR);
  g_assert_cmpuint (runtime.text_type, ==, 0);
  g_assert_cmphex (runtime.evaluators[0][0], ==, CALLER);
  g_assert_cmphex (runtime.evaluators[0][1], ==, CALLER + CALLER_BYTES);
}

/* --- 3.3, which exports neither the variable nor rb_vm_exec --- */

#define USER       0xe6f10
#define USER_BYTES 36

static const Elf64_Rela newer_relocations[] = {
  { PAIR - 16, ELF64_R_INFO (0, R_X86_64_DTPMOD64), 0 },
  { PAIR, ELF64_R_INFO (0, R_X86_64_DTPMOD64), 0 },
};

/* @use_at: in rb_errinfo, of the instruction that names @pair. Returns: as of sonde_runtime_find()
 */
static int
find_newer (guint use_at, guint64 pair, guint64 user_bytes, SondeRuntime *runtime)
{
  static const guint32 newer_api[] = { 3, 3, 0 };
  g_auto (RuntimeFile) file;
  sonde_autofd int fd = -1;
  guint8 code[USER_BYTES] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08 };
  gint32 distance = (gint32) (pair - (USER + use_at + 8));
  const char *why;

  memcpy (code + use_at, ((guint8[]){ 0x66, 0x48, 0x8d, 0x3d }), 4);
  memcpy (code + use_at + 4, &distance, sizeof distance);
  runtime_file_init (&file);
  runtime_file_add (&file, "rb_iseq_eval", CALLER, CALLER_BYTES);
  runtime_file_add (&file, "rb_errinfo", USER, user_bytes);
  runtime_file_add (&file, "ruby_api_version", API_PLACE, 12);
  runtime_file_put (&file, API_PLACE, newer_api, sizeof newer_api);
  runtime_file_put (&file, USER, code, sizeof code);
  runtime_file_put_section (&file, ".rela.dyn", SHT_RELA, newer_relocations,
                            sizeof newer_relocations);
  fd = runtime_file_open (&file);
  return sonde_runtime_find (SONDE_WALK_RUBY, fd, "libruby-3.3.so.3.3.8", runtime, &why);
}

static void
finds_the_frames_of_3_3 (void)
{
  SondeRuntime runtime;

  g_assert_cmpint (find_newer (8, PAIR, USER_BYTES, &runtime), ==, 0);
  g_assert_cmpuint (runtime.version, ==, 303);
  g_assert_cmphex (runtime.key, ==, PAIR);
  g_assert_cmphex (runtime.evaluators[0][0], ==, CALLER);
  g_assert_cmpuint (runtime.layout.frame_size, ==, 56);
  /* The last bytes that it can have. */
  g_assert_cmpint (find_newer (USER_BYTES - 8, PAIR, USER_BYTES, &runtime), ==, 0);
}

static void
refuses_a_pair_that_nobody_writes (void)
{
  SondeRuntime runtime;

  g_assert_cmpint (find_newer (8, PAIR + 8, USER_BYTES, &runtime), ==, -ENOTSUP);
  g_assert_cmpint (find_newer (8, PAIR, 15, &runtime), ==, -ENOTSUP);
  g_assert_cmpint (find_newer (8, PAIR, 0, &runtime), ==, -ENOTSUP);
  /* More than the file has. */
  g_assert_cmpint (find_newer (8, PAIR, USER_BYTES + 1, &runtime), ==, -ENOTSUP);
}

/* @how: it is called, or jumped to, from @at in code at @vaddr. */
static void
put_step (guint8 *code, guint64 vaddr, guint at, guint8 how, guint64 target)
{
  gint32 distance = (gint32) (target - (vaddr + at + 5));

  code[at] = how;
  memcpy (code + at + 1, &distance, sizeof distance);
}

/* A call of @target from @at in the caller. */
static void
put_call (guint8 *code, guint at, guint64 target)
{
  put_step (code, CALLER, at, 0xe8, target);
}

#define BETWEEN       (FAKE_ELF_TEXT + 0x1000)
#define BETWEEN_BYTES 0x1f00

/* @between: code of the function at BETWEEN; NULL: the file has none. Returns: what is found if the
 * caller has @code */
static int
find_evaluator_beyond (const guint8 *code, const guint8 *between, SondeRuntime *runtime)
{
  static const guint8 rules[] = { PLAIN_RULES };
  const FakeElf spec = { .section = ".eh_frame" };
  g_autoptr (GByteArray) image = NULL;
  g_auto (RuntimeFile) file;
  sonde_autofd int fd = -1;
  SondeUnwindModule *module;
  const char *why = NULL;
  Fixture fixture = { 0 };
  guint cie;
  int error;
  int result;

  set_up (&fixture, NULL);
  cie = fake_elf_add_cie (fixture.cfi, "zR", rules, sizeof rules);
  fake_elf_add_fde (fixture.cfi, cie, FAKE_ELF_TEXT, CALLER_BYTES, NULL, 0);
  fake_elf_add_fde (fixture.cfi, cie, BETWEEN, BETWEEN_BYTES, NULL, 0);
  fake_elf_add_fde (fixture.cfi, cie, FAKE_ELF_TEXT + 0x4000, 0x3000, NULL, 0);
  fake_elf_add_fde (fixture.cfi, cie, FAKE_ELF_TEXT + 0x8000, 0x6000, NULL, 0);
  image = fake_elf_build (fixture.cfi, &spec);
  module = load_bytes (&fixture, image->data, image->len, &error);
  g_assert_cmpint (error, ==, 0);
  runtime_file_init (&file);
  runtime_file_put (&file, CALLER, code, CALLER_BYTES);
  if (between != NULL)
    runtime_file_put (&file, BETWEEN, between, BETWEEN_BYTES);
  fd = runtime_file_open (&file);
  *runtime
      = (SondeRuntime){ .evaluators = { { CALLER, CALLER + CALLER_BYTES } }, .n_evaluators = 1 };
  result = sonde_ruby_find_evaluator (fd, module, runtime, &why);
  g_assert_nonnull (why);
  tear_down (&fixture, NULL);
  return result;
}

static int
find_evaluator (const guint8 *code, SondeRuntime *runtime)
{
  return find_evaluator_beyond (code, NULL, runtime);
}

static void
finds_what_is_called_by_one_between (void)
{
  guint8 code[CALLER_BYTES] = { 0 };
  g_autofree guint8 *between = g_malloc0 (BETWEEN_BYTES);
  SondeRuntime runtime;

  put_step (code, CALLER, 0x10, 0xe9, BETWEEN);
  g_assert_cmpint (find_evaluator_beyond (code, between, &runtime), ==, -ENOTSUP);
  put_step (between, BETWEEN, BETWEEN_BYTES - 5, 0xe8, FAKE_ELF_TEXT + 0x8000);
  put_step (between, BETWEEN, 0x20, 0xe8, FAKE_ELF_TEXT + 0x4000);
  g_assert_cmpint (find_evaluator_beyond (code, NULL, &runtime), ==, -ENOTSUP);
  g_assert_cmpint (find_evaluator_beyond (code, between, &runtime), ==, 0);
  g_assert_cmphex (runtime.evaluators[0][0], ==, FAKE_ELF_TEXT + 0x8000);
  g_assert_cmphex (runtime.evaluators[0][1], ==, FAKE_ELF_TEXT + 0xe000);
  /* What is called directly comes first. */
  put_call (code, 0x40, FAKE_ELF_TEXT + 0x4000);
  g_assert_cmpint (find_evaluator_beyond (code, between, &runtime), ==, 0);
  g_assert_cmphex (runtime.evaluators[0][0], ==, FAKE_ELF_TEXT + 0x4000);
}

static void
finds_the_largest_function_that_is_called (void)
{
  guint8 code[CALLER_BYTES] = { 0 };
  SondeRuntime runtime;

  g_assert_cmpint (find_evaluator (code, &runtime), ==, -ENOTSUP);
  /* Too small; and the inside of what is larger. */
  put_call (code, 0x10, FAKE_ELF_TEXT + 0x1000);
  put_call (code, 0x20, FAKE_ELF_TEXT + 0x8010);
  put_call (code, 0x30, 0x7fff0000);
  g_assert_cmpint (find_evaluator (code, &runtime), ==, -ENOTSUP);
  g_assert_cmphex (runtime.evaluators[0][0], ==, CALLER);
  put_call (code, 0x40, FAKE_ELF_TEXT + 0x4000);
  g_assert_cmpint (find_evaluator (code, &runtime), ==, 0);
  g_assert_cmphex (runtime.evaluators[0][0], ==, FAKE_ELF_TEXT + 0x4000);
  g_assert_cmphex (runtime.evaluators[0][1], ==, FAKE_ELF_TEXT + 0x7000);
  /* The last bytes that a call can have. */
  put_call (code, CALLER_BYTES - 5, FAKE_ELF_TEXT + 0x8000);
  g_assert_cmpint (find_evaluator (code, &runtime), ==, 0);
  g_assert_cmphex (runtime.evaluators[0][0], ==, FAKE_ELF_TEXT + 0x8000);
}

static void
reads_no_caller_that_is_too_large (void)
{
  sonde_autofd int fd = open ("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  SondeRuntime runtime = { .evaluators = { { CALLER, CALLER + (1u << 20) } } };
  const char *why;

  g_assert_cmpint (sonde_ruby_find_evaluator (fd, NULL, &runtime, &why), ==, -ENOTSUP);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ruby-finder/refuses-versions-that-it-does-not-know",
                   refuses_versions_that_it_does_not_know);
  g_test_add_func ("/ruby-finder/refuses-what-does-not-say-where-states-are",
                   refuses_what_does_not_say_where_states_are);
  g_test_add_func ("/ruby-finder/takes-no-other-file-for-ruby", takes_no_other_file_for_ruby);
  g_test_add_func ("/ruby-finder/reads-no-file-beyond-its-end", reads_no_file_beyond_its_end);
  g_test_add_func ("/ruby-finder/reads-no-caller-that-is-too-large",
                   reads_no_caller_that_is_too_large);
  g_test_add_func ("/ruby-finder/finds-the-frames-of-3-1", finds_the_frames_of_3_1);
  g_test_add_func ("/ruby-finder/finds-the-frames-of-3-3", finds_the_frames_of_3_3);
  g_test_add_func ("/ruby-finder/refuses-a-pair-that-nobody-writes",
                   refuses_a_pair_that_nobody_writes);
  g_test_add_func ("/ruby-finder/finds-what-is-called-by-one-between",
                   finds_what_is_called_by_one_between);
  g_test_add_func ("/ruby-finder/finds-the-largest-function-that-is-called",
                   finds_the_largest_function_that_is_called);
  return g_test_run ();
}
