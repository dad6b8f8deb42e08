/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Answers programs on control sockets: who asks for a ring, and what he is told. */
#pragma once

#include <gio/gio.h>

#include "shared-ring/control-message.h"
#include "shared-ring/ring-layout.h"

/**
 * SECTION: control-server
 *
 * Speaks both handshakes of shared-ring/control-message.h, on control sockets, which many processes
 * share, and on links, which one process has. Whoever talks is called a *peer*. Nothing waits for
 * room: a peer that does not take an answer is not served any more. What it sends beside requests
 * is ignored, descriptors among it are not even received. Main thread only.
 */
typedef struct SondeControlServer SondeControlServer;

/* Who is named by a ring that is wanted. */
typedef struct
{
  SondeRingKind kind;
  SondeProducer producer;
  guint32 size_bytes; /* 0: as the profiler likes */
  guint32 request;    /* its number, which its program gave it */
  guint32 continues;  /* the number of a ring that it is to continue; 0: none */
  gboolean is_shared; /* by the threads of the process */
  guint64 peer;       /* unique in the session */
  pid_t pid;          /* by the kernel */
  uid_t uid;          /* so, too */
} SondeRingWanted;

typedef struct
{
  /* Returns: a descriptor, to be closed, and *@number of the ring; or a negative errno */
  int (*wanted) (const SondeRingWanted *wanted, guint *number, gpointer user_data);
  /* @pid: of a process that gets no link, and so no ring; 0: the kernel does not say */
  void (*link_refused) (pid_t pid, gpointer user_data);
  /* The ring could not be delivered. */
  void (*undelivered) (const SondeRingWanted *wanted, guint number, gpointer user_data);
  /* A program's doorbell. */
  void (*bell) (gpointer user_data);
  /* The other end of this peer is closed everywhere. */
  void (*gone) (guint64 peer, gpointer user_data);
  /* A control socket is closed, by either side. */
  void (*closed) (gpointer user_data);
  /* A control socket serves nobody any more, or a program has no link: a sentence for the capture.
   */
  void (*refused) (const char *text, gpointer user_data);
} SondeControlServerHandler;

/* What a program is told with its ring. */
typedef struct
{
  SondeMemoryMode memory_mode;
  guint32 max_depth;
  guint64 memory_interval_bytes;
} SondeControlTerms;

/* @is_divided: programs may be of several users, who share the links: see uid-shares.h */
SondeControlServer *sonde_control_server_new (const SondeControlTerms *terms,
                                              gboolean is_divided,
                                              const SondeControlServerHandler *handler,
                                              gpointer user_data);
/* Closes all sockets; nothing is called. Accepts NULL. */
void sonde_control_server_free (SondeControlServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeControlServer, sonde_control_server_free)

/* @fd: (transfer full): a SOCK_SEQPACKET socket with SO_PASSCRED; @is_link: one that a process has
 * alone. Of links there are at most SONDE_LIMIT_RINGS; one more is closed, and that is told. Whose
 * it is says a message that lies there already. */
void sonde_control_server_add (SondeControlServer *self, int fd, gboolean is_link);
