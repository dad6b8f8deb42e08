/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the user asked sondectl record for, and the request it becomes. */
#include "config.h"

#include "client/service/record-options.h"

#include <errno.h>
#include <fcntl.h>

#include "client/base/cli.h"
#include "client/base/fd.h"

#define MAX_SECONDS (366.0 * 86400)
#define DESCRIPTION "Example: sondectl record --embedded -d 5 -- python3 program.py"

/* "cpu,memory"; given again, it adds. */
static gboolean
add_counters (const char *name, const char *value, gpointer data, GError **error)
{
  SondeRecordOptions *self = data;
  g_autofree char *before = NULL;
  g_autofree char *all = NULL;

  if (value[0] == '\0')
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "Option %s needs a value",
                   name);
      return FALSE;
    }
  before = self->counters != NULL ? g_strjoinv (",", self->counters) : NULL;
  all = before != NULL ? g_strconcat (before, ",", value, NULL) : g_strdup (value);
  g_strfreev (self->counters);
  self->counters = g_strsplit (all, ",", -1);
  return TRUE;
}

static gboolean
add_pid (const char *name, const char *value, gpointer data, GError **error)
{
  SondeRecordOptions *self = data;
  guint64 pid;
  GPid checked;

  if (!g_ascii_string_to_unsigned (value, 10, 1, G_MAXINT32, &pid, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "Option %s needs a process number, not \"%s\"", name, value);
      return FALSE;
    }
  checked = (GPid) pid;
  g_array_append_val (self->pids, checked);
  return TRUE;
}

/* Of "--memory" alone everything is meant. */
static gboolean
set_memory (const char *name, const char *value, gpointer data, GError **error)
{
  SondeRecordOptions *self = data;

  /* Whatever stands behind it is taken for its mode. */
  if (value != NULL && !g_str_equal (value, "all") && !g_str_equal (value, "sampled"))
    {
      g_set_error (
          error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
          "\"%s\" is no mode of --memory, which is all or sampled; put -- before the command",
          value);
      return FALSE;
    }
  g_free (self->memory);
  self->memory = g_strdup (value != NULL ? value : "all");
  return TRUE;
}

GArray *
sonde_record_options_new_entries (SondeRecordOptions *self)
{
  const GOptionEntry entries[] = {
    { "embedded", 'e', 0, G_OPTION_ARG_NONE, &self->embedded,
      "Without the service, with your own rights", NULL },
    { "pid", 'p', 0, G_OPTION_ARG_CALLBACK, add_pid, "Record this process; may be repeated",
      "PID" },
    { "unit", 'u', 0, G_OPTION_ARG_STRING, &self->unit, "Record all processes of a systemd unit",
      "UNIT" },
    { "all", 'a', 0, G_OPTION_ARG_NONE, &self->system, "Record the whole machine", NULL },
    { "frequency", 'F', 0, G_OPTION_ARG_INT, &self->frequency_hz, "Samples per second (1000)",
      "HZ" },
    { "duration", 'd', 0, G_OPTION_ARG_DOUBLE, &self->seconds,
      "End after SECONDS (0: with the command, or ^C)", "SECONDS" },
    { "event", 0, 0, G_OPTION_ARG_STRING, &self->event,
      "auto, cycles, cpu-clock, sched:sched_switch, ...", "NAME" },
    { "kernel", 0, 0, G_OPTION_ARG_NONE, &self->kernel, "Names of kernel functions", NULL },
    { "no-children", 0, 0, G_OPTION_ARG_NONE, &self->no_children, "Do not follow fork", NULL },
    { "unwind", 0, 0, G_OPTION_ARG_STRING, &self->unwind,
      "dwarf, libdwfl, frame-pointer or none (dwarf)", "METHOD" },
    { "stack-size", 0, 0, G_OPTION_ARG_INT, &self->stack_size_bytes,
      "Stack copied per sample (16384)", "BYTES" },
    { "sonded", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &self->daemon_path, NULL, "PATH" },
    { "worker", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &self->worker_path, NULL, "PATH" },
  };
  GArray *result = g_array_new (TRUE, FALSE, sizeof (GOptionEntry));

  self->pids = g_array_new (FALSE, FALSE, sizeof (GPid));
  g_array_append_vals (result, entries, G_N_ELEMENTS (entries));
  return result;
}

void
sonde_record_options_take_command (SondeRecordOptions *self, int argc, char **argv)
{
  if (argc > 1 && g_str_equal (argv[1], "--"))
    argv++, argc--;
  if (argc > 1)
    self->command = argv + 1;
}

