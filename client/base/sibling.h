/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the other programs and libraries of ours. */
#pragma once

#include <glib.h>

/**
 * sonde_sibling_dup_path:
 * @built: its place in a build tree: "daemon/control/sonded"
 * @installed: its absolute path once installed
 *
 * What was built is used with what was built beside it. Whoever can put a file there can replace
 * the running program as well; the current directory and PATH do not matter.
 *
 * Returns: (transfer full): an absolute path
 */
char *sonde_sibling_dup_path (const char *built, const char *installed);
