/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/names/symbolizer.h"

#include <string.h>

#include "daemon/capture/names/function-names.h"
#include "protocol/frame.h"

#define ITEMS_A_SLICE 2048
#define NO_FUNCTION   UINT32_MAX

typedef struct
{
  uint64_t begin; /* bytes, in the file */
  uint64_t end;   /* first address behind */
  uint32_t name;  /* bytes, into the strings */
  uint32_t tag;   /* the same of its module's name */
} NamedFunction;

struct SondeSymbolizer
{
  const SondeSampledAddresses *addresses;
  SondeSymbolizerDone done;
  gpointer user_data;
  guint source;

  /* First each place in a file gets its function, in the order of files. */
  uint32_t *order; /* of sites */
  guint n_sites;
  guint next_site;
  SondeFunctionNames *names; /* of the file that the last site was in */
  uint32_t file;
  uint32_t tag;
  uint32_t made_tag;     /* of code that no file has; 0: not needed yet */
  uint32_t *function_of; /* by site */
  GArray *functions;     /* Function */

  /* Then each process gets those it had, in the order of pids. */
  guint n_groups;
  guint next_group;
  const GArray *late; /* SondeLateName, in the same order */
  guint n_late;
  guint next_late;
  GArray *of_process;  /* SondeSymbolRecord, not yet merged */
  GByteArray *records; /* SondeSymbolRecord, name and tag relative to the strings */
  GString *strings;    /* begins with an empty one */
};

static gboolean
add_string (SondeSymbolizer *self, const char *text, uint32_t *offset)
{
  gsize size_bytes = strlen (text) + 1;

  if (size_bytes > SONDE_SYMBOLIZER_MAX_STRINGS - self->strings->len)
    return FALSE;
  *offset = (uint32_t) self->strings->len;
  g_string_append_len (self->strings, text, (gssize) size_bytes);

  return TRUE;
}

/* --- functions of places --- */

/* The address that tells the function. */
static uint64_t
place_of (const SondeSite *site)
{
  return site->vaddr - site->is_return;
}

static int
compare_sites (gconstpointer first, gconstpointer second, gpointer user_data)
{
  const SondeSite *a = sonde_sampled_addresses_site (user_data, *(const uint32_t *) first);
  const SondeSite *b = sonde_sampled_addresses_site (user_data, *(const uint32_t *) second);

  if (a->file != b->file)
    return a->file < b->file ? -1 : 1;
  return (place_of (a) > place_of (b)) - (place_of (a) < place_of (b));
}

static void
name_sites (SondeSymbolizer *self)
{
  guint end = MIN (self->n_sites, self->next_site + ITEMS_A_SLICE);

  while (self->next_site < end)
    {
      uint32_t index = self->order[self->next_site++];
      const SondeSite *site = sonde_sampled_addresses_site (self->addresses, index);
      gboolean loads = self->names == NULL || self->file != site->file;
      const NamedFunction *last;
      guint n;

      if (loads)
        {
          const char *file_name = sonde_sampled_addresses_file_name (self->addresses, site);
          int fd = sonde_sampled_addresses_fd (self->addresses, site);

          sonde_function_names_free (self->names);
          self->names = sonde_function_names_new (fd, file_name);
          self->file = site->file;
          if (!add_string (self, file_name, &self->tag))
            self->tag = 0;
        }
      n = self->functions->len;
      last = n > 0 ? &g_array_index (self->functions, NamedFunction, n - 1) : NULL;
      /* Sites are sorted, so the function found last often has the next one, too. */
      if (last != NULL && last->tag == self->tag && place_of (site) >= last->begin
          && place_of (site) < last->end)
        self->function_of[index] = n - 1;
      else
        {
          NamedFunction found = { .tag = self->tag };
          g_autofree char *name
              = sonde_function_names_find (self->names, place_of (site), &found.begin, &found.end);

          self->function_of[index] = add_string (self, name, &found.name) ? n : NO_FUNCTION;
          if (self->function_of[index] == n)
            g_array_append_val (self->functions, found);
        }
      if (loads)
        break; /* reading a symbol table is a slice's work */
    }
}

/* --- records of processes --- */

static int
compare_records (gconstpointer first, gconstpointer second)
{
  const SondeSymbolRecord *a = first;
  const SondeSymbolRecord *b = second;

  if (a->begin != b->begin)
    return a->begin < b->begin ? -1 : 1;
  return (a->end > b->end) - (a->end < b->end);
}

/* Leaves ranges that do not overlap: the same function becomes one, a later one cuts
 * the one before it. */
static guint
merge_records (GArray *records)
{
  SondeSymbolRecord *all = (SondeSymbolRecord *) (void *) records->data;
  guint n = 0;

  g_array_sort (records, compare_records);
  for (guint i = 0; i < records->len; i++)
    {
      SondeSymbolRecord *last = n > 0 ? &all[n - 1] : NULL;

      if (last == NULL || last->end < all[i].begin)
        all[n++] = all[i];
      else if (last->begin == all[i].begin || last->name_offset == all[i].name_offset)
        last->end = MAX (last->end, all[i].end);
      else
        {
          last->end = all[i].begin - 1;
          all[n++] = all[i];
        }
    }

  return n;
}

/* The one with the lower number of those that either has next. */
static int32_t
next_pid (const SondeSymbolizer *self)
{
  int32_t pid = G_MAXINT32;

  if (self->next_group < self->n_groups)
    pid = sonde_sampled_addresses_group (self->addresses, self->next_group).pid;
  if (self->next_late < self->n_late)
    pid = MIN (pid, g_array_index (self->late, SondeLateName, self->next_late).pid);
  return pid;
}

