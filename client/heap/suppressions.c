/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/heap/suppressions.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/text.h"
#include "client/report/folding.h"

#define UNKNOWN G_MAXUINT16

/* What a rule of everybody asks of functions; LSan's syntax has no word for it. */
typedef enum
{
  ANYWHERE,             /* as a file's */
  FROM_LOADER,          /* the function itself called the allocator, and is the loader's */
  LIBRARY_OF_CXX_BEGUN, /* the loader called a function of libstdc++: one that initialises it */
} RuleKind;

typedef struct
{
  char *pattern;
  char *shown;
  RuleKind kind;
} Rule;

/* In the order in which they are tried. The emergency pool is what exceptions are made of when
 * there is no other memory: 73 kB that each process with libstdc++ allocates before main(). Its
 * constructor has no name in a stripped library. The loader keeps what it knows of libraries and
 * what threads have of them. */
static const struct
{
  RuleKind kind;
  const char *pattern;
  const char *shown;
} defaults[] = {
  { ANYWHERE, "_GLOBAL__sub_I_eh_alloc.cc", "libstdc++'s emergency pool" },
  { LIBRARY_OF_CXX_BEGUN, NULL, "libstdc++'s emergency pool" },
  { FROM_LOADER, NULL, "the dynamic loader's own" },
  { ANYWHERE, "tls_get_addr", "variables of threads" },
};

enum
{
  IS_LOADER = 1 << 0,
  IS_LIBRARY_OF_CXX = 1 << 1,
  IS_WRAPPER = 1 << 2,
};

struct SondeSuppressions
{
  GArray *rules; /* Rule: those of files, then those of everybody */
  guint n_of_files;
};

static void
rule_clear (gpointer data)
{
  Rule *rule = data;

  g_free (rule->pattern);
  g_free (rule->shown);
}

SondeSuppressions *
sonde_suppressions_new (void)
{
  SondeSuppressions *self = g_new0 (SondeSuppressions, 1);

  self->rules = g_array_new (FALSE, FALSE, sizeof (Rule));
  g_array_set_clear_func (self->rules, rule_clear);
  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    {
      const Rule rule
          = { g_strdup (defaults[i].pattern), g_strdup (defaults[i].shown), defaults[i].kind };

      g_array_append_val (self->rules, rule);
    }
  return self;
}

void
sonde_suppressions_free (SondeSuppressions *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->rules);
  g_free (self);
}

void
sonde_suppressions_clear (SondeSuppressions *self)
{
  g_array_set_size (self->rules, 0);
  self->n_of_files = 0;
}

static gboolean refuse (GError **error, const char *name, guint line, const char *format, ...)
    G_GNUC_PRINTF (4, 5);

static gboolean
refuse (GError **error, const char *name, guint line, const char *format, ...)
{
  g_autofree char *what = NULL;
  va_list arguments;

  va_start (arguments, format);
  what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s:%u: %s", name, line, what);
  return FALSE;
}

/* @line: without blanks at its ends, and neither empty nor a comment */
static gboolean
add_line (SondeSuppressions *self, const char *name, guint number, const char *line, GError **error)
{
  g_autofree char *shown = sonde_text_escape (line, -1);
  const char *pattern = line + strlen ("leak:");
  Rule rule;

  if (!g_str_has_prefix (line, "leak:"))
    return refuse (error, name, number, "a line is leak:PATTERN or a comment, not \"%s\"", shown);
  if (pattern[strspn (pattern, "^$*")] == '\0')
    return refuse (error, name, number, "%s would suppress everything", shown);
  if (strlen (pattern) > SONDE_SUPPRESSIONS_MAX_CHARS)
    return refuse (error, name, number, "a pattern has at most %u characters",
                   SONDE_SUPPRESSIONS_MAX_CHARS);
  if (self->n_of_files == SONDE_SUPPRESSIONS_MAX_RULES)
    return refuse (error, name, number, "there are at most %u patterns",
                   SONDE_SUPPRESSIONS_MAX_RULES);
  rule = (Rule){ g_strdup (pattern), g_steal_pointer (&shown), ANYWHERE };
  g_array_insert_val (self->rules, self->n_of_files, rule);
  self->n_of_files++;
  return TRUE;
}

gboolean
sonde_suppressions_add_text (
    SondeSuppressions *self, const char *name, const char *text, gsize size_bytes, GError **error)
{
  const char *end = text + size_bytes;
  guint number = 0;

  while (text < end)
    {
      const char *next = memchr (text, '\n', (gsize) (end - text));
      gsize len = (gsize) ((next != NULL ? next : end) - text);
      g_autofree char *line = g_strndup (text, len);

      number++;
      if (memchr (text, '\0', len) != NULL)
        return refuse (error, name, number, "it is no text");
      g_strstrip (line);
      if (line[0] != '\0' && line[0] != '#' && !add_line (self, name, number, line, error))
        return FALSE;
      text += len + 1;
    }
  return TRUE;
}

static gboolean
refuse_file (GError **error, const char *name, int errsv)
{
  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errsv), "Cannot read %s: %s", name,
               g_strerror (errsv));
  return FALSE;
}

