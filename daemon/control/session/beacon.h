/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls programs that run already: writes the page that their collectors look at. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/**
 * SECTION: beacon
 *
 * The layout is shared-ring/beacon-layout.h. The file is made by systemd-tmpfiles, and stays: it is
 * mapped once and written in place. Who is wanted is said anew whenever that changes, all of it;
 * the page changes where that differs from what was said before. Main thread only.
 */
typedef struct SondeBeaconPage SondeBeaconPage;

/* Somebody who is wanted. */
typedef struct
{
  guint64 reason;    /* not 0; while it is the same, who has come need not come again */
  guint32 producers; /* 1 << SondeProducer, of each */
  gboolean is_all;   /* of whatever uid; else: */
  uid_t uid;
} SondeBeaconWish;

/**
 * sonde_beacon_page_open:
 * @address: where programs are to come: "@NAME" of an abstract socket, else a path
 * @is_private: another sonded may have the same page, and then keeps it
 *
 * Goes on with the generation of the sonded before, and what that wanted.
 *
 * Errors: SONDE_ERROR_FAILED: there is no such file, it is none, it cannot be written, or is kept
 */
SondeBeaconPage *
sonde_beacon_page_open (const char *path, const char *address, gboolean is_private, GError **error);
/* What is wanted stays so. */
void sonde_beacon_page_free (SondeBeaconPage *self);

/* @wishes: all that there are. Returns: whether anything has changed */
gboolean
sonde_beacon_page_set (SondeBeaconPage *self, const SondeBeaconWish *wishes, gsize n_wishes);
/* Has everybody look again: who could not come, and who has come and may go. */
void sonde_beacon_page_repeat (SondeBeaconPage *self);
