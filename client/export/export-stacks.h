/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stacks of a call tree, one after the other. */
#pragma once

#include "client/model/call-tree.h"

/* @ids: outermost first, valid during the call; @weight: of the stacks that end there, above 0 */
typedef void (*SondeExportStackFunc) (const guint32 *ids,
                                      gsize n_ids,
                                      guint64 weight,
                                      gpointer user_data);

/* Stacks that begin alike stand together. Deep trees need no deep recursion. */
void sonde_export_foreach_stack (const SondeCallTree *tree,
                                 SondeExportStackFunc func,
                                 gpointer user_data);