gboolean
sonde_suppressions_add_file (SondeSuppressions *self, const char *path, GError **error)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  g_autofree char *name = sonde_text_escape (path, -1);
  g_autofree char *text = g_malloc (SONDE_SUPPRESSIONS_MAX_BYTES + 1);
  gsize size_bytes = 0;
  gssize n = -1;

  if (fd < 0)
    return refuse_file (error, name, errno);
  while (size_bytes <= SONDE_SUPPRESSIONS_MAX_BYTES
         && (n = read (fd, text + size_bytes, SONDE_SUPPRESSIONS_MAX_BYTES + 1 - size_bytes)) > 0)
    size_bytes += (gsize) n;
  if (n < 0)
    return refuse_file (error, name, errno);
  if (size_bytes > SONDE_SUPPRESSIONS_MAX_BYTES)
    return refuse_file (error, name, EFBIG);
  return sonde_suppressions_add_text (self, name, text, size_bytes, error);
}

guint
sonde_suppressions_n_rules (const SondeSuppressions *self)
{
  return self->rules->len;
}

const char *
sonde_suppressions_rule (const SondeSuppressions *self, guint rule)
{
  return g_array_index (self->rules, Rule, rule).shown;
}

/* Each part between asterisks is taken where it comes first: if any choice fits, that one does. */
gboolean
sonde_suppressions_is_found (const char *pattern, const char *text)
{
  gboolean is_bound = *pattern == '^'; /* the part has to begin here */

  pattern += is_bound;
  while (*pattern != '\0')
    {
      gsize n = strcspn (pattern, "*$");
      gboolean is_last = pattern[n] == '$';
      g_autofree char *part = g_strndup (pattern, n);
      const char *found = strstr (text, part);

      if (is_last && !is_bound && strlen (text) >= n)
        found = text + strlen (text) - n;
      if (found == NULL || strncmp (found, part, n) != 0 || (is_bound && found != text)
          || (is_last && found[n] != '\0'))
        return FALSE;
      if (is_last)
        return TRUE;
      text = found + n;
      pattern += n;
      if (*pattern == '*')
        pattern++;
      is_bound = FALSE;
    }
  return TRUE;
}

void
sonde_suppressor_init (SondeSuppressor *self,
                       const SondeSuppressions *suppressions,
                       guint32 n_functions)
{
  self->suppressions = suppressions;
  self->known = g_new (guint16, n_functions);
  self->places = g_new0 (guint8, n_functions);
  for (guint32 i = 0; i < n_functions; i++)
    self->known[i] = UNKNOWN;
}

void
sonde_suppressor_clear (SondeSuppressor *self)
{
  g_clear_pointer (&self->known, g_free);
  g_clear_pointer (&self->places, g_free);
}

static void
look_up (SondeSuppressor *self, const SondeFunction *function, guint32 number)
{
  const GArray *rules = self->suppressions->rules;

  self->known[number] = 0;
  for (guint i = 0; i < rules->len && self->known[number] == 0; i++)
    {
      const Rule *rule = &g_array_index (rules, Rule, i);

      if (rule->kind == ANYWHERE
          && (sonde_suppressions_is_found (rule->pattern, function->name)
              || sonde_suppressions_is_found (rule->pattern, function->module)
              || sonde_suppressions_is_found (rule->pattern, function->source)))
        self->known[number] = (guint16) (i + 1);
    }
  self->places[number]
      = (guint8) ((g_str_has_prefix (function->module, "ld-linux") ? IS_LOADER : 0)
                  | (g_str_has_prefix (function->module, "libstdc++.so") ? IS_LIBRARY_OF_CXX : 0)
                  | (sonde_fold_kind (function) == SONDE_FOLD_WRAPPER ? IS_WRAPPER : 0));
}

/* Whether the stack is what a rule of everybody means that says nothing of names. */
static gboolean
is_meant (const SondeSuppressor *self, RuleKind kind, const guint32 *path, guint n_path)
{
  guint n = n_path;

  switch (kind)
    {
    case FROM_LOADER:
      while (n > 0 && self->places[path[n - 1]] == IS_WRAPPER)
        n--;
      return n > 0 && (self->places[path[n - 1]] & IS_LOADER) != 0;
    case LIBRARY_OF_CXX_BEGUN:
      for (guint i = 1; i < n_path; i++)
        if ((self->places[path[i]] & IS_LIBRARY_OF_CXX) != 0
            && (self->places[path[i - 1]] & IS_LOADER) != 0)
          return TRUE;
      return FALSE;
    case ANYWHERE:
    default:
      return FALSE;
    }
}

/* Two rules of everybody may mean the same: it is told once, by the first one's number. */
static guint
number_of (const SondeSuppressions *suppressions, guint rule)
{
  const Rule *rules = (const Rule *) (const void *) suppressions->rules->data;

  for (guint i = suppressions->n_of_files; i < rule; i++)
    if (g_str_equal (rules[i].shown, rules[rule].shown))
      return i + 1;
  return rule + 1;
}

guint
sonde_suppressor_find (SondeSuppressor *self,
                       const SondeSymbolResolver *resolver,
                       const guint32 *path,
                       guint n_path)
{
  const GArray *rules = self->suppressions->rules;
  guint first = rules->len + 1;

  for (guint i = 0; i < n_path; i++)
    {
      if (self->known[path[i]] == UNKNOWN)
        look_up (self, sonde_symbol_resolver_function (resolver, path[i]), path[i]);
      if (self->known[path[i]] > 0)
        first = MIN (first, self->known[path[i]]);
    }
  for (guint i = self->suppressions->n_of_files; i + 1 < first && i < rules->len; i++)
    if (is_meant (self, g_array_index (rules, Rule, i).kind, path, n_path))
      return number_of (self->suppressions, i);
  return first <= rules->len ? number_of (self->suppressions, first - 1) : 0;
}
