/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/bus/request-details.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"

static void
add (GVariantBuilder *builder, const char *key, const char *value)
{
  g_variant_builder_add (builder, "{ss}", key, value);
}

static void
add_number (GVariantBuilder *builder, const char *key, guint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, value);

  add (builder, key, text);
}

static void
add_caller (GVariantBuilder *builder, const SondeCaller *caller)
{
  if (sonde_caller_pid (caller) > 0)
    add_number (builder, "client-pid", (guint64) sonde_caller_pid (caller));
}

/* Source: proc(5), the mount option hidepid: "hidepid=0" and "hidepid=off" are not shown. */
static gboolean
hides_processes (void)
{
  g_autofree char *mounts
      = sonde_proc_text_read (AT_FDCWD, "/proc/self/mounts", SONDE_LIMIT_PROC_TEXT_BYTES);

  return mounts == NULL || strstr (mounts, "hidepid=") != NULL;
}

static void
add_targets (GVariantBuilder *builder, const SondeOptions *options)
{
  g_autoptr (GString) pids = g_string_new (NULL);
  g_autoptr (GString) uids = g_string_new (NULL);
  gboolean shows_uids = !hides_processes ();

  for (guint i = 0; i < options->targets->len; i++)
    {
      const SondeAskedTarget *target = g_ptr_array_index (options->targets, i);
      int pid = (int) target->pid;
      g_autofree char *directory = g_strdup_printf ("/proc/%d", pid);
      struct stat st;

      g_string_append_printf (pids, "%s%d", i > 0 ? " " : "", pid);
      if (shows_uids && stat (directory, &st) == 0)
        g_string_append_printf (uids, "%s%u", uids->len > 0 ? " " : "", st.st_uid);
    }
  if (pids->len > 0)
    add (builder, "targets", pids->str);
  if (uids->len > 0)
    add (builder, "target-uids", uids->str);
}

GVariant *
sonde_request_details_to_start (const SondeOptions *options, const SondeCaller *caller)
{
  g_autofree char *what = sonde_options_describe_scope (options);
  const SondeOptionRow *row;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  add (&builder, "what", what);
  add (&builder, "scope", sonde_scope_name (options->asked.scope));
  add_targets (&builder, options);
  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    {
      g_autofree char *text = NULL;

      if ((row->flags & SONDE_OPTION_FOR_POLKIT) == 0)
        continue;
      text = sonde_option_dup_text (row, options);
      if (text != NULL)
        add (&builder, row->key, text);
    }
  add_caller (&builder, caller);
  return g_variant_builder_end (&builder);
}

GVariant *
sonde_request_details_of_capture (const char *name, const SondeCaller *caller)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  add (&builder, "what", "what another user has profiled");
  add (&builder, "capture", name);
  add_caller (&builder, caller);
  return g_variant_builder_end (&builder);
}

GVariant *
sonde_request_details_of_session (guint64 session_id, const SondeCaller *caller)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  add (&builder, "what", "what another user profiles");
  add_number (&builder, "session", session_id);
  add_caller (&builder, caller);
  return g_variant_builder_end (&builder);
}
