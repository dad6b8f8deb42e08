/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pprof's protobuf, which is compressed with gzip. Messages of one type that stand one behind the
 * other are one message to protobuf, so the profile is written piece by piece. */
#include "client/export/export.h"

#include "client/base/text.h"
#include "pprof.pb-c.h"

typedef enum
{
  VALUE_SAMPLES,
  VALUE_CPU,
  VALUE_OBJECTS,
  VALUE_BYTES,
  VALUE_CALLS,
  VALUE_SELF,
  N_VALUES
} Value;

typedef struct
{
  SondeExportSource *source;
  SondeExportOutput *output;
  GHashTable *texts; /* text → index of the table */
  GPtrArray *table;  /* the texts in order; keys of @texts */
  GByteArray *packed;
  guint64 sample_ns;     /* of CPU time; 0: not known */
  int columns[N_VALUES]; /* of each kind of value; -1: the capture has none */
  guint n_columns;
  SondeUnit unit; /* of the stacks at hand, as is what follows */
  const SondeModelProcess *process;
  GArray *location_ids;  /* guint64 */
  gboolean is_truncated; /* whether SONDE_TRUNCATED stands in any stack */
} PprofWriter;

static gint64
number_text (PprofWriter *self, const char *text)
{
  gpointer index;
  char *copy;

  if (g_hash_table_lookup_extended (self->texts, text, NULL, &index))
    return GPOINTER_TO_INT (index);
  copy = g_strdup (text);
  g_hash_table_insert (self->texts, copy, GINT_TO_POINTER ((gint) self->table->len));
  g_ptr_array_add (self->table, copy);
  return (gint64) self->table->len - 1;
}

static void
write_piece (PprofWriter *self, const Sonde__Pprof__Profile *piece)
{
  g_byte_array_set_size (self->packed, (guint) sonde__pprof__profile__get_packed_size (piece));
  sonde__pprof__profile__pack (piece, self->packed->data);
  sonde_export_output_bytes (self->output, self->packed->data, self->packed->len);
}

/* --- what is measured --- */

static void
write_type (PprofWriter *self, Value value, const char *type, const char *unit)
{
  Sonde__Pprof__ValueType message = SONDE__PPROF__VALUE_TYPE__INIT;
  Sonde__Pprof__ValueType *messages[] = { &message };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

  message.type = number_text (self, type);
  message.unit = number_text (self, unit);
  piece.n_sample_type = 1;
  piece.sample_type = messages;
  write_piece (self, &piece);
  self->columns[value] = (int) self->n_columns++;
}

static void
write_period (PprofWriter *self, const char *event)
{
  g_autofree char *start = sonde_export_source_describe (self->source, "start-realtime", "0");
  Sonde__Pprof__ValueType type = SONDE__PPROF__VALUE_TYPE__INIT;
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

  type.type = number_text (self, self->sample_ns > 0 ? "cpu" : event);
  type.unit = number_text (self, self->sample_ns > 0 ? "nanoseconds" : "count");
  piece.period_type = &type;
  piece.period = (gint64) MAX (self->sample_ns, 1);
  piece.time_nanos = g_ascii_strtoll (start, NULL, 10);
  piece.duration_nanos = sonde_capture_model_duration_ns (self->source->model);
  write_piece (self, &piece);
}

/* --- stacks --- */

static void
set_value (const PprofWriter *self, gint64 *values, Value value, guint64 number)
{
  if (self->columns[value] >= 0)
    values[self->columns[value]] = (gint64) MIN (number, (guint64) G_MAXINT64);
}

/* Of a function, and of its location. Function 0, which few captures need, is the last one. */
static guint64
id_of (const PprofWriter *self, guint32 function)
{
  return function != SONDE_CALL_TRUNCATED ? function : self->source->n_functions;
}

static void
write_stack (const guint32 *ids, gsize n_ids, guint64 weight, gpointer user_data)
{
  PprofWriter *self = user_data;
  g_autofree char *comm = sonde_text_escape (self->process->comm, -1);
  Sonde__Pprof__Label pid = SONDE__PPROF__LABEL__INIT;
  Sonde__Pprof__Label name = SONDE__PPROF__LABEL__INIT;
  Sonde__Pprof__Label *labels[] = { &pid, &name };
  Sonde__Pprof__Sample sample = SONDE__PPROF__SAMPLE__INIT;
  Sonde__Pprof__Sample *samples[] = { &sample };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;
  gint64 values[N_VALUES] = { 0 };
  guint64 cpu_ns;

  g_array_set_size (self->location_ids, 0);
  for (gsize i = n_ids; i > 0; i--)
    {
      guint64 id = id_of (self, ids[i - 1]);

      self->is_truncated |= ids[i - 1] == SONDE_CALL_TRUNCATED;
      g_array_append_val (self->location_ids, id);
    }
  switch (self->unit)
    {
    case SONDE_UNIT_SAMPLES:
      set_value (self, values, VALUE_SAMPLES, weight);
      if (!g_uint64_checked_mul (&cpu_ns, weight, self->sample_ns))
        cpu_ns = G_MAXUINT64;
      set_value (self, values, VALUE_CPU, cpu_ns);
      break;
    case SONDE_UNIT_BLOCKS:
      set_value (self, values, VALUE_OBJECTS, weight);
      break;
    case SONDE_UNIT_CALLS:
      set_value (self, values, VALUE_CALLS, weight);
      break;
    case SONDE_UNIT_SELF:
      set_value (self, values, VALUE_SELF, weight);
      break;
    case SONDE_UNIT_BYTES:
    default:
      set_value (self, values, VALUE_BYTES, weight);
      break;
    }
  pid.key = number_text (self, "pid");
  pid.num = self->process->pid;
  name.key = number_text (self, "comm");
  name.str = number_text (self, comm);
  sample.n_location_id = n_ids;
  sample.location_id = (uint64_t *) (void *) self->location_ids->data;
  sample.n_value = self->n_columns;
  sample.value = values;
  sample.n_label = G_N_ELEMENTS (labels);
  sample.label = labels;
  piece.n_sample = 1;
  piece.sample = samples;
  write_piece (self, &piece);
}

