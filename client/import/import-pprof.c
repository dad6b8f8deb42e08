/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pprof's protobuf, read by hand: a stranger's, of which nothing is made before it is checked.
 * Source: github.com/google/pprof, proto/profile.proto; protobuf.dev, "Encoding" */
#include "client/import/import.h"

#include <gio/gio.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/base/text.h"

#define MAX_PLAIN_BYTES (256u << 20)
#define MAX_ENTRIES     (1u << 22) /* of each table */
#define MAX_TYPES       64
#define MAX_LINES       64      /* of a location: functions that are inlined there */
#define DEFAULT_NS      1000000 /* between samples, where the profile does not say how long it took */
#define BEGIN_NS        G_GINT64_CONSTANT (1000000000)

/* A part of the bytes, and where it is in all of them. */
typedef struct
{
  const guint8 *bytes;
  gsize size_bytes;
  gsize offset;
} Part;

typedef struct
{
  guint32 number;
  guint wire;
  guint64 value; /* of wire type 0 */
  Part part;     /* of wire type 2 */
} Field;

typedef struct
{
  gsize offset;
  gsize size_bytes;
} Text;

typedef struct
{
  guint64 id;
  guint64 name; /* text */
} NamedEntry;   /* a function or a mapping */

typedef struct
{
  guint64 id;
  guint64 mapping;
  guint32 first_line; /* in lines */
  guint32 n_lines;
} LocationEntry;

typedef enum
{
  COLUMN_SAMPLES, /* each is a sample */
  COLUMN_TIME,    /* ns, of which a period is a sample */
  COLUMN_BLOCKS,  /* allocated, with their bytes in the next column; */
  COLUMN_LIVE,    /* of these still there at the end, the same */
  N_COLUMNS
} Column;

typedef struct
{
  const char *name;
  Part all;
  GArray *texts;         /* Text */
  GArray *types;         /* guint64: texts of type and unit, in turn */
  GHashTable *functions; /* id → index of names + 1 */
  GHashTable *mappings;  /* the same */
  GArray *names;         /* NamedEntry */
  GHashTable *locations; /* id → index + 1 */
  GArray *entries;       /* LocationEntry */
  GArray *lines;         /* guint64: functions, the innermost first */
  guint64 period;
  gint64 time_ns;
  gint64 duration_ns;
  int columns[N_COLUMNS]; /* -1: the profile has none */
  guint64 n_total;        /* samples, or blocks, of all */
  guint64 n_told;
  SondeOutput *output;
  SondeImported *imported;
  GArray *stack; /* guint32: functions of the import */
} Profile;

static gboolean
refuse (const Profile *self, gsize offset, const char *what, GError **error)
{
  g_autofree char *name = sonde_text_escape (self->name, -1);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s: byte %" G_GSIZE_FORMAT ": %s", name,
               offset, what);
  return FALSE;
}

/* --- the encoding --- */

/* Takes a number off the front of @part. */
static gboolean
take_number (const Profile *self, Part *part, guint64 *number, GError **error)
{
  *number = 0;
  for (guint i = 0; i < 10; i++)
    {
      guint8 byte;

      if (i == part->size_bytes)
        return refuse (self, part->offset, "it ends within a number", error);
      byte = part->bytes[i];
      if (i == 9 && byte > 1)
        break;
      *number |= (guint64) (byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0)
        {
          part->bytes += i + 1;
          part->size_bytes -= i + 1;
          part->offset += i + 1;
          return TRUE;
        }
    }
  return refuse (self, part->offset, "a number has more than 64 bits", error);
}

static void
skip (Part *part, gsize size_bytes)
{
  part->bytes += size_bytes;
  part->size_bytes -= size_bytes;
  part->offset += size_bytes;
}

