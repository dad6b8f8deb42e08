/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/stack-memo.h"

#include <string.h>

#include "client/base/limits.h"
#include "protocol/frame.h"

#define CONTEXT_MAX ((guint64) -4095) /* PERF_CONTEXT_MAX: markers lie at or above it */

typedef struct
{
  guint64 address;
  guint32 number; /* of the location; meaningless for a marker */
  gboolean in_kernel;
} Located;

struct SondeStackMemo
{
  GArray *last; /* Located, leaf first */
  GArray *next; /* Located: the one at hand */
  guint32 generation;
};

SondeStackMemo *
sonde_stack_memo_new (void)
{
  SondeStackMemo *self = g_new0 (SondeStackMemo, 1);

  self->last = g_array_new (FALSE, FALSE, sizeof (Located));
  self->next = g_array_new (FALSE, FALSE, sizeof (Located));
  return self;
}

void
sonde_stack_memo_free (SondeStackMemo *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->last);
  g_array_unref (self->next);
  g_free (self);
}

void
sonde_stack_memo_forget (SondeStackMemo *self)
{
  g_array_set_size (self->last, 0);
}

static guint64
address_at (const SondeFrameStack *stack, guint index)
{
  guint64 address;

  memcpy (&address, stack->addrs + index * sizeof address, sizeof address);
  return address;
}

/* How many of the outermost addresses are those of the last stack. */
static guint
count_common (const SondeStackMemo *self, const SondeFrameStack *stack)
{
  const Located *last = (const Located *) (void *) self->last->data;
  guint n_last = self->last->len;
  guint n_max = MIN (n_last, stack->n_addrs);
  guint n = 0;

  if (self->generation != stack->generation)
    return 0;
  while (n < n_max && last[n_last - 1 - n].address == address_at (stack, stack->n_addrs - 1 - n))
    n++;
  return n;
}

static void
locate_next (SondeStackMemo *self,
             const SondeFrameStack *stack,
             SondeLocateFunc func,
             gpointer user_data)
{
  guint first_common = stack->n_addrs - count_common (self, stack);
  guint last_shift = self->last->len - stack->n_addrs; /* wraps, and back again */
  const Located *last = (const Located *) (void *) self->last->data;
  Located *next;
  gboolean in_kernel = FALSE;
  gboolean is_caller = stack->begins_in_caller;

  g_array_set_size (self->next, stack->n_addrs);
  next = (Located *) (void *) self->next->data;
  for (guint i = 0; i < stack->n_addrs; i++)
    {
      guint64 address = address_at (stack, i);

      /* behind the same callee and in the same half all that follows is the same, too */
      if (i > first_common && last[i + last_shift].in_kernel == in_kernel)
        {
          memcpy (&next[i], &last[i + last_shift], (stack->n_addrs - i) * sizeof *next);
          break;
        }
      next[i] = (Located){ .address = address, .in_kernel = in_kernel };
      if (address >= CONTEXT_MAX)
        {
          in_kernel = address == SONDE_CONTEXT_KERNEL;
          is_caller = FALSE;
          continue;
        }
      next[i].number = func (address, in_kernel, is_caller, user_data);
      is_caller = TRUE;
    }
}

/* One that is not remembered: no honest program has stacks that long. */
static void
locate_long (const SondeFrameStack *stack,
             SondeLocateFunc func,
             gpointer user_data,
             GArray *numbers)
{
  gboolean in_kernel = FALSE;
  gboolean is_caller = stack->begins_in_caller;

  g_array_set_size (numbers, 0);
  for (guint i = 0; i < stack->n_addrs; i++)
    {
      guint64 address = address_at (stack, i);
      guint32 number;

      if (address >= CONTEXT_MAX)
        {
          in_kernel = address == SONDE_CONTEXT_KERNEL;
          is_caller = FALSE;
          continue;
        }
      number = func (address, in_kernel, is_caller, user_data);
      g_array_append_val (numbers, number);
      is_caller = TRUE;
    }
  for (guint i = 0, j = numbers->len; i + 1 < j; i++)
    {
      guint32 swapped = g_array_index (numbers, guint32, i);

      g_array_index (numbers, guint32, i) = g_array_index (numbers, guint32, --j);
      g_array_index (numbers, guint32, j) = swapped;
    }
}

void
sonde_stack_memo_locate (SondeStackMemo *self,
                         const SondeFrameStack *stack,
                         SondeLocateFunc func,
                         gpointer user_data,
                         GArray *numbers)
{
  GArray *last = self->last;
  const Located *located;
  guint32 *out;
  guint n = 0;

  if (stack->n_addrs > SONDE_MAX_REMEMBERED)
    {
      locate_long (stack, func, user_data, numbers);
      return;
    }
  locate_next (self, stack, func, user_data);
  self->last = self->next;
  self->next = last;
  self->generation = stack->generation;

  located = (const Located *) (void *) self->last->data;
  g_array_set_size (numbers, stack->n_addrs);
  out = (guint32 *) (void *) numbers->data;
  for (guint i = stack->n_addrs; i > 0; i--)
    if (located[i - 1].address < CONTEXT_MAX)
      out[n++] = located[i - 1].number;
  g_array_set_size (numbers, n);
}
