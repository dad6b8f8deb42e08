/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JSON of strangers: what is refused, at which byte, and what is read. */
#include "client/base/json-document.h"

#include <string.h>

static const SondeJsonBounds usual = { 4096, 8, 64 };

static void
check_refused (const char *bytes, gsize n_bytes, const SondeJsonBounds *bounds, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeJsonDocument) document
      = sonde_json_document_parse (bytes, n_bytes, bounds, &error);

  g_assert_null (document);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
  g_assert_cmpstr (error->message, ==, message);
}

static void
test_refusals (void)
{
  static const struct
  {
    const char *text;
    const char *message;
  } cases[] = {
    { "", "byte 1: the text ends without a value" },
    { "  ", "byte 3: the text ends without a value" },
    { "[1,", "byte 4: the text ends without a value" },
    { "\xef\xbb\xbf"
      "1",
      "byte 1: no value begins so" },
    { "nul", "byte 1: no value begins so" },
    { "True", "byte 1: no value begins so" },
    { "NaN", "byte 1: no value begins so" },
    { "'a'", "byte 1: no value begins so" },
    { "+1", "byte 1: no value begins so" },
    { ".5", "byte 1: no value begins so" },
    { "[,1]", "byte 2: no value begins so" },
    { "[1,]", "byte 4: no value begins so" },
    { "nullx", "byte 5: something follows the value" },
    { "1 2", "byte 3: something follows the value" },
    { "0x10", "byte 2: something follows the value" },
    { "[1/*2*/]", "byte 3: an array goes on with , or ends with ]" },
    { "[1 2]", "byte 4: an array goes on with , or ends with ]" },
    { "[1", "byte 3: an array goes on with , or ends with ]" },
    { "[1}", "byte 3: an array goes on with , or ends with ]" },
    { "{\"a\":1", "byte 7: an object goes on with , or ends with }" },
    { "{\"a\":1]", "byte 7: an object goes on with , or ends with }" },
    { "{\"a\" 1}", "byte 6: a member's name is followed by :" },
    { "{1:2}", "byte 2: a string begins with \"" },
    { "{a:1}", "byte 2: a string begins with \"" },
    { "{\"a\":1,}", "byte 8: a string begins with \"" },
    { "{\"a\":1, \"\\u0061\":2}", "byte 9: a member that the object has already" },
    { "\"a", "byte 3: the text ends within a string" },
    { "\"a\nb\"", "byte 3: a control character in a string" },
    { "\"\\x41\"", "byte 2: an escape that JSON does not have" },
    { "\"\\", "byte 2: an escape that JSON does not have" },
    { "\"\\u12\"", "byte 6: \\u needs four hexadecimal digits" },
    { "\"\\u0000\"", "byte 2: a string with a NUL" },
    { "\"\\ud83dx\"", "byte 2: the first half of a surrogate pair without the second" },
    { "\"\\ud83d\\ud83d\"", "byte 2: the first half of a surrogate pair without the second" },
    { "\"\\ude00\"", "byte 2: the second half of a surrogate pair without the first" },
    { "\"\xff\"", "byte 2: what is no UTF-8" },
    { "\"\xc0\xaf\"", "byte 2: what is no UTF-8" },
    { "\"\xed\xa0\x80\"", "byte 2: what is no UTF-8" },
    { "01", "byte 2: a number that begins with 0" },
    { "-01", "byte 3: a number that begins with 0" },
    { "-", "byte 2: a digit is missing" },
    { "1.", "byte 3: a digit is missing" },
    { "1e+", "byte 4: a digit is missing" },
    { "[1e999]", "byte 2: a number that is too large" },
    { "-Infinity", "byte 2: a digit is missing" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check_refused (cases[i].text, strlen (cases[i].text), &usual, cases[i].message);
  check_refused ("\"\0\"", 3, &usual, "byte 2: a NUL");
  check_refused ("1\0", 2, &usual, "byte 2: a NUL");
}

/* What is @n times @text between two others. */
static char *
dup_repeated (const char *begin, const char *text, guint n, const char *end)
{
  g_autoptr (GString) out = g_string_new (begin);

  for (guint i = 0; i < n; i++)
    g_string_append (out, text);
  g_string_append (out, end);
  return g_strdup (out->str);
}

static void
test_bounds (void)
{
  static const SondeJsonBounds wide = { 1 << 20, 2000, 1 << 16 };
  g_autofree char *deep = dup_repeated ("", "[", 9, "");
  g_autofree char *deepest = dup_repeated ("", "[", 1001, "");
  g_autofree char *many = dup_repeated ("[0", ",0", 63, "]");
  g_autofree char *long_text = dup_repeated ("1", " ", 4096, "");
  g_autofree char *digits = dup_repeated ("", "1", 65, "");
  g_autoptr (GString) members = g_string_new ("{");
  g_autoptr (SondeJsonDocument) document = NULL;
  const char *fits[]
      = { "[[[[[[[[]]]]]]]]", "1111111111111111111111111111111111111111111111111111111111111111" };

  check_refused (deep, strlen (deep), &usual,
                 "byte 9: arrays and objects are too deep in each other");
  check_refused (deepest, strlen (deepest), &wide,
                 "byte 1001: arrays and objects are too deep in each other");
  check_refused (many, strlen (many), &usual, "byte 128: too many values");
  check_refused (long_text, strlen (long_text), &usual, "byte 4097: the text is too long");
  check_refused (digits, strlen (digits), &usual, "byte 1: a number of more than 64 characters");
  for (guint i = 0; i < G_N_ELEMENTS (fits); i++)
    {
      document = sonde_json_document_parse (fits[i], strlen (fits[i]), &usual, NULL);
      g_assert_nonnull (document);
      g_clear_pointer (&document, sonde_json_document_free);
    }
  for (guint i = 0; i <= SONDE_JSON_MAX_MEMBERS; i++)
    g_string_append_printf (members, "%s\"%04u\":0", i > 0 ? "," : "", i);
  check_refused (members->str, members->len, &wide,
                 "byte 9218: an object of more than 1024 members");
  g_string_truncate (members, 9216);
  g_string_append_c (members, '}');
  document = sonde_json_document_parse (members->str, members->len, &wide, NULL);
  g_assert_cmpuint (sonde_json_document_n_inside (document, 0), ==, SONDE_JSON_MAX_MEMBERS);
}

static SondeJsonDocument *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  SondeJsonDocument *document = sonde_json_document_parse (text, strlen (text), &usual, &error);

  g_assert_no_error (error);
  return document;
}

static void
test_values (void)
{
  g_autoptr (SondeJsonDocument) document = parse (
      " {\"a\": [1, [2, 3], {}, \"x\"], \"b\": null, \"\": true, \"n\": {\"a\": false}}\n");
  guint32 array = sonde_json_document_member (document, 0, "a");
  guint32 value = sonde_json_document_first (document, array);
  g_autofree char *source = sonde_json_document_dup_source (document, array);
  static const SondeJsonType types[]
      = { SONDE_JSON_NUMBER, SONDE_JSON_ARRAY, SONDE_JSON_OBJECT, SONDE_JSON_STRING };

  g_assert_cmpuint (sonde_json_document_n_inside (document, 0), ==, 4);
  g_assert_cmpstr (source, ==, "[1, [2, 3], {}, \"x\"]");
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_assert_cmpint (sonde_json_document_type (document, value), ==, (int) types[i]);
      g_assert_null (sonde_json_document_name (document, value));
      value = sonde_json_document_next (document, value);
    }
  g_assert_cmpuint (value, ==, SONDE_JSON_ABSENT);
  value = sonde_json_document_member (document, 0, "b");
  g_assert_cmpstr (sonde_json_document_name (document, value), ==, "b");
  g_assert_cmpint (sonde_json_document_type (document, value), ==, SONDE_JSON_NULL);
  g_assert_cmpint (
      sonde_json_document_type (document, sonde_json_document_member (document, 0, "")), ==,
      SONDE_JSON_TRUE);
  value = sonde_json_document_member (document, sonde_json_document_member (document, 0, "n"), "a");
  g_assert_cmpint (sonde_json_document_type (document, value), ==, SONDE_JSON_FALSE);
}

