/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pprof's protobuf, which is compressed with gzip. Messages of one type that stand one behind the
 * other are one message to protobuf, so the profile is written piece by piece. */
#include "client/export/export.h"

#include "client/base/text.h"
#include "client/base/unit-name.h"
#include "config.h"
#include "pprof.pb-c.h"

#define MAX_GROUPS 4096 /* each has labels of its own; the lightest are one together */

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

typedef enum
{
  LABEL_COMM,
  LABEL_THREAD,
  LABEL_PID,
  LABEL_TID,
  LABEL_UNIT,
  LABEL_CONTAINER,
  N_LABELS
} Label;

typedef struct
{
  SondeExportSource *source;
  const SondeExportFrames *frames; /* of the source */
  SondeExportOutput *output;
  GHashTable *texts; /* text → index of the table */
  GPtrArray *table;  /* the texts in order; keys of @texts */
  GByteArray *packed;
  guint64 sample_ns;     /* of CPU time; 0: not known */
  int columns[N_VALUES]; /* of each kind of value; -1: the capture has none */
  guint n_columns;
  guint32 main;                /* mapping of the program */
  SondeUnit unit;              /* of the stacks at hand, as is what follows */
  const SondeCallTree *beside; /* blocks of what has bytes; NULL: none */
  Sonde__Pprof__Label *labels[N_LABELS];
  gsize n_labels;
  GArray *location_ids;  /* guint64 */
  guint8 *is_place_told; /* by place and */
  guint8 *is_frame_told; /* by frame: that it stands in a stack */
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

/* The program of who has the most: what it has mapped lowest, since the kernel puts libraries above
 * it. */
static guint32
find_main (const PprofWriter *self, const SondeCallTree *tree)
{
  guint32 found = SONDE_EXPORT_NO_MAPPING;

  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      guint32 number
          = sonde_export_frames_place (
                self->frames,
                sonde_export_frames_frame (self->frames, sonde_call_tree_node (tree, i)->id)->place)
                ->mapping;
      const SondeExportMapping *mapping = number != SONDE_EXPORT_NO_MAPPING
                                              ? sonde_export_frames_mapping (self->frames, number)
                                              : NULL;

      if (mapping != NULL && mapping->path[0] == '/'
          && (found == SONDE_EXPORT_NO_MAPPING
              || mapping->start < sonde_export_frames_mapping (self->frames, found)->start))
        found = number;
    }
  return found;
}

/* A place is one location with all that is inlined there; where a stack has not all of it, each
 * frame is one, behind those of places. */
static guint64
take_location (PprofWriter *self, const guint32 *ids, gsize n_ids, gsize *n_taken)
{
  guint32 number = sonde_export_frames_frame (self->frames, ids[0])->place;
  const SondeExportPlace *place = sonde_export_frames_place (self->frames, number);
  gsize n = 0;

  while (n < n_ids && n < place->n_frames && ids[n] == place->first + n)
    n++;
  *n_taken = n == place->n_frames ? n : 1;
  if (n == place->n_frames)
    {
      self->is_place_told[number] = TRUE;
      return (guint64) number + 1;
    }
  self->is_frame_told[ids[0]] = TRUE;
  return (guint64) sonde_export_frames_n_places (self->frames) + ids[0] + 1;
}

static void
write_stack (const guint32 *ids, gsize n_ids, guint32 node, guint64 weight, gpointer user_data)
{
  PprofWriter *self = user_data;
  Sonde__Pprof__Sample sample = SONDE__PPROF__SAMPLE__INIT;
  Sonde__Pprof__Sample *samples[] = { &sample };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;
  gint64 values[N_VALUES] = { 0 };
  guint64 cpu_ns;
  gsize n_taken;

  g_array_set_size (self->location_ids, 0);
  for (gsize i = 0; i < n_ids; i += n_taken)
    {
      guint64 id = take_location (self, ids + i, n_ids - i, &n_taken);

      g_array_append_val (self->location_ids, id);
    }
  for (guint i = 0; i < self->location_ids->len / 2; i++)
    {
      guint64 *at = &g_array_index (self->location_ids, guint64, i);
      guint64 *other
          = &g_array_index (self->location_ids, guint64, self->location_ids->len - 1 - i);
      guint64 outer = *at;

      *at = *other;
      *other = outer;
    }
  switch (self->unit)
    {
    case SONDE_UNIT_SAMPLES:
      set_value (self, values, VALUE_SAMPLES, weight);
      if (!g_uint64_checked_mul (&cpu_ns, weight, self->sample_ns))
        cpu_ns = G_MAXUINT64;
      set_value (self, values, VALUE_CPU, cpu_ns);
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
      if (self->beside != NULL)
        set_value (self, values, VALUE_OBJECTS, sonde_call_tree_node (self->beside, node)->self);
      break;
    }
  sample.n_location_id = self->location_ids->len;
  sample.location_id = (uint64_t *) (void *) self->location_ids->data;
  sample.n_value = self->n_columns;
  sample.value = values;
  sample.n_label = self->n_labels;
  sample.label = self->labels;
  piece.n_sample = 1;
  piece.sample = samples;
  write_piece (self, &piece);
}

