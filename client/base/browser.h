/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shows a page in the user's browser, from a file that nobody else can read. */
#pragma once

#include <glib.h>

/* Whether the user looks at a terminal, beside which a browser can open: not that of root. */
gboolean sonde_browser_is_near (void);

/**
 * sonde_browser_show:
 * @name: what the file's name begins with
 * @shown: (out) (optional) (transfer full): its path, escaped; set as soon as there is one
 *
 * The file is in the user's run-time folder, else among his caches, with mode 0600 in a folder of
 * mode 0700. It stays, for a browser may read it at any time: files of earlier calls go, unless
 * they are so young that their browser may still be on its way.
 *
 * Returns: FALSE with @error if it could not be written, or xdg-open says that it cannot
 */
gboolean sonde_browser_show (const char *name, const GString *page, char **shown, GError **error);
