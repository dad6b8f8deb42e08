/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lets polkit ask for a password on the terminal. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_tty_agent_start:
 *
 * Starts pkttyagent for this process, to be asked only if no other agent is there (a desktop has
 * one). Waits until it is registered, at most a few seconds.
 *
 * Returns: (nullable): NULL without polkit's tools: then nobody can be asked here
 */
GSubprocess *sonde_tty_agent_start (void);

/* Ends it and gives the terminal back. @self: (transfer full) (nullable) */
void sonde_tty_agent_stop (GSubprocess *self);
