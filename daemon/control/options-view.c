/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a frozen request looks like to people and programs. */
#include "daemon/control/options-view.h"

static void
add (GVariantBuilder *builder, const char *key, GVariant *value)
{
  g_variant_builder_add (builder, "{sv}", key, value);
}

static GVariant *
pids_to_variant (const SondeOptions *self)
{
  GVariantBuilder pids;

  g_variant_builder_init (&pids, G_VARIANT_TYPE ("au"));
  for (guint i = 0; i < self->targets->len; i++)
    g_variant_builder_add (&pids, "u",
                           (guint32) sonde_target_pid (g_ptr_array_index (self->targets, i)));
  return g_variant_builder_end (&pids);
}

static GVariant *
counters_to_variant (const SondeOptions *self)
{
  GVariantBuilder words;

  g_variant_builder_init (&words, G_VARIANT_TYPE ("as"));
  for (guint i = 0; sonde_counters_name (i) != NULL; i++)
    if ((self->counters & (1u << i)) != 0)
      g_variant_builder_add (&words, "s", sonde_counters_name (i));
  return g_variant_builder_end (&words);
}

static void
add_scope (GVariantBuilder *builder, const SondeOptions *self)
{
  const char *key = sonde_scope_name (self->scope);

  switch (self->scope)
    {
    case SONDE_SCOPE_TARGETS:
    case SONDE_SCOPE_PIDS:
      add (builder, key, pids_to_variant (self));
      break;
    case SONDE_SCOPE_UNIT:
      add (builder, key, g_variant_new_string (self->unit));
      break;
    case SONDE_SCOPE_LAUNCH:
    case SONDE_SCOPE_SYSTEM:
      add (builder, key, g_variant_new_boolean (TRUE));
      break;
    default:
      g_assert_not_reached ();
    }
}

GVariant *
sonde_options_to_variant (const SondeOptions *self)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  add_scope (&builder, self);
  add (&builder, "event", g_variant_new_string (sonde_options_event_name (self)));
  if (self->frequency_hz != 0)
    add (&builder, "frequency", g_variant_new_uint32 (self->frequency_hz));
  else
    add (&builder, "period", g_variant_new_uint64 (self->period));
  add (&builder, "kernel", g_variant_new_boolean (self->kernel));
  add (&builder, "raw", g_variant_new_boolean (self->raw));
  add (&builder, "start-on-exec", g_variant_new_boolean (self->start_on_exec));
  add (&builder, "children", g_variant_new_boolean (self->children));
  add (&builder, "unwind", g_variant_new_string (sonde_unwind_mode_name (self->unwind)));
  add (&builder, "stack-size", g_variant_new_uint32 (self->stack_size_bytes));
  add (&builder, "max-depth", g_variant_new_uint32 (self->max_depth));
  add (&builder, "duration", g_variant_new_uint64 (self->duration_us));
  add (&builder, "symbols", g_variant_new_string (self->symbols ? "end" : "none"));
  add (&builder, "memory", g_variant_new_string (sonde_memory_mode_name (self->memory)));
  add (&builder, "memory-interval", g_variant_new_uint64 (self->memory_interval_bytes));
  add (&builder, "memory-wait", g_variant_new_uint32 (self->memory_wait_us));
  add (&builder, "counters", counters_to_variant (self));
  add (&builder, "format", g_variant_new_string ("syscap"));
  add (&builder, "buffer-size", g_variant_new_uint32 (self->buffer_size_bytes));
  add (&builder, "label", g_variant_new_string (self->label));
  return g_variant_builder_end (&builder);
}

static char *
describe_pids (const SondeOptions *self)
{
  g_autoptr (GString) text = g_string_new (self->targets->len == 1 ? "process" : "processes");

  for (guint i = 0; i < self->targets->len; i++)
    g_string_append_printf (text, "%s %d", i > 0 ? "," : "",
                            (int) sonde_target_pid (g_ptr_array_index (self->targets, i)));
  return g_strdup (text->str);
}

char *
sonde_options_describe_scope (const SondeOptions *self)
{
  switch (self->scope)
    {
    case SONDE_SCOPE_TARGETS:
    case SONDE_SCOPE_PIDS:
      return describe_pids (self);
    case SONDE_SCOPE_LAUNCH:
      return g_strdup ("a program to be started");
    case SONDE_SCOPE_UNIT:
      return g_strdup_printf ("unit %s", self->unit);
    case SONDE_SCOPE_SYSTEM:
      return g_strdup ("the whole machine");
    default:
      g_assert_not_reached ();
    }
}

char *
sonde_options_describe (const SondeOptions *self)
{
  g_autofree char *scope = sonde_options_describe_scope (self);
  const char *event = sonde_options_event_name (self);

  if (self->event == SONDE_EVENT_NONE)
    return g_strdup_printf ("%s: %s, no samples", self->label, scope);
  if (self->frequency_hz != 0)
    return g_strdup_printf ("%s: %s, %s at %u Hz", self->label, scope, event, self->frequency_hz);
  return g_strdup_printf ("%s: %s, %s every %" G_GUINT64_FORMAT, self->label, scope, event,
                          self->period);
}
