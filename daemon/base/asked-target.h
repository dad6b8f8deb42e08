/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process that a caller wants to have profiled, before anybody has judged it. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/* A process as its caller named it. Both descriptors are of that moment: polkit may be asked about
 * it for minutes, and no other process that gets the number meanwhile will pass for it. Whether
 * there is one is told by the broker alone. */
typedef struct
{
  pid_t pid;
  gboolean has_proof; /* FALSE: he may name any process */
  int maps_fd;        /* the caller's proof, good or not */
  int pidfd;          /* -1: there was none */
} SondeAskedTarget;

/* @maps_fd: (transfer full): the caller's proof */
SondeAskedTarget *sonde_asked_target_new (pid_t pid, int maps_fd);
/* For a caller who may name any process. */
SondeAskedTarget *sonde_asked_target_new_unproven (pid_t pid);
/* Accepts NULL. */
void sonde_asked_target_free (SondeAskedTarget *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeAskedTarget, sonde_asked_target_free)
