/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A polkitd whose dialogs stand open, played on a private bus that has none. */
#pragma once

#include <gio/gio.h>

typedef struct
{
  GDBusMethodInvocation *invocation;
  char *subject; /* unique bus name */
  char *id;      /* by which it is cancelled */
  gboolean is_interactive;
} FakePolkitQuestion;

typedef struct
{
  GDBusConnection *bus;
  GPtrArray *open; /* FakePolkitQuestion: neither answered nor cancelled, the oldest first */
  guint n_asked;
  guint n_cancelled;
  gboolean allows_quiet; /* says yes at once to who wants no dialog */
  const char *error;     /* says this at once to everybody; NULL: does not */
} FakePolkit;

/* Takes the name. Questions come while the main context runs. */
void fake_polkit_init (FakePolkit *self);
/* Leaves the bus. */
void fake_polkit_clear (FakePolkit *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FakePolkit, fake_polkit_clear)

/* How many are open of the connections of @subject. */
guint fake_polkit_count_of (const FakePolkit *self, const char *subject);
/* Says yes or no to the oldest one. */
void fake_polkit_answer_one (FakePolkit *self, gboolean is_allowed);