/* The service judges names and numbers; here is only what would be lost on the way. */
gboolean
sonde_record_options_check (const SondeRecordOptions *self, const char *command)
{
  guint n_subjects = (self->pids->len > 0) + (self->unit != NULL) + (self->system != FALSE)
                     + (self->command != NULL);

  if (n_subjects != 1)
    sonde_cli_complain ("%s needs exactly one of -p PID, -u UNIT, -a and a COMMAND; see sondectl "
                        "%s --help",
                        command, command);
  else if (self->pids->len > SONDE_RECORD_MAX_PIDS)
    sonde_cli_complain ("at most %d processes can be named", SONDE_RECORD_MAX_PIDS);
  else if (self->frequency_hz < 0 || self->period < 0 || self->stack_size_bytes < 0
           || self->max_depth < 0 || self->memory_interval_bytes < 0 || self->memory_wait_us < 0)
    sonde_cli_complain ("numbers must not be negative");
  else if (self->frequency_hz > 0 && self->period > 0)
    sonde_cli_complain ("--frequency and --period exclude each other");
  else if (self->memory != NULL && self->command == NULL)
    sonde_cli_complain ("--memory needs a COMMAND");
  else if (!(self->seconds >= 0 && self->seconds <= MAX_SECONDS))
    sonde_cli_complain ("--duration must lie between 0 and a year");
  else
    return TRUE;
  return FALSE;
}

gboolean
sonde_record_options_parse (SondeRecordOptions *self, int *argc, char ***argv)
{
  const GOptionEntry own[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &self->output,
      "Write to FILE, replacing it (a new one)", "FILE" },
    { "period", 0, 0, G_OPTION_ARG_INT64, &self->period, "Or: events per sample", "N" },
    { "raw", 0, 0, G_OPTION_ARG_NONE, &self->raw, "Kernel addresses, and nothing hidden", NULL },
    { "max-depth", 0, 0, G_OPTION_ARG_INT, &self->max_depth, "Frames kept per sample (256)", "N" },
    { "memory", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, set_memory,
      "Record the heap of COMMAND, too: all or sampled (all)", "MODE" },
    { "memory-interval", 0, 0, G_OPTION_ARG_INT64, &self->memory_interval_bytes,
      "Bytes between heap samples (524288)", "BYTES" },
    { "memory-wait", 0, 0, G_OPTION_ARG_INT, &self->memory_wait_us,
      "It may wait so long instead of losing some (0)", "US" },
    { "counters", 0, 0, G_OPTION_ARG_CALLBACK, add_counters,
      "Also: cpu,memory,network,disk,process, at 10 Hz", "KINDS" },
    { "no-symbols", 0, 0, G_OPTION_ARG_NONE, &self->no_symbols, "Do not embed function names",
      NULL },
  };
  g_autoptr (GArray) entries = sonde_record_options_new_entries (self);

  g_array_append_vals (entries, own, G_N_ELEMENTS (own));
  if (!sonde_cli_parse (argc, argv, "-p PID | -u UNIT | -a | [--] COMMAND...",
                        "Records where programs spend their time.", DESCRIPTION,
                        (const GOptionEntry *) (void *) entries->data, TRUE, self))
    return FALSE;
  sonde_record_options_take_command (self, *argc, *argv);
  return sonde_record_options_check (self, "record");
}

void
sonde_record_options_clear (SondeRecordOptions *self)
{
  g_clear_pointer (&self->pids, g_array_unref);
  g_clear_pointer (&self->daemon_path, g_free);
  g_clear_pointer (&self->worker_path, g_free);
  g_clear_pointer (&self->output, g_free);
  g_clear_pointer (&self->event, g_free);
  g_clear_pointer (&self->unit, g_free);
  g_clear_pointer (&self->unwind, g_free);
  g_clear_pointer (&self->memory, g_free);
  g_clear_pointer (&self->counters, g_strfreev);
}

/* Appends (pid, handle) to @targets. FALSE without @error: the process is there but not ours to
 * read. */
static gboolean
add_target (GVariantBuilder *targets, GUnixFDList *fds, GPid pid, GError **error)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", pid);
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  int index;

  if (fd < 0 && errno != EACCES && errno != EPERM)
    {
      if (errno == ENOENT || errno == ESRCH)
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "There is no process %d", pid);
      else
        g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot open %s: %s", path,
                     g_strerror (errno));
      return FALSE;
    }
  if (fd < 0)
    return FALSE;
  index = g_unix_fd_list_append (fds, fd, error);
  if (index < 0)
    return FALSE;
  g_variant_builder_add (targets, "(uh)", (guint32) pid, index);
  return TRUE;
}