static gboolean
write_stacks (PprofWriter *self, SondeUnit unit, GError **error)
{
  g_autoptr (SondeProfile) profile = NULL;

  if (sonde_export_source_count (self->source, unit) == 0)
    return TRUE;
  profile = sonde_export_source_dup_profile (self->source, unit, error);
  if (profile == NULL)
    return FALSE;
  self->unit = unit;
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      self->process = &sonde_profile_process (profile, i)->process;
      sonde_export_foreach_stack (sonde_profile_process (profile, i)->tree, write_stack, self);
    }
  return TRUE;
}

/* --- names --- */

static guint64
write_mapping (PprofWriter *self, GHashTable *mappings, const char *module)
{
  Sonde__Pprof__Mapping mapping = SONDE__PPROF__MAPPING__INIT;
  Sonde__Pprof__Mapping *messages[] = { &mapping };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;
  guint known = GPOINTER_TO_UINT (g_hash_table_lookup (mappings, module));

  if (known > 0 || module[0] == '\0')
    return known;
  mapping.id = g_hash_table_size (mappings) + 1;
  mapping.filename = number_text (self, module);
  mapping.has_functions = TRUE;
  piece.n_mapping = 1;
  piece.mapping = messages;
  write_piece (self, &piece);
  g_hash_table_insert (mappings, (gpointer) module, GUINT_TO_POINTER ((guint) mapping.id));
  return mapping.id;
}

/* Each function is a location, too: addresses would say no more than their names. */
static void
write_functions (PprofWriter *self)
{
  g_autoptr (GHashTable) mappings = g_hash_table_new (sonde_text_hash, g_str_equal);

  guint32 n = self->source->n_functions;
  guint32 n_told = self->is_truncated ? n : n - 1;

  for (guint32 id = 1; id <= n_told; id++)
    {
      const SondeFunction *named = sonde_export_source_function (self->source, id % n);
      Sonde__Pprof__Function function = SONDE__PPROF__FUNCTION__INIT;
      Sonde__Pprof__Function *functions[] = { &function };
      Sonde__Pprof__Line line = SONDE__PPROF__LINE__INIT;
      Sonde__Pprof__Line *lines[] = { &line };
      Sonde__Pprof__Location location = SONDE__PPROF__LOCATION__INIT;
      Sonde__Pprof__Location *locations[] = { &location };
      Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

      function.id = location.id = line.function_id = id;
      function.name = function.system_name = number_text (self, named->name);
      location.mapping_id = write_mapping (self, mappings, named->module);
      location.n_line = 1;
      location.line = lines;
      piece.n_function = piece.n_location = 1;
      piece.function = functions;
      piece.location = locations;
      write_piece (self, &piece);
    }
}

gboolean
sonde_export_pprof (SondeExportSource *source,
                    SondeUnit unit,
                    SondeExportOutput *output,
                    GError **error)
{
  g_autoptr (GHashTable) texts = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) table = g_ptr_array_new ();
  g_autoptr (GByteArray) packed = g_byte_array_new ();
  g_autoptr (GArray) location_ids = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autofree char *given = sonde_export_source_describe (source, "event", "samples");
  g_autofree char *event = sonde_text_escape (given, -1);
  PprofWriter profile = { .source = source,
                          .output = output,
                          .texts = texts,
                          .table = table,
                          .packed = packed,
                          .columns = { -1, -1, -1, -1, -1, -1 },
                          .location_ids = location_ids };

  if (g_str_equal (event, "cpu-clock"))
    profile.sample_ns = (guint64) sonde_export_source_interval_ns (source);
  number_text (&profile, "");
  if (sonde_export_source_count (profile.source, SONDE_UNIT_SAMPLES) > 0)
    {
      write_type (&profile, VALUE_SAMPLES, "samples", "count");
      if (profile.sample_ns > 0)
        write_type (&profile, VALUE_CPU, "cpu", "nanoseconds");
    }
  if (sonde_export_source_count (profile.source, SONDE_UNIT_BYTES) > 0)
    {
      write_type (&profile, VALUE_OBJECTS, "alloc_objects", "count");
      write_type (&profile, VALUE_BYTES, "alloc_space", "bytes");
    }
  if (sonde_export_source_count (profile.source, SONDE_UNIT_CALLS) > 0)
    write_type (&profile, VALUE_CALLS, "calls", "count");
  if (sonde_export_source_count (profile.source, SONDE_UNIT_SELF) > 0)
    write_type (&profile, VALUE_SELF, "self", "nanoseconds");
  write_period (&profile, event);
  if (!write_stacks (&profile, SONDE_UNIT_SAMPLES, error)
      || !write_stacks (&profile, SONDE_UNIT_BLOCKS, error)
      || !write_stacks (&profile, SONDE_UNIT_BYTES, error)
      || !write_stacks (&profile, SONDE_UNIT_CALLS, error)
      || !write_stacks (&profile, SONDE_UNIT_SELF, error))
    return FALSE;
  write_functions (&profile);
  for (guint i = 0; i < table->len; i++)
    {
      Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

      piece.n_string_table = 1;
      piece.string_table = (char **) &g_ptr_array_index (table, i);
      write_piece (&profile, &piece);
    }
  return TRUE;
}