static gboolean
take_field (const Profile *self, Part *part, Field *field, GError **error)
{
  gsize offset = part->offset;
  guint64 tag;
  guint64 size_bytes;

  if (!take_number (self, part, &tag, error))
    return FALSE;
  if (tag >> 3 == 0 || tag >> 3 > G_MAXUINT32 >> 3)
    return refuse (self, offset, "a field has no number that protobuf gives", error);
  *field = (Field){ .number = (guint32) (tag >> 3), .wire = tag & 7 };
  switch (field->wire)
    {
    case 0:
      return take_number (self, part, &field->value, error);
    case 2:
      if (!take_number (self, part, &size_bytes, error))
        return FALSE;
      break;
    case 1:
      size_bytes = 8;
      break;
    case 5:
      size_bytes = 4;
      break;
    default:
      return refuse (self, offset, "a field has a kind that protobuf does not have any more",
                     error);
    }
  if (size_bytes > part->size_bytes)
    return refuse (self, offset, "a field is longer than what it is in", error);
  field->part = (Part){ part->bytes, size_bytes, part->offset };
  skip (part, size_bytes);
  return TRUE;
}

static gboolean
is_message (const Profile *self, const Field *field, GError **error)
{
  return field->wire == 2
         || refuse (self, field->part.offset, "a field that has parts is a number", error);
}

/* Of a field that may be packed: calls for each number. */
typedef gboolean (*NumberFunc) (Profile *self, guint64 number, gpointer user_data);

static gboolean
take_numbers (
    Profile *self, const Field *field, NumberFunc func, gpointer user_data, GError **error)
{
  Part part = field->part;
  guint64 number;

  if (field->wire == 0)
    return func (self, field->value, user_data)
           || refuse (self, self->all.offset, "a list is too long", error);
  while (part.size_bytes > 0)
    {
      gsize offset = part.offset;

      if (!take_number (self, &part, &number, error))
        return FALSE;
      if (!func (self, number, user_data))
        return refuse (self, offset, "a list is too long", error);
    }
  return TRUE;
}

/* --- tables --- */

/* Numbers of the fields of @message, those from 1 to @n: 0 where there is none. */
static gboolean
read_numbers (const Profile *self, Part message, guint64 *numbers, guint n, GError **error)
{
  Field field;

  memset (numbers, 0, (n + 1) * sizeof *numbers);
  while (message.size_bytes > 0)
    {
      if (!take_field (self, &message, &field, error))
        return FALSE;
      if (field.wire == 0 && field.number <= n)
        numbers[field.number] = field.value;
    }
  return TRUE;
}

static gboolean
add_named (Profile *self, GHashTable *table, guint64 id, guint64 name, gsize offset, GError **error)
{
  NamedEntry entry = { id, name };

  if (id == 0)
    return refuse (self, offset, "an entry of a table has no id", error);
  if (self->names->len >= MAX_ENTRIES)
    return refuse (self, offset, "more than 4,194,304 functions and mappings", error);
  g_array_append_val (self->names, entry);
  g_hash_table_insert (table, GSIZE_TO_POINTER ((gsize) id), GUINT_TO_POINTER (self->names->len));
  return TRUE;
}

static gboolean
read_location (Profile *self, Part message, GError **error)
{
  LocationEntry entry = { .first_line = self->lines->len };
  gsize offset = message.offset;
  guint64 line[2];
  Field field;

  while (message.size_bytes > 0)
    {
      if (!take_field (self, &message, &field, error))
        return FALSE;
      if (field.wire == 0 && field.number == 1)
        entry.id = field.value;
      else if (field.wire == 0 && field.number == 2)
        entry.mapping = field.value;
      else if (field.number == 4)
        {
          if (!is_message (self, &field, error) || !read_numbers (self, field.part, line, 1, error))
            return FALSE;
          if (++entry.n_lines > MAX_LINES)
            return refuse (self, field.part.offset, "a location has more than 64 functions", error);
          g_array_append_val (self->lines, line[1]);
        }
    }
  if (entry.id == 0)
    return refuse (self, offset, "a location has no id", error);
  if (self->entries->len >= MAX_ENTRIES)
    return refuse (self, offset, "more than 4,194,304 locations", error);
  g_array_append_val (self->entries, entry);
  g_hash_table_insert (self->locations, GSIZE_TO_POINTER ((gsize) entry.id),
                       GUINT_TO_POINTER (self->entries->len));
  return TRUE;
}

