/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs sondectl once more, bounded in output and time, so that nothing that it meets stops us. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: mcp-child
 *
 * The child has a process group of its own, in which it and all that it starts are killed when it
 * ends, or its time is over, or nobody waits for it any more. Its standard input is empty.
 */
typedef struct SondeMcpChild SondeMcpChild;

typedef enum
{
  SONDE_MCP_CHILD_EXITED,
  SONDE_MCP_CHILD_LATE,  /* it was killed: its time was over */
  SONDE_MCP_CHILD_LARGE, /* it was killed: it printed too much */
} SondeMcpChildEnd;

typedef void (*SondeMcpChildDone) (SondeMcpChildEnd end, int wait_status, gpointer user_data);

typedef struct
{
  const char *folder; /* (nullable): where it runs */
  double seconds;     /* that it has at most */
  gboolean is_heard;  /* all that it prints is an answer, which is whole or none; else its end is
                       * kept, as of standard error */
} SondeMcpChildOptions;

#define SONDE_MCP_CHILD_ANSWER_BYTES (4u << 20)
#define SONDE_MCP_CHILD_SAID_BYTES   4096u /* that are kept of what it says else */

/* @argv: of sondectl, whose name is the first word. @done: is called once, from the main loop,
 * which may free the child there. */
SondeMcpChild *sonde_mcp_child_start (char **argv,
                                      const SondeMcpChildOptions *options,
                                      SondeMcpChildDone done,
                                      gpointer user_data,
                                      GError **error);
void sonde_mcp_child_free (SondeMcpChild *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMcpChild, sonde_mcp_child_free)

/* Asks it to end, as ^C does. It is killed if it does not within two seconds. */
void sonde_mcp_child_stop (SondeMcpChild *self);

/* (transfer none): what it printed, and what it said on standard error. */
const GString *sonde_mcp_child_printed (const SondeMcpChild *self);
const GString *sonde_mcp_child_said (const SondeMcpChild *self);
