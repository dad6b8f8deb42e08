/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/frame-text.h"

#include <string.h>

#include "client/base/text.h"
#include "client/model/frame-parts.h"
#include "protocol/frame-check.h"

#define HEX "0x%" G_GINT64_MODIFIER "x"

struct SondeFrameText
{
  GHashTable *doubles; /* ids of counters that were last defined so */
};

SondeFrameText *
sonde_frame_text_new (void)
{
  SondeFrameText *self = g_new0 (SondeFrameText, 1);

  self->doubles = g_hash_table_new (NULL, NULL);
  return self;
}

void
sonde_frame_text_free (SondeFrameText *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->doubles);
  g_free (self);
}

/* @max: size of a fixed field, or -1 for a string that ends with its NUL */
static void
append_string (GString *out, const char *key, const char *value, gssize max)
{
  gsize len = max < 0 ? strlen (value) : strnlen (value, (gsize) max);

  g_string_append_printf (out, " %s=", key);
  sonde_text_append_quoted (out, value, (gssize) len);
}

/* @addrs: of a packed struct, hence no pointer to numbers */
static void
append_each_address (GString *out, const void *addrs, guint n_addrs)
{
  for (guint i = 0; i < n_addrs; i++)
    {
      guint64 address;

      memcpy (&address, (const guint8 *) addrs + i * sizeof address, sizeof address);
      g_string_append_printf (out, " " HEX, address);
    }
}

static void
append_addresses (GString *out, const void *addrs, guint n_addrs)
{
  g_string_append_printf (out, " n=%u", n_addrs);
  append_each_address (out, addrs, n_addrs);
}

static void
append_allocation (GString *out, const SondeFrameAllocation *frame)
{
  g_string_append_printf (out, " tid=%d address=" HEX " size=%" G_GINT64_FORMAT, frame->tid,
                          frame->address, (gint64) frame->size_bytes);
}

static void
append_jitmap (GString *out, const SondeFrameJitmap *frame)
{
  SondeFrameName name = { 0 };

  g_string_append_printf (out, " n=%u", frame->n_names);
  while (sonde_frame_next_name (frame, &name))
    {
      g_string_append_printf (out, " " HEX "=", name.address);
      sonde_text_append_quoted (out, name.name, -1);
    }
}

static void
append_value (GString *out, SondeCounterValue value, gboolean is_double)
{
  char digits[G_ASCII_DTOSTR_BUF_SIZE];

  if (is_double)
    g_string_append (out, g_ascii_dtostr (digits, sizeof digits, value.vdbl));
  else
    g_string_append_printf (out, "%" G_GINT64_FORMAT, value.v64);
}

static void
append_counter_define (SondeFrameText *self, GString *out, const SondeFrameCounterDefine *frame)
{
  g_string_append_printf (out, " n=%u", frame->n_counters);
  for (guint i = 0; i < frame->n_counters; i++)
    {
      const SondeCounterDefinition *counter = &frame->counters[i];
      gboolean is_double = sonde_counter_type (counter->id_type) == SONDE_COUNTER_DOUBLE;
      gpointer id = GUINT_TO_POINTER (sonde_counter_id (counter->id_type));

      if (self != NULL && is_double)
        g_hash_table_add (self->doubles, id);
      else if (self != NULL)
        g_hash_table_remove (self->doubles, id);
      g_string_append_printf (out, " id=%u", sonde_counter_id (counter->id_type));
      append_string (out, "category", counter->category, sizeof counter->category);
      append_string (out, "name", counter->name, sizeof counter->name);
      append_string (out, "description", counter->description, sizeof counter->description);
      g_string_append (out, " value=");
      append_value (out, counter->value, is_double);
    }
}

/* A CTRSET does not say which type its values have: its counters' last definitions do. */
static void
append_counter_set (const SondeFrameText *self, GString *out, const SondeFrameCounterSet *frame)
{
  SondeFrameValue set = { 0 };

  g_string_append_printf (out, " n=%u", frame->n_groups);
  while (sonde_frame_next_value (frame, &set))
    {
      g_string_append_printf (out, " %u=", set.id);
      append_value (out, set.value,
                    self != NULL
                        && g_hash_table_contains (self->doubles, GUINT_TO_POINTER (set.id)));
    }
}

