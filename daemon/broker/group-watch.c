/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/group-watch.h"

#include <glib-unix.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

struct SondeGroupWatch
{
  const SondeControlGroup *group;
  int events_fd; /* -1: the hierarchy is of version 1, where one must look again and again */
  guint source;
  void (*emptied) (gpointer user_data);
  gpointer user_data;
};

static gboolean
look (SondeGroupWatch *self)
{
  if (!sonde_control_group_is_empty (self->group))
    return G_SOURCE_CONTINUE;
  self->source = 0;
  self->emptied (self->user_data);
  return G_SOURCE_REMOVE;
}

static gboolean
on_changed (int fd, GIOCondition condition, gpointer user_data)
{
  SondeGroupWatch *self = user_data;
  char text[256];

  /* A read, of however little, arms the kernel's poll again; of a group that is gone it fails. */
  if (pread (fd, text, sizeof text, 0) >= 0)
    return look (self);
  self->source = 0;
  self->emptied (self->user_data);
  return G_SOURCE_REMOVE;
}

static gboolean
on_time (gpointer user_data)
{
  return look (user_data);
}

SondeGroupWatch *
sonde_group_watch_new (const SondeControlGroup *group,
                       void (*emptied) (gpointer user_data),
                       gpointer user_data)
{
  SondeGroupWatch *self = g_new0 (SondeGroupWatch, 1);

  self->group = group;
  self->emptied = emptied;
  self->user_data = user_data;
  self->events_fd = sonde_control_group_open_events (group);
  /* An open file that was never read polls as changed: so what happened before is not missed. */
  self->source = self->events_fd >= 0 ? g_unix_fd_add (self->events_fd, G_IO_PRI, on_changed, self)
                                      : g_timeout_add (SONDE_LIMIT_GROUP_LOOK_MS, on_time, self);
  return self;
}

void
sonde_group_watch_free (SondeGroupWatch *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->source, g_source_remove);
  sonde_clear_fd (&self->events_fd);
  g_free (self);
}