/* Returns how many there were. */
static guint
add_late_names (SondeSymbolizer *self, int32_t pid)
{
  guint n = 0;

  for (; self->next_late < self->n_late; self->next_late++, n++)
    {
      const SondeLateName *late = &g_array_index (self->late, SondeLateName, self->next_late);
      SondeSymbolRecord record
          = { .begin = late->begin, .end = late->end - 1, .pid = (uint32_t) pid };
      uint32_t name;

      if (late->pid != pid)
        break;
      if (!add_string (self, late->name, &name))
        continue;
      if (self->made_tag == 0 && !add_string (self, "[jit]", &self->made_tag))
        self->made_tag = 0;
      record.name_offset = name;
      record.tag_offset = self->made_tag;
      g_array_append_val (self->of_process, record);
    }
  return n;
}

/* Writes the places of the next process. Returns how many it had. */
static guint
write_process (SondeSymbolizer *self)
{
  int32_t pid = next_pid (self);
  const SondeSite *site;
  guint n_sites = 0;

  g_array_set_size (self->of_process, 0);
  for (; self->next_group < self->n_groups; self->next_group++)
    {
      SondeSiteGroup group = sonde_sampled_addresses_group (self->addresses, self->next_group);

      if (group.pid != pid)
        break;
      for (guint i = 0; i < group.n_sites; i++)
        {
          uint32_t index = self->function_of[group.sites[i]];
          const NamedFunction *function;
          SondeSymbolRecord record = { .pid = (uint32_t) group.pid };

          if (index == NO_FUNCTION)
            continue;
          function = &g_array_index (self->functions, NamedFunction, index);
          site = sonde_sampled_addresses_site (self->addresses, group.sites[i]);
          record.begin = function->begin + group.bias;
          /* A call that never returns may be the last instruction: the address behind it counts
           * too. */
          record.end = MAX (function->end + group.bias - 1, site->vaddr + group.bias);
          record.name_offset = function->name;
          record.tag_offset = function->tag;
          g_array_append_val (self->of_process, record);
        }
      n_sites += group.n_sites;
    }
  n_sites += add_late_names (self, pid);
  g_byte_array_append (self->records, (const guint8 *) self->of_process->data,
                       merge_records (self->of_process) * (guint) sizeof (SondeSymbolRecord));

  return n_sites;
}

static GBytes *
build_file (SondeSymbolizer *self)
{
  GByteArray *file = self->records;
  SondeSymbolRecord *records = (SondeSymbolRecord *) (void *) file->data;
  guint n_records = file->len / sizeof *records;
  uint32_t strings_at = (uint32_t) ((n_records + 1) * sizeof *records);

  if (n_records == 0)
    return NULL;

  for (guint i = 0; i < n_records; i++)
    {
      records[i].name_offset += strings_at;
      if (records[i].tag_offset != 0)
        records[i].tag_offset += strings_at;
    }
  g_byte_array_append (file, (const guint8 *) &(SondeSymbolRecord){ 0 }, sizeof *records);
  g_byte_array_append (file, (const guint8 *) self->strings->str, (guint) self->strings->len);

  return g_byte_array_free_to_bytes (g_steal_pointer (&self->records));
}

static gboolean
on_slice (gpointer user_data)
{
  SondeSymbolizer *self = user_data;
  g_autoptr (GBytes) file = NULL;

  if (self->next_site < self->n_sites)
    {
      name_sites (self);
      return G_SOURCE_CONTINUE;
    }
  if (next_pid (self) != G_MAXINT32)
    {
      guint n_sites = 0;

      while (n_sites < ITEMS_A_SLICE && next_pid (self) != G_MAXINT32)
        n_sites += write_process (self);
      return G_SOURCE_CONTINUE;
    }

  self->source = 0;
  file = build_file (self);
  self->done (file, self->user_data);

  return G_SOURCE_REMOVE;
}

SondeSymbolizer *
sonde_symbolizer_start (SondeSampledAddresses *addresses,
                        const GArray *late,
                        SondeSymbolizerDone done,
                        gpointer user_data)
{
  SondeSymbolizer *self = g_new0 (SondeSymbolizer, 1);

  self->addresses = addresses;
  self->n_groups = sonde_sampled_addresses_end (addresses);
  self->late = late;
  self->n_late = late != NULL ? late->len : 0;
  self->done = done;
  self->user_data = user_data;

  self->n_sites = sonde_sampled_addresses_n_sites (addresses);
  self->order = g_new (uint32_t, self->n_sites);
  for (guint i = 0; i < self->n_sites; i++)
    self->order[i] = i;
  g_qsort_with_data (self->order, (int) self->n_sites, sizeof *self->order, compare_sites,
                     addresses);
  self->function_of = g_new (uint32_t, self->n_sites);
  self->functions = g_array_new (FALSE, FALSE, sizeof (NamedFunction));

  self->of_process = g_array_new (FALSE, FALSE, sizeof (SondeSymbolRecord));
  self->records = g_byte_array_new ();
  self->strings = g_string_new (NULL);
  g_string_append_c (self->strings, '\0');
  self->source = g_idle_add (on_slice, self);

  return self;
}

void
sonde_symbolizer_free (SondeSymbolizer *self)
{
  if (self == NULL)
    return;

  if (self->source != 0)
    g_source_remove (self->source);
  sonde_function_names_free (self->names);
  g_free (self->order);
  g_free (self->function_of);
  g_array_unref (self->functions);
  g_array_unref (self->of_process);
  g_clear_pointer (&self->records, g_byte_array_unref);
  g_string_free (self->strings, TRUE);
  g_free (self);
}