/* --- whose they are --- */

static void
set_number (PprofWriter *self, Sonde__Pprof__Label *label, const char *key, gint32 number)
{
  sonde__pprof__label__init (label);
  label->key = number_text (self, key);
  label->num = number;
  self->labels[self->n_labels++] = label;
}

/* @text: of foreign origin; NULL: there is none */
static void
set_text (PprofWriter *self, Sonde__Pprof__Label *label, const char *key, const char *text)
{
  g_autofree char *shown = text != NULL ? sonde_text_escape (text, -1) : NULL;

  if (shown == NULL)
    return;
  sonde__pprof__label__init (label);
  label->key = number_text (self, key);
  label->str = number_text (self, shown);
  self->labels[self->n_labels++] = label;
}

/* The stacks of @group, with the labels that all of it has. */
static void
write_group (PprofWriter *self, const SondeProfileProcess *group)
{
  const SondeCaptureModel *model = self->source->model;
  SondeBy by = self->source->options.by;
  gboolean is_process = group->process.pid >= 0;
  const char *cgroup = is_process ? sonde_capture_model_cgroup (model, group->process.pid) : NULL;
  g_autofree char *unit = cgroup != NULL ? sonde_cgroup_dup_unit (cgroup) : NULL;
  g_autofree char *container = cgroup != NULL ? sonde_cgroup_dup_container (cgroup) : NULL;
  Sonde__Pprof__Label labels[N_LABELS];

  self->n_labels = 0;
  /* Of several commands they are one, as [n more] or as what --by has them. */
  if (group->command != NULL)
    set_text (self, &labels[LABEL_COMM], "comm", group->command);
  else if (by >= SONDE_BY_COMMAND)
    set_text (self, &labels[LABEL_COMM], "comm", group->process.comm);
  if (by == SONDE_BY_THREAD && group->tid != SONDE_TID_ALL)
    set_text (self, &labels[LABEL_THREAD], "thread", group->process.comm);
  if (is_process)
    set_number (self, &labels[LABEL_PID], "pid", group->process.pid);
  if (by == SONDE_BY_THREAD && group->tid >= 0)
    set_number (self, &labels[LABEL_TID], "tid", group->tid);
  set_text (self, &labels[LABEL_UNIT], "unit", by == SONDE_BY_UNIT ? group->process.comm : unit);
  set_text (self, &labels[LABEL_CONTAINER], "container",
            by == SONDE_BY_CONTAINER ? group->process.comm : container);
  self->beside = group->beside;
  sonde_export_foreach_stack (group->tree, write_stack, self);
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
  sonde_profile_limit (profile, MAX_GROUPS);
  if (self->main == SONDE_EXPORT_NO_MAPPING && sonde_profile_n_processes (profile) > 0)
    self->main = find_main (self, sonde_profile_process (profile, 0)->tree);
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    write_group (self, sonde_profile_process (profile, i));
  return TRUE;
}

/* --- names --- */

static void
write_mapping (PprofWriter *self, guint32 number)
{
  const SondeExportMapping *told = sonde_export_frames_mapping (self->frames, number);
  g_autofree char *path = sonde_text_escape (told->path, -1);
  g_autofree char *build_id
      = told->build_id != NULL ? sonde_text_escape (told->build_id, -1) : NULL;
  Sonde__Pprof__Mapping mapping = SONDE__PPROF__MAPPING__INIT;
  Sonde__Pprof__Mapping *messages[] = { &mapping };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

  mapping.id = (guint64) number + 1;
  mapping.memory_start = told->start;
  mapping.memory_limit = told->end;
  mapping.file_offset = told->offset;
  mapping.filename = number_text (self, path);
  mapping.build_id = build_id != NULL ? number_text (self, build_id) : 0;
  /* Nobody is to look them up again. */
  mapping.has_functions = mapping.has_filenames = TRUE;
  mapping.has_line_numbers = mapping.has_inline_frames = TRUE;
  piece.n_mapping = 1;
  piece.mapping = messages;
  write_piece (self, &piece);
}

/* Once for all of its lines. */
static guint64
write_function (PprofWriter *self, guint8 *is_told, guint32 frame)
{
  guint32 whole = sonde_export_frames_frame (self->frames, frame)->whole;
  const SondeFunction *named = sonde_export_source_function (self->source, frame);
  Sonde__Pprof__Function function = SONDE__PPROF__FUNCTION__INIT;
  Sonde__Pprof__Function *functions[] = { &function };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

  function.id = (guint64) whole + 1;
  if (is_told[whole])
    return function.id;
  is_told[whole] = TRUE;
  function.name = function.system_name = number_text (self, named->name);
  function.filename = number_text (self, named->file);
  function.start_line = named->begin;
  piece.n_function = 1;
  piece.function = functions;
  write_piece (self, &piece);
  return function.id;
}