static gboolean
add_processes (const SondeRecordOptions *self,
               GVariantBuilder *request,
               GUnixFDList *fds,
               GError **error)
{
  g_auto (GVariantBuilder) targets = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a(uh)"));
  g_auto (GVariantBuilder) numbers = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("au"));
  gboolean have_proofs = TRUE;

  for (guint i = 0; i < self->pids->len; i++)
    {
      GPid pid = g_array_index (self->pids, GPid, i);
      g_autoptr (GError) failure = NULL;

      if (!add_target (&targets, fds, pid, &failure))
        have_proofs = FALSE;
      if (failure != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return FALSE;
        }
      g_variant_builder_add (&numbers, "u", (guint32) pid);
    }
  if (have_proofs)
    g_variant_builder_add (request, "{sv}", "targets", g_variant_builder_end (&targets));
  else
    g_variant_builder_add (request, "{sv}", "pids", g_variant_builder_end (&numbers));
  return TRUE;
}

static void
add_boolean (GVariantBuilder *request, const char *key, gboolean value)
{
  g_variant_builder_add (request, "{sv}", key, g_variant_new_boolean (value));
}

static void
add_u32 (GVariantBuilder *request, const char *key, int value)
{
  if (value > 0)
    g_variant_builder_add (request, "{sv}", key, g_variant_new_uint32 ((guint32) value));
}

static void
add_u64 (GVariantBuilder *request, const char *key, guint64 value)
{
  if (value > 0)
    g_variant_builder_add (request, "{sv}", key, g_variant_new_uint64 (value));
}

static void
add_string (GVariantBuilder *request, const char *key, const char *value)
{
  if (value != NULL)
    g_variant_builder_add (request, "{sv}", key, g_variant_new_string (value));
}

GVariant *
sonde_record_options_build (const SondeRecordOptions *self, GUnixFDList **fds, GError **error)
{
  g_auto (GVariantBuilder) request = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  g_autoptr (GUnixFDList) list = g_unix_fd_list_new ();

  if (self->command != NULL)
    {
      add_boolean (&request, "launch", TRUE);
      /* Our own waiting is none of the command's time. */
      add_boolean (&request, "start-on-exec", TRUE);
    }
  else if (self->unit != NULL)
    add_string (&request, "unit", self->unit);
  else if (self->system)
    add_boolean (&request, "system", TRUE);
  else if (!add_processes (self, &request, list, error))
    return NULL;

  add_string (&request, "event", self->event);
  add_u32 (&request, "frequency", self->frequency_hz);
  add_u64 (&request, "period", (guint64) self->period);
  add_u64 (&request, "duration", (guint64) (self->seconds * 1e6));
  add_string (&request, "unwind", self->unwind);
  add_u32 (&request, "stack-size", self->stack_size_bytes);
  add_u32 (&request, "max-depth", self->max_depth);
  add_string (&request, "memory", self->memory);
  add_u64 (&request, "memory-interval", (guint64) self->memory_interval_bytes);
  add_u32 (&request, "memory-wait", self->memory_wait_us);
  if (self->kernel)
    add_boolean (&request, "kernel", TRUE);
  if (self->raw)
    add_boolean (&request, "raw", TRUE);
  if (self->no_children)
    add_boolean (&request, "children", FALSE);
  if (self->counters != NULL)
    g_variant_builder_add (&request, "{sv}", "counters",
                           g_variant_new_strv ((const char *const *) self->counters, -1));
  if (self->no_symbols)
    add_string (&request, "symbols", "none");

  *fds = g_steal_pointer (&list);
  return g_variant_builder_end (&request);
}

const char *
sonde_record_options_preload (const SondeRecordOptions *self)
{
  const char *library = g_getenv ("SONDE_MEMORY_LIBRARY");

  if (self->memory == NULL)
    return NULL;
  return library != NULL ? library : SONDE_PRELOADDIR "/libsonde-memory.so";
}

char *
sonde_record_options_dup_subject (const SondeRecordOptions *self)
{
  g_autofree char *name = NULL;

  if (self->command != NULL)
    name = g_path_get_basename (self->command[0]);
  else if (self->unit != NULL)
    name = g_strdup (self->unit);
  else if (self->system)
    name = g_strdup ("system");
  else
    {
      g_autofree char *path
          = g_strdup_printf ("/proc/%d/comm", g_array_index (self->pids, GPid, 0));

      if (!g_file_get_contents (path, &name, NULL, NULL))
        name = g_strdup ("process");
      g_strchomp (name);
    }
  g_strcanon (name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_.-", '_');
  return g_steal_pointer (&name);
}
