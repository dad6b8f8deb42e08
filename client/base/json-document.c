/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/json-document.h"

#include <math.h>
#include <string.h>

#define MAX_DEPTH 1000u /* of the stack that a value in a value takes */
#define NO_TEXT   G_MAXSIZE

typedef struct
{
  SondeJsonType type;
  guint32 next;     /* the value behind it in the same array or object; ABSENT: none */
  guint32 n_inside; /* of an array or object; they begin with the next entry */
  gboolean is_integer;
  gsize name; /* in the texts; NO_TEXT: it is no member */
  gsize begin;
  gsize end; /* in the source */
  union
  {
    gsize text; /* of a string, in the texts */
    struct
    {
      double number;
      gint64 integer;
    };
  };
} Entry;

struct SondeJsonDocument
{
  char *source;
  GArray *entries; /* Entry */
  GString *texts;  /* strings and names, each with its NUL */
};

typedef struct
{
  SondeJsonDocument *document;
  const SondeJsonBounds *bounds;
  const char *bytes;
  gsize n_bytes;
  gsize at;
  GError **error;
} Parser;

static Entry *
entry_of (const SondeJsonDocument *self, guint32 value)
{
  return value < self->entries->len ? &g_array_index (self->entries, Entry, value) : NULL;
}

static gboolean
refuse (const Parser *self, gsize at, const char *what)
{
  g_set_error (self->error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "byte %" G_GSIZE_FORMAT ": %s",
               at + 1, what);
  return FALSE;
}

/* '\0' behind the end: none is within the text. */
static char
peek (const Parser *self)
{
  return self->at < self->n_bytes ? self->bytes[self->at] : '\0';
}

static void
skip_space (Parser *self)
{
  while (peek (self) == ' ' || peek (self) == '\t' || peek (self) == '\n' || peek (self) == '\r')
    self->at++;
}

static gboolean
take (Parser *self, char character)
{
  if (peek (self) != character)
    return FALSE;
  self->at++;
  return TRUE;
}

/* --- strings --- */

/* Four hexadecimal digits; -1: they are not there. */
static int
take_hex (Parser *self)
{
  int unit = 0;

  for (guint i = 0; i < 4; i++)
    {
      int digit = g_ascii_xdigit_value (peek (self));

      if (digit < 0)
        return -1;
      unit = unit * 16 + digit;
      self->at++;
    }
  return unit;
}

