/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trees of what lies where in address spaces that were forked off each other. */
#pragma once

#include "client/base/budget.h"
#include "client/model/capture-model.h"

/**
 * SECTION: mapping-tree
 *
 * The pieces of all address spaces of a capture. Those of one space do not overlap: a mapping cuts
 * away what it hides. A fork costs nothing, however much is mapped, since spaces share their pieces
 * until one of them changes; a look-up and a change take logarithmic time.
 */
typedef struct SondeMappingTree SondeMappingTree;

/* One address space: {0} is an empty one. */
typedef struct
{
  guint32 root;
  guint32 edit; /* whose pieces may be changed in place */
} SondeMappingRoot;

/* @budget: of which SONDE_LIMIT_PIECES is taken; kept by the caller as long as the tree */
SondeMappingTree *sonde_mapping_tree_new (SondeBudget *budget);
void sonde_mapping_tree_free (SondeMappingTree *self); /* accepts NULL */

/* Puts @mapping from @start to @end, over what lies there. FALSE if there is no room: nothing was
 * changed. */
gboolean sonde_mapping_tree_add (SondeMappingTree *self,
                                 SondeMappingRoot *space,
                                 guint64 start,
                                 guint64 end,
                                 SondeModelMapping *mapping);

/* NULL if nothing lies there. */
SondeModelMapping *sonde_mapping_tree_find (const SondeMappingTree *self,
                                            const SondeMappingRoot *space,
                                            guint64 address);

/* A space with all that lies in @parent; from now on each goes its own way. */
SondeMappingRoot sonde_mapping_tree_fork (SondeMappingTree *self, SondeMappingRoot *parent);

typedef void (*SondeMappingFunc) (guint64 start,
                                  guint64 end,
                                  const SondeModelMapping *mapping,
                                  gpointer user_data);

/* From the lowest piece to the highest one. */
void sonde_mapping_tree_foreach (const SondeMappingTree *self,
                                 const SondeMappingRoot *space,
                                 SondeMappingFunc func,
                                 gpointer user_data);