static void
append_body (SondeFrameText *self, GString *out, const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_SAMPLE:
      g_string_append_printf (out, " tid=%d", ((const SondeFrameSample *) frame)->tid);
      append_addresses (out, ((const SondeFrameSample *) frame)->addrs,
                        ((const SondeFrameSample *) frame)->n_addrs);
      break;
    case SONDE_FRAME_MAP:
      {
        const SondeFrameMap *map = (const SondeFrameMap *) frame;
        const char *build_id = sonde_frame_build_id (map);

        g_string_append_printf (out, " start=" HEX " end=" HEX " offset=" HEX, map->start, map->end,
                                map->offset);
        g_string_append_printf (out, " inode=%" G_GUINT64_FORMAT, (guint64) map->inode);
        append_string (out, "path", map->path, -1);
        if (build_id != NULL)
          append_string (out, "build-id", build_id, -1);
        break;
      }
    case SONDE_FRAME_PROCESS:
      append_string (out, "cmdline", ((const SondeFrameProcess *) frame)->cmdline, -1);
      break;
    case SONDE_FRAME_FORK:
      g_string_append_printf (out, " child=%d", ((const SondeFrameFork *) frame)->child);
      break;
    case SONDE_FRAME_JITMAP:
      append_jitmap (out, (const SondeFrameJitmap *) frame);
      break;
    case SONDE_FRAME_CTRDEF:
      append_counter_define (self, out, (const SondeFrameCounterDefine *) frame);
      break;
    case SONDE_FRAME_CTRSET:
      append_counter_set (self, out, (const SondeFrameCounterSet *) frame);
      break;
    case SONDE_FRAME_MARK:
      {
        const SondeFrameMark *mark = (const SondeFrameMark *) frame;

        g_string_append_printf (out, " duration=%" G_GINT64_FORMAT, (gint64) mark->duration_ns);
        append_string (out, "group", mark->group, sizeof mark->group);
        append_string (out, "name", mark->name, sizeof mark->name);
        append_string (out, "message", mark->message, -1);
        break;
      }
    case SONDE_FRAME_METADATA:
      append_string (out, "id", ((const SondeFrameMetadata *) frame)->id,
                     sizeof ((const SondeFrameMetadata *) frame)->id);
      append_string (out, "text", ((const SondeFrameMetadata *) frame)->metadata, -1);
      break;
    case SONDE_FRAME_LOG:
      g_string_append_printf (out, " severity=%u", ((const SondeFrameLog *) frame)->severity);
      append_string (out, "domain", ((const SondeFrameLog *) frame)->domain,
                     sizeof ((const SondeFrameLog *) frame)->domain);
      append_string (out, "message", ((const SondeFrameLog *) frame)->message, -1);
      break;
    case SONDE_FRAME_FILE_CHUNK:
      {
        const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;

        append_string (out, "path", chunk->path, sizeof chunk->path);
        g_string_append_printf (out, " size=%u last=%u", chunk->data_len, chunk->is_last & 1);
        break;
      }
    case SONDE_FRAME_ALLOCATION:
      {
        const SondeFrameAllocation *allocation = (const SondeFrameAllocation *) frame;

        append_allocation (out, allocation);
        append_addresses (out, allocation->addrs, allocation->n_addrs);
        break;
      }
    case SONDE_FRAME_OVERLAY:
      {
        const SondeFrameOverlay *overlay = (const SondeFrameOverlay *) frame;

        g_string_append_printf (out, " layer=%u", overlay->layer & 0xff);
        append_string (out, "src", overlay->data, overlay->src_len);
        append_string (out, "dst", overlay->data + overlay->src_len + 1, overlay->dst_len);
        break;
      }
    default: /* TIMESTAMP and EXIT are their header */
      break;
    }
}

void
sonde_frame_text_append_header (GString *out, const SondeFileHeader *header)
{
  g_string_append_printf (out, "HEADER version=%u little-endian=%u", header->version,
                          header->little_endian & 1);
  append_string (out, "capture-time", header->capture_time, sizeof header->capture_time);
  g_string_append_printf (out, " time=%" G_GINT64_FORMAT " end-time=%" G_GINT64_FORMAT "\n",
                          (gint64) header->time_ns, (gint64) header->end_time_ns);
}

static void
append_head (GString *out, const SondeFrame *frame)
{
  g_string_append_printf (out, "%s time=%" G_GINT64_FORMAT " cpu=%d pid=%d",
                          sonde_frame_type_to_string (frame->type), (gint64) frame->time_ns,
                          frame->cpu, frame->pid);
}

void
sonde_frame_text_append_logged (GString *out,
                                const SondeFrameAllocation *event,
                                const SondeHeapLogStack *stack)
{
  append_head (out, &event->frame);
  append_allocation (out, event);
  if (stack == NULL)
    g_string_append (out, " n=0");
  else
    g_string_append_printf (out, " n=%u stack=%" G_GUINT64_FORMAT, stack->n_addrs, stack->number);
  if (stack != NULL && stack->n_told == 0)
    append_each_address (out, stack->addrs, stack->n_addrs);
  g_string_append_c (out, '\n');
}

void
sonde_frame_text_append (SondeFrameText *self, GString *out, const SondeFrame *frame)
{
  append_head (out, frame);
  append_body (self, out, frame);
  g_string_append_c (out, '\n');
}
