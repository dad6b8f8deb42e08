/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/short-name.h"

#include <string.h>

#include "client/base/text.h"

#define RUST_HASH_DIGITS 16
#define MAX_OPEN         256 /* brackets within one another; a name with more stays as it is */

static gboolean
is_word (char c)
{
  return g_ascii_isalnum (c) || c == '_' || c == '$';
}

/* Whether @at, within @name, begins with "operator" as a word, and what its sign is long. */
static gsize
count_operator (const char *name, const char *at)
{
  static const char *const signs[]
      = { "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">", NULL };
  const char *sign = at + strlen ("operator");

  if (!g_str_has_prefix (at, "operator") || (at > name && is_word (at[-1])) || is_word (*sign))
    return 0;
  for (guint i = 0; signs[i] != NULL; i++)
    if (g_str_has_prefix (sign, signs[i]))
      return strlen ("operator") + strlen (signs[i]);
  return strlen ("operator");
}

/* The end of the bracket that @at begins with, behind it; NULL if it is not closed. "->" closes
 * nothing, nor does what an operator is called. */
static const char *
skip_bracket (const char *at)
{
  char closing[MAX_OPEN];
  guint n = 0;
  const char *begin = at;

  for (; *at != '\0'; at++)
    {
      gsize n_operator = count_operator (begin, at);

      if (n_operator > 0)
        at += n_operator - 1;
      else if (strchr ("(<[{", *at) != NULL)
        {
          if (n == MAX_OPEN)
            return NULL;
          closing[n++] = *at == '(' ? ')' : *at == '<' ? '>' : *at == '[' ? ']' : '}';
        }
      else if (strchr (")>]}", *at) != NULL && !(*at == '>' && at > begin && at[-1] == '-'))
        {
          if (n == 0 || closing[n - 1] != *at)
            return NULL;
          if (--n == 0)
            return at + 1;
        }
    }
  return NULL;
}

/* "::h0123456789abcdef" at the end, of Rust's older names. */
static gsize
count_without_hash (const char *name)
{
  gsize len = strlen (name);
  const char *hash = name + len - MIN (len, RUST_HASH_DIGITS + strlen ("::h"));

  if (g_str_has_prefix (hash, "::h")
      && strspn (hash + strlen ("::h"), "0123456789abcdef") == RUST_HASH_DIGITS)
    return (gsize) (hash - name);
  return len;
}

/* Whether the bracket @at stands for a name, or part of one, and no list of arguments. */
static gboolean
is_kept (const char *begin, const char *at, const char *end)
{
  static const char *const kept[]
      = { "(anonymous namespace)", "(anonymous class)", "{lambda", "{closure", "{{", "(*", NULL };
  gsize n = (gsize) (end - at);

  for (guint i = 0; kept[i] != NULL; i++)
    if (g_str_has_prefix (at, kept[i]))
      return TRUE;
  /* "f.<locals>.g (json.py)": no compiler puts a blank there */
  return at > begin && ((*at == '(' && n > 2 && at[-1] == ' ') || (*at == '<' && at[-1] == '.'));
}

/* What is outside of the arguments' brackets, without the type that a function template returns. */
static const char *
skip_return_type (const char *name, const char *end)
{
  const char *begin = name;

  /* only names with arguments have one; casts and files of scripts have blanks of their own */
  for (const char *at = name; at < end; at++)
    {
      const char *behind;

      if (count_operator (name, at) > 0)
        return begin;
      if (strchr ("(<[{", *at) != NULL)
        {
          behind = skip_bracket (at);
          if (behind == NULL || behind > end)
            return begin;
          if (*at == '(' && at > name && at[-1] != ' ' && !g_str_has_prefix (at, "(anonymous")
              && (at < name + 2 || at[-1] != ':'))
            return begin;
          at = behind - 1;
        }
      else if (*at == ' ' && at + 1 < end && at[1] != '(' && at[1] != '[' && at[1] != '<')
        begin = at + 1;
    }
  return name;
}

static void
append_short (GString *out, const char *begin, const char *end, SondeShortLevel level, guint depth)
{
  const char *at = begin;

  while (at < end)
    {
      gsize n_operator = count_operator (begin, at);
      const char *behind;

      if (n_operator > 0)
        {
          g_string_append_len (out, at, (gssize) n_operator);
          at += n_operator;
          continue;
        }
      if (strchr ("(<[{", *at) == NULL || (behind = skip_bracket (at)) == NULL || behind > end)
        {
          g_string_append_c (out, *at++);
          continue;
        }
      /* "<T as Trait>::method" of Rust is a path, and begins its name */
      if (at == begin && *at == '<' && depth == 0)
        {
          g_string_append_c (out, '<');
          append_short (out, at + 1, behind - 1, level, depth);
          g_string_append_c (out, '>');
        }
      else if (*at == '{' && g_str_has_prefix (at, "{lambda("))
        {
          const char *hash = memchr (at, '#', (gsize) (behind - at));

          g_string_append (out, "{lambda");
          g_string_append_len (out, hash != NULL ? hash : behind - 1,
                               behind - (hash != NULL ? hash : behind - 1));
        }
      else if (*at == '[' && !g_str_has_prefix (at, "[]") && at > begin)
        { /* ABI tag, or "[clone .part.0]" */
          if (out->len > 0 && out->str[out->len - 1] == ' ')
            g_string_truncate (out, out->len - 1);
        }
      else if (is_kept (begin, at, behind))
        g_string_append_len (out, at, behind - at);
      else if (depth == 0
               && (level == SONDE_SHORT_ARGUMENTS
                   || (level == SONDE_SHORT_TEMPLATES && *at == '<')))
        {
          g_string_append_c (out, *at);
          append_short (out, at + 1, behind - 1, level, depth + 1);
          g_string_append_c (out, behind[-1]);
        }
      else if (*at == '<')
        g_string_append (out, "<…>");
      else if (*at != '(')
        g_string_append_len (out, at, behind - at);
      at = behind;
    }
}

char *
sonde_short_name_new (const char *name, SondeShortLevel level)
{
  gsize len = count_without_hash (name);
  const char *end = name + len;
  GString *out;

  /* what stands in brackets as a whole, and what is made of an address, is no function's name */
  if (level == SONDE_SHORT_FULL || name[0] == '[' || strpbrk (name, "(<[{:") == NULL)
    return g_strdup (name);
  out = g_string_sized_new (len);
  append_short (out, skip_return_type (name, end), end, level, 0);
  /* what stands behind the arguments */
  for (gboolean is_cut = TRUE; is_cut;)
    {
      static const char *const ends[] = { " const", " volatile", " &", " &&", " ", NULL };

      is_cut = FALSE;
      for (guint i = 0; ends[i] != NULL; i++)
        if (g_str_has_suffix (out->str, ends[i]) && out->len > strlen (ends[i]))
          {
            g_string_truncate (out, out->len - strlen (ends[i]));
            is_cut = TRUE;
          }
    }
  if (out->len == 0)
    g_string_append (out, name);
  return g_string_free (out, FALSE);
}

/* --- names that are shown together --- */

struct SondeShortNames
{
  gboolean is_full;
  GHashTable *shown; /* name → what it is shown as; NULL value: not decided yet */
  gboolean is_decided;
};

SondeShortNames *
sonde_short_names_new (gboolean is_full)
{
  SondeShortNames *self = g_new0 (SondeShortNames, 1);

  self->is_full = is_full;
  self->shown = g_hash_table_new_full (sonde_text_hash, g_str_equal, NULL, g_free);
  return self;
}

void
sonde_short_names_free (SondeShortNames *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->shown);
  g_free (self);
}

