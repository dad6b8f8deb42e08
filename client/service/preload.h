/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The libraries that tell of a program from within, in front of it: where they lie, and whether
 * they will be loaded. */
#pragma once

#include <gio/gio.h>

typedef enum
{
  SONDE_PRELOAD_MEMORY, /* libsonde-memory.so */
  SONDE_PRELOAD_TRACER, /* libsonde-tracer.so */
  SONDE_N_PRELOADS,
} SondePreload;

/**
 * sonde_preload_dup_path:
 * @preloads: (nullable): a{ss}, the service's property
 *
 * The first of: what SONDE_MEMORY_LIBRARY or SONDE_TRACER_LIBRARY says, the library that was built
 * beside the running program, the service's if such a file is there, the installed one.
 *
 * Returns: (transfer full): for LD_PRELOAD; "$LIB" in it is the loader's to replace
 */
char *sonde_preload_dup_path (SondePreload preload, GVariant *preloads);

/* @path with "$LIB" as the loader replaces it in programs of our own architecture. */
char *sonde_preload_dup_file (const char *path);

/**
 * sonde_preload_join:
 * @others: (nullable): a LD_PRELOAD that is there
 *
 * Returns: (transfer full): @path, and behind it @others without those of ours
 */
char *sonde_preload_join (const char *path, const char *others);

/* As whom a program is executed. */
typedef struct
{
  uid_t uid;
  gid_t gid;
  gboolean gains_nothing; /* no_new_privs: bits of its file count for nothing */
} SondePreloadUser;

/**
 * sonde_preload_check:
 * @path: of @preload, as of sonde_preload_dup_path()
 * @command: found through PATH; a script is what its interpreter is
 * @user: (nullable): NULL: ourselves
 *
 * The loader only warns when it cannot. A command that is not there, or is no program, is left to
 * exec() to tell.
 *
 * Returns: FALSE with @error if the library would not be loaded: it is not there or none, or the
 *   command is static, of another architecture or C library, or gains rights when it is executed
 * Source: ld.so(8), LD_PRELOAD and "Secure-execution mode"; elf(5)
 */
gboolean sonde_preload_check (SondePreload preload,
                              const char *path,
                              const char *command,
                              const SondePreloadUser *user,
                              GError **error);
