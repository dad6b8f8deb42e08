/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the reader of JSON, and what it accepts to what reads on. */
#include <string.h>

#include "client/base/json-document.h"
#include "client/mcp/mcp-tools.h"
#include "client/mcp/mcp-tree.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/printed.h"

static const SondeJsonBounds bounds = { 4096, 8, 256 };

/* Returns: how deep it is; values lie within each other, and are as many as their outer one says.
 */
static guint
check_value (const SondeJsonDocument *document, guint32 value, guint32 *n_values)
{
  const char *text = sonde_json_document_text (document, value);
  g_autofree char *source = sonde_json_document_dup_source (document, value);
  guint depth = 0;
  guint32 n = 0;

  ++*n_values;
  if (source == NULL || source[0] == '\0' || (text != NULL && !g_utf8_validate (text, -1, NULL)))
    abort ();
  for (guint32 inner = sonde_json_document_first (document, value); inner != SONDE_JSON_ABSENT;
       inner = sonde_json_document_next (document, inner))
    {
      const char *name = sonde_json_document_name (document, inner);
      guint below = check_value (document, inner, n_values);

      n++;
      depth = MAX (depth, below);
      if ((name != NULL) != (sonde_json_document_type (document, value) == SONDE_JSON_OBJECT)
          || (name != NULL && sonde_json_document_member (document, value, name) != inner))
        abort ();
    }
  if (n != sonde_json_document_n_inside (document, value))
    abort ();
  return depth + (sonde_json_document_type (document, value) >= SONDE_JSON_ARRAY);
}

/* What was accepted is JSON for others, too, and stays the same if it is read again. */
static void
check_source (const SondeJsonDocument *document)
{
  g_autofree char *source = sonde_json_document_dup_source (document, 0);
  g_autoptr (SondeJsonDocument) again
      = sonde_json_document_parse (source, strlen (source), &bounds, NULL);
  g_autoptr (JsonParser) other = json_parser_new_immutable ();
  g_autofree char *copy = again != NULL ? sonde_json_document_dup_source (again, 0) : NULL;

  if (g_strcmp0 (source, copy) != 0
      || !json_parser_load_from_data (other, source, (gssize) strlen (source), NULL))
    abort ();
}

static void
check_readers (const SondeJsonDocument *document)
{
  static const char *const names[]
      = { "record", "report", "callers", "lines", "diff", "heap", "waits" };
  const SondeMcpArguments arguments = { document, 0 };
  g_autoptr (SondeMcpTree) tree = sonde_mcp_tree_new (document);
  guint32 function;
  guint depth;
  gint64 total;

  g_ptr_array_unref (sonde_mcp_tree_dup_locks (document));
  for (guint n = 0; sonde_mcp_tree_next (tree, &function, &depth, &total); n++)
    if (n > bounds.n_entries || depth > n)
      abort ();
  if (sonde_json_document_type (document, 0) != SONDE_JSON_OBJECT)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;

      if (!sonde_mcp_tool_check (sonde_mcp_tool_find (names[i]), &arguments, &error)
          && !g_utf8_validate (error->message, -1, NULL))
        abort ();
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeJsonDocument) document
      = sonde_json_document_parse ((const char *) data, size, &bounds, &error);
  guint32 n_values = 0;
  guint64 byte;

  if (document == NULL)
    {
      if (error == NULL || !g_str_has_prefix (error->message, "byte "))
        abort ();
      byte = g_ascii_strtoull (error->message + strlen ("byte "), NULL, 10);
      if (byte < 1 || byte > size + 1)
        abort ();
      return 0;
    }
  if (check_value (document, 0, &n_values) > bounds.depth || n_values > bounds.n_entries
      || size > bounds.n_bytes)
    abort ();
  check_source (document);
  check_readers (document);
  return 0;
}
