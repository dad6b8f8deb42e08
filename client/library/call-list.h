/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows of a call tree as a list model, which its profile walks at each update. */
#pragma once

#include "client/library/sonde-client.h"

#define SONDE_TYPE_CALL_LIST (sonde_call_list_get_type ())
G_DECLARE_FINAL_TYPE (SondeCallList, sonde_call_list, SONDE, CALL_LIST, GObject)

SondeCallList *sonde_call_list_new (void);

/* (transfer none) (element-type SondeClientCall): for reading. */
const GPtrArray *sonde_call_list_peek (const SondeCallList *self);

/* @calls: (transfer none): each gets a reference */
void sonde_call_list_append (SondeCallList *self, const GPtrArray *calls);
void sonde_call_list_remove (SondeCallList *self, guint position);
