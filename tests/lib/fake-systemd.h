/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A systemd that knows one unit, played on the private bus. */
#pragma once

#include <gio/gio.h>

typedef struct
{
  const char *name;  /* of the unit */
  const char *group; /* what its ControlGroup is said to be */
  gboolean silent;   /* answers nothing; to be set before the start */
  gint n_asked;      /* for units; atomic */
  GDBusConnection *bus;
  GMainContext *context;
  GMainLoop *loop; /* in a thread of its own: tests make blocking calls */
  GThread *thread;
} FakeSystemd;

/* @name, such as "test.service", and @group must live as long. */
void fake_systemd_start (FakeSystemd *self, const char *name, const char *group);
void fake_systemd_clear (FakeSystemd *self); /* accepts one that was not started */
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FakeSystemd, fake_systemd_clear)
