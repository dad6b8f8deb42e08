/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A unit that is running: systemd is played, its control group is real. */
#pragma once

#include <sys/types.h>

#include "tests/lib/fake-systemd.h"

typedef struct
{
  FakeSystemd systemd;
  char *group;  /* as systemd says it */
  char *folder; /* of the group */
} BusUnit;

/* @name: such as "test.service"; must live as long */
void bus_unit_init (BusUnit *self, const char *name);
/* Its processes must have ended. */
void bus_unit_clear (BusUnit *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (BusUnit, bus_unit_clear)

void bus_unit_add (const BusUnit *self, pid_t pid);
