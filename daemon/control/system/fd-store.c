/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/system/fd-store.h"

#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/fd.h"

typedef struct
{
  char *name;
  int fd;
} Left;

struct SondeFdStore
{
  GArray *left;         /* Left */
  SondeOutbox *systemd; /* NULL: nobody keeps anything */
};

static void
clear_left (gpointer data)
{
  Left *left = data;

  g_free (left->name);
  sonde_clear_fd (&left->fd);
}

SondeFdStore *
sonde_fd_store_new (SondeOutbox *systemd)
{
  SondeFdStore *self = g_new0 (SondeFdStore, 1);
  g_auto (GStrv) names = NULL; /* malloc()ed: the same to GLib */
  int n_fds = sd_listen_fds_with_names (TRUE, &names);

  self->systemd = systemd;
  self->left = g_array_new (FALSE, FALSE, sizeof (Left));
  g_array_set_clear_func (self->left, clear_left);
  for (int i = 0; i < n_fds; i++)
    {
      Left left = { .name = g_strdup (names[i]), .fd = SD_LISTEN_FDS_START + i };

      g_array_append_val (self->left, left);
    }
  return self;
}

void
sonde_fd_store_free (SondeFdStore *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->left);
  g_free (self);
}

gboolean
sonde_fd_store_is_there (const SondeFdStore *self)
{
  return self->systemd != NULL;
}

void
sonde_fd_store_put (SondeFdStore *self, const char *name, const int *fds, guint n_fds)
{
  g_autofree char *state = g_strdup_printf ("FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);

  if (!sonde_outbox_send (self->systemd, state, strlen (state), fds, n_fds))
    g_warning ("systemd does not keep %s", name);
}

void
sonde_fd_store_remove (SondeFdStore *self, const char *name)
{
  g_autofree char *state = g_strdup_printf ("FDSTOREREMOVE=1\nFDNAME=%s", name);

  if (!sonde_outbox_tell (self->systemd, state))
    g_warning ("systemd goes on keeping %s", name);
}

const char *
sonde_fd_store_left_name (const SondeFdStore *self, guint index)
{
  return index < self->left->len ? g_array_index (self->left, Left, index).name : NULL;
}

int
sonde_fd_store_take_left (SondeFdStore *self, guint index)
{
  return sonde_steal_fd (&g_array_index (self->left, Left, index).fd);
}
