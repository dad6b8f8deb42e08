/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/flame/flame-page.h"

#include <string.h>

#include "client/flame/flame-data.h"
#include "flamegraph-resources.h"

#define RESOURCES    "/org/sonde/flamegraph/"
#define MAX_NODES    (1u << 20) /* what a browser lays out without a pause */
#define MAX_POINTS   (1u << 20)
#define MAX_RUNS     (1u << 18)
#define MAX_DIVISOR  128         /* so that thousands of frames are left */
#define LARGE_FACTOR 8           /* of data that hardly becomes small enough */
#define QUICK_FACTOR 2           /* by which what is compressed quickly is larger, at most */
#define PIECE_BYTES  (64u << 10) /* GConverterOutputStream copies what it is given at once */

static const char *const scripts[]
    = { "data.js",     "edits.js",   "model.js",  "trees.js",    "colors.js", "address.js",
        "stack.js",    "tip.js",     "graph.js",  "chart.js",    "menu.js",   "calltree.js",
        "sandwich.js", "counter.js", "tracks.js", "timeline.js", "table.js",  "main.js" };

static void
append_resource (GString *out, const char *name)
{
  g_autofree char *path = g_strconcat (RESOURCES, name, NULL);
  g_autoptr (GBytes) bytes
      = g_resource_lookup_data (sonde_flamegraph_get_resource (), path, 0, NULL);

  g_assert (bytes != NULL);
  g_string_append_len (out, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes));
}

static GString *
make_script (void)
{
  GString *script = g_string_new ("(() => {\n'use strict';\n");

  for (gsize i = 0; i < G_N_ELEMENTS (scripts); i++)
    append_resource (script, scripts[i]);
  g_string_append (script, "})();\n");
  return script;
}

/* As Content-Security-Policy names the one script, or style, that may run. */
static char *
dup_hash (const GString *text)
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree char *base64 = NULL;
  guint8 digest[32];
  gsize size = sizeof digest;

  g_checksum_update (checksum, (const guchar *) text->str, (gssize) text->len);
  g_checksum_get_digest (checksum, digest, &size);
  base64 = g_base64_encode (digest, size);
  return g_strdup_printf ("'sha256-%s'", base64);
}

static GBytes *
compress (const GByteArray *data, int level, GError **error)
{
  g_autoptr (GConverter) compressor
      = G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, level));
  g_autoptr (GOutputStream) memory = g_memory_output_stream_new_resizable ();
  g_autoptr (GOutputStream) stream = g_converter_output_stream_new (memory, compressor);

  for (gsize at = 0; at < data->len; at += PIECE_BYTES)
    if (!g_output_stream_write_all (stream, data->data + at, MIN (data->len - at, PIECE_BYTES),
                                    NULL, NULL, error))
      return NULL;
  if (!g_output_stream_close (stream, NULL, error))
    return NULL;
  return g_memory_output_stream_steal_as_bytes (G_MEMORY_OUTPUT_STREAM (memory));
}

static gsize
encoded_size (GBytes *bytes)
{
  return g_bytes_get_size (bytes) / 3 * 4 + 4;
}

/* The smallest is also the slowest, by far for texts that were made for that: so what is far too
 * large is found out quickly, and what is large gets less of it. */
static GBytes *
compress_well (const GByteArray *data, gsize max_bytes, GError **error)
{
  g_autoptr (GBytes) quick = NULL;

  if (data->len / LARGE_FACTOR > max_bytes)
    {
      quick = compress (data, 1, error);
      if (quick == NULL || encoded_size (quick) / QUICK_FACTOR > max_bytes)
        return g_steal_pointer (&quick);
    }
  return compress (data, data->len / 2 > max_bytes ? 6 : 9, error);
}

/* Base64 of gzip of the data, of at most @max_bytes. */
static char *
make_data (const SondeFlameSource *source, gsize max_bytes, GError **error)
{
  g_autoptr (SondeFlameGraph) graph = sonde_flame_graph_new (source, MAX_NODES);

  for (guint64 divisor = 1;; sonde_flame_graph_limit (graph, (guint32) (MAX_NODES / divisor)))
    {
      g_autoptr (GByteArray) data = sonde_flame_data_new (
          source, graph, (guint) (MAX_POINTS / divisor), (guint) (MAX_RUNS / divisor));
      g_autoptr (GBytes) bytes = compress_well (data, max_bytes, error);

      if (bytes == NULL)
        return NULL;
      if (encoded_size (bytes) <= max_bytes)
        return g_base64_encode (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
      if (divisor == MAX_DIVISOR)
        break;
      divisor = MIN (divisor * MAX (encoded_size (bytes) / MAX (max_bytes, 1), 2), MAX_DIVISOR);
    }
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
               "Threads, counters and marks alone make a page that is too large");
  return NULL;
}

/* Puts @value where the template says @TEXT@. */
static void
substitute (GString *out, const char *mark, const char *value)
{
  const char *at = strstr (out->str, mark);
  gsize offset;

  g_assert (at != NULL);
  offset = (gsize) (at - out->str);
  g_string_erase (out, (gssize) offset, (gssize) strlen (mark));
  g_string_insert (out, (gssize) offset, value);
}

GString *
sonde_flame_page_new (const SondeFlameSource *source, gsize max_bytes, GError **error)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GString) style = g_string_new (NULL);
  g_autoptr (GString) script = make_script ();
  g_autofree char *title = g_markup_escape_text (source->title, -1);
  g_autofree char *script_hash = dup_hash (script);
  g_autofree char *style_hash = NULL;
  g_autofree char *data = NULL;
  gsize n_bytes;

  append_resource (out, "page.html");
  append_resource (style, "style.css");
  style_hash = dup_hash (style);
  n_bytes = out->len + style->len + script->len + strlen (title) + strlen (script_hash)
            + strlen (style_hash);
  data = make_data (source, max_bytes - MIN (n_bytes, max_bytes), error);
  if (data == NULL)
    return NULL;

  /* the last first: what is put in is not searched for marks */
  substitute (out, "@SCRIPT@", script->str);
  substitute (out, "@DATA@", data);
  substitute (out, "@STYLE@", style->str);
  substitute (out, "@TITLE@", title);
  substitute (out, "@STYLE_HASH@", style_hash);
  substitute (out, "@SCRIPT_HASH@", script_hash);
  return g_steal_pointer (&out);
}
