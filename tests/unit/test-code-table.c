/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of functions of interpreted programs, by process and address. */
#include "daemon/capture/interpreter/code-table.h"

#include <string.h>

static const SondeRuntime python
    = { .kind = SONDE_WALK_PYTHON, .lines = SONDE_LINE_TABLE_LOCATIONS };

static void
put_text (SondeWalkText *text, uint8_t *bytes, const char *latin)
{
  text->width = 1;
  text->size_bytes = (uint32_t) strlen (latin);
  memcpy (bytes, latin, text->size_bytes);
}

static SondeWalkCode
code_of (uint32_t pid, uint64_t address, const char *name, const char *file)
{
  SondeWalkCode code
      = { .kind = SONDE_WALK_RECORD_CODE, .pid = pid, .code = address, .first_line = 3 };

  put_text (&code.name, code.name_bytes, name);
  put_text (&code.file, code.file_bytes, file);
  return code;
}

static void
assert_described (const SondeWalkCode *record, const char *expected)
{
  g_autoptr (SondeCodeTable) table = sonde_code_table_new ();
  g_autofree char *text = NULL;

  g_assert_true (sonde_code_table_add (table, record));
  text = sonde_code_describe (sonde_code_table_find (table, (int32_t) record->pid, record->code),
                              &python, 0);
  g_assert_cmpstr (text, ==, expected);
}

/* @line: of the frame; 0: it tells of none */
static void
assert_described_php (const SondeWalkCode *record, uint32_t line, const char *expected)
{
  const SondeRuntime php = { .kind = SONDE_WALK_PHP, .lines = SONDE_LINE_TABLE_NONE };
  g_autoptr (SondeCodeTable) table = sonde_code_table_new ();
  g_autofree char *text = NULL;

  g_assert_true (sonde_code_table_add (table, record));
  text = sonde_code_describe (sonde_code_table_find (table, 1, record->code), &php, line);
  g_assert_cmpstr (text, ==, expected);
}

/* --- cases --- */

static void
describes_a_function_by_name_file_and_line (void)
{
  SondeWalkCode code = code_of (1, 16, "Tree.walk", "/srv/app/tree.py");

  assert_described (&code, "Tree.walk (tree.py:3)");
  /* two lines further */
  code.lines[0] = 0x80 | 12 << 3;
  code.lines_bytes = 3;
  assert_described (&code, "Tree.walk (tree.py:5)");
  /* no line */
  code.lines[0] = 0x80 | 15 << 3;
  code.lines_bytes = 1;
  assert_described (&code, "Tree.walk (tree.py)");
  code = code_of (1, 16, "<module>", "prog.py");
  assert_described (&code, "<module> (prog.py:3)");
  code = code_of (1, 16, "load", "/usr/lib/python3.11/json/__init__.py");
  assert_described (&code, "load (json/__init__.py:3)");
  code = code_of (1, 16, "load", "/__init__.py");
  assert_described (&code, "load (__init__.py:3)");
  code = code_of (1, 16, "", "");
  assert_described (&code, "[unnamed]");
}

static void
shows_characters_of_each_width (void)
{
  static const uint16_t two[] = { 0x3b1, 0x3b2, 0xd800 };
  static const uint32_t four[] = { 0x1f40d, 0x110000, 'x' };
  SondeWalkCode code = code_of (1, 16, "caf\xe9", "a.py");

  assert_described (&code, "café (a.py:3)");
  code.name = (SondeWalkText){ sizeof two, 2 };
  memcpy (code.name_bytes, two, sizeof two);
  assert_described (&code, "αβ\xef\xbf\xbd (a.py:3)");
  code.name = (SondeWalkText){ sizeof four, 4 };
  memcpy (code.name_bytes, four, sizeof four);
  assert_described (&code, "🐍\xef\xbf\xbdx (a.py:3)");
  /* half of one at the end */
  code.name.size_bytes = 7;
  assert_described (&code, "🐍 (a.py:3)");
}

static void
shows_nothing_that_could_forge_a_line (void)
{
  SondeWalkCode code = code_of (1, 16, "a\nb\x1b[2J", "c\x7f.py");

  assert_described (&code, "a\xef\xbf\xbd"
                           "b\xef\xbf\xbd[2J (c\xef\xbf\xbd.py:3)");
}

static void
believes_what_was_told_last (void)
{
  g_autoptr (SondeCodeTable) table = sonde_code_table_new ();
  SondeWalkCode first = code_of (1, 16, "one", "a.py");
  SondeWalkCode second = code_of (1, 16, "two", "a.py");

  g_assert_true (sonde_code_table_add (table, &first));
  g_assert_true (sonde_code_table_add (table, &second));
  g_assert_cmpstr (sonde_code_table_find (table, 1, 16)->name, ==, "two");
  g_assert_cmpuint (sonde_code_table_n_codes (table), ==, 1);
}

