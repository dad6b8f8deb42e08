/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Judges what sondectl prints of a capture that may come from anywhere. */
#pragma once

#include <json-glib/json-glib.h>
#include <stdlib.h>

/* Nothing in a capture can move the cursor of a terminal. */
static inline void
fuzz_check_text (const GString *text)
{
  if (!g_utf8_validate (text->str, (gssize) text->len, NULL))
    abort ();
  for (gsize i = 0; i < text->len; i++)
    if ((guchar) text->str[i] < ' ' && text->str[i] != '\n')
      abort ();
}

/* @json: (transfer full) */
static inline void
fuzz_check_json (GString *json)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();

  fuzz_check_text (json);
  if (!json_parser_load_from_data (parser, json->str, (gssize) json->len, NULL))
    abort ();
  g_string_free (json, TRUE);
}
