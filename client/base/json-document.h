/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads JSON of strangers: RFC 8259 to the letter, within bounds. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: json-document
 *
 * A text that was read whole, and stays as it was: values are numbers of entries in the order of
 * the text, the outermost is 0, and what is not there is %SONDE_JSON_ABSENT, of which every
 * function tells nothing. What the standard leaves open is refused: a member that an object has
 * twice, half of a surrogate pair, a number that no double holds; and so is a NUL in a string.
 */
typedef struct SondeJsonDocument SondeJsonDocument;

#define SONDE_JSON_ABSENT      G_MAXUINT32
#define SONDE_JSON_MAX_MEMBERS 1024u /* of one object: each is compared with those before it */
#define SONDE_JSON_MAX_DIGITS  64u   /* characters of a number */

typedef enum
{
  SONDE_JSON_NULL,
  SONDE_JSON_FALSE,
  SONDE_JSON_TRUE,
  SONDE_JSON_NUMBER,
  SONDE_JSON_STRING,
  SONDE_JSON_ARRAY,
  SONDE_JSON_OBJECT,
} SondeJsonType;

typedef struct
{
  gsize n_bytes;
  guint depth;     /* arrays and objects in each other, at most 1,000 */
  guint n_entries; /* values of any kind; some 60 bytes each */
} SondeJsonBounds;

/**
 * sonde_json_document_parse:
 * @bytes: (transfer none): any, without an end of their own
 *
 * Errors: %G_IO_ERROR_INVALID_DATA; the message begins with "byte N: ", the first one being 1
 */
SondeJsonDocument *sonde_json_document_parse (const char *bytes,
                                              gsize n_bytes,
                                              const SondeJsonBounds *bounds,
                                              GError **error);
void sonde_json_document_free (SondeJsonDocument *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeJsonDocument, sonde_json_document_free)

/* %SONDE_JSON_NULL of what is not there. */
SondeJsonType sonde_json_document_type (const SondeJsonDocument *self, guint32 value);

/* Of an object, or absent. */
guint32
sonde_json_document_member (const SondeJsonDocument *self, guint32 object, const char *name);

/* What an array or object begins with, and what follows that: absent if nothing does. */
guint32 sonde_json_document_first (const SondeJsonDocument *self, guint32 outer);
guint32 sonde_json_document_next (const SondeJsonDocument *self, guint32 value);
guint32 sonde_json_document_n_inside (const SondeJsonDocument *self, guint32 outer);

/* (nullable): of a member; NULL of other values */
const char *sonde_json_document_name (const SondeJsonDocument *self, guint32 value);

/* (nullable): what a string says; NULL of other values */
const char *sonde_json_document_text (const SondeJsonDocument *self, guint32 value);

/* FALSE of what is no number, or, for an integer, has a fraction or an exponent, or is too large.
 */
gboolean sonde_json_document_number (const SondeJsonDocument *self, guint32 value, double *number);
gboolean sonde_json_document_integer (const SondeJsonDocument *self, guint32 value, gint64 *number);

/* (transfer full): the value as it stands in the text; NULL of what is not there */
char *sonde_json_document_dup_source (const SondeJsonDocument *self, guint32 value);