static gboolean
read_table (Profile *self, const Field *field, GError **error)
{
  guint64 numbers[7];
  Text text = { field->part.offset, field->part.size_bytes };

  switch (field->number)
    {
    case 1: /* a type of values */
      if (!is_message (self, field, error) || !read_numbers (self, field->part, numbers, 2, error))
        return FALSE;
      if (self->types->len >= 2 * MAX_TYPES)
        return refuse (self, field->part.offset, "more than 64 types of values", error);
      g_array_append_vals (self->types, numbers + 1, 2);
      return TRUE;
    case 3:
      return is_message (self, field, error) && read_numbers (self, field->part, numbers, 5, error)
             && add_named (self, self->mappings, numbers[1], numbers[5], field->part.offset, error);
    case 4:
      return is_message (self, field, error) && read_location (self, field->part, error);
    case 5:
      return is_message (self, field, error) && read_numbers (self, field->part, numbers, 2, error)
             && add_named (self, self->functions, numbers[1], numbers[2], field->part.offset,
                           error);
    case 6:
      if (!is_message (self, field, error))
        return FALSE;
      if (self->texts->len >= MAX_ENTRIES)
        return refuse (self, field->part.offset, "more than 4,194,304 texts", error);
      g_array_append_val (self->texts, text);
      return TRUE;
    case 9:
      self->time_ns = (gint64) field->value;
      return TRUE;
    case 10:
      self->duration_ns = (gint64) field->value;
      return TRUE;
    case 12:
      self->period = field->value;
      return TRUE;
    default: /* samples come later, other fields say nothing that a capture has */
      return TRUE;
    }
}

/* NULL if there is none; (transfer full) */
static char *
dup_text (const Profile *self, guint64 index)
{
  const Text *text;

  if (index >= self->texts->len)
    return NULL;
  text = &g_array_index (self->texts, Text, index);
  /* up to a NUL that may be in it */
  return g_strndup ((const char *) self->all.bytes + text->offset,
                    MIN (text->size_bytes, SONDE_MAX_PATH_BYTES));
}

static gboolean
is_text (const Profile *self, guint64 index, const char *wanted)
{
  g_autofree char *text = dup_text (self, index);

  return g_strcmp0 (text, wanted) == 0;
}

static gboolean
choose_columns (Profile *self, GError **error)
{
  for (guint i = 0; i < self->types->len; i += 2)
    {
      guint64 type = g_array_index (self->types, guint64, i);
      guint64 unit = g_array_index (self->types, guint64, i + 1);
      gboolean has_bytes = i + 3 < self->types->len
                           && is_text (self, g_array_index (self->types, guint64, i + 3), "bytes");
      Column column = N_COLUMNS;

      if (is_text (self, unit, "count") && is_text (self, type, "samples"))
        column = COLUMN_SAMPLES;
      else if (is_text (self, unit, "nanoseconds") && self->period > 0)
        column = COLUMN_TIME;
      else if (has_bytes && is_text (self, type, "alloc_objects"))
        column = COLUMN_BLOCKS;
      else if (has_bytes && is_text (self, type, "inuse_objects"))
        column = COLUMN_LIVE;
      if (column != N_COLUMNS && self->columns[column] < 0)
        self->columns[column] = (int) i / 2;
    }
  for (guint i = 0; i < N_COLUMNS; i++)
    if (self->columns[i] >= 0)
      return TRUE;
  return refuse (self, 0,
                 "none of its types is samples/count, …/nanoseconds with a period, alloc_objects "
                 "or inuse_objects",
                 error);
}

/* --- samples --- */

typedef struct
{
  guint64 values[MAX_TYPES];
  guint n_values;
  GArray *locations; /* guint64, the innermost first */
  gint32 pid;
  gint32 tid;
  char *comm;
  char *thread;
} Sample;

static gboolean
add_value (Profile *self, guint64 number, gpointer user_data)
{
  Sample *sample = user_data;

  if (sample->n_values >= MAX_TYPES)
    return FALSE;
  sample->values[sample->n_values++] = number;
  return TRUE;
}

/* What is beyond the bound is left out, and counted by who adds the sample. */
static gboolean
add_location (Profile *self, guint64 number, gpointer user_data)
{
  Sample *sample = user_data;

  if (sample->locations->len <= SONDE_IMPORT_MAX_DEPTH)
    g_array_append_val (sample->locations, number);
  return TRUE;
}

