/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Leaves out frames of call trees that say nothing: repeated ones of a recursion, an interpreter's
 * own between the functions of its program, wrappers around an allocator. */
#pragma once

#include "client/report/profile.h"

typedef enum
{
  SONDE_RECURSION_DIRECT, /* a function that calls itself is one frame */
  SONDE_RECURSION_ALL,    /* it is, through others, too: what follows hangs below the first one */
  SONDE_RECURSION_NONE,
} SondeRecursion;

/* What options ask for; zeros: what is done without any. */
typedef struct
{
  SondeRecursion recursion;
  gboolean shows_internals; /* of interpreters */
  gboolean folds_wrappers;  /* of allocators, at the leaf */
  char *word;               /* of --fold-recursion; NULL: it was not given */
} SondeFolding;

/* Rows of a table of options that fill @folding, a pointer. */
#define SONDE_FOLDING_OPTIONS(folding)                                                             \
  {                                                                                                \
    "fold-recursion", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &(folding)->word, "", "WHICH"  \
  },                                                                                               \
  {                                                                                                \
    "internals", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &(folding)->shows_internals, "", NULL \
  }

void sonde_folding_clear (SondeFolding *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeFolding, sonde_folding_clear)

/* After the options were read: FALSE, having complained, if they are wrong. @usual: what is meant
 * without --fold-recursion */
gboolean sonde_folding_check (SondeFolding *self, SondeRecursion usual);

/* What a function is for that. */
typedef enum
{
  SONDE_FOLD_PLAIN,
  SONDE_FOLD_SCRIPT,   /* of an interpreted program */
  SONDE_FOLD_INTERNAL, /* of the interpreter */
  SONDE_FOLD_WRAPPER,
} SondeFoldKind;

SondeFoldKind sonde_fold_kind (const SondeFunction *function);

/* Where a stack is in the tree that it is folded into. */
typedef struct
{
  guint32 all;  /* node, with an interpreter's functions since the last one of a program, and */
  guint32 bare; /* without them: where the next one of a program goes */
  guint32 run;  /* frames of the recursion there that were folded */
} SondeFoldPlace;

/* Open to be read. */
typedef struct
{
  SondeFolding folding;
  const guint8 *kinds; /* SondeFoldKind, by id */
  SondeCallTree *tree; /* that it is folded into */
  GArray *depths;      /* guint32: by node of it, as in SondeProfileProcess; NULL: none yet */
} SondeFolder;

/* The place of a frame with @id that is called at @at. Nodes may be made that get no weight. */
SondeFoldPlace sonde_folder_step (SondeFolder *self, SondeFoldPlace at, guint32 id);

/* Folds each tree of @profile. */
void sonde_profile_fold (SondeProfile *profile, const SondeFolding *folding);
