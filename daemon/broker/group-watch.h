/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells when the last process has left a control group. */
#pragma once

#include "daemon/broker/control-group.h"

typedef struct SondeGroupWatch SondeGroupWatch;

/* @group: outlives it; somebody is in it; @emptied: once, from the main loop: it may free this */
SondeGroupWatch *sonde_group_watch_new (const SondeControlGroup *group,
                                        void (*emptied) (gpointer user_data),
                                        gpointer user_data);
/* Accepts NULL. */
void sonde_group_watch_free (SondeGroupWatch *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeGroupWatch, sonde_group_watch_free)