static gboolean
read_label (Profile *self, Sample *sample, Part message, GError **error)
{
  guint64 numbers[4];
  g_autofree char *key = NULL;
  g_autofree char *text = NULL;
  guint64 number;

  if (!read_numbers (self, message, numbers, 3, error))
    return FALSE;
  key = dup_text (self, numbers[1]);
  text = numbers[2] > 0 ? dup_text (self, numbers[2]) : NULL;
  number = numbers[3];
  /* perf_to_profile has numbers in texts */
  if (text != NULL && number == 0)
    g_ascii_string_to_unsigned (text, 10, 0, G_MAXINT32, &number, NULL);
  if (g_strcmp0 (key, "pid") == 0 && number <= G_MAXINT32)
    sample->pid = (gint32) number;
  else if (g_strcmp0 (key, "tid") == 0 && number <= G_MAXINT32)
    sample->tid = (gint32) number;
  else if (g_strcmp0 (key, "comm") == 0 && sample->comm == NULL)
    sample->comm = g_steal_pointer (&text);
  else if (g_strcmp0 (key, "thread") == 0 && sample->thread == NULL)
    sample->thread = g_steal_pointer (&text);
  return TRUE;
}

static void
sample_clear (Sample *self)
{
  g_array_unref (self->locations);
  g_free (self->comm);
  g_free (self->thread);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sample, sample_clear)

static gboolean
read_sample (Profile *self, Part message, Sample *sample, GError **error)
{
  gsize offset = message.offset;
  Field field;

  while (message.size_bytes > 0)
    {
      if (!take_field (self, &message, &field, error))
        return FALSE;
      if ((field.number == 1 && !take_numbers (self, &field, add_location, sample, error))
          || (field.number == 2 && !take_numbers (self, &field, add_value, sample, error)))
        return FALSE;
      if (field.number == 3
          && (!is_message (self, &field, error) || !read_label (self, sample, field.part, error)))
        return FALSE;
    }
  return sample->n_values == self->types->len / 2
         || refuse (self, offset, "a sample has not one value for each type", error);
}

static const char *
base_name (const char *path)
{
  const char *slash = strrchr (path, '/');

  return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static char *
dup_name (const Profile *self, GHashTable *table, guint64 id)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (table, GSIZE_TO_POINTER ((gsize) id)));

  return index > 0 ? dup_text (self, g_array_index (self->names, NamedEntry, index - 1).name)
                   : NULL;
}

/* Appends the functions of a location; one without any is its module's. */
static gboolean
name_location (Profile *self, guint64 id, gsize offset, GError **error)
{
  guint index
      = GPOINTER_TO_UINT (g_hash_table_lookup (self->locations, GSIZE_TO_POINTER ((gsize) id)));
  const LocationEntry *entry;
  g_autofree char *module = NULL;
  const char *shown;

  if (index == 0)
    return refuse (self, offset, "a sample has a location that is not there", error);
  entry = &g_array_index (self->entries, LocationEntry, index - 1);
  module = dup_name (self, self->mappings, entry->mapping);
  shown = module != NULL ? base_name (module) : "";
  for (guint i = 0; i < MAX (entry->n_lines, 1); i++)
    {
      g_autofree char *name = NULL;
      gboolean in_kernel = g_str_has_prefix (shown, "[kernel");
      guint32 function;

      if (entry->n_lines > 0)
        {
          name = dup_name (self, self->functions,
                           g_array_index (self->lines, guint64, entry->first_line + i));
          if (name == NULL)
            return refuse (self, offset, "a location has a function that is not there", error);
        }
      function = sonde_import_ensure_function (self->imported->import,
                                               name != NULL && name[0] != '\0' ? name : "[unknown]",
                                               in_kernel ? "[kernel]" : shown, in_kernel);
      if (self->stack->len <= SONDE_IMPORT_MAX_DEPTH)
        g_array_append_val (self->stack, function);
    }
  return TRUE;
}

static guint64
value_of (const Profile *self, const Sample *sample, Column column, guint next)
{
  int index = self->columns[column];

  /* below 0 are those of profiles that were subtracted */
  return index >= 0 && (guint) index + next < sample->n_values
                 && sample->values[(guint) index + next] <= G_MAXINT64
             ? sample->values[(guint) index + next]
             : 0;
}

