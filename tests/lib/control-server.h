/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The profiler's side of a control socket, as a test needs it: makes rings and keeps what comes. */
#pragma once

#include <glib.h>

#include "shared-ring/control-message.h"
#include "shared-ring/ring-reader.h"

typedef struct ControlRing ControlRing;

struct ControlRing
{
  SondeRingReader *reader;
  GPtrArray *frames;         /* of SondeFrame, copies */
  gint32 pid;                /* by the kernel */
  gint32 tid;                /* by the program; 0 of libsysprof-capture, and if threads share it */
  guint32 producer;          /* 0 of libsysprof-capture */
  guint32 number;            /* of its request */
  const ControlRing *before; /* that it continues; or NULL */
};

typedef struct
{
  int socket_type;   /* of the control socket */
  guint32 wait_us;   /* of native rings */
  guint n_max_rings; /* further requests are refused; 0: none are */
  guint n_max_own;   /* the same of requests for rings of single threads */
  gboolean is_mute;  /* requests get no answer */
  gboolean is_paused;
  gboolean wants_frames; /* of heap events, and no records */
  guint32 ring_bytes;    /* of native rings; 0: as the program likes */
  gboolean may_grow;     /* rings */
  guint32 memory_mode;
  guint32 max_depth; /* 0: 64 */
  guint64 memory_interval_bytes;
  /* Takes frames, which are then not kept. NULL: they are. */
  void (*take) (gpointer data, const SondeFrame *frame);
  gpointer take_data;
  /* Called with the server after each turn, or NULL. */
  void (*turn) (gpointer server);
} ControlServerOptions;

typedef struct
{
  ControlServerOptions options;
  int control;      /* our end */
  int client;       /* the program's end; -1 once it is given away */
  GArray *links;    /* of int: our ends of those that are open */
  guint n_links;    /* made */
  GPtrArray *rings; /* of ControlRing */
  guint n_bells;
  guint n_refused;
  guint n_own;     /* requests for rings of single threads */
  guint n_ignored; /* messages that made no sense */
} ControlServer;

ControlServer *control_server_new (const ControlServerOptions *options);
void control_server_free (ControlServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ControlServer, control_server_free)

/* Forks, runs @client in the child with the environment of a profiled program, and serves until it
 * and all that it left behind have closed their sockets, and all rings are drained.
 *
 * Returns: the child's status, as of waitpid() */
int control_server_run (ControlServer *self, int (*client) (void), const char *variable);

/* How many frames of a type came, in all rings. */
guint control_server_count (const ControlServer *self, guint8 type);
/* The first one of a type in any ring, or NULL. */
gconstpointer control_server_find (const ControlServer *self, guint8 type);
/* By the account of all rings' writers: frames they committed, and losses. */
void control_server_account (const ControlServer *self, SondeRingCounts *sum);
