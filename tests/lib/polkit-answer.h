/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sets what the real polkitd of a private bus answers to everybody but root. */
#pragma once

#include <glib.h>

typedef enum
{
  POLKIT_DEFAULTS, /* what the shipped actions say, for somebody without a seat */
  POLKIT_YES,
  POLKIT_NO,
  POLKIT_CHALLENGE, /* a password would help, and nobody is there to type it */
  POLKIT_ABSENT,    /* polkitd is not running */
  POLKIT_N_ANSWERS,
} PolkitAnswer;

const char *polkit_answer_name (PolkitAnswer answer);

/* Installs a rule, or ends polkitd, or starts it again. When this returns the answer is in force.
 */
void polkit_answer_set (PolkitAnswer answer);

/* Stops polkitd, so that questions wait, and lets it go on, when this returns after they are
 * answered. */
void polkit_answer_delay (gboolean waits);
