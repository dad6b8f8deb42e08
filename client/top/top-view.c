/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-view.h"

#include "client/report/profile-view.h"

#define MAX_EXPANDED     4096u /* rows that can be open at a time */
#define MAX_FILTER_CHARS 200   /* longer ones would not be seen any more */
#define ONLY_CALLEE      0.9 /* from this part of a function on a callee is opened along with it */
#define MAX_OPENED       64  /* rows that one key opens */

SondeTopView *
sonde_top_view_new (SondeTopMode mode)
{
  SondeTopView *self = g_new0 (SondeTopView, 1);

  self->mode = mode;
  self->filter = g_string_new (NULL);
  self->expanded = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  return self;
}

static void
clear_shown (SondeTopView *self)
{
  g_clear_pointer (&self->rows, sonde_top_rows_free);
  g_clear_pointer (&self->derived, sonde_profile_free);
}

void
sonde_top_view_free (SondeTopView *self)
{
  if (self == NULL)
    return;
  clear_shown (self);
  sonde_top_snapshot_free (self->snapshot);
  g_string_free (self->filter, TRUE);
  g_hash_table_unref (self->expanded);
  g_free (self);
}

gboolean
sonde_top_view_is_tree (const SondeTopView *self)
{
  return self->mode == SONDE_TOP_TREE || self->mode == SONDE_TOP_BOTTOM_UP;
}

const SondeProfile *
sonde_top_view_profile (const SondeTopView *self)
{
  if (self->snapshot == NULL)
    return NULL;
  if (self->mode == SONDE_TOP_THREADS)
    return self->snapshot->threads;
  return self->derived != NULL ? self->derived : self->snapshot->profile;
}

static SondeProfile *
derive (SondeTopMode mode, const SondeProfile *profile)
{
  switch (mode)
    {
    case SONDE_TOP_BOTTOM_UP:
      return sonde_profile_view_bottom_up (profile);
    case SONDE_TOP_PROCESSES:
      return sonde_profile_view_by_process (profile);
    case SONDE_TOP_MODULES:
      return sonde_profile_view_by_module (profile);
    case SONDE_TOP_FLAT:
    case SONDE_TOP_TREE:
    case SONDE_TOP_THREADS:
    default:
      return NULL;
    }
}

static void
make_rows (SondeTopView *self)
{
  const SondeTopRowOptions options
      = { .by_total = self->by_total, .filter = self->filter->str, .expanded = self->expanded };
  guint n_rows;

  g_clear_pointer (&self->rows, sonde_top_rows_free);
  if (self->snapshot == NULL)
    return;
  self->rows = sonde_top_view_is_tree (self)
                   ? sonde_top_rows_new_tree (sonde_top_view_profile (self), &options)
                   : sonde_top_rows_new_list (sonde_top_view_profile (self), &options);
  /* The cursor stays with its row; if that is gone, with its place. */
  n_rows = self->rows->list->len;
  if (n_rows == 0)
    {
      self->cursor = 0;
      return;
    }
  self->cursor = MIN (self->cursor, n_rows - 1);
  if (self->cursor_key == 0
      || sonde_top_rows_get (self->rows, self->cursor)->key == self->cursor_key)
    return;
  for (guint i = 0; i < n_rows; i++)
    if (sonde_top_rows_get (self->rows, i)->key == self->cursor_key)
      {
        self->cursor = i;
        return;
      }
}

void
sonde_top_view_take (SondeTopView *self, SondeTopSnapshot *snapshot)
{
  if (self->is_paused && self->snapshot != NULL)
    {
      sonde_top_snapshot_free (snapshot);
      return;
    }
  clear_shown (self);
  sonde_top_snapshot_free (self->snapshot);
  self->snapshot = snapshot;
  self->derived = derive (self->mode, snapshot->profile);
  make_rows (self);
}

/* The row of the cursor, or NULL. */
static const SondeTopRow *
current_row (const SondeTopView *self)
{
  if (self->rows == NULL || self->cursor >= self->rows->list->len)
    return NULL;
  return sonde_top_rows_get (self->rows, self->cursor);
}

