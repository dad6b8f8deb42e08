/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum
{
  MAX_NAME_BYTES = 4096,
  MAX_RUST_BYTES = 16384,
  MAX_SUBSTITUTIONS = 64, /* told apart; the ones above count as one */
  MAX_TAKEN = 65536, /* bytes of a Rust name, again at each reference; usual are some for each that
                        is printed */
  MAX_DEPTH = 256,
  MAX_LIFETIMES = 256, /* of a binder */
};

#define MAX_RESULT_BYTES (4.0 * (1 << 20))

/* A function of the C++ runtime, whose header is C++. Source: Itanium C++ ABI, section 3.4. */
extern char *__cxa_demangle (const char *name, char *buffer, size_t *size, int *status);

typedef struct
{
  unsigned n_uses[MAX_SUBSTITUTIONS]; /* of "S_", "S0_", ... */
  unsigned n_parameters;              /* uses of "T_", "T0_", ... */
} References;

/* A few hundred bytes can stand for terabytes, each substitution being twice the one before. One
 * may hold those with lower numbers only, at most all their uses; that bounds the result well
 * enough: of 70,000 names in LLVM and clang it refuses a few hundred. */
static bool
may_explode (const char *name, size_t length)
{
  References references = { 0 };
  double size = (double) length;

  /* "S<seq-id>_" or "T<number>_", wherever it might be one */
  for (const char *at = strpbrk (name, "ST"); at != NULL; at = strpbrk (at + 1, "ST"))
    {
      size_t n_digits = strspn (at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
      unsigned index = 0;

      if (at[1 + n_digits] != '_')
        continue;
      if (*at == 'T')
        {
          references.n_parameters++;
          continue;
        }
      for (size_t i = 1; i <= n_digits && index < MAX_SUBSTITUTIONS; i++)
        index = index * 36 + (unsigned) (at[i] <= '9' ? at[i] - '0' : at[i] - 'A' + 10);
      if (n_digits > 0)
        index++;
      references.n_uses[index < MAX_SUBSTITUTIONS ? index : MAX_SUBSTITUTIONS - 1]++;
    }
  for (unsigned i = 0; i < MAX_SUBSTITUTIONS; i++)
    size += references.n_uses[i] * size;
  if (references.n_parameters > 0) /* each of them may be as long as a template's arguments */
    size *= size / (double) length;
  return size > MAX_RESULT_BYTES;
}

typedef struct
{
  const char *text; /* behind "_R": what references count from */
  size_t size;
  size_t at;
  unsigned n_taken;
  unsigned depth;
} RustReader;

static bool read_path (RustReader *self);
static bool read_type (RustReader *self);

/* '\0' at the end. */
static char
peek (const RustReader *self)
{
  return self->at < self->size ? self->text[self->at] : '\0';
}

static char
next (RustReader *self)
{
  self->n_taken++;
  return self->at < self->size ? self->text[self->at++] : '\0';
}

static bool
eat (RustReader *self, char what)
{
  if (peek (self) != what)
    return false;
  next (self);
  return true;
}

/* Base 62: "_" is 0, "0_" is 1. What does not fit stays large. */
static bool
read_number (RustReader *self, uint64_t *number)
{
  uint64_t value = 0;

  if (eat (self, '_'))
    {
      *number = 0;
      return true;
    }
  while (!eat (self, '_'))
    {
      char c = next (self);
      unsigned digit;

      if (c >= '0' && c <= '9')
        digit = (unsigned) (c - '0');
      else if (c >= 'a' && c <= 'z')
        digit = 10 + (unsigned) (c - 'a');
      else if (c >= 'A' && c <= 'Z')
        digit = 36 + (unsigned) (c - 'A');
      else
        return false;
      if (value <= UINT32_MAX)
        value = value * 62 + digit;
    }
  *number = value + 1;
  return true;
}

static bool
skip_number (RustReader *self)
{
  uint64_t number;

  return read_number (self, &number);
}

static bool
read_identifier (RustReader *self)
{
  size_t size = 0;

  eat (self, 'u');
  if (peek (self) < '0' || peek (self) > '9')
    return false;
  if (!eat (self, '0'))
    while (peek (self) >= '0' && peek (self) <= '9' && size <= self->size)
      size = size * 10 + (size_t) (next (self) - '0');
  eat (self, '_');
  if (size > self->size - self->at)
    return false;
  self->at += size;
  return true;
}

static bool
read_disambiguated (RustReader *self)
{
  return (!eat (self, 's') || skip_number (self)) && read_identifier (self);
}

static bool
read_binder (RustReader *self)
{
  uint64_t number;

  return !eat (self, 'G') || (read_number (self, &number) && number < MAX_LIFETIMES);
}

/* Behind its "B". */
static bool
read_reference (RustReader *self, bool (*read) (RustReader *self))
{
  size_t start = self->at - 1;
  uint64_t target;
  size_t back;
  bool is_good;

  if (!read_number (self, &target) || target >= start)
    return false;
  back = self->at;
  self->at = (size_t) target;
  is_good = read (self);
  self->at = back;
  return is_good;
}

static bool
read_const (RustReader *self)
{
  char type = next (self);

  if (self->n_taken > MAX_TAKEN)
    return false;
  if (type == 'B')
    return read_reference (self, read_const);
  if (type == 'p')
    return true;
  if (type == '\0' || strchr ("htmyojaslxnibc", type) == NULL)
    return false;
  eat (self, 'n');
  while (strchr ("0123456789abcdef", peek (self)) != NULL && peek (self) != '\0')
    next (self);
  return eat (self, '_');
}

static bool
read_argument (RustReader *self)
{
  if (eat (self, 'L'))
    return skip_number (self);
  return eat (self, 'K') ? read_const (self) : read_type (self);
}

static bool
read_until_end (RustReader *self, bool (*read) (RustReader *self))
{
  while (!eat (self, 'E'))
    if (!read (self))
      return false;
  return true;
}

static bool
read_path_inside (RustReader *self)
{
  char tag = next (self);

  switch (tag)
    {
    case 'C':
      return read_disambiguated (self);
    case 'N':
      return next (self) != '\0' && read_path (self) && read_disambiguated (self);
    case 'M':
    case 'X':
      return (!eat (self, 's') || skip_number (self)) && read_path (self) && read_type (self)
             && (tag == 'M' || read_path (self));
    case 'Y':
      return read_type (self) && read_path (self);
    case 'I':
      return read_path (self) && read_until_end (self, read_argument);
    case 'B':
      return read_reference (self, read_path);
    default:
      return false;
    }
}

static bool
read_trait (RustReader *self)
{
  if (!read_path (self))
    return false;
  while (eat (self, 'p'))
    if (!read_identifier (self) || !read_type (self))
      return false;
  return true;
}

static bool
read_type_inside (RustReader *self)
{
  char tag = next (self);

  if (tag == '\0')
    return false;
  if (strchr ("abcdefhijlmnopstuvxyz", tag) != NULL)
    return true;
  switch (tag)
    {
    case 'R':
    case 'Q':
      return (!eat (self, 'L') || skip_number (self)) && read_type (self);
    case 'P':
    case 'O':
    case 'S':
      return read_type (self);
    case 'A':
      return read_type (self) && read_const (self);
    case 'T':
      return read_until_end (self, read_type);
    case 'F':
      if (!read_binder (self))
        return false;
      eat (self, 'U');
      if (eat (self, 'K') && !eat (self, 'C') && !read_identifier (self))
        return false;
      return read_until_end (self, read_type) && read_type (self);
    case 'D':
      return read_binder (self) && read_until_end (self, read_trait) && eat (self, 'L')
             && skip_number (self);
    case 'B':
      return read_reference (self, read_type);
    default:
      self->at--;
      return read_path (self);
    }
}

static bool
read_deeper (RustReader *self, bool (*read) (RustReader *self))
{
  bool is_good;

  if (self->n_taken > MAX_TAKEN || self->depth >= MAX_DEPTH)
    return false;
  self->depth++;
  is_good = read (self);
  self->depth--;
  return is_good;
}

static bool
read_path (RustReader *self)
{
  return read_deeper (self, read_path_inside);
}

static bool
read_type (RustReader *self)
{
  return read_deeper (self, read_type_inside);
}

/* libiberty counts the lifetimes of a binder ("G...") one by one, up to 2^64 of them, without a
 * word where it prints nothing: it cannot be stopped then. So a name that begins with "_R" is read
 * first, with all that it refers back to, in a bounded number of steps. False also for what is no
 * name. Source: Rust RFC 2603. */
static bool
rust_name_is_bounded (const char *name)
{
  /* A suffix of LLVM's begins with a dot. */
  RustReader self = { .text = name + 2, .size = strcspn (name + 2, ".") };

  /* Behind it may stand the crate that has made an instance of it. */
  return read_path (&self) && (self.at == self.size || read_path (&self)) && self.at == self.size;
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
  bool is_rust
      = name[0] == '_' && name[1] == 'R' && length <= MAX_NAME_BYTES && rust_name_is_bounded (name);
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
