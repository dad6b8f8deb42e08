/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives the interpreter of a command options by which it names the code that it makes. */
#pragma once

#include <glib.h>

/**
 * SECTION: named-command
 *
 * An interpreter is known by the file that the command is in the end: through PATH, links, `env`
 * and the first line of scripts. Its options stand in front of all others, in the command itself:
 * in its environment its children would inherit them, and what they write nobody would remove.
 * A command that has such options already, or whose environment has, is left as it is: what it
 * writes is its caller's.
 *
 * Source: execve(2), "Interpreter scripts"
 */
typedef struct
{
  const char *name;           /* of the program, as messages show it */
  const char *const *options; /* NULL-terminated */
  const char *sign;           /* in a word of a command that has them; NULL: twice does no harm */
  const char *variable;       /* of the environment, the same */
  gboolean is_walked;         /* a session that is given BPF shows its functions without */
  const char *const *asker;   /* it names its code only when it is asked, by this, and gets options
                                 only if that is wanted, see SondeMapAsker; NULL: by itself */
} SondeNamedRuntime;

/**
 * sonde_named_command_new:
 * @command: as its caller has it
 * @runtime: (out): static: what runs it
 *
 * Returns: (nullable) (transfer full): the same with those options; NULL: nothing that has any
 */
char **sonde_named_command_new (char **command, const SondeNamedRuntime **runtime);

/* Whether a session with our own rights is given BPF, as far as rights go. */
gboolean sonde_named_command_has_bpf (void);

/* Where an interpreter that is process @pid writes what its code is called. */
char *sonde_named_command_dup_map_path (GPid pid);

/* Makes that file, empty, where there is none. FALSE: it was not made */
gboolean sonde_named_command_make_map (GPid pid);
/* Removes that file if it is a regular one of ours with one name. */
void sonde_named_command_remove_map (GPid pid);