static void
knows_each_process_for_itself (void)
{
  g_autoptr (SondeCodeTable) table = sonde_code_table_new ();
  SondeWalkCode first = code_of (1, 16, "one", "a.py");
  SondeWalkCode second = code_of (2, 16, "two", "a.py");

  g_assert_null (sonde_code_table_find (table, 1, 16));
  g_assert_true (sonde_code_table_add (table, &first));
  g_assert_null (sonde_code_table_find (table, 2, 16));
  g_assert_true (sonde_code_table_add (table, &second));
  sonde_code_table_forget (table, 1);
  sonde_code_table_forget (table, 3);
  g_assert_null (sonde_code_table_find (table, 1, 16));
  g_assert_cmpstr (sonde_code_table_find (table, 2, 16)->name, ==, "two");
  sonde_code_table_forget (table, 2);
  g_assert_cmpuint (sonde_code_table_n_codes (table), ==, 0);
  g_assert_cmpuint (sonde_code_table_bytes (table), ==, 0);
}

static void
takes_no_more_than_its_limits (void)
{
  g_autoptr (SondeCodeTable) table = sonde_code_table_new ();
  SondeWalkCode code = code_of (1, 0, "f", "a.py");
  gboolean is_taken = TRUE;

  for (code.code = 1; is_taken; code.code++)
    {
      g_assert_cmpuint (code.code, <=, SONDE_CODE_TABLE_MAX_CODES + 1);
      is_taken = sonde_code_table_add (table, &code);
    }
  sonde_code_table_forget (table, 1);
  code.lines_bytes = SONDE_WALK_LINES_BYTES;
  is_taken = TRUE;
  for (code.code = 1; is_taken; code.code++)
    is_taken = sonde_code_table_add (table, &code);
  g_assert_cmpuint (sonde_code_table_bytes (table), <=, SONDE_CODE_TABLE_MAX_BYTES);
  g_assert_cmpuint (sonde_code_table_bytes (table), >, SONDE_CODE_TABLE_MAX_BYTES / 2);
}

static void
describes_functions_of_php (void)
{
  const SondeWalkCode nameless = code_of (1, 16, "", "");
  SondeWalkCode code = code_of (1, 16, "walk", "/srv/app/tree.php");

  assert_described_php (&code, 12, "walk (tree.php:12) [php]");
  assert_described_php (&code, 0, "walk (tree.php) [php]");
  assert_described_php (&code, UINT32_MAX, "walk (tree.php) [php]");
  put_text (&code.scope, code.scope_bytes, "App\\Tree");
  assert_described_php (&code, 12, "App\\Tree::walk (tree.php:12) [php]");
  /* built in */
  code = code_of (1, 16, "usort", "");
  assert_described_php (&code, 0, "usort [php]");
  /* outside of functions */
  code = code_of (1, 16, "", "tree.php");
  assert_described_php (&code, 3, "{main} (tree.php:3) [php]");
  /* in no file, where a fiber begins */
  assert_described_php (&nameless, 0, "[unnamed] [php]");
  /* and a name that could not be read is another thing */
  code.name.width = 0;
  assert_described_php (&code, 3, "[unnamed] (tree.php:3) [php]");
}

static void
takes_utf_8_that_may_be_none (void)
{
  SondeWalkCode code = code_of (1, 16,
                                "gr\xc3\xb6\xc3\x9f"
                                "e\xff\n\xe2\x80\xae\xe2\x82",
                                "");

  code.name.width = SONDE_WALK_UTF8;
  assert_described_php (&code, 0, "größe\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd [php]");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/code-table/takes-no-more-than-its-limits", takes_no_more_than_its_limits);
  g_test_add_func ("/code-table/shows-nothing-that-could-forge-a-line",
                   shows_nothing_that_could_forge_a_line);
  g_test_add_func ("/code-table/takes-utf-8-that-may-be-none", takes_utf_8_that_may_be_none);
  g_test_add_func ("/code-table/describes-functions-of-php", describes_functions_of_php);
  g_test_add_func ("/code-table/describes-a-function-by-name-file-and-line",
                   describes_a_function_by_name_file_and_line);
  g_test_add_func ("/code-table/shows-characters-of-each-width", shows_characters_of_each_width);
  g_test_add_func ("/code-table/believes-what-was-told-last", believes_what_was_told_last);
  g_test_add_func ("/code-table/knows-each-process-for-itself", knows_each_process_for_itself);
  return g_test_run ();
}