/* What follows a "\u". */
static gboolean
take_unit (Parser *self, gsize begin)
{
  int unit = take_hex (self);

  if (unit < 0)
    return refuse (self, self->at, "\\u needs four hexadecimal digits");
  if (unit == 0)
    return refuse (self, begin, "a string with a NUL");
  if (unit >= 0xd800 && unit < 0xdc00)
    {
      int low = take (self, '\\') && take (self, 'u') ? take_hex (self) : -1;

      if (low < 0xdc00 || low > 0xdfff)
        return refuse (self, begin, "the first half of a surrogate pair without the second");
      unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
  else if (unit >= 0xdc00 && unit < 0xe000)
    return refuse (self, begin, "the second half of a surrogate pair without the first");
  g_string_append_unichar (self->document->texts, (gunichar) unit);
  return TRUE;
}

/* @text: (out): where it is in the texts */
static gboolean
take_string (Parser *self, gsize *text)
{
  static const char escapes[] = "\"\\/bfnrt";
  static const char meanings[] = "\"\\/\b\f\n\r\t";
  GString *texts = self->document->texts;

  if (!take (self, '"'))
    return refuse (self, self->at, "a string begins with \"");
  *text = texts->len;
  while (!take (self, '"'))
    {
      gsize begin = self->at;
      char character = peek (self);
      const char *escape;

      if (begin >= self->n_bytes)
        return refuse (self, begin, "the text ends within a string");
      if ((guchar) character < ' ')
        return refuse (self, begin, "a control character in a string");
      self->at++;
      if (character != '\\')
        {
          g_string_append_c (texts, character);
          continue;
        }
      escape = peek (self) != '\0' ? strchr (escapes, peek (self)) : NULL;
      if (escape != NULL)
        {
          g_string_append_c (texts, meanings[escape - escapes]);
          self->at++;
        }
      else if (!take (self, 'u'))
        return refuse (self, begin, "an escape that JSON does not have");
      else if (!take_unit (self, begin))
        return FALSE;
    }
  g_string_append_c (texts, '\0');
  return TRUE;
}

/* --- numbers --- */

static gboolean
take_digits (Parser *self)
{
  if (!g_ascii_isdigit (peek (self)))
    return refuse (self, self->at, "a digit is missing");
  while (g_ascii_isdigit (peek (self)))
    self->at++;
  return TRUE;
}

static gboolean
take_number (Parser *self, Entry *entry)
{
  gsize begin = self->at;
  gboolean is_whole = TRUE;
  char text[SONDE_JSON_MAX_DIGITS + 1];

  take (self, '-');
  if (!take (self, '0') && !take_digits (self))
    return FALSE;
  if (g_ascii_isdigit (peek (self)))
    return refuse (self, self->at, "a number that begins with 0");
  if (take (self, '.'))
    {
      is_whole = FALSE;
      if (!take_digits (self))
        return FALSE;
    }
  if (take (self, 'e') || take (self, 'E'))
    {
      is_whole = FALSE;
      if (!take (self, '+'))
        take (self, '-');
      if (!take_digits (self))
        return FALSE;
    }
  if (self->at - begin > SONDE_JSON_MAX_DIGITS)
    return refuse (self, begin, "a number of more than 64 characters");
  memcpy (text, self->bytes + begin, self->at - begin);
  text[self->at - begin] = '\0';
  entry->type = SONDE_JSON_NUMBER;
  entry->number = g_ascii_strtod (text, NULL);
  if (!isfinite (entry->number))
    return refuse (self, begin, "a number that is too large");
  entry->is_integer
      = is_whole
        && g_ascii_string_to_signed (text, 10, G_MININT64, G_MAXINT64, &entry->integer, NULL);
  return TRUE;
}

/* --- values --- */

static gboolean take_value (Parser *self, guint depth, gsize name);

static gboolean
has_member (const Parser *self, guint32 object, gsize name)
{
  const SondeJsonDocument *document = self->document;

  return sonde_json_document_member (document, object, document->texts->str + name)
         != SONDE_JSON_ABSENT;
}

/* What stands between the brackets of entry @outer, which is the newest. */
static gboolean
take_inside (Parser *self, guint32 outer, guint depth, char close)
{
  SondeJsonDocument *document = self->document;
  gboolean is_object = close == '}';
  guint32 last = SONDE_JSON_ABSENT;

  if (depth >= MIN (self->bounds->depth, MAX_DEPTH))
    return refuse (self, self->at - 1, "arrays and objects are too deep in each other");
  skip_space (self);
  if (take (self, close))
    return TRUE;
  do
    {
      gsize name = NO_TEXT;
      gsize begin;
      guint32 value = document->entries->len;

      skip_space (self);
      begin = self->at;
      if (is_object)
        {
          if (!take_string (self, &name))
            return FALSE;
          if (has_member (self, outer, name))
            return refuse (self, begin, "a member that the object has already");
          if (entry_of (document, outer)->n_inside >= SONDE_JSON_MAX_MEMBERS)
            return refuse (self, begin, "an object of more than 1024 members");
          skip_space (self);
          if (!take (self, ':'))
            return refuse (self, self->at, "a member's name is followed by :");
        }
      if (!take_value (self, depth + 1, name))
        return FALSE;
      if (last != SONDE_JSON_ABSENT)
        entry_of (document, last)->next = value;
      entry_of (document, outer)->n_inside++;
      last = value;
      skip_space (self);
    }
  while (take (self, ','));
  if (!take (self, close))
    return refuse (self, self->at,
                   is_object ? "an object goes on with , or ends with }"
                             : "an array goes on with , or ends with ]");
  return TRUE;
}

static gboolean
take_word (Parser *self, Entry *entry)
{
  static const struct
  {
    const char *word;
    SondeJsonType type;
  } words[]
      = { { "null", SONDE_JSON_NULL }, { "false", SONDE_JSON_FALSE }, { "true", SONDE_JSON_TRUE } };

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      gsize n = strlen (words[i].word);

      if (self->n_bytes - self->at >= n && memcmp (self->bytes + self->at, words[i].word, n) == 0)
        {
          self->at += n;
          entry->type = words[i].type;
          return TRUE;
        }
    }
  return refuse (self, self->at,
                 self->at < self->n_bytes ? "no value begins so" : "the text ends without a value");
}

/* Recursion is bounded by the depth. */
static gboolean
take_value (Parser *self, guint depth, gsize name)
{
  GArray *entries = self->document->entries;
  guint32 number = entries->len;
  Entry entry = { .next = SONDE_JSON_ABSENT, .name = name };
  char character;
  gboolean is_taken = TRUE;

  skip_space (self);
  if (number >= self->bounds->n_entries)
    return refuse (self, self->at, "too many values");
  entry.begin = self->at;
  character = peek (self);
  if (character == '{' || character == '[')
    {
      entry.type = character == '{' ? SONDE_JSON_OBJECT : SONDE_JSON_ARRAY;
      self->at++;
      g_array_append_val (entries, entry);
      if (!take_inside (self, number, depth, character == '{' ? '}' : ']'))
        return FALSE;
      entry_of (self->document, number)->end = self->at;
      return TRUE;
    }
  if (character == '"')
    {
      entry.type = SONDE_JSON_STRING;
      is_taken = take_string (self, &entry.text);
    }
  else if (character == '-' || g_ascii_isdigit (character))
    is_taken = take_number (self, &entry);
  else
    is_taken = take_word (self, &entry);
  entry.end = self->at;
  g_array_append_val (entries, entry);
  return is_taken;
}