static guint64
count_samples (const Profile *self, const Sample *sample)
{
  if (self->columns[COLUMN_SAMPLES] >= 0)
    return value_of (self, sample, COLUMN_SAMPLES, 0);
  return self->period > 0 ? value_of (self, sample, COLUMN_TIME, 0) / self->period : 0;
}

/* How many of @n more there is room for. */
static guint64
take_room (Profile *self, guint64 n_so_far, guint64 n)
{
  guint64 room = SONDE_IMPORT_MAX_EVENTS - MIN (n_so_far, SONDE_IMPORT_MAX_EVENTS);

  self->imported->n_left_out += n - MIN (n, room);
  return MIN (n, room);
}

/* Samples have no times: they are spread over the profile's. */
static gint64
next_time_ns (Profile *self)
{
  gint64 step_ns = self->duration_ns > 0 && self->n_total > 0
                       ? MAX (self->duration_ns / (gint64) MIN (self->n_total, G_MAXINT64), 1)
                       : DEFAULT_NS;

  return BEGIN_NS
         + (gint64) (MIN (self->n_told++, SONDE_IMPORT_MAX_EVENTS * 2) * (guint64) step_ns);
}

/* @n blocks of @size_bytes together. */
static void
tell_blocks (Profile *self, const Sample *sample, guint64 n, guint64 size_bytes, gboolean is_freed)
{
  SondeImport *import = self->imported->import;
  guint64 n_known = take_room (self, sonde_import_n_blocks (import), n);

  for (guint64 i = 0; i < n_known; i++)
    {
      guint64 size
          = i + 1 < n_known ? size_bytes / n : size_bytes - (n_known - 1) * (size_bytes / n);

      sonde_import_add_block (import, sample->pid, sample->tid, next_time_ns (self),
                              (gint64) MAX (size, 1), is_freed,
                              (const guint32 *) (void *) self->stack->data, self->stack->len);
    }
}

static gboolean
tell_sample (Profile *self, const Sample *sample, gsize offset, GError **error)
{
  SondeImport *import = self->imported->import;
  guint64 n = take_room (self, sonde_import_n_samples (import), count_samples (self, sample));
  guint64 n_live = value_of (self, sample, COLUMN_LIVE, 0);
  guint64 live_bytes = value_of (self, sample, COLUMN_LIVE, 1);
  guint64 n_blocks = value_of (self, sample, COLUMN_BLOCKS, 0);
  guint64 bytes = value_of (self, sample, COLUMN_BLOCKS, 1);

  g_array_set_size (self->stack, 0);
  for (guint i = 0; i < sample->locations->len; i++)
    if (!name_location (self, g_array_index (sample->locations, guint64, i), offset, error))
      return FALSE;
  if (n > 0 || n_live > 0 || n_blocks > 0)
    {
      const char *comm = sample->comm != NULL ? sample->comm : "[pprof]";

      sonde_import_name (import, sample->pid, sample->pid, BEGIN_NS, comm);
      if (sample->tid != sample->pid && sample->thread != NULL)
        sonde_import_name (import, sample->pid, sample->tid, BEGIN_NS, sample->thread);
    }
  for (guint64 i = 0; i < n; i++)
    sonde_import_add_sample (import, sample->pid, sample->tid, next_time_ns (self),
                             (const guint32 *) (void *) self->stack->data, self->stack->len);
  tell_blocks (self, sample, n_live, live_bytes, FALSE);
  if (n_blocks > n_live)
    tell_blocks (self, sample, n_blocks - n_live, bytes - MIN (bytes, live_bytes), TRUE);
  return TRUE;
}

/* Walks the samples: once to count them, once to tell them. */
static gboolean
read_samples (Profile *self, gboolean is_told, GError **error)
{
  Part part = self->all;
  Field field;

  while (part.size_bytes > 0)
    {
      g_auto (Sample) sample = { .locations = NULL };
      guint64 n;

      sample.locations = g_array_new (FALSE, FALSE, sizeof (guint64));
      if (!take_field (self, &part, &field, error))
        return FALSE;
      if (field.number != 2)
        continue;
      if (!is_message (self, &field, error) || !read_sample (self, field.part, &sample, error))
        return FALSE;
      if (sample.pid == 0)
        sample.pid = 1; /* without a label they are one process's */
      if (sample.tid == 0)
        sample.tid = sample.pid;
      n = count_samples (self, &sample) + value_of (self, &sample, COLUMN_BLOCKS, 0);
      if (g_uint64_checked_add (&self->n_total, self->n_total, is_told ? 0 : n) == FALSE)
        self->n_total = G_MAXINT64;
      if (is_told && !tell_sample (self, &sample, field.part.offset, error))
        return FALSE;
    }
  return TRUE;
}

