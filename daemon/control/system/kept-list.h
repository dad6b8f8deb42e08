/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps visible for a while what has ended. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/**
 * SECTION: kept-list
 *
 * Each item stays for SONDE_LIMIT_KEPT_US, or until its uid has SONDE_LIMIT_KEPT_PER_UID or all
 * uids together SONDE_LIMIT_KEPT newer ones. Times are monotonic and given by the caller, who asks
 * for what is due when it is due.
 */
typedef struct SondeKeptList SondeKeptList;

SondeKeptList *sonde_kept_list_new (GDestroyNotify free_item);
/* From now on. */
void sonde_kept_list_set_free_func (SondeKeptList *self, GDestroyNotify free_item);
/* Accepts NULL. */
void sonde_kept_list_free (SondeKeptList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeKeptList, sonde_kept_list_free)

/* @item: (transfer full): the newest one */
void sonde_kept_list_add (SondeKeptList *self, guint64 id, uid_t uid, gpointer item, gint64 now_us);

/* NULL if there is none. */
gpointer sonde_kept_list_lookup (const SondeKeptList *self, guint64 id);
/* Oldest first; NULL behind the last one. */
gpointer sonde_kept_list_get (const SondeKeptList *self, guint index);

/* Drops what is due. Returns: µs until the next one is, -1 if the list is empty */
gint64 sonde_kept_list_expire (SondeKeptList *self, gint64 now_us);
