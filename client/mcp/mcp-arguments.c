/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/mcp/mcp-arguments.h"

#include <string.h>

#include "client/base/text.h"

#define SHOWN_BYTES 64 /* of what came, in a complaint */

static void
add_schema (SondeJson *json, const SondeMcpArgument *argument)
{
  static const char *const types[] = { [SONDE_MCP_TEXT] = "string",
                                       [SONDE_MCP_WORD] = "string",
                                       [SONDE_MCP_TEXTS] = "array",
                                       [SONDE_MCP_INTEGER] = "integer",
                                       [SONDE_MCP_NUMBER] = "number" };

  sonde_json_begin_object (json, argument->name);
  sonde_json_add_text (json, "type", types[argument->type]);
  sonde_json_add_text (json, "description", argument->description);
  switch (argument->type)
    {
    case SONDE_MCP_TEXT:
      sonde_json_add_number (json, "maxLength", SONDE_MCP_MAX_TEXT_BYTES);
      break;
    case SONDE_MCP_WORD:
      sonde_json_begin_array (json, "enum");
      for (guint i = 0; argument->words[i] != NULL; i++)
        sonde_json_add_text (json, NULL, argument->words[i]);
      sonde_json_end_array (json);
      sonde_json_add_text (json, "default", argument->words[0]);
      break;
    case SONDE_MCP_TEXTS:
      sonde_json_begin_object (json, "items");
      sonde_json_add_text (json, "type", "string");
      sonde_json_end_object (json);
      sonde_json_add_number (json, "minItems", 1);
      sonde_json_add_number (json, "maxItems", SONDE_MCP_MAX_TEXTS);
      break;
    case SONDE_MCP_INTEGER:
      sonde_json_add_number (json, "minimum", (gint64) argument->least);
      sonde_json_add_number (json, "maximum", (gint64) argument->most);
      break;
    case SONDE_MCP_NUMBER:
      sonde_json_add_real (json, "minimum", argument->least);
      sonde_json_add_real (json, "maximum", argument->most);
      break;
    }
  sonde_json_end_object (json);
}

void
sonde_mcp_arguments_add_schema (SondeJson *json, const char *member, const SondeMcpArgument *table)
{
  sonde_json_begin_object (json, member);
  sonde_json_add_text (json, "type", "object");
  sonde_json_begin_object (json, "properties");
  for (const SondeMcpArgument *row = table; row->name != NULL; row++)
    add_schema (json, row);
  sonde_json_end_object (json);
  sonde_json_begin_array (json, "required");
  for (const SondeMcpArgument *row = table; row->name != NULL; row++)
    if (row->is_required)
      sonde_json_add_text (json, NULL, row->name);
  sonde_json_end_array (json);
  sonde_json_add_bool (json, "additionalProperties", FALSE);
  sonde_json_end_object (json);
}

/* (transfer full): what such an argument has to be */
static char *
dup_wanted (const SondeMcpArgument *argument)
{
  g_autofree char *words = NULL;

  switch (argument->type)
    {
    case SONDE_MCP_TEXTS:
      return g_strdup_printf ("an array of 1 to %u texts, each of at most %u bytes",
                              SONDE_MCP_MAX_TEXTS, SONDE_MCP_MAX_TEXT_BYTES);
    case SONDE_MCP_WORD:
      words = g_strjoinv (", ", (char **) argument->words);
      return g_strdup_printf ("one of %s", words);
    case SONDE_MCP_INTEGER:
      return g_strdup_printf ("a whole number from %.0f to %.0f", argument->least, argument->most);
    case SONDE_MCP_NUMBER:
      return g_strdup_printf ("a number from %g to %g", argument->least, argument->most);
    case SONDE_MCP_TEXT:
      break;
    }
  return g_strdup_printf ("a text of 1 to %u bytes", SONDE_MCP_MAX_TEXT_BYTES);
}

static gboolean
is_text (const char *text)
{
  return text != NULL && text[0] != '\0' && strlen (text) <= SONDE_MCP_MAX_TEXT_BYTES;
}

