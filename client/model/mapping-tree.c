/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/mapping-tree.h"

#include "base/hash.h"

#define MAX_CHANGED                                                                                \
  512 /* pieces that one change copies: three ways down, which are some 30 long                    \
       */

/* A treap: in order by address, as a heap by priorities at random, which keeps it shallow whatever
 * a capture does. */
typedef struct
{
  guint64 start;
  guint64 end;
  SondeModelMapping *mapping;
  guint32 left; /* piece, 0: none; so is right */
  guint32 right;
  guint32 priority;
  guint32 edit; /* that made it; another one must copy it */
} Piece;

struct SondeMappingTree
{
  GArray *pieces; /* Piece; 0 is none */
  SondeBudget *budget;
  guint32 n_edits;
  guint64 seed;
};

#define PIECE(self, i) (&g_array_index ((self)->pieces, Piece, (i)))

SondeMappingTree *
sonde_mapping_tree_new (SondeBudget *budget)
{
  SondeMappingTree *self = g_new0 (SondeMappingTree, 1);

  self->pieces = g_array_new (FALSE, TRUE, sizeof (Piece));
  g_array_set_size (self->pieces, 1);
  self->budget = budget;
  self->seed = sonde_hash_seed ();
  return self;
}

void
sonde_mapping_tree_free (SondeMappingTree *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->pieces);
  g_free (self);
}

static guint32
append (SondeMappingTree *self, const Piece *piece)
{
  g_array_append_vals (self->pieces, piece, 1);
  return self->pieces->len - 1;
}

static guint32
new_piece (
    SondeMappingTree *self, guint32 edit, guint64 start, guint64 end, SondeModelMapping *mapping)
{
  Piece piece = { .start = start, .end = end, .mapping = mapping, .edit = edit };

  piece.priority = (guint32) sonde_hash (self->seed, self->pieces->len);
  return append (self, &piece);
}

/* The piece itself if @edit may change it, else a copy. */
static guint32
own (SondeMappingTree *self, guint32 edit, guint32 piece)
{
  Piece copy = *PIECE (self, piece);

  if (copy.edit == edit)
    return piece;
  copy.edit = edit;
  return append (self, &copy);
}

/* Those that begin before @at, and the others. */
static void
split (
    SondeMappingTree *self, guint32 edit, guint32 piece, guint64 at, guint32 *below, guint32 *above)
{
  guint32 rest;

  if (piece == 0)
    {
      *below = *above = 0;
      return;
    }
  piece = own (self, edit, piece);
  if (PIECE (self, piece)->start < at)
    {
      split (self, edit, PIECE (self, piece)->right, at, &rest, above);
      PIECE (self, piece)->right = rest;
      *below = piece;
    }
  else
    {
      split (self, edit, PIECE (self, piece)->left, at, below, &rest);
      PIECE (self, piece)->left = rest;
      *above = piece;
    }
}

/* All of @left lie below all of @right. */
static guint32
merge (SondeMappingTree *self, guint32 edit, guint32 left, guint32 right)
{
  guint32 merged;

  if (left == 0 || right == 0)
    return left + right;
  if (PIECE (self, left)->priority > PIECE (self, right)->priority)
    {
      left = own (self, edit, left);
      merged = merge (self, edit, PIECE (self, left)->right, right);
      PIECE (self, left)->right = merged;
      return left;
    }
  right = own (self, edit, right);
  merged = merge (self, edit, left, PIECE (self, right)->left);
  PIECE (self, right)->left = merged;
  return right;
}

static guint32
find_last (const SondeMappingTree *self, guint32 piece)
{
  while (piece != 0 && PIECE (self, piece)->right != 0)
    piece = PIECE (self, piece)->right;
  return piece;
}

/* Lets the last piece below @piece end at @end. */
static guint32
cut_last (SondeMappingTree *self, guint32 edit, guint32 piece, guint64 end)
{
  guint32 root = piece = own (self, edit, piece);

  while (PIECE (self, piece)->right != 0)
    {
      guint32 next = own (self, edit, PIECE (self, piece)->right);

      PIECE (self, piece)->right = next;
      piece = next;
    }
  PIECE (self, piece)->end = end;
  return root;
}

gboolean
sonde_mapping_tree_add (SondeMappingTree *self,
                        SondeMappingRoot *space,
                        guint64 start,
                        guint64 end,
                        SondeModelMapping *mapping)
{
  guint32 n_before = self->pieces->len;
  guint32 below, hidden, above, last;
  guint32 rest = 0;

  if (start >= end)
    return TRUE;
  if (self->budget->left[SONDE_LIMIT_PIECES] < MAX_CHANGED)
    return sonde_budget_take (self->budget, SONDE_LIMIT_PIECES, MAX_CHANGED);
  if (space->edit == 0)
    space->edit = ++self->n_edits;

  split (self, space->edit, space->root, start, &below, &hidden);
  split (self, space->edit, hidden, end, &hidden, &above);
  /* what reaches into the mapping from below may reach out of it again, or else the last hidden one
   */
  last = find_last (self, below);
  if (last != 0 && PIECE (self, last)->end > start)
    {
      Piece cut = *PIECE (self, last);

      below = cut_last (self, space->edit, below, start);
      if (cut.end > end)
        rest = new_piece (self, space->edit, end, cut.end, cut.mapping);
    }
  last = find_last (self, hidden);
  if (last != 0 && PIECE (self, last)->end > end)
    {
      Piece cut = *PIECE (self, last);

      rest = new_piece (self, space->edit, end, cut.end, cut.mapping);
    }
  below = merge (self, space->edit, below, new_piece (self, space->edit, start, end, mapping));
  space->root = merge (self, space->edit, merge (self, space->edit, below, rest), above);
  self->budget->left[SONDE_LIMIT_PIECES]
      -= MIN (self->pieces->len - n_before, self->budget->left[SONDE_LIMIT_PIECES]);
  return TRUE;
}

SondeModelMapping *
sonde_mapping_tree_find (const SondeMappingTree *self,
                         const SondeMappingRoot *space,
                         guint64 address)
{
  guint32 at = space->root;

  while (at != 0)
    {
      const Piece *piece = PIECE (self, at);

      if (address >= piece->start && address < piece->end)
        return piece->mapping;
      at = address < piece->start ? piece->left : piece->right;
    }
  return NULL;
}

SondeMappingRoot
sonde_mapping_tree_fork (SondeMappingTree *self, SondeMappingRoot *parent)
{
  parent->edit = ++self->n_edits;
  return (SondeMappingRoot){ parent->root, ++self->n_edits };
}

static void
foreach_piece (const SondeMappingTree *self, guint32 at, SondeMappingFunc func, gpointer user_data)
{
  while (at != 0)
    {
      const Piece *piece = PIECE (self, at);

      foreach_piece (self, piece->left, func, user_data);
      func (piece->start, piece->end, piece->mapping, user_data);
      at = piece->right;
    }
}

void
sonde_mapping_tree_foreach (const SondeMappingTree *self,
                            const SondeMappingRoot *space,
                            SondeMappingFunc func,
                            gpointer user_data)
{
  foreach_piece (self, space->root, func, user_data);
}
