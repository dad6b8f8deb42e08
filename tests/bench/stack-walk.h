/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks of a made-up program, the same for every reader. */
#pragma once

#include <stdint.h>

enum
{
  WALK_DEPTH = 30,
  WALK_N_MODULES = 64,
  WALK_FUNCTIONS_PER_MODULE = 64,
  WALK_FUNCTION_SIZE = 1024, /* bytes */
  WALK_CHOICES = 4,          /* callees of a function */
  WALK_LEAF_PLACES = 32,     /* instructions that are hit in it */
  WALK_USUAL_PERCENT = 94,   /* of the calls go to the first of them */
};

#define WALK_N_FUNCTIONS (WALK_N_MODULES * WALK_FUNCTIONS_PER_MODULE)
#define WALK_MODULE_SIZE ((uint64_t) WALK_FUNCTIONS_PER_MODULE * WALK_FUNCTION_SIZE)

typedef struct
{
  uint64_t state; /* not 0 */
} StackWalk;

/* Marsaglia's xorshift64 */
static inline uint32_t
stack_walk_random (StackWalk *self, uint32_t n)
{
  self->state ^= self->state << 13;
  self->state ^= self->state >> 7;
  self->state ^= self->state << 17;
  return (uint32_t) (self->state >> 32) % n;
}

static inline uint64_t
stack_walk_module (uint32_t module)
{
  return 0x7f0000000000ull + module * 4 * WALK_MODULE_SIZE;
}

static inline uint64_t
stack_walk_function (uint32_t function)
{
  return stack_walk_module (function / WALK_FUNCTIONS_PER_MODULE)
         + (uint64_t) (function % WALK_FUNCTIONS_PER_MODULE) * WALK_FUNCTION_SIZE;
}

/* The next stack, leaf first. */
static inline void
stack_walk_next (StackWalk *self, uint64_t stack[WALK_DEPTH])
{
  uint32_t function = 0;

  for (uint32_t depth = WALK_DEPTH; depth > 1; depth--)
    {
      uint32_t is_usual = stack_walk_random (self, 100) < WALK_USUAL_PERCENT;
      uint32_t choice = is_usual ? 0 : stack_walk_random (self, WALK_CHOICES);

      stack[depth - 1] = stack_walk_function (function) + 16 + choice * 16;
      function = (function * 2654435761u + choice * 40503u + depth * 97u) % WALK_N_FUNCTIONS;
    }
  stack[0] = stack_walk_function (function) + 128 + stack_walk_random (self, WALK_LEAF_PLACES) * 4;
}
