/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of the locations of a capture: several of one where some are inlined. */
#pragma once

#include "client/model/call-tree.h"
#include "client/names/symbol-resolver.h"

typedef struct
{
  SondeSymbolResolver *resolver;
  GArray *functions; /* guint32: numbers of functions, outermost first; by location if */
  guint32 *starts;   /* is NULL, else from there on, of one more location than there are */
} SondeLocationNames;

#define SONDE_FUNCTION_UNNAMED G_MAXUINT32

/* Knows no name yet. @model, @options: as of sonde_symbol_resolver_new() */
void sonde_location_names_init (SondeLocationNames *self,
                                const SondeCaptureModel *model,
                                const SondeSymbolOptions *options);
void sonde_location_names_clear (SondeLocationNames *self); /* accepts zeros */
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeLocationNames, sonde_location_names_clear)

/* Looks up all that there are. */
void sonde_location_names_find_all (SondeLocationNames *self);

/* Looks up those of @tree, without what is inlined there, until @end_us of the monotonic clock.
 * What has no name by then, and what the model met since, is SONDE_FUNCTION_UNNAMED. */
void
sonde_location_names_find_some (SondeLocationNames *self, const SondeCallTree *tree, gint64 end_us);

/* Keeps functions, but not which location has which. */
void sonde_location_names_forget (SondeLocationNames *self);

/* The functions of @location; @n: (out): how many */
guint32 *sonde_location_names_get (const SondeLocationNames *self, guint32 location, guint32 *n);

/* Takes the frames that inlined functions add to @tree, whose ids are locations, of @budget
 * (SONDE_LIMIT_INLINED). Without room all locations lose what is inlined there. */
void sonde_location_names_make_room (SondeLocationNames *self,
                                     const SondeCallTree *tree,
                                     SondeBudget *budget);

/* @tree with functions in the place of locations; (transfer full). */
SondeCallTree *sonde_location_names_expand (const SondeLocationNames *self,
                                            const SondeCallTree *tree);
