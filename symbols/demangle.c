/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/rust-name.h"

enum
{
  MAX_NAME_BYTES = 4096,
  MAX_RUST_BYTES = 16384,
  MAX_SUBSTITUTIONS = 64, /* told apart; the ones above count as one */
};

#define MAX_RESULT_BYTES (4.0 * (1 << 20))

/* A function of the C++ runtime, whose header is C++. Source: Itanium C++ ABI, section 3.4. */
extern char *__cxa_demangle (const char *name, char *buffer, size_t *size, int *status);

typedef struct
{
  unsigned n_uses[MAX_SUBSTITUTIONS]; /* of "S_", "S0_", ... */
  unsigned n_parameters;              /* uses of "T_", "T0_", ... */
} References;

/* "S<seq-id>_" or "T<number>_", wherever it might be one. */
static void
count_reference (const char *at, References *references)
{
  size_t n_digits = strspn (at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  unsigned index = 0;

  if (at[1 + n_digits] != '_')
    return;
  if (*at == 'T')
    {
      references->n_parameters++;
      return;
    }
  for (size_t i = 1; i <= n_digits && index < MAX_SUBSTITUTIONS; i++)
    index = index * 36 + (unsigned) (at[i] <= '9' ? at[i] - '0' : at[i] - 'A' + 10);
  if (n_digits > 0)
    index++;
  references->n_uses[index < MAX_SUBSTITUTIONS ? index : MAX_SUBSTITUTIONS - 1]++;
}

/* A few hundred bytes can stand for terabytes, each substitution being twice the one before. One
 * may hold those with lower numbers only, at most all their uses; that bounds the result well
 * enough: of 70,000 names in LLVM and clang it refuses a few hundred. */
static bool
may_explode (const char *name, size_t length)
{
  References references = { 0 };
  double size = (double) length;

  for (const char *at = name; *at != '\0'; at++)
    if (*at == 'S' || *at == 'T')
      count_reference (at, &references);
  for (unsigned i = 0; i < MAX_SUBSTITUTIONS; i++)
    size += references.n_uses[i] * size;
  if (references.n_parameters > 0) /* each of them may be as long as a template's arguments */
    size *= size / (double) length;
  return size > MAX_RESULT_BYTES;
}

typedef struct
{
  char *text;
  size_t size;
  jmp_buf too_long;
} RustName;

static void
append_rust (const char *piece, size_t n_bytes, void *user_data)
{
  RustName *self = user_data;

  if (n_bytes > MAX_RUST_BYTES - self->size)
    longjmp (self->too_long, 1);
  if (n_bytes == 0) /* an empty identifier is no piece at all */
    return;
  memcpy (self->text + self->size, piece, n_bytes);
  self->size += n_bytes;
}

/* Whether a v0 name has an identifier in Punycode ("u3abc"). Numbers in base 62 end with "_", and
 * other identifiers may hold anything: both are passed over. Source: Rust RFC 2603. */
static bool
has_punycode (const char *name)
{
  const char *end = name + strlen (name);

  for (const char *at = name + 2; at < end; at++)
    {
      if (*at == 'u' && isdigit ((unsigned char) at[1]))
        return true;
      if (isdigit ((unsigned char) *at))
        {
          char *text;
          unsigned long size = strtoul (at, &text, 10);

          if (*text == '_')
            text++;
          if (size > (size_t) (end - text))
            return false; /* no name at all */
          at = text + size - 1;
        }
      else if (strchr ("sBLGK", *at) != NULL)
        {
          at = strchr (at, '_');
          if (at == NULL)
            return false;
        }
    }
  return false;
}

/* References to what was said before ("B...") make v0 names explode, too, and libiberty stops for
 * nobody: it is left as soon as the result is too long. */
static char *
demangle_rust (const char *name)
{
  RustName result = { .text = malloc (MAX_RUST_BYTES + 1) };
  char *volatile text = result.text;
  /* libiberty holds memory only while it prints such an identifier; then it cannot be left. */
  bool cannot_be_left = name[1] == 'R' && strchr (name, 'B') != NULL && has_punycode (name);

  if (text == NULL)
    return NULL;
  if (!cannot_be_left && setjmp (result.too_long) == 0
      && rust_demangle_callback (name, DMGL_PARAMS, append_rust, &result) != 0)
    {
      text[result.size] = '\0';
      return text;
    }
  free (text);
  return NULL;
}

char *
sonde_demangle (const char *name)
{
  size_t length = strnlen (name, MAX_NAME_BYTES + 1);
  bool is_rust = name[0] == '_' && name[1] == 'R' && length <= MAX_NAME_BYTES
                 && sonde_rust_name_is_bounded (name);
  bool is_cpp = name[0] == '_' && name[1] == 'Z' && length <= MAX_NAME_BYTES;
  char *result = NULL;
  int status;

  /* Rust's older names are C++ names with a hash at their end. */
  if (is_rust || is_cpp)
    result = demangle_rust (name);
  if (result != NULL)
    return result;
  /* Without the prefix it would take "i" for the type int. */
  if (is_cpp && !may_explode (name, length))
    result = __cxa_demangle (name, NULL, NULL, &status);
  return result != NULL ? result : strdup (name);
}