static void
move_cursor (SondeTopView *self, gint64 to)
{
  gint64 n_rows = self->rows != NULL ? self->rows->list->len : 0;

  self->cursor = (guint) CLAMP (to, 0, MAX (n_rows - 1, 0));
  /* at the top it stays there: whatever is heaviest is what is wanted */
  self->cursor_key = self->cursor == 0 || n_rows == 0 ? 0 : current_row (self)->key;
}

static void
toggle (SondeTopView *self, guint64 key)
{
  if (g_hash_table_contains (self->expanded, &key))
    g_hash_table_remove (self->expanded, &key);
  else if (g_hash_table_size (self->expanded) < MAX_EXPANDED)
    g_hash_table_add (self->expanded, g_memdup2 (&key, sizeof key));
}

/* Opens the row, and what is below it as long as one callee has nearly all of it. */
static void
expand (SondeTopView *self)
{
  const SondeTopRow *row = current_row (self);

  for (guint at = self->cursor, n = 0; n < MAX_OPENED && row->has_children && !row->is_expanded;
       n++)
    {
      guint64 total = row->total;
      guint64 key = row->key;

      toggle (self, row->key);
      make_rows (self);
      if (at >= self->rows->list->len || sonde_top_rows_get (self->rows, at)->key != key)
        return;
      /* the heaviest one follows at once, or behind what sums up the others */
      do
        at++;
      while (at < self->rows->list->len && sonde_top_rows_get (self->rows, at)->is_rest);
      if (at >= self->rows->list->len)
        return;
      row = sonde_top_rows_get (self->rows, at);
      if ((double) row->total < ONLY_CALLEE * (double) total)
        return;
    }
}

/* Closes the row, or goes to the one that it is below. */
static void
collapse (SondeTopView *self)
{
  const SondeTopRow *row = current_row (self);

  if (row->is_expanded)
    {
      toggle (self, row->key);
      make_rows (self);
      return;
    }
  for (guint i = self->cursor; i > 0; i--)
    {
      const SondeTopRow *above = sonde_top_rows_get (self->rows, i - 1);

      if (above->is_expanded && (above->indent < row->indent || above->total > row->total))
        {
          move_cursor (self, i - 1);
          return;
        }
    }
}

static void
set_filter_changed (SondeTopView *self)
{
  self->cursor = 0;
  self->cursor_key = 0;
  make_rows (self);
}

/* FALSE if the key does not move the cursor. */
static gboolean
move (SondeTopView *self, guint key, guint page_rows)
{
  gint64 n_rows = self->rows != NULL ? self->rows->list->len : 0;

  switch (key)
    {
    case SONDE_TOP_KEY_UP:
    case 'k':
      move_cursor (self, (gint64) self->cursor - 1);
      return TRUE;
    case SONDE_TOP_KEY_DOWN:
    case 'j':
      move_cursor (self, (gint64) self->cursor + 1);
      return TRUE;
    case SONDE_TOP_KEY_PAGE_UP:
      move_cursor (self, (gint64) self->cursor - page_rows);
      return TRUE;
    case SONDE_TOP_KEY_PAGE_DOWN:
      move_cursor (self, (gint64) self->cursor + page_rows);
      return TRUE;
    case SONDE_TOP_KEY_HOME:
    case 'g':
      move_cursor (self, 0);
      return TRUE;
    case SONDE_TOP_KEY_END:
    case 'G':
      move_cursor (self, n_rows - 1);
      return TRUE;
    default:
      return FALSE;
    }
}

/* FALSE if the key does not choose what is listed. */
static gboolean
choose (SondeTopView *self, guint key)
{
  static const struct
  {
    guint key;
    SondeTopMode mode;
  } modes[] = {
    { 'f', SONDE_TOP_FLAT },      { 't', SONDE_TOP_TREE },    { 'b', SONDE_TOP_BOTTOM_UP },
    { 'P', SONDE_TOP_PROCESSES }, { 'T', SONDE_TOP_THREADS }, { 'M', SONDE_TOP_MODULES },
  };

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    if (modes[i].key == key)
      {
        clear_shown (self);
        self->mode = modes[i].mode;
        self->cursor = 0;
        self->cursor_key = 0;
        if (self->snapshot != NULL)
          self->derived = derive (modes[i].mode, self->snapshot->profile);
        make_rows (self);
        return TRUE;
      }
  return FALSE;
}

