/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A word out of a few: found, or refused with what there is and what was probably meant. */
#pragma once

#include <glib.h>

/**
 * sonde_choice_nearest:
 * @words: NULL ends it
 *
 * Returns: (nullable) (transfer none): that of @words which @word is a beginning of, or misses by
 * a slip or two; NULL if there is none like it
 */
const char *sonde_choice_nearest (const char *word, const char *const *words);

/**
 * sonde_choice_find:
 * @option: what the word was given to: "--by"
 * @words: all that it takes; NULL ends it
 *
 * Returns: the index of @word in @words; -1 with @error, which names them all
 */
int
sonde_choice_find (const char *option, const char *word, const char *const *words, GError **error);

/* The same, or complains. */
int sonde_choice_find_or_complain (const char *option, const char *word, const char *const *words);
