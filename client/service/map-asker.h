/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has a program that writes the names of its code only when it is asked write them now and then. */
#pragma once

#include <glib.h>

typedef struct SondeMapAsker SondeMapAsker;

/**
 * sonde_map_asker_new:
 * @command: (transfer none): what asks, up to and behind the number of @pid, "%p"
 * @failed: called at most once, with a sentence: it cannot be asked, and is not any more
 *
 * Asks one second from now, and then as long after each answer as takes little beside the program.
 * Whoever does not answer within ten seconds is ended.
 */
SondeMapAsker *sonde_map_asker_new (const char *const *command,
                                    GPid pid,
                                    void (*failed) (const char *text, gpointer user_data),
                                    gpointer user_data);
/* What is under way is ended. Accepts NULL. */
void sonde_map_asker_free (SondeMapAsker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMapAsker, sonde_map_asker_free)
