/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which places samples of which process showed, four bytes each. */
#include "daemon/capture/hit-archive.h"

#include <stdlib.h>
#include <string.h>

/* Before the sites of a group. */
typedef struct
{
  uint64_t bias;
  int32_t pid;
  uint32_t n_sites;
} Header;

#define HEADER_WORDS (sizeof (Header) / sizeof (uint32_t))

typedef struct
{
  int32_t pid;
  guint at; /* word */
} Place;

struct SondeHitArchive
{
  const SondeSiteTable *sites;
  GArray *words;  /* uint32_t: headers and sites */
  GArray *places; /* Place of each group; made by sonde_hit_archive_sort() */
};

SondeHitArchive *
sonde_hit_archive_new (const SondeSiteTable *sites)
{
  SondeHitArchive *self = g_new0 (SondeHitArchive, 1);

  self->sites = sites;
  self->words = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  self->places = g_array_new (FALSE, FALSE, sizeof (Place));

  return self;
}

void
sonde_hit_archive_free (SondeHitArchive *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->words);
  g_array_unref (self->places);
  g_free (self);
}

static uint64_t
bias_of (const SondeHitArchive *self, const SondeHit *hit)
{
  return hit->address - sonde_site_table_get (self->sites, hit->site)->vaddr;
}

static int
compare_hits (gconstpointer first, gconstpointer second, gpointer user_data)
{
  const SondeHit *a = first;
  const SondeHit *b = second;
  uint64_t a_bias = bias_of (user_data, a);
  uint64_t b_bias = bias_of (user_data, b);

  if (a->pid != b->pid)
    return a->pid < b->pid ? -1 : 1;
  if (a_bias != b_bias)
    return a_bias < b_bias ? -1 : 1;
  return (a->site > b->site) - (a->site < b->site);
}

void
sonde_hit_archive_add (SondeHitArchive *self, SondeHit *hits, guint n_hits)
{
  guint end;

  g_qsort_with_data (hits, (int) n_hits, sizeof *hits, compare_hits, self);
  for (guint i = 0; i < n_hits; i = end)
    {
      Header header = { bias_of (self, &hits[i]), hits[i].pid, 0 };

      for (end = i + 1; end < n_hits && hits[end].pid == header.pid; end++)
        if (bias_of (self, &hits[end]) != header.bias)
          break;
      header.n_sites = end - i;
      g_array_append_vals (self->words, &header, HEADER_WORDS);
      for (guint k = i; k < end; k++)
        g_array_append_val (self->words, hits[k].site);
    }
}

gsize
sonde_hit_archive_bytes (const SondeHitArchive *self)
{
  return self->words->len * sizeof (uint32_t);
}

static Header
header_at (const SondeHitArchive *self, guint at)
{
  Header header;

  memcpy (&header, &g_array_index (self->words, uint32_t, at), sizeof header);
  return header;
}

static int
compare_places (gconstpointer first, gconstpointer second)
{
  const Place *a = first;
  const Place *b = second;

  if (a->pid != b->pid)
    return a->pid < b->pid ? -1 : 1;
  return (a->at > b->at) - (a->at < b->at);
}

guint
sonde_hit_archive_sort (SondeHitArchive *self)
{
  g_array_set_size (self->places, 0);
  for (guint at = 0; at < self->words->len;)
    {
      Header header = header_at (self, at);
      Place place = { header.pid, at };

      g_array_append_val (self->places, place);
      at += HEADER_WORDS + header.n_sites;
    }
  g_array_sort (self->places, compare_places);

  return self->places->len;
}

SondeHitGroup
sonde_hit_archive_group (const SondeHitArchive *self, guint index)
{
  guint at = g_array_index (self->places, Place, index).at;
  Header header = header_at (self, at);

  return (SondeHitGroup){
    .pid = header.pid,
    .bias = header.bias,
    .sites = &g_array_index (self->words, uint32_t, at + HEADER_WORDS),
    .n_sites = header.n_sites,
  };
}
