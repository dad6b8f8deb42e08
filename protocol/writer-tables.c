/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frames that hold a table, JITMAP, CTRDEF and CTRSET, and are split when it does not fit one. */
#include "protocol/writer-private.h"

#include <errno.h>
#include <string.h>

static size_t
jit_name_length (const char *name)
{
  return sonde_writer_tail_length (name, strlen (name),
                                   sizeof (SondeFrameJitmap) + sizeof (uint64_t));
}

int
sonde_writer_add_jitmap (SondeWriter *self,
                         const SondeFrameOrigin *origin,
                         const SondeJitName *names,
                         size_t n_names)
{
  for (size_t next = 0; next < n_names;)
    {
      size_t first = next;
      size_t body = 0;
      SondeFrameJitmap *jitmap;
      uint8_t *at;
      int r;

      for (; next < n_names; next++)
        {
          size_t entry = sizeof names->address + jit_name_length (names[next].name) + 1;

          if (entry > SONDE_FRAME_MAX_SIZE - sizeof *jitmap - body)
            break;
          body += entry;
        }

      jitmap
          = sonde_writer_begin_frame (self, origin, SONDE_FRAME_JITMAP, sizeof *jitmap, body, &r);
      if (jitmap == NULL)
        return r;

      jitmap->n_names = (uint32_t) (next - first);
      at = jitmap->data;
      for (size_t i = first; i < next; i++)
        {
          size_t len = jit_name_length (names[i].name);

          memcpy (at, &names[i].address, sizeof names[i].address);
          at += sizeof names[i].address;
          memcpy (at, names[i].name, len);
          at += len;
          *at++ = '\0';
        }
    }

  return 0;
}

int
sonde_writer_add_counter_define (SondeWriter *self,
                                 const SondeFrameOrigin *origin,
                                 const SondeCounter *counters,
                                 size_t n_counters)
{
  const size_t max = SONDE_WRITER_MAX_PER_FRAME (SondeFrameCounterDefine, SondeCounterDefinition);

  for (size_t i = 0; i < n_counters; i++)
    if (counters[i].id == 0 || counters[i].id > SONDE_COUNTER_MAX_ID
        || counters[i].type > SONDE_COUNTER_DOUBLE)
      return -EINVAL;

  for (size_t i = 0; i < n_counters; i += max)
    {
      size_t n = n_counters - i < max ? n_counters - i : max;
      size_t body = n * sizeof (SondeCounterDefinition);
      SondeFrameCounterDefine *define;
      int r;

      define
          = sonde_writer_begin_frame (self, origin, SONDE_FRAME_CTRDEF, sizeof *define, body, &r);
      if (define == NULL)
        return r;

      memset ((uint8_t *) define + sizeof *define, 0, body);
      define->n_counters = (uint16_t) n;
      for (size_t j = 0; j < n; j++)
        {
          const SondeCounter *from = &counters[i + j];
          SondeCounterDefinition *to = &define->counters[j];

          sonde_writer_set_text (to->category, sizeof to->category, from->category);
          sonde_writer_set_text (to->name, sizeof to->name, from->name);
          sonde_writer_set_text (to->description, sizeof to->description, from->description);
          to->id_type = from->id << SONDE_COUNTER_ID_SHIFT
                        | (uint32_t) from->type << SONDE_COUNTER_TYPE_SHIFT;
          to->value = from->value;
        }
    }

  return 0;
}

int
sonde_writer_add_counter_set (SondeWriter *self,
                              const SondeFrameOrigin *origin,
                              const uint32_t *ids,
                              const SondeCounterValue *values,
                              size_t n_counters)
{
  const size_t max = SONDE_WRITER_MAX_PER_FRAME (SondeFrameCounterSet, SondeCounterGroup)
                     * SONDE_COUNTERS_PER_GROUP;

  for (size_t i = 0; i < n_counters; i++)
    if (ids[i] == 0 || ids[i] > SONDE_COUNTER_MAX_ID)
      return -EINVAL;

  for (size_t i = 0; i < n_counters; i += max)
    {
      size_t n = n_counters - i < max ? n_counters - i : max;
      size_t n_groups = (n + SONDE_COUNTERS_PER_GROUP - 1) / SONDE_COUNTERS_PER_GROUP;
      size_t body = n_groups * sizeof (SondeCounterGroup);
      SondeFrameCounterSet *set;
      int r;

      set = sonde_writer_begin_frame (self, origin, SONDE_FRAME_CTRSET, sizeof *set, body, &r);
      if (set == NULL)
        return r;

      memset ((uint8_t *) set + sizeof *set, 0, body);
      set->n_groups = (uint16_t) n_groups;
      for (size_t j = 0; j < n; j++)
        {
          SondeCounterGroup *group = &set->groups[j / SONDE_COUNTERS_PER_GROUP];

          group->ids[j % SONDE_COUNTERS_PER_GROUP] = ids[i + j];
          group->values[j % SONDE_COUNTERS_PER_GROUP] = values[i + j];
        }
    }

  return 0;
}
