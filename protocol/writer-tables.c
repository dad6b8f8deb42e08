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

/* One frame with as many of @names as fit; *@n_taken says how many those were. */
static int
add_jit_names (SondeWriter *self,
               const SondeFrameOrigin *origin,
               const SondeJitName *names,
               size_t n_names,
               size_t *n_taken)
{
  SondeFrameJitmap *jitmap;
  size_t body = 0;
  size_t n = 0;
  uint8_t *at;
  int r;

  for (; n < n_names; n++)
    {
      size_t entry = sizeof names[n].address + jit_name_length (names[n].name) + 1;

      if (entry > SONDE_FRAME_MAX_SIZE - sizeof *jitmap - body)
        break;
      body += entry;
    }

  jitmap = sonde_writer_begin_frame (self, origin, SONDE_FRAME_JITMAP, sizeof *jitmap, body, &r);
  if (jitmap == NULL)
    return r;

  jitmap->n_names = (uint32_t) n;
  at = jitmap->data;
  for (size_t i = 0; i < n; i++)
    {
      size_t len = jit_name_length (names[i].name);

      memcpy (at, &names[i].address, sizeof names[i].address);
      at += sizeof names[i].address;
      memcpy (at, names[i].name, len);
      at += len;
      *at++ = '\0';
    }

  *n_taken = n;
  return 0;
}

int
sonde_writer_add_jitmap (SondeWriter *self,
                         const SondeFrameOrigin *origin,
                         const SondeJitName *names,
                         size_t n_names)
{
  size_t n = 0;

  for (size_t i = 0; i < n_names; i += n)
    {
      int r = add_jit_names (self, origin, names + i, n_names - i, &n);

      if (r < 0)
        return r;
    }

  return 0;
}

static int
add_definitions (SondeWriter *self,
                 const SondeFrameOrigin *origin,
                 const SondeCounter *counters,
                 size_t n_counters)
{
  SondeFrameCounterDefine *define;
  size_t body = n_counters * sizeof *define->counters;
  int r;

  define = sonde_writer_begin_frame (self, origin, SONDE_FRAME_CTRDEF, sizeof *define, body, &r);
  if (define == NULL)
    return r;

  memset ((uint8_t *) define + sizeof *define, 0, body);
  define->n_counters = (uint16_t) n_counters;
  for (size_t i = 0; i < n_counters; i++)
    {
      SondeCounterDefinition *to = &define->counters[i];

      sonde_writer_set_text (to->category, sizeof to->category, counters[i].category);
      sonde_writer_set_text (to->name, sizeof to->name, counters[i].name);
      sonde_writer_set_text (to->description, sizeof to->description, counters[i].description);
      to->id_type = counters[i].id << SONDE_COUNTER_ID_SHIFT
                    | (uint32_t) counters[i].type << SONDE_COUNTER_TYPE_SHIFT;
      to->value = counters[i].value;
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
      int r = add_definitions (self, origin, counters + i, n);

      if (r < 0)
        return r;
    }

  return 0;
}

static int
add_groups (SondeWriter *self,
            const SondeFrameOrigin *origin,
            const uint32_t *ids,
            const SondeCounterValue *values,
            size_t n_counters)
{
  SondeFrameCounterSet *set;
  size_t n_groups = (n_counters + SONDE_COUNTERS_PER_GROUP - 1) / SONDE_COUNTERS_PER_GROUP;
  size_t body = n_groups * sizeof *set->groups;
  int r;

  set = sonde_writer_begin_frame (self, origin, SONDE_FRAME_CTRSET, sizeof *set, body, &r);
  if (set == NULL)
    return r;

  memset ((uint8_t *) set + sizeof *set, 0, body);
  set->n_groups = (uint16_t) n_groups;
  for (size_t i = 0; i < n_counters; i++)
    {
      SondeCounterGroup *group = &set->groups[i / SONDE_COUNTERS_PER_GROUP];

      group->ids[i % SONDE_COUNTERS_PER_GROUP] = ids[i];
      group->values[i % SONDE_COUNTERS_PER_GROUP] = values[i];
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
      int r = add_groups (self, origin, ids + i, values + i, n);

      if (r < 0)
        return r;
    }

  return 0;
}