void
sonde_short_names_add (SondeShortNames *self, const char *name)
{
  g_assert (!self->is_decided);
  if (!self->is_full && !g_hash_table_contains (self->shown, name))
    g_hash_table_insert (self->shown, (gpointer) name, NULL);
}

/* Level by level: those that are still the same as another go on to the next one. */
static void
decide (SondeShortNames *self)
{
  g_autoptr (GHashTable) taken = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GPtrArray) open = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer name;

  self->is_decided = TRUE;
  g_hash_table_iter_init (&iter, self->shown);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (open, name);
  for (SondeShortLevel level = 0; level <= SONDE_SHORT_FULL && open->len > 0; level++)
    {
      g_autoptr (GHashTable) counts
          = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
      g_autoptr (GPtrArray) left = g_ptr_array_new ();

      for (guint i = 0; i < open->len; i++)
        {
          char *text = sonde_short_name_new (g_ptr_array_index (open, i), level);
          guint n = GPOINTER_TO_UINT (g_hash_table_lookup (counts, text));

          g_hash_table_replace (counts, text, GUINT_TO_POINTER (n + 1));
        }
      for (guint i = 0; i < open->len; i++)
        {
          gpointer full = g_ptr_array_index (open, i);
          g_autofree char *text = sonde_short_name_new (full, level);

          if (level < SONDE_SHORT_FULL
              && (GPOINTER_TO_UINT (g_hash_table_lookup (counts, text)) > 1
                  || g_hash_table_contains (taken, text)))
            {
              g_ptr_array_add (left, full);
              continue;
            }
          g_hash_table_add (taken, text);
          g_hash_table_insert (self->shown, full, g_steal_pointer (&text));
        }
      g_clear_pointer (&open, g_ptr_array_unref);
      open = g_steal_pointer (&left);
    }
}

const char *
sonde_short_names_get (SondeShortNames *self, const char *name)
{
  const char *shown;

  if (!self->is_decided)
    decide (self);
  shown = g_hash_table_lookup (self->shown, name);
  return shown != NULL ? shown : name;
}

/* --- columns --- */

static guint
width_of (gunichar c)
{
  return g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;
}

char *
sonde_short_name_fit (const char *name, guint width, gboolean utf8)
{
  const char *dots = utf8 ? "…" : "..";
  guint n_dots = utf8 ? 1 : 2;
  guint whole = 0;
  guint front = 0;
  guint back = 0;
  const char *begin = name;
  const char *end = name + strlen (name);
  guint room;

  for (const char *at = name; *at != '\0'; at = g_utf8_next_char (at))
    whole += width_of (g_utf8_get_char (at));
  if (whole <= width)
    return g_strdup (name);
  /* the end of a name tells more of it than its beginning */
  room = width - MIN (n_dots, width);
  while (*begin != '\0' && front + width_of (g_utf8_get_char (begin)) <= room / 2)
    {
      front += width_of (g_utf8_get_char (begin));
      begin = g_utf8_next_char (begin);
    }
  while (end > begin)
    {
      const char *before = g_utf8_prev_char (end);

      if (back + width_of (g_utf8_get_char (before)) > room - front)
        break;
      back += width_of (g_utf8_get_char (before));
      end = before;
    }
  return g_strdup_printf ("%.*s%s%s", (int) (begin - name), name, width >= n_dots ? dots : "", end);
}
