/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A flame graph as one page that needs nothing else. */
#include "client/flame/flame-page.h"

#include <string.h>

#include "client/flame/flame-data.h"
#include "flamegraph-resources.h"

#define RESOURCES    "/org/sonde/flamegraph/"
#define MAX_NODES    (1u << 20) /* what a browser lays out without a pause */
#define MAX_POINTS   (1u << 20)
#define MAX_ATTEMPTS 8

static const char *const scripts[]
    = { "data.js",   "model.js",    "colors.js", "tip.js", "graph.js",
        "tracks.js", "timeline.js", "table.js",  "main.js" };

static GBytes *
look_up (const char *name)
{
  g_autofree char *path = g_strconcat (RESOURCES, name, NULL);
  GBytes *bytes = g_resource_lookup_data (sonde_flamegraph_get_resource (), path, 0, NULL);

  g_assert (bytes != NULL);
  return bytes;
}

static void
append_resource (GString *out, const char *name)
{
  g_autoptr (GBytes) bytes = look_up (name);
  gsize size;
  const char *text = g_bytes_get_data (bytes, &size);

  g_string_append_len (out, text, (gssize) size);
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
compress (const GByteArray *data, GError **error)
{
  g_autoptr (GConverter) compressor
      = G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 9));
  g_autoptr (GOutputStream) memory = g_memory_output_stream_new_resizable ();
  g_autoptr (GOutputStream) stream = g_converter_output_stream_new (memory, compressor);

  if (!g_output_stream_write_all (stream, data->data, data->len, NULL, NULL, error)
      || !g_output_stream_close (stream, NULL, error))
    return NULL;
  return g_memory_output_stream_steal_as_bytes (G_MEMORY_OUTPUT_STREAM (memory));
}

/* Base64 of gzip of the data, of at most @max_bytes. */
static char *
make_data (const SondeFlamePage *page, gsize max_bytes, GError **error)
{
  guint divisor = 1;

  for (guint attempt = 0; attempt < MAX_ATTEMPTS; attempt++, divisor *= 2)
    {
      g_autoptr (SondeFlameGraph) graph
          = sonde_flame_graph_new (page->log, page->other, page->symbols, MAX_NODES / divisor);
      SondeFlameSource source = { page->log, graph, page->title, page->other_title, page->start };
      g_autoptr (GByteArray) data = sonde_flame_data_new (&source, MAX_POINTS / divisor);
      g_autoptr (GBytes) bytes = compress (data, error);

      if (bytes == NULL)
        return NULL;
      if (g_bytes_get_size (bytes) / 3 * 4 + 4 <= max_bytes)
        return g_base64_encode (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
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
sonde_flame_page_new (const SondeFlamePage *page, gsize max_bytes, GError **error)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GString) style = g_string_new (NULL);
  g_autoptr (GString) script = make_script ();
  g_autofree char *title = g_markup_escape_text (page->title, -1);
  g_autofree char *script_hash = dup_hash (script);
  g_autofree char *style_hash = NULL;
  g_autofree char *data = NULL;
  gsize n_bytes;

  append_resource (out, "page.html");
  append_resource (style, "style.css");
  style_hash = dup_hash (style);
  n_bytes = out->len + style->len + script->len + strlen (title) + strlen (script_hash)
            + strlen (style_hash);
  data = make_data (page, max_bytes - MIN (n_bytes, max_bytes), error);
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