/* @n_frames from @first on, of @place. */
static void
write_location (PprofWriter *self,
                guint8 *is_told,
                guint64 id,
                const SondeExportPlace *place,
                guint32 first,
                guint32 n_frames)
{
  g_autofree Sonde__Pprof__Line *lines = g_new (Sonde__Pprof__Line, n_frames);
  g_autofree Sonde__Pprof__Line **ordered = g_new (Sonde__Pprof__Line *, n_frames);
  Sonde__Pprof__Location location = SONDE__PPROF__LOCATION__INIT;
  Sonde__Pprof__Location *locations[] = { &location };
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

  for (guint32 i = 0; i < n_frames; i++)
    {
      const SondeFunction *function = sonde_export_source_function (self->source, first + i);

      sonde__pprof__line__init (&lines[i]);
      lines[i].function_id = write_function (self, is_told, first + i);
      lines[i].line = function->line;
      ordered[n_frames - 1 - i] = &lines[i];
    }
  location.id = id;
  location.mapping_id = (guint32) (place->mapping + 1);
  location.address = place->address;
  location.n_line = n_frames;
  location.line = ordered;
  piece.n_location = 1;
  piece.location = locations;
  write_piece (self, &piece);
}

static void
write_locations (PprofWriter *self)
{
  g_autofree guint8 *is_told = g_new0 (guint8, sonde_export_frames_n_wholes (self->frames));
  guint32 n_places = sonde_export_frames_n_places (self->frames);

  if (self->main != SONDE_EXPORT_NO_MAPPING)
    write_mapping (self, self->main);
  for (guint32 i = 0; i < sonde_export_frames_n_mappings (self->frames); i++)
    if (i != self->main)
      write_mapping (self, i);
  for (guint32 i = 0; i < n_places; i++)
    {
      const SondeExportPlace *place = sonde_export_frames_place (self->frames, i);

      if (self->is_place_told[i])
        write_location (self, is_told, (guint64) i + 1, place, place->first, place->n_frames);
    }
  for (guint32 i = 0; i < sonde_export_frames_n_frames (self->frames); i++)
    if (self->is_frame_told[i])
      write_location (self, is_told, (guint64) n_places + i + 1,
                      sonde_export_frames_place (
                          self->frames, sonde_export_frames_frame (self->frames, i)->place),
                      i, 1);
}

/* What the capture says of itself. */
static void
write_comments (PprofWriter *self, Value shown, const char *type)
{
  static const char *const keys[] = { "host", "machine", "kernel-release", "event", "scope" };
  gint64 comments[G_N_ELEMENTS (keys) + 1];
  Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

  comments[piece.n_comment++] = number_text (self, "sondectl " SONDE_VERSION);
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autofree char *value = sonde_export_source_describe (self->source, keys[i], "");
      g_autofree char *text = g_strdup_printf ("%s: %s", keys[i], value);
      g_autofree char *comment = sonde_text_escape (text, -1);

      if (value[0] != '\0')
        comments[piece.n_comment++] = number_text (self, comment);
    }
  piece.comment = comments;
  if (self->columns[shown] >= 0)
    piece.default_sample_type = number_text (self, type);
  write_piece (self, &piece);
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
  g_autoptr (SondeExportFrames) of_functions
      = source->frames == NULL ? sonde_export_frames_new_of_functions (source->resolver) : NULL;
  const SondeExportFrames *frames = source->frames != NULL ? source->frames : of_functions;
  g_autofree guint8 *is_place_told = g_new0 (guint8, sonde_export_frames_n_places (frames));
  g_autofree guint8 *is_frame_told = g_new0 (guint8, sonde_export_frames_n_frames (frames));
  PprofWriter profile = { .source = source,
                          .frames = frames,
                          .is_place_told = is_place_told,
                          .is_frame_told = is_frame_told,
                          .main = SONDE_EXPORT_NO_MAPPING,
                          .output = output,
                          .texts = texts,
                          .table = table,
                          .packed = packed,
                          .columns = { -1, -1, -1, -1, -1, -1 },
                          .location_ids = location_ids };

  profile.sample_ns = sonde_export_source_sample_ns (source);
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
      || !write_stacks (&profile, SONDE_UNIT_BYTES, error)
      || !write_stacks (&profile, SONDE_UNIT_CALLS, error)
      || !write_stacks (&profile, SONDE_UNIT_SELF, error))
    return FALSE;
  write_locations (&profile);
  write_comments (&profile, VALUE_CPU, "cpu");
  for (guint i = 0; i < table->len; i++)
    {
      Sonde__Pprof__Profile piece = SONDE__PPROF__PROFILE__INIT;

      piece.n_string_table = 1;
      piece.string_table = (char **) &g_ptr_array_index (table, i);
      write_piece (&profile, &piece);
    }
  return TRUE;
}