static gboolean
is_right (const SondeJsonDocument *document, guint32 value, const SondeMcpArgument *argument)
{
  const char *text = sonde_json_document_text (document, value);
  gint64 whole;
  double number;

  switch (argument->type)
    {
    case SONDE_MCP_TEXT:
      return is_text (text);
    case SONDE_MCP_WORD:
      return text != NULL && g_strv_contains (argument->words, text);
    case SONDE_MCP_TEXTS:
      if (sonde_json_document_type (document, value) != SONDE_JSON_ARRAY
          || sonde_json_document_n_inside (document, value) < 1
          || sonde_json_document_n_inside (document, value) > SONDE_MCP_MAX_TEXTS)
        return FALSE;
      for (guint32 at = sonde_json_document_first (document, value); at != SONDE_JSON_ABSENT;
           at = sonde_json_document_next (document, at))
        {
          const char *item = sonde_json_document_text (document, at);

          /* a program may be given an empty word, but is not called so */
          if (item == NULL || strlen (item) > SONDE_MCP_MAX_TEXT_BYTES
              || (item[0] == '\0' && at == sonde_json_document_first (document, value)))
            return FALSE;
        }
      return TRUE;
    case SONDE_MCP_INTEGER:
      return sonde_json_document_integer (document, value, &whole)
             && (double) whole >= argument->least && (double) whole <= argument->most;
    case SONDE_MCP_NUMBER:
      return sonde_json_document_number (document, value, &number) && number >= argument->least
             && number <= argument->most;
    }
  return FALSE;
}

static const SondeMcpArgument *
find_row (const SondeMcpArgument *table, const char *name)
{
  const SondeMcpArgument *row = table;

  while (row->name != NULL && !g_str_equal (row->name, name))
    row++;
  return row->name != NULL ? row : NULL;
}

static gboolean
complain_unknown (const SondeMcpArgument *table, const char *name, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);
  g_autofree char *shown = sonde_text_escape (name, (gssize) MIN (strlen (name), SHOWN_BYTES));

  for (const SondeMcpArgument *row = table; row->name != NULL; row++)
    g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", row->name);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
               "there is no argument \"%s\"; there are %s", shown, known->str);
  return FALSE;
}

gboolean
sonde_mcp_arguments_check (const SondeMcpArguments *self,
                           const SondeMcpArgument *table,
                           GError **error)
{
  for (guint32 value = sonde_json_document_first (self->document, self->object);
       value != SONDE_JSON_ABSENT; value = sonde_json_document_next (self->document, value))
    {
      const char *name = sonde_json_document_name (self->document, value);
      const SondeMcpArgument *row = find_row (table, name);
      g_autofree char *wanted = NULL;

      if (row == NULL)
        return complain_unknown (table, name, error);
      if (is_right (self->document, value, row))
        continue;
      wanted = dup_wanted (row);
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "argument \"%s\" is %s",
                   row->name, wanted);
      return FALSE;
    }
  for (const SondeMcpArgument *row = table; row->name != NULL; row++)
    if (row->is_required
        && sonde_json_document_member (self->document, self->object, row->name)
               == SONDE_JSON_ABSENT)
      {
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "argument \"%s\" is missing",
                     row->name);
        return FALSE;
      }
  return TRUE;
}

const char *
sonde_mcp_arguments_text (const SondeMcpArguments *self, const char *name)
{
  return sonde_json_document_text (self->document,
                                   sonde_json_document_member (self->document, self->object, name));
}

const char *
sonde_mcp_arguments_word (const SondeMcpArguments *self,
                          const SondeMcpArgument *table,
                          const char *name)
{
  const char *word = sonde_mcp_arguments_text (self, name);

  return word != NULL ? word : find_row (table, name)->words[0];
}

double
sonde_mcp_arguments_number (const SondeMcpArguments *self, const char *name, double otherwise)
{
  double number = otherwise;

  sonde_json_document_number (
      self->document, sonde_json_document_member (self->document, self->object, name), &number);
  return number;
}
