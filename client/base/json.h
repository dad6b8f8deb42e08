/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes JSON piece by piece: a report may have millions of numbers. */
#pragma once

#include <glib.h>

typedef struct
{
  GString *out;
  gboolean has_value; /* one stands before what comes next, in the same object or array */
} SondeJson;

/* @out: (transfer none): what is written is appended to it */
#define SONDE_JSON_INIT(out)                                                                       \
  {                                                                                                \
    (out), FALSE                                                                                   \
  }

/* @member: NULL in an array, and for the outermost value */
void sonde_json_begin_object (SondeJson *self, const char *member);
void sonde_json_end_object (SondeJson *self);
void sonde_json_begin_array (SondeJson *self, const char *member);
void sonde_json_end_array (SondeJson *self);
void sonde_json_add_number (SondeJson *self, const char *member, gint64 value);
void sonde_json_add_bool (SondeJson *self, const char *member, gboolean value);

/* @source: one value that is JSON already */
void sonde_json_add_source (SondeJson *self, const char *member, const char *source);

/* @value: finite; written with four digits behind the point */
void sonde_json_add_real (SondeJson *self, const char *member, double value);

/* @text: valid UTF-8 */
void sonde_json_add_text (SondeJson *self, const char *member, const char *text);

/* @foreign: any bytes: as sonde_text_escape() shows them */
void sonde_json_add_escaped (SondeJson *self, const char *member, const char *foreign);

/* The string alone, with its quotes, for who writes the rest himself. */
void sonde_json_append_escaped (GString *out, const char *foreign);
