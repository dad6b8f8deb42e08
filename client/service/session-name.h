/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions by number, as people type them, and by object path. */
#pragma once

#include <glib.h>

/**
 * sonde_session_name_dup_path:
 * @name: "3", or the whole object path
 *
 * Returns: (nullable): the object path; NULL if @name is neither
 */
char *sonde_session_name_dup_path (const char *name);

/* "3"; of a path that is none of the service's, the path. Points into @path. */
const char *sonde_session_name_short (const char *path);
