/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/frame.h"

#include "client/model/frame-text.h"

struct _SondeClientFrame
{
  GBytes *bytes; /* 8-aligned, as g_malloc gives it */
  gatomicrefcount n_refs;
};

G_DEFINE_BOXED_TYPE (SondeClientFrame,
                     sonde_client_frame,
                     sonde_client_frame_ref,
                     sonde_client_frame_unref)

SondeClientFrame *
sonde_client_frame_new (const SondeFrame *frame)
{
  SondeClientFrame *self = g_new0 (SondeClientFrame, 1);

  self->bytes = g_bytes_new (frame, frame->len);
  g_atomic_ref_count_init (&self->n_refs);
  return self;
}

const SondeFrame *
sonde_client_frame_peek (const SondeClientFrame *self)
{
  return g_bytes_get_data (self->bytes, NULL);
}

SondeClientFrame *
sonde_client_frame_ref (SondeClientFrame *self)
{
  g_atomic_ref_count_inc (&self->n_refs);
  return self;
}

void
sonde_client_frame_unref (SondeClientFrame *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->n_refs))
    return;
  g_bytes_unref (self->bytes);
  g_free (self);
}

guint
sonde_client_frame_get_frame_type (SondeClientFrame *self)
{
  return sonde_client_frame_peek (self)->type;
}

gint
sonde_client_frame_get_pid (SondeClientFrame *self)
{
  return sonde_client_frame_peek (self)->pid;
}

gint64
sonde_client_frame_get_time_ns (SondeClientFrame *self)
{
  return sonde_client_frame_peek (self)->time_ns;
}

GBytes *
sonde_client_frame_get_bytes (SondeClientFrame *self)
{
  return g_bytes_ref (self->bytes);
}

char *
sonde_client_frame_to_string (SondeClientFrame *self)
{
  GString *line = g_string_new (NULL);

  sonde_frame_text_append (NULL, line, sonde_client_frame_peek (self));
  return g_string_free (line, FALSE);
}