static SondeTopAction
command (SondeTopView *self, guint key)
{
  switch (key)
    {
    case 'q':
    case 'Q':
      return SONDE_TOP_QUIT;
    case 'p':
      self->is_paused = !self->is_paused;
      return self->is_paused ? SONDE_TOP_SHOW : SONDE_TOP_SNAPSHOT;
    case 'a':
      self->is_all = !self->is_all;
      return SONDE_TOP_SNAPSHOT;
    case 'r':
      return SONDE_TOP_RESET;
    case 's':
      self->by_total = !self->by_total;
      make_rows (self);
      return SONDE_TOP_SHOW;
    case '/':
      self->is_typing = TRUE;
      return SONDE_TOP_SHOW;
    case SONDE_TOP_KEY_ESCAPE:
      g_string_truncate (self->filter, 0);
      make_rows (self);
      return SONDE_TOP_SHOW;
    case 'c':
      g_hash_table_remove_all (self->expanded);
      make_rows (self);
      return SONDE_TOP_SHOW;
    case '?':
    case 'h':
      self->is_help = TRUE;
      return SONDE_TOP_SHOW;
    case ' ':
    case SONDE_TOP_KEY_ENTER:
    case SONDE_TOP_KEY_LEFT:
    case SONDE_TOP_KEY_RIGHT:
      {
        const SondeTopRow *row = current_row (self);

        if (row != NULL && sonde_top_view_is_tree (self))
          {
            if (key == SONDE_TOP_KEY_LEFT)
              collapse (self);
            else if (!row->is_expanded)
              expand (self);
            else if (key == SONDE_TOP_KEY_RIGHT)
              move_cursor (self, (gint64) self->cursor + 1);
            else
              collapse (self);
          }
      }
      return SONDE_TOP_SHOW;
    default:
      return SONDE_TOP_SHOW;
    }
}

SondeTopAction
sonde_top_view_press (SondeTopView *self, guint key, guint page_rows)
{
  if (self->is_help)
    {
      self->is_help = FALSE;
      return key == 'q' ? SONDE_TOP_QUIT : SONDE_TOP_SHOW;
    }
  if (move (self, self->is_typing && key < SONDE_TOP_KEY_UP ? 0 : key, page_rows))
    return SONDE_TOP_SHOW;
  if (self->is_typing)
    {
      if (key == SONDE_TOP_KEY_ENTER)
        self->is_typing = FALSE;
      else if (key == SONDE_TOP_KEY_ESCAPE)
        {
          self->is_typing = FALSE;
          g_string_truncate (self->filter, 0);
          set_filter_changed (self);
        }
      else if (key == SONDE_TOP_KEY_BACKSPACE && self->filter->len > 0)
        {
          const char *last
              = g_utf8_find_prev_char (self->filter->str, self->filter->str + self->filter->len);

          g_string_truncate (self->filter, (gsize) (last - self->filter->str));
          set_filter_changed (self);
        }
      else if (key < SONDE_TOP_KEY_UP && g_unichar_isprint (key)
               && g_utf8_strlen (self->filter->str, -1) < MAX_FILTER_CHARS)
        {
          g_string_append_unichar (self->filter, key);
          set_filter_changed (self);
        }
      return SONDE_TOP_SHOW;
    }
  return choose (self, key) ? SONDE_TOP_SHOW : command (self, key);
}

guint
sonde_top_view_scroll (SondeTopView *self, guint page_rows)
{
  guint n_rows = self->rows != NULL ? self->rows->list->len : 0;

  if (self->cursor < self->scroll)
    self->scroll = self->cursor;
  if (self->cursor >= self->scroll + page_rows)
    self->scroll = self->cursor - page_rows + 1;
  self->scroll = MIN (self->scroll, n_rows > page_rows ? n_rows - page_rows : 0);
  return self->scroll;
}
