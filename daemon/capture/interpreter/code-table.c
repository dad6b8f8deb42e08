/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/code-table.h"

#include <string.h>

#define OVERHEAD_BYTES 128 /* of an entry of both tables, about */
#define UNNAMED        "[unnamed]"

struct SondeCodeTable
{
  GHashTable *processes; /* pid → GHashTable: address, in boxes → SondeCode */
  guint n_codes;
  gsize n_bytes;
};

static void
code_free (gpointer data)
{
  SondeCode *self = data;

  g_free (self->name);
  g_free (self->file);
  g_free (self->lines);
  g_free (self);
}

SondeCodeTable *
sonde_code_table_new (void)
{
  SondeCodeTable *self = g_new0 (SondeCodeTable, 1);

  self->processes = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_hash_table_unref);
  return self;
}

void
sonde_code_table_free (SondeCodeTable *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->processes);
  g_free (self);
}

/* --- texts --- */

static gunichar
read_character (const uint8_t *bytes, uint32_t width)
{
  uint16_t two;
  uint32_t four;

  switch (width)
    {
    case 1:
      return bytes[0];
    case 2:
      memcpy (&two, bytes, sizeof two);
      return two;
    default:
      memcpy (&four, bytes, sizeof four);
      return four;
    }
}

/* What is cut may end within a character: that is left out. */
static char *
read_utf8 (const uint8_t *bytes, uint32_t size_bytes)
{
  g_autoptr (GString) out = g_string_new (NULL);
  const char *at = (const char *) bytes;
  const char *end = at + size_bytes;

  while (at < end)
    {
      gunichar character = g_utf8_get_char_validated (at, end - at);

      if (character == (gunichar) -2)
        break;
      if (character == (gunichar) -1)
        {
          at++;
          character = 0xfffd;
        }
      else
        at = g_utf8_next_char (at);
      g_string_append_unichar (out, g_unichar_isprint (character) ? character : 0xfffd);
    }
  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* What a terminal or a reader could take for something else is replaced. */
static char *
read_text (const SondeWalkText *text, const uint8_t *bytes)
{
  g_autoptr (GString) out = g_string_new (NULL);

  if (text->width == SONDE_WALK_UTF8)
    return read_utf8 (bytes, text->size_bytes);
  for (uint32_t at = 0; text->width != 0 && at + text->width <= text->size_bytes; at += text->width)
    {
      gunichar character = read_character (bytes + at, text->width);

      if (!g_unichar_validate (character) || !g_unichar_isprint (character))
        character = 0xfffd;
      g_string_append_unichar (out, character);
    }
  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* "Parser::parse" */
static char *
read_name (const SondeWalkCode *record)
{
  g_autofree char *name = record->name.width != 0 ? read_text (&record->name, record->name_bytes)
                                                  : g_strdup (UNNAMED);
  g_autofree char *scope = read_text (&record->scope, record->scope_bytes);

  return scope[0] != '\0' && name[0] != '\0' ? g_strconcat (scope, "::", name, NULL)
                                             : g_steal_pointer (&name);
}

/* "prog.py"; of what many have, "json/__init__.py". */
static char *
shorten_path (char *path)
{
  g_autofree char *owned = path;
  char *slash = strrchr (path, '/');
  char *before;

  if (slash == NULL)
    return g_steal_pointer (&owned);
  if (!g_str_has_prefix (slash + 1, "__"))
    return g_strdup (slash + 1);
  *slash = '\0';
  before = strrchr (path, '/');
  *slash = '/';
  return g_strdup (before != NULL ? before + 1 : slash == path ? slash + 1 : path);
}

static SondeCode *
code_new (const SondeWalkCode *record)
{
  SondeCode *self = g_new0 (SondeCode, 1);

  self->name = read_name (record);
  self->file = shorten_path (read_text (&record->file, record->file_bytes));
  self->first_line = record->first_line;
  self->first_instruction = record->first_instruction;
  self->lines_bytes = record->lines_bytes;
  self->lines = g_memdup2 (record->lines, record->lines_bytes);
  self->n_bytes = sizeof *self + strlen (self->name) + strlen (self->file) + self->lines_bytes
                  + OVERHEAD_BYTES;
  return self;
}

/* --- the table --- */

static void
uncount (SondeCodeTable *self, const SondeCode *code)
{
  self->n_codes--;
  self->n_bytes -= code->n_bytes;
}

gboolean
sonde_code_table_add (SondeCodeTable *self, const SondeWalkCode *record)
{
  gpointer key = GINT_TO_POINTER ((int32_t) record->pid);
  GHashTable *codes = g_hash_table_lookup (self->processes, key);
  SondeCode *code;
  const SondeCode *former;

  if (codes == NULL)
    {
      codes = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, code_free);
      g_hash_table_insert (self->processes, key, codes);
    }
  former = g_hash_table_lookup (codes, &record->code);
  if (former != NULL)
    uncount (self, former);
  g_hash_table_remove (codes, &record->code);
  code = code_new (record);
  if (self->n_codes >= SONDE_CODE_TABLE_MAX_CODES
      || code->n_bytes > SONDE_CODE_TABLE_MAX_BYTES - self->n_bytes)
    {
      code_free (code);
      return FALSE;
    }
  self->n_codes++;
  self->n_bytes += code->n_bytes;
  g_hash_table_insert (codes, g_memdup2 (&record->code, sizeof record->code), code);
  return TRUE;
}

SondeCode *
sonde_code_table_find (SondeCodeTable *self, int32_t pid, uint64_t address)
{
  GHashTable *codes = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));

  return codes != NULL ? g_hash_table_lookup (codes, &address) : NULL;
}

void
sonde_code_table_forget (SondeCodeTable *self, int32_t pid)
{
  GHashTable *codes = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));
  GHashTableIter iter;
  gpointer code;

  if (codes == NULL)
    return;
  g_hash_table_iter_init (&iter, codes);
  while (g_hash_table_iter_next (&iter, NULL, &code))
    uncount (self, code);
  g_hash_table_remove (self->processes, GINT_TO_POINTER (pid));
}

guint
sonde_code_table_n_codes (const SondeCodeTable *self)
{
  return self->n_codes;
}

gsize
sonde_code_table_bytes (const SondeCodeTable *self)
{
  return self->n_bytes;
}

char *
sonde_code_describe (const SondeCode *self, const SondeRuntime *runtime, int64_t at)
{
  const SondeRuntimeKind *kind = &sonde_runtime_kinds[runtime->kind];
  const char *name = self->name[0] != '\0'   ? self->name
                     : self->file[0] != '\0' ? kind->outside
                                             : UNNAMED;
  uint32_t line = sonde_line_table_find (runtime->lines, self->lines, self->lines_bytes,
                                         self->first_line, at);

  if (self->file[0] == '\0')
    return g_strconcat (name, kind->tag, NULL);
  if (line == 0)
    return g_strdup_printf ("%s (%s)%s", name, self->file, kind->tag);
  return g_strdup_printf ("%s (%s:%u)%s", name, self->file, line, kind->tag);
}
