/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where programs left the names of code that they made. */
#pragma once

#include "client/model/capture-model.h"
#include "symbols/jit-map.h"

/**
 * sonde_jit_files_load:
 * @dump_path: (nullable): a jitdump of @pid, as its mappings say
 *
 * Reads "/tmp/perf-PID.map", as the process sees it if it still runs, and @dump_path. They are read
 * with the rights of this process, and only if they are regular files of the user of the process:
 * one that has ended counts as ours.
 *
 * Returns: (transfer full): NULL if there is nothing
 */
SondeJitMap *sonde_jit_files_load (gint32 pid, const char *dump_path);

/* Whether @path is one that perf's interface gives a jitdump of @pid: ".../jit-PID.dump". */
gboolean sonde_jit_files_is_dump (const char *path, gint32 pid);