SondeJsonDocument *
sonde_json_document_parse (const char *bytes,
                           gsize n_bytes,
                           const SondeJsonBounds *bounds,
                           GError **error)
{
  g_autoptr (SondeJsonDocument) self = g_new0 (SondeJsonDocument, 1);
  Parser parser = { self, bounds, bytes, n_bytes, 0, error };
  const char *end = bytes;

  self->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  self->texts = g_string_new (NULL);
  if (n_bytes > bounds->n_bytes)
    return refuse (&parser, bounds->n_bytes, "the text is too long"), NULL;
  if (!g_utf8_validate_len (bytes, n_bytes, &end))
    return refuse (&parser, (gsize) (end - bytes), *end == '\0' ? "a NUL" : "what is no UTF-8"),
           NULL;
  if (!take_value (&parser, 0, NO_TEXT))
    return NULL;
  skip_space (&parser);
  if (parser.at < n_bytes)
    return refuse (&parser, parser.at, "something follows the value"), NULL;
  self->source = g_strndup (bytes, n_bytes);
  return g_steal_pointer (&self);
}

void
sonde_json_document_free (SondeJsonDocument *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->entries);
  g_string_free (self->texts, TRUE);
  g_free (self->source);
  g_free (self);
}

/* --- what it says --- */

SondeJsonType
sonde_json_document_type (const SondeJsonDocument *self, guint32 value)
{
  const Entry *entry = entry_of (self, value);

  return entry != NULL ? entry->type : SONDE_JSON_NULL;
}

guint32
sonde_json_document_first (const SondeJsonDocument *self, guint32 outer)
{
  const Entry *entry = entry_of (self, outer);

  return entry != NULL && entry->n_inside > 0 ? outer + 1 : SONDE_JSON_ABSENT;
}

guint32
sonde_json_document_next (const SondeJsonDocument *self, guint32 value)
{
  const Entry *entry = entry_of (self, value);

  return entry != NULL ? entry->next : SONDE_JSON_ABSENT;
}

guint32
sonde_json_document_n_inside (const SondeJsonDocument *self, guint32 outer)
{
  const Entry *entry = entry_of (self, outer);

  return entry != NULL ? entry->n_inside : 0;
}

const char *
sonde_json_document_name (const SondeJsonDocument *self, guint32 value)
{
  const Entry *entry = entry_of (self, value);

  return entry != NULL && entry->name != NO_TEXT ? self->texts->str + entry->name : NULL;
}

guint32
sonde_json_document_member (const SondeJsonDocument *self, guint32 object, const char *name)
{
  guint32 value = sonde_json_document_type (self, object) == SONDE_JSON_OBJECT
                      ? sonde_json_document_first (self, object)
                      : SONDE_JSON_ABSENT;

  while (value != SONDE_JSON_ABSENT && !g_str_equal (sonde_json_document_name (self, value), name))
    value = sonde_json_document_next (self, value);
  return value;
}

const char *
sonde_json_document_text (const SondeJsonDocument *self, guint32 value)
{
  const Entry *entry = entry_of (self, value);

  return entry != NULL && entry->type == SONDE_JSON_STRING ? self->texts->str + entry->text : NULL;
}

gboolean
sonde_json_document_number (const SondeJsonDocument *self, guint32 value, double *number)
{
  const Entry *entry = entry_of (self, value);

  if (entry == NULL || entry->type != SONDE_JSON_NUMBER)
    return FALSE;
  *number = entry->number;
  return TRUE;
}

gboolean
sonde_json_document_integer (const SondeJsonDocument *self, guint32 value, gint64 *number)
{
  const Entry *entry = entry_of (self, value);

  if (entry == NULL || entry->type != SONDE_JSON_NUMBER || !entry->is_integer)
    return FALSE;
  *number = entry->integer;
  return TRUE;
}

char *
sonde_json_document_dup_source (const SondeJsonDocument *self, guint32 value)
{
  const Entry *entry = entry_of (self, value);

  return entry != NULL ? g_strndup (self->source + entry->begin, entry->end - entry->begin) : NULL;
}
