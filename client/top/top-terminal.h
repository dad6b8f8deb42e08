/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The terminal: shows pages and tells of keys. */
#pragma once

#include <gio/gio.h>

#include "client/top/top-page.h"

/**
 * SECTION: top-terminal
 *
 * A thread of its own draws, and waits for a terminal that does not take what is drawn: nobody else
 * does. What is shown while it waits replaces what was to be drawn. Standard input and output are
 * the terminal's until it is freed; ^Z and SIGTSTP give it back for as long as we are stopped.
 *
 * Source: ncurses(3X)
 */
typedef struct SondeTopTerminal SondeTopTerminal;

/* Called on the default main context; no more once the terminal is freed. */
typedef struct
{
  /* @key: a character, or SondeTopKey */
  void (*pressed) (guint key, gpointer user_data);
  /* Another size, or what was drawn is no longer there: to be shown again. */
  void (*changed) (gpointer user_data);
} SondeTopTerminalHandler;

/* One at a time in a process. NULL with @error if the terminal cannot do what is needed.
 * @with_colours: else only what every terminal has */
SondeTopTerminal *sonde_top_terminal_new (gboolean with_colours,
                                          const SondeTopTerminalHandler *handler,
                                          gpointer user_data,
                                          GError **error);

/* Restores the terminal; waits for one that does not take anything any more at most two seconds.
 * Accepts NULL. */
void sonde_top_terminal_free (SondeTopTerminal *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopTerminal, sonde_top_terminal_free)

guint sonde_top_terminal_n_lines (SondeTopTerminal *self);
guint sonde_top_terminal_n_columns (SondeTopTerminal *self);

/* @page: (transfer full) */
void sonde_top_terminal_show (SondeTopTerminal *self, SondeTopPage *page);
