/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/rust-name.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum
{
  MAX_TAKEN = 65536, /* bytes, again at each reference; usual are some for each that is printed */
  MAX_DEPTH = 256,
  MAX_LIFETIMES = 256, /* of a binder */
};

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

bool
sonde_rust_name_is_bounded (const char *name)
{
  /* A suffix of LLVM's begins with a dot. */
  RustReader self = { .text = name + 2, .size = strcspn (name + 2, ".") };

  /* Behind it may stand the crate that has made an instance of it. */
  return read_path (&self) && (self.at == self.size || read_path (&self)) && self.at == self.size;
}
