/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A fuzzer's bytes as a script: numbers and pieces are taken off its front, zeros behind its end.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct
{
  const uint8_t *at;
  size_t left; /* bytes */
} Input;

/* Fills @buffer. Returns how many of its bytes were there; the others are 0. */
static inline size_t
input_take (Input *self, void *buffer, size_t size_bytes)
{
  size_t n = size_bytes < self->left ? size_bytes : self->left;

  memset (buffer, 0, size_bytes);
  if (n > 0)
    {
      memcpy (buffer, self->at, n);
      self->at += n;
      self->left -= n;
    }

  return n;
}

static inline uint8_t
input_take_byte (Input *self)
{
  uint8_t value;

  input_take (self, &value, sizeof value);
  return value;
}

static inline uint16_t
input_take_u16 (Input *self)
{
  uint16_t value;

  input_take (self, &value, sizeof value);
  return value;
}

static inline uint64_t
input_take_u64 (Input *self)
{
  uint64_t value;

  input_take (self, &value, sizeof value);
  return value;
}

/* All that is left as a text of its own, so that a sanitizer sees the first byte too many. free()
 * it. */
static inline char *
input_dup_text (const Input *self)
{
  char *text = malloc (self->left + 1);

  if (text == NULL)
    abort ();
  if (self->left > 0)
    memcpy (text, self->at, self->left);
  text[self->left] = '\0';

  return text;
}
