/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A systemd that knows one unit, played on the private bus; the unit's control group is real. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

typedef struct
{
  const char *name;
  char *group;  /* as systemd says it */
  char *folder; /* of the group */
  GDBusConnection *bus;
  GMainContext *context;
  GMainLoop *loop; /* in a thread of its own: tests make blocking calls */
  GThread *thread;
} BusUnit;

/* @name: such as "test.service"; must live as long */
void bus_unit_init (BusUnit *self, const char *name);
/* Its processes must have ended. */
void bus_unit_clear (BusUnit *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (BusUnit, bus_unit_clear)

void bus_unit_add (const BusUnit *self, pid_t pid);
