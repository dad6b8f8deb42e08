/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The last stack of a process: the next one mostly has the same callers. */
#pragma once

#include <glib.h>

typedef struct SondeStackMemo SondeStackMemo;

/* A stack as it stands in a frame. */
typedef struct
{
  const guint8 *addrs; /* leaf first, context markers inline; unaligned */
  guint n_addrs;
  gboolean begins_in_caller; /* the first address is a return address already */
  guint32 generation;        /* of the mappings: another one than last time forgets everything */
} SondeFrameStack;

/* The number of the location of @address; the same for the same arguments and generation. */
typedef guint32 (*SondeLocateFunc) (guint64 address,
                                    gboolean in_kernel,
                                    gboolean is_caller,
                                    gpointer user_data);

SondeStackMemo *sonde_stack_memo_new (void);
void sonde_stack_memo_free (SondeStackMemo *self); /* accepts NULL */

/* So that the next stack is compared with none. */
void sonde_stack_memo_forget (SondeStackMemo *self);

/**
 * sonde_stack_memo_locate:
 * @func: asked for each address that cannot be told from the last stack
 * @numbers: (out): guint32, outermost first; markers left out
 */
void sonde_stack_memo_locate (SondeStackMemo *self,
                              const SondeFrameStack *stack,
                              SondeLocateFunc func,
                              gpointer user_data,
                              GArray *numbers);
