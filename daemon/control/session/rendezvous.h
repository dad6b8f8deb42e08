/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Listens where programs come that did not inherit their session's control socket. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/message.h"

/**
 * SECTION: rendezvous
 *
 * Who connects is a *guest*: any process of the machine. He is sent a nonce, and answers with it
 * and the key of a session, or without one if the beacon calls (shared-ring/control-message.h). His
 * number is the kernel's word, twice: of who has connected, and of who has answered; and his pidfd
 * was opened in between and lives, so that it was the same process's number all the time.
 *
 * Nobody is waited for, and a guest costs himself only: connections of a uid come at a rate
 * (SONDE_LIMIT_GUEST_*), have a share of the places, and a time to answer. What else a message of
 * his brings is not received here: it is looked at where it lies (MSG_PEEK), so that no descriptor
 * of his is closed here, and the socket itself is closed by a closer. Main thread only.
 */
typedef struct SondeRendezvous SondeRendezvous;

typedef struct
{
  int fd;    /* where he is spoken to, and his JOIN still lies */
  int pidfd; /* of @pid */
  pid_t pid;
  uid_t uid;
  guint8 key[SONDE_CONTROL_KEY_BYTES];
  gboolean is_called;  /* he has none: the beacon has called him */
  gboolean is_awaited; /* by one that had no time for him */
  guint64 before_id;   /* of the last session that has not taken him; 0: none was asked */
} SondeGuest;

void sonde_guest_free (SondeGuest *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeGuest, sonde_guest_free)

/* Whether he is still there, and so has been since he connected. */
gboolean sonde_guest_is_alive (const SondeGuest *self);

/* Answers his JOIN. @error: 0 or a negative errno. FALSE: he does not take it */
gboolean sonde_guest_answer (const SondeGuest *self, int error);

typedef struct
{
  /* @guest: (transfer full): who has shown who he is */
  void (*met) (SondeGuest *guest, gpointer user_data);
  /* A connection of @uid was not taken: there are too many of his. He may try again. */
  void (*turned_away) (uid_t uid, gpointer user_data);
} SondeRendezvousHandler;

/**
 * sonde_rendezvous_listen:
 *
 * Makes the socket of a sonded without systemd: at an abstract address that nobody can foresee.
 * Programs believe only a listener of root or of their own user, so this comes before rights are
 * given up.
 *
 * Returns: a descriptor; -1 with @error
 */
int sonde_rendezvous_listen (GError **error);

/* @fd: (transfer full): listens; SOCK_SEQPACKET; @handler: outliving it. NULL with @error: it is
 * something else */
SondeRendezvous *sonde_rendezvous_new (int fd,
                                       const SondeRendezvousHandler *handler,
                                       gpointer user_data,
                                       GError **error);
void sonde_rendezvous_free (SondeRendezvous *self);

/* Where it is: "@NAME" of an abstract socket, else a path. */
const char *sonde_rendezvous_address (const SondeRendezvous *self);
/* What SONDE_RENDEZVOUS is to be in the environment of programs of the session of @key, in
 * hexadecimal digits: (transfer full) */
char *sonde_rendezvous_describe (const SondeRendezvous *self, const char *key);
/* A new key: (transfer full): in hexadecimal digits */
char *sonde_rendezvous_make_key (void);
/* Whether @description, of sonde_rendezvous_describe(), has that key. */
gboolean sonde_rendezvous_has_key (const char *description,
                                   const guint8 key[SONDE_CONTROL_KEY_BYTES]);
