/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What --help says of a command, on a screen of 24 lines and 80 columns. */
#pragma once

#include <glib.h>

/**
 * sonde_help_text_new:
 * @name: of the command: "sondectl report"
 * @parameters: (nullable): what follows the options
 * @description: (nullable): below the options, as it is
 *
 * Entries that are hidden are left out, texts wrapped at 80 columns. GLib's own help needs some ten
 * lines more.
 */
GString *sonde_help_text_new (const char *name,
                              const char *parameters,
                              const char *summary,
                              const char *description,
                              const GOptionEntry *entries);