/* Nothing is told of what is not there, or of another type. */
static void
test_absent (void)
{
  g_autoptr (SondeJsonDocument) document = parse ("[1, \"x\"]");
  gint64 integer = 7;
  double number = 7;

  for (guint32 value = 0; value < 5; value++)
    {
      guint32 at = value < 3 ? value : SONDE_JSON_ABSENT - value + 3;

      g_assert_cmpuint (sonde_json_document_member (document, at, "a"), ==, SONDE_JSON_ABSENT);
      g_assert_true ((value == 2) == (sonde_json_document_text (document, at) != NULL));
      g_assert_true ((value == 1) == sonde_json_document_number (document, at, &number));
      g_assert_true ((value == 1) == sonde_json_document_integer (document, at, &integer));
      g_assert_cmpuint (sonde_json_document_n_inside (document, at), ==, value == 0 ? 2 : 0);
    }
  g_assert_null (sonde_json_document_dup_source (document, SONDE_JSON_ABSENT));
  g_assert_null (sonde_json_document_name (document, SONDE_JSON_ABSENT));
  g_assert_cmpuint (sonde_json_document_first (document, SONDE_JSON_ABSENT), ==, SONDE_JSON_ABSENT);
  g_assert_cmpuint (sonde_json_document_next (document, SONDE_JSON_ABSENT), ==, SONDE_JSON_ABSENT);
}

