/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The man page of the interface against the XML, the tables of the daemon and the polkit actions.
 */
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/control/request/options.h"
#include "daemon/control/bus/service.h"
#include "sonde-profiler1-generated.h"

static char *
read_source (const char *path)
{
  g_autofree char *name = g_test_build_filename (G_TEST_DIST, path, NULL);
  g_autoptr (GError) error = NULL;
  char *text = NULL;

  g_file_get_contents (name, &text, NULL, &error);
  g_assert_no_error (error);
  return text;
}

/* The first group of @pattern at each place where it fits; each may come once. */
static GHashTable *
find_names (const char *text, const char *pattern)
{
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_MULTILINE, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  GHashTable *names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (g_regex_match (regex, text, 0, &match); g_match_info_matches (match);
       g_match_info_next (match, NULL))
    {
      char *name = g_match_info_fetch (match, 1);

      g_test_message ("%s", name);
      g_assert_true (g_hash_table_add (names, name));
    }
  return names;
}

/* What a section of the page explains: terms are bold and begin their line. */
static GHashTable *
read_section (const char *title)
{
  g_autofree char *page = read_source ("docs/org.sonde.Profiler1.5.rst");
  g_autofree char *head = g_strdup_printf ("\n%s\n==", title);
  char *section = strstr (page, head);
  char *end;

  g_assert_nonnull (section);
  section = strchr (section + strlen (head), '\n');
  end = strstr (section, "\n==");
  if (end != NULL)
    *end = '\0';
  return find_names (section, "^\\*\\*([A-Za-z-]+)\\*\\*");
}

static void
take (GHashTable *names, const char *name)
{
  g_test_message ("%s must be in the page", name);
  g_assert_true (g_hash_table_remove (names, name));
}

/* The rest is in the page alone. */
static void
assert_nothing_left (GHashTable *names)
{
  GHashTableIter iter;
  gpointer name;

  g_hash_table_iter_init (&iter, names);
  if (g_hash_table_iter_next (&iter, &name, NULL))
    g_error ("the page explains %s, which there is not", (const char *) name);
}

static void
assert_members (const char *title, const GDBusInterfaceInfo *info)
{
  g_autoptr (GHashTable) names = read_section (title);

  for (guint i = 0; info->methods != NULL && info->methods[i] != NULL; i++)
    take (names, info->methods[i]->name);
  for (guint i = 0; info->properties != NULL && info->properties[i] != NULL; i++)
    take (names, info->properties[i]->name);
  for (guint i = 0; info->signals != NULL && info->signals[i] != NULL; i++)
    take (names, info->signals[i]->name);
  assert_nothing_left (names);
}

static void
test_members (void)
{
  assert_members ("MANAGER", sonde_dbus_manager_interface_info ());
  assert_members ("SESSION", sonde_dbus_session_interface_info ());
}

/* The option keys in the comment of a method. */
static GHashTable *
read_xml_keys (const char *method)
{
  g_autofree char *xml = read_source ("dbus/org.sonde.Profiler1.xml");
  g_autofree char *head = g_strdup_printf ("\n      %s:\n", method);
  char *comment = strstr (xml, head);

  g_assert_nonnull (comment);
  *strstr (comment, "-->") = '\0';
  return find_names (comment, "(?:^      | or )([a-z-]+) \\([a-z(){}]+[,)]");
}

static void
assert_keys (const char *title, const char *method)
{
  g_autoptr (GHashTable) in_page = read_section (title);
  g_autoptr (GHashTable) in_xml = read_xml_keys (method);
  GHashTableIter iter;
  gpointer key;

  g_assert_cmpuint (g_hash_table_size (in_xml), >, 2);
  g_hash_table_iter_init (&iter, in_xml);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    take (in_page, key);
  assert_nothing_left (in_page);
}

/* "key (type, ..., default VALUE": what the interface says of an option is what its row says. */
static void
assert_documented (const char *xml, const SondeOptionRow *row, const SondeOptions *defaults)
{
  g_autofree char *type = g_regex_escape_string (row->type, -1);
  g_autofree char *pattern = g_strdup_printf (
      "(?:^      | or )%s \\(%s(?:, [a-zA-Z]+)?(?:, default \"?([a-z0-9-]+)\"?)?[,)]", row->key,
      type);
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_MULTILINE, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree char *said = NULL;
  g_autofree char *value = sonde_option_dup_text (row, defaults);

  g_test_message ("%s", pattern);
  g_assert_true (g_regex_match (regex, xml, 0, &match));
  said = g_match_info_fetch (match, 1);
  if (said != NULL && said[0] != '\0')
    g_assert_cmpstr (said, ==, value);
}