/* --- the file --- */

static GByteArray *
unpack (const guint8 *bytes, gsize size_bytes, const char *name, GError **error)
{
  g_autoptr (GZlibDecompressor) gzip = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  g_autoptr (GByteArray) plain = g_byte_array_new ();
  g_autofree guint8 *block = g_malloc (65536);
  g_autoptr (GError) fault = NULL;
  g_autofree char *shown = sonde_text_escape (name, -1);
  GConverterResult result = G_CONVERTER_CONVERTED;
  gsize offset = 0;

  while (result != G_CONVERTER_FINISHED)
    {
      gsize n_read = 0;
      gsize n_plain = 0;

      result = g_converter_convert (G_CONVERTER (gzip), bytes + offset, size_bytes - offset, block,
                                    65536, G_CONVERTER_INPUT_AT_END, &n_read, &n_plain, &fault);
      if (result == G_CONVERTER_ERROR)
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                       "%s: byte %" G_GSIZE_FORMAT ": cannot be unpacked: %s", shown, offset,
                       fault->message);
          return NULL;
        }
      offset += n_read;
      g_byte_array_append (plain, block, (guint) n_plain);
      if (plain->len > MAX_PLAIN_BYTES)
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                       "%s: byte %" G_GSIZE_FORMAT ": unpacks to more than 256 MiB", shown, offset);
          return NULL;
        }
    }
  return g_steal_pointer (&plain);
}

static gboolean
read_profile (Profile *self, GError **error)
{
  Part part = self->all;
  Field field;

  while (part.size_bytes > 0)
    if (!take_field (self, &part, &field, error) || !read_table (self, &field, error))
      return FALSE;
  if (!choose_columns (self, error) || !read_samples (self, FALSE, error))
    return FALSE;
  if (self->n_total == 0 && self->columns[COLUMN_LIVE] < 0)
    return refuse (self, 0, "no sample has a value", error);
  self->imported->import = sonde_import_new (self->output, BEGIN_NS, MAX (self->time_ns, 0));
  if (self->columns[COLUMN_TIME] >= 0)
    {
      self->imported->event = g_strdup ("cpu-clock");
      self->imported->period = self->period;
    }
  else if (self->columns[COLUMN_SAMPLES] >= 0)
    self->imported->event = g_strdup ("samples");
  return read_samples (self, TRUE, error);
}

gboolean
sonde_import_pprof (const guint8 *bytes,
                    gsize size_bytes,
                    const char *name,
                    SondeOutput *output,
                    SondeImported *imported,
                    GError **error)
{
  g_autoptr (GByteArray) plain = NULL;
  g_autoptr (GArray) texts = g_array_new (FALSE, FALSE, sizeof (Text));
  g_autoptr (GArray) types = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GHashTable) functions = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) mappings = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) locations = g_hash_table_new (NULL, NULL);
  g_autoptr (GArray) names = g_array_new (FALSE, FALSE, sizeof (NamedEntry));
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (LocationEntry));
  g_autoptr (GArray) lines = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GArray) stack = g_array_new (FALSE, FALSE, sizeof (guint32));
  Profile profile = { .name = name,
                      .texts = texts,
                      .types = types,
                      .functions = functions,
                      .mappings = mappings,
                      .locations = locations,
                      .names = names,
                      .entries = entries,
                      .lines = lines,
                      .stack = stack,
                      .columns = { -1, -1, -1, -1 },
                      .output = output,
                      .imported = imported };

  if (size_bytes >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
    {
      plain = unpack (bytes, size_bytes, name, error);
      if (plain == NULL)
        return FALSE;
      bytes = plain->data;
      size_bytes = plain->len;
    }
  profile.all = (Part){ bytes, size_bytes, 0 };
  return read_profile (&profile, error);
}