static void
test_texts (void)
{
  g_autoptr (SondeJsonDocument) document
      = parse ("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\ud83d\\ude00\\uFFFF\", \"ä\x7f\", \"\"]");
  guint32 value = sonde_json_document_first (document, 0);

  g_assert_cmpstr (sonde_json_document_text (document, value), ==,
                   "\"\\/\b\f\n\r\tä\xf0\x9f\x98\x80\xef\xbf\xbf");
  value = sonde_json_document_next (document, value);
  g_assert_cmpstr (sonde_json_document_text (document, value), ==, "ä\x7f");
  value = sonde_json_document_next (document, value);
  g_assert_cmpstr (sonde_json_document_text (document, value), ==, "");
}

static void
test_numbers (void)
{
  static const struct
  {
    const char *text;
    double number;
    gboolean is_integer;
    gint64 integer;
  } cases[] = {
    { "0", 0, TRUE, 0 },
    { "-0", 0, TRUE, 0 },
    { "-12", -12, TRUE, -12 },
    { "1.5", 1.5, FALSE, 0 },
    { "1E+2", 100, FALSE, 0 },
    { "2e-1", 0.2, FALSE, 0 },
    { "9223372036854775807", 9223372036854775807.0, TRUE, G_MAXINT64 },
    { "9223372036854775808", 9223372036854775808.0, FALSE, 0 },
    { "-9223372036854775808", -9223372036854775808.0, TRUE, G_MININT64 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (SondeJsonDocument) document = parse (cases[i].text);
      double number = 7;
      gint64 integer = 7;

      g_assert_true (sonde_json_document_number (document, 0, &number));
      g_assert_cmpfloat_with_epsilon (number, cases[i].number, 1e-9);
      g_assert_true (sonde_json_document_integer (document, 0, &integer) == cases[i].is_integer);
      g_assert_cmpint (integer, ==, cases[i].is_integer ? cases[i].integer : 7);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json-document/refuses-what-is-no-json-and-names-the-byte", test_refusals);
  g_test_add_func ("/json-document/refuses-what-is-beyond-its-bounds", test_bounds);
  g_test_add_func ("/json-document/tells-values-and-members", test_values);
  g_test_add_func ("/json-document/tells-nothing-of-what-is-not-there", test_absent);
  g_test_add_func ("/json-document/decodes-escapes", test_texts);
  g_test_add_func ("/json-document/tells-integers-from-other-numbers", test_numbers);
  return g_test_run ();
}