static void
test_options (void)
{
  g_autoptr (GHashTable) in_page = read_section ("OPTIONS");
  g_autofree char *xml = read_source ("dbus/org.sonde.Profiler1.xml");
  g_autoptr (GVariant) dict = g_variant_ref_sink (g_variant_new_parsed ("{'pids': <[uint32 1]>}"));
  g_autoptr (SondeOptions) defaults = sonde_options_parse (dict, NULL, FALSE, NULL);
  const SondeOptionRow *row;

  assert_keys ("OPTIONS", "Profile");
  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    {
      take (in_page, row->key);
      assert_documented (xml, row, defaults);
    }
}

/* Each key is known: what is refused is the type, which no key has. */
static void
test_stream_options (void)
{
  g_autoptr (GHashTable) in_page = read_section ("STREAM OPTIONS");
  GHashTableIter iter;
  gpointer key;

  assert_keys ("STREAM OPTIONS", "OpenCapture");
  g_hash_table_iter_init (&iter, in_page);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      SondeStreamOptions options;
      GVariantDict dict;
      g_autoptr (GVariant) value = NULL;
      g_autoptr (GError) error = NULL;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert_value (&dict, key, g_variant_new_double (1));
      value = g_variant_ref_sink (g_variant_dict_end (&dict));
      g_assert_false (sonde_stream_options_parse (value, &options, &error));
      g_assert_nonnull (strstr (error->message, "has type d"));
    }
}

static void
test_actions (void)
{
  g_autofree char *policy = read_source ("dbus/org.sonde.profiler1.policy.in");
  g_autoptr (GHashTable) in_policy
      = find_names (policy, "<action id=\"org\\.sonde\\.profiler1\\.([a-z-]+)\">");
  g_autoptr (GHashTable) in_page = read_section ("RIGHTS");

  for (guint i = 0; i < SONDE_N_ACTIONS; i++)
    {
      const char *name = sonde_action_id ((SondeAction) i) + strlen ("org.sonde.profiler1.");

      take (in_policy, name);
      take (in_page, name);
    }
  assert_nothing_left (in_policy);
  assert_nothing_left (in_page);
}

static void
test_errors (void)
{
  g_autoptr (GHashTable) names = read_section ("ERRORS");

  for (guint i = 0; i < SONDE_N_ERRORS; i++)
    {
      g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, (gint) i, "");
      g_autofree char *name = g_dbus_error_encode_gerror (error);

      take (names, name + strlen ("org.sonde.Profiler1.Error."));
    }
  assert_nothing_left (names);
}

static void
test_limits (void)
{
  g_autoptr (GHashTable) names = read_section ("LIMITS");
  g_autoptr (GVariant) property = NULL;
  SondeSettings settings;
  GVariantIter iter;
  const char *name;

  sonde_settings_init (&settings);
  property = g_variant_ref_sink (sonde_service_limits (&settings));
  g_variant_iter_init (&iter, property);
  while (g_variant_iter_next (&iter, "{&sv}", &name, NULL))
    take (names, name);
  assert_nothing_left (names);
}

/* A refusal names its limit by a key of the property. */
static void
check_limit_names (const char *directory, const char *file)
{
  g_autofree char *path = g_build_filename (directory, file, NULL);
  g_autofree char *text = read_source (path);
  g_autoptr (GHashTable) known = read_section ("LIMITS");
  g_autoptr (GRegex) regex
      = g_regex_new ("(?:\"Limit |refuse_limit \\(error, \")([a-z-]+)[:\"]", 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;

  for (g_regex_match (regex, text, 0, &match); g_match_info_matches (match);
       g_match_info_next (match, NULL))
    {
      g_autofree char *name = g_match_info_fetch (match, 1);

      g_test_message ("%s: %s", path, name);
      g_assert_true (g_hash_table_contains (known, name));
    }
}

static void
test_limit_names (void)
{
  static const char *const rooms[] = { "daemon/base",
                                       "daemon/broker",
                                       "daemon/control/bus",
                                       "daemon/control/request",
                                       "daemon/control/session",
                                       "daemon/control/system" };

  for (gsize i = 0; i < G_N_ELEMENTS (rooms); i++)
    {
      g_autofree char *root = g_test_build_filename (G_TEST_DIST, rooms[i], NULL);
      g_autoptr (GDir) directory = g_dir_open (root, 0, NULL);
      const char *file;

      g_assert_nonnull (directory);
      while ((file = g_dir_read_name (directory)) != NULL)
        if (g_str_has_suffix (file, ".c"))
          check_limit_names (rooms[i], file);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/interface-docs/explain-every-member", test_members);
  g_test_add_func ("/interface-docs/explain-every-option", test_options);
  g_test_add_func ("/interface-docs/explain-every-option-of-a-stream", test_stream_options);
  g_test_add_func ("/interface-docs/explain-every-action", test_actions);
  g_test_add_func ("/interface-docs/explain-every-error", test_errors);
  g_test_add_func ("/interface-docs/explain-every-limit", test_limits);
  g_test_add_func ("/interface-docs/know-the-limits-that-refusals-name", test_limit_names);
  return g_test_run ();
}
