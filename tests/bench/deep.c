/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program without frame pointers, about 30 calls deep: it reads and computes nested expressions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__ ((noinline))

enum
{
  N_TERMS = 3,
  DEPTH = 7, /* of parentheses; each costs four calls */
};

typedef struct
{
  const char *at;
  unsigned long n_nodes;
} Parser;

static NOINLINE long parse_sum (Parser *self);

static NOINLINE long
parse_number (Parser *self)
{
  long value = 0;

  self->n_nodes++;
  for (; *self->at >= '0' && *self->at <= '9'; self->at++)
    value = value * 10 + (*self->at - '0');
  return value;
}

static NOINLINE long
parse_factor (Parser *self)
{
  long value;

  if (*self->at == '-')
    {
      self->at++;
      return -parse_factor (self);
    }
  if (*self->at != '(')
    return parse_number (self);
  self->at++;
  value = parse_sum (self);
  self->at++;
  return value;
}

/* Its frame has no fixed size, so it is found through the frame pointer. */
static NOINLINE long
parse_power (Parser *self)
{
  size_t size = 8 + (self->n_nodes & 31);
  char *room = __builtin_alloca (size); /* a frame of a size that only a frame pointer knows */
  long value;

  memset (room, (int) size, size);
  value = parse_factor (self);
  return value + room[size / 2] - (long) size;
}

static NOINLINE long
parse_product (Parser *self)
{
  long value = parse_power (self);

  while (*self->at == '*')
    {
      self->at++;
      value = value * parse_power (self) % 1000003;
    }
  return value;
}

static NOINLINE long
parse_sum (Parser *self)
{
  long value = parse_product (self);

  while (*self->at == '+')
    {
      self->at++;
      value += parse_product (self);
    }
  return value;
}

static NOINLINE char *
write_expression (char *at, unsigned depth, unsigned *seed)
{
  for (unsigned i = 0; i < N_TERMS; i++)
    {
      *seed = *seed * 1103515245 + 12345;
      if (i > 0)
        *at++ = (*seed >> 20) % 2 == 0 ? '+' : '*';
      if (depth > 0)
        {
          *at++ = '(';
          at = write_expression (at, depth - 1, seed);
          *at++ = ')';
        }
      else
        at += sprintf (at, "%u", (*seed >> 8) % 1000);
    }
  *at = '\0';
  return at;
}

int
main (int argc, char **argv)
{
  static char text[1 << 17];
  unsigned n_rounds = argc > 1 ? (unsigned) atoi (argv[1]) : 1000;
  unsigned seed = 1;
  long sum = 0;

  write_expression (text, DEPTH, &seed);
  for (unsigned i = 0; i < n_rounds; i++)
    {
      Parser parser = { text, 0 };

      sum += parse_sum (&parser);
    }
  printf ("%ld\n", sum);
  return 0;
}
