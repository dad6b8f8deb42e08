/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "client/service/record-options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/base/unit-name.h"
#include "client/service/preload.h"
#include "client/service/scope-names.h"

#define MAX_SECONDS (366.0 * 86400)
#define HIERARCHY   "/sys/fs/cgroup"
#define DESCRIPTION "Example: sondectl record -d 5 -- python3 program.py"

static const char *const memory_modes[] = { "off", "all", "sampled", NULL };
static const char *const trace_modes[] = { "off", "count", "auto", "exact", NULL };

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

static gboolean
set_mode (const char *name,
          const char *value,
          const char *const *modes,
          const char *usual,
          char **mode,
          GError **error)
{
  if (value != NULL && sonde_choice_find (name, value, modes, error) < 0)
    return FALSE;
  g_clear_pointer (mode, g_free);
  if (g_strcmp0 (value, "off") != 0)
    *mode = g_strdup (value != NULL ? value : usual);
  return TRUE;
}

/* Of "--memory" alone everything is meant. */
static gboolean
set_memory (const char *name, const char *value, gpointer data, GError **error)
{
  return set_mode (name, value, memory_modes, "all", &((SondeRecordOptions *) data)->memory, error);
}

static gboolean
set_trace (const char *name, const char *value, gpointer data, GError **error)
{
  return set_mode (name, value, trace_modes, "auto", &((SondeRecordOptions *) data)->trace, error);
}

/* "30s", "5min"; seconds without a unit. What is out of range is the service's to refuse. */
static gboolean
set_recorder (const char *name, const char *value, gpointer data, GError **error)
{
  SondeRecordOptions *self = data;
  g_autofree char *seconds = g_strconcat (value, "s", NULL);
  gint64 length_ns;

  if ((!sonde_text_parse_duration (value, &length_ns)
       && !sonde_text_parse_duration (seconds, &length_ns))
      || length_ns < 1000)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "Option %s needs a time such as 30s or 5min, not \"%s\"", name, value);
      return FALSE;
    }
  self->recorder_us = length_ns / 1000;
  return TRUE;
}

/* As GLib reads numbers, but 0 is one, too. */
static gboolean
set_memory_wait (const char *name, const char *value, gpointer data, GError **error)
{
  SondeRecordOptions *self = data;
  gint64 number;

  if (!g_ascii_string_to_signed (value, 10, G_MININT, G_MAXINT, &number, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "Option %s needs a number, not \"%s\"", name, value);
      return FALSE;
    }
  self->has_memory_wait = TRUE;
  self->memory_wait_us = (int) number;
  return TRUE;
}

enum
{
  RECORD = 1 << 0,
  START = 1 << 1,
  TOP = 1 << 2,
};

#define ALL        (RECORD | START | TOP)
#define AT(member) G_STRUCT_OFFSET (SondeRecordOptions, member)
#define OTHER      AT (others)

/* All switches, in the order of --help: as GOptionEntry has them, who takes them, and what they say
 * to the service. */
static const struct
{
  const char *name;
  char letter;
  int flags;
  GOptionArg arg;
  GOptionArgFunc callback; /* NULL: sets the member */
  const char *help;
  const char *value_name;
  guint commands;
  gsize offset;    /* of the member; OTHER: of the others that of the same index */
  const char *key; /* of the request; NULL: sonde_record_options_build() says it, or a
                      row of the same member */
  const char *
      type; /* of the value, "d" of seconds, "f" a double; of a switch that has none what it says */
} switches[] = {
  { "embedded", 'e', 0, G_OPTION_ARG_NONE, NULL, "Without the service, with your own rights", NULL,
    RECORD | TOP, AT (embedded), NULL, NULL },
  { "service", 0, 0, G_OPTION_ARG_NONE, NULL, "Through the service, or not at all", NULL,
    RECORD | TOP, AT (service), NULL, NULL },
  { "sonded", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, NULL, NULL, "PATH", RECORD | TOP,
    AT (daemon_path), NULL, NULL },
  { "worker", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, NULL, NULL, "PATH", RECORD | TOP,
    AT (worker_path), NULL, NULL },
  { "pid", 'p', 0, G_OPTION_ARG_CALLBACK, add_pid, "Record this process; may be repeated", "PID",
    ALL, AT (pids), NULL, NULL },
  { "unit", 'u', 0, G_OPTION_ARG_STRING, NULL, "Record all processes of a systemd unit", "UNIT",
    ALL, AT (unit), "unit", "s" },
  { "cgroup", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, NULL,
    "Record all processes of a control group", "PATH", ALL, AT (cgroup), "cgroup", "s" },
  { "container", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, NULL,
    "Record all processes of a container", "ID", ALL, AT (container), NULL, NULL },
  { "comm", 'c', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, NULL,
    "Record the processes of that name", "NAME", ALL, AT (comm), NULL, NULL },
  { "all", 'a', 0, G_OPTION_ARG_NONE, NULL, "Record the whole machine", NULL, ALL, AT (system),
    "system", "true" },
  { "frequency", 'F', 0, G_OPTION_ARG_INT, NULL, "Samples per second (1000)", "HZ", ALL,
    AT (frequency_hz), "frequency", "u" },
  { "duration", 'd', 0, G_OPTION_ARG_DOUBLE, NULL, "End after SECONDS (0: with the command, or ^C)",
    "SECONDS", ALL, AT (seconds), "duration", "d" },
  { "event", 0, 0, G_OPTION_ARG_STRING, NULL, "auto, cycles, cpu-clock, sched:sched_switch, ...",
    "NAME", ALL, OTHER, "event", "s" },
  { "kernel", 0, 0, G_OPTION_ARG_NONE, NULL, "Names of kernel functions", NULL, ALL, OTHER,
    "kernel", "true" },
  { "no-children", 0, 0, G_OPTION_ARG_NONE, NULL, "Do not follow fork", NULL, ALL, OTHER,
    "children", "false" },
  { "unwind", 0, 0, G_OPTION_ARG_STRING, NULL, "dwarf, libdwfl, frame-pointer or none (dwarf)",
    "METHOD", ALL, OTHER, "unwind", "s" },
  { "stack-size", 0, 0, G_OPTION_ARG_INT, NULL, "Stack copied per sample (16384)", "BYTES",
    RECORD | START, OTHER, "stack-size", "u" },
  { "stack-size", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, NULL, NULL, "BYTES", TOP, OTHER,
    "stack-size", "u" },
  { "interpreters", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, NULL,
    "Functions of interpreted programs: auto or no (auto)", "MODE", ALL, OTHER, "interpreters",
    "s" },
  { "java", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, NULL,
    "Have Java, as COMMAND, name the code that it makes", NULL, RECORD, AT (java), NULL, NULL },
  { "output", 'o', 0, G_OPTION_ARG_FILENAME, NULL, "Write to FILE, replacing it (a new one)",
    "FILE", RECORD, AT (output), NULL, NULL },
  { "waits", 0, 0, G_OPTION_ARG_STRING, NULL, "Times of each thread that waits, too: times (off)",
    "MODE", RECORD | START, AT (waits), "waits", "s" },
  { "memory", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, set_memory,
    "Record the heap, too: all or sampled (all)", "MODE", RECORD | START, AT (memory), "memory",
    "s" },
  { "memory-interval", 0, 0, G_OPTION_ARG_INT64, NULL, "Bytes between heap samples (524288)",
    "BYTES", RECORD | START, OTHER, "memory-interval", "t" },
  { "memory-wait", 0, 0, G_OPTION_ARG_CALLBACK, set_memory_wait,
    "It may wait so long instead of losing some (100000)", "US", RECORD | START,
    AT (memory_wait_us), "memory-wait", "u" },
  { "memory-detail", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, NULL,
    "log, events (for Sysprof) or sums (log)", "DETAIL", RECORD, AT (memory_detail),
    "memory-detail", "s" },
  { "memory-detail", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, NULL,
    "sums, log or events (for Sysprof) (sums)", "DETAIL", START, OTHER, "memory-detail", "s" },
  { "trace", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, set_trace,
    "Count calls of functions: count, auto or exact (auto)", "MODE", RECORD | START, AT (trace),
    "trace", "s" },
  { "trace", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, set_trace,
    "Begin with calls: count, auto or exact (auto)", "MODE", TOP, AT (trace), NULL, NULL },
  { "trace-filter", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING_ARRAY, NULL,
    "Only functions like that; may be repeated (all)", "LINE", RECORD | START, OTHER,
    "trace-filter", "as" },
  { "trace-slow", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT64, NULL,
    "A mark for each timed call that takes longer (0: none)", "US", RECORD | START, OTHER,
    "trace-slow", "t" },
  { "trace-depth", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, NULL,
    "Calls deeper than that have no path (4096)", "N", RECORD | START, OTHER, "trace-depth", "u" },
  { "trace-memory", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT64, NULL,
    "For paths of all processes (67108864)", "BYTES", RECORD | START, OTHER, "trace-memory", "t" },
  { "trace-budget", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_DOUBLE, NULL,
    "Count no more of what is called most (0: all)", "PERCENT", RECORD | START, OTHER,
    "trace-budget", "f" },
  { "recorder", 0, 0, G_OPTION_ARG_CALLBACK, set_recorder,
    "Keep the last 30s, 5min, ... in memory until the end", "TIME", START, AT (recorder_us),
    "recorder", "t" },
  /* the same member: the row above says it to the service */
  { "recorder", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_CALLBACK, set_recorder,
    "Keep the last 30s, 5min, ... in memory until the end", "TIME", RECORD, AT (recorder_us), NULL,
    NULL },
  { "recorder-bytes", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT64, NULL,
    "Memory for that (33554432)", "BYTES", RECORD | START, OTHER, "recorder-bytes", "t" },
  { "collectors", 0, 0, G_OPTION_ARG_NONE, NULL, "Marks and counters of running programs, too",
    NULL, RECORD | START, OTHER, "collectors", "true" },
  { "period", 0, 0, G_OPTION_ARG_INT64, NULL, "Or: events per sample", "N", RECORD | START,
    AT (period), "period", "t" },
  { "raw", 0, 0, G_OPTION_ARG_NONE, NULL, "Kernel addresses, and nothing hidden", NULL,
    RECORD | START, OTHER, "raw", "true" },
  { "max-depth", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, NULL, "Frames kept per sample (256)",
    "N", RECORD | START, OTHER, "max-depth", "u" },
  { "counters", 0, 0, G_OPTION_ARG_CALLBACK, add_counters,
    "Also: cpu,memory,network,disk,process, at 10 Hz", "KINDS", RECORD | START, AT (counters),
    "counters", "as" },
  /* hidden: the others of record fill a screen */
  { "no-symbols", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, NULL, "Do not embed function names",
    NULL, RECORD | START, AT (no_symbols), "symbols", "'none'" },
  { "label", 0, 0, G_OPTION_ARG_STRING, NULL, "Part of the file's name (session)", "NAME", START,
    OTHER, "label", "s" },
};

G_STATIC_ASSERT (G_N_ELEMENTS (switches) <= SONDE_RECORD_MAX_SWITCHES);

static gpointer
member_of (const SondeRecordOptions *self, gsize index)
{
  return switches[index].offset == OTHER ? (gpointer) &self->others[index]
                                         : G_STRUCT_MEMBER_P (self, switches[index].offset);
}

/* (transfer full): GOptionEntry, of one of the commands */
static GArray *
new_entries (SondeRecordOptions *self, guint command)
{
  GArray *entries = g_array_new (TRUE, FALSE, sizeof (GOptionEntry));

  self->pids = g_array_new (FALSE, FALSE, sizeof (GPid));
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++)
    {
      const GOptionEntry entry = {
        .long_name = switches[i].name,
        .short_name = switches[i].letter,
        .flags = switches[i].flags,
        .arg = switches[i].arg,
        .arg_data
        = switches[i].callback != NULL ? (gpointer) switches[i].callback : member_of (self, i),
        .description = switches[i].help,
        .arg_description = switches[i].value_name,
      };

      if ((switches[i].commands & command) != 0)
        g_array_append_val (entries, entry);
    }
  return entries;
}

GArray *
sonde_record_options_new_entries_of_top (SondeRecordOptions *self)
{
  return new_entries (self, TOP);
}

void
sonde_record_options_take_command (SondeRecordOptions *self, int argc, char **argv)
{
  if (argc > 1 && g_str_equal (argv[1], "--"))
    argv++, argc--;
  if (argc > 1)
    self->command = argv + 1;
}

/* Of "--memory all ./program" the mode would be the command: it needs a "=". */
static gboolean
is_mode_for_command (const SondeRecordOptions *self, const char *mode, const char *const *modes)
{
  g_autofree char *program = NULL;

  if (mode == NULL || self->command == NULL || !g_strv_contains (modes, self->command[0]))
    return FALSE;
  program = g_find_program_in_path (self->command[0]);
  return program == NULL;
}

/* As completion and people write it, where they see it, too: "/sys/fs/cgroup/machine.slice/". */
static char *
dup_group_path (const char *text, GError **error)
{
  g_autofree char *path = g_strdup (text);
  char *found;

  for (gsize size_bytes = strlen (path); size_bytes > 1 && path[size_bytes - 1] == '/';)
    path[--size_bytes] = '\0';
  if (!g_str_has_prefix (path, HIERARCHY "/"))
    return g_steal_pointer (&path);
  found = sonde_scope_names_dup_cgroup (HIERARCHY, path);
  if (found == NULL)
    {
      g_autofree char *shown = sonde_text_escape (path, -1);

      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                   "%s is in no hierarchy of systemd's", shown);
    }
  return found;
}

gboolean
sonde_record_options_find (SondeRecordOptions *self)
{
  g_autofree char *unit = g_steal_pointer (&self->unit);
  g_autofree char *cgroup = g_steal_pointer (&self->cgroup);
  g_autoptr (GError) error = NULL;

  if ((unit != NULL) + (cgroup != NULL) + (self->container != NULL) > 1)
    {
      sonde_cli_complain ("--unit, --cgroup and --container exclude each other");
      return FALSE;
    }
  if (unit != NULL)
    self->unit = sonde_unit_name_complete (unit);
  else if (cgroup != NULL)
    self->cgroup = dup_group_path (cgroup, &error);
  else if (self->container != NULL)
    sonde_scope_names_find_container (HIERARCHY, self->container, &self->unit, &self->cgroup,
                                      &error);
  if (error == NULL && self->comm != NULL)
    sonde_scope_names_add_processes ("/proc", self->comm, self->pids, &error);
  if (error != NULL)
    sonde_cli_complain ("%s", error->message);
  return error == NULL;
}

/* The service judges names and numbers, and says what it takes; here is what it cannot know. */
gboolean
sonde_record_options_check (const SondeRecordOptions *self, const char *command)
{
  guint n_subjects = (self->pids->len > 0) + (self->unit != NULL) + (self->cgroup != NULL)
                     + (self->system != FALSE) + (self->command != NULL);

  if (n_subjects != 1)
    sonde_cli_complain ("%s needs exactly one of -p PID, -u UNIT%s; see sondectl %s --help",
                        command, g_str_equal (command, "start") ? " and -a" : ", -a and a COMMAND",
                        command);
  else if (self->embedded && self->service)
    sonde_cli_complain ("--embedded and --service exclude each other");
  else if (self->pids->len > SONDE_RECORD_MAX_PIDS)
    sonde_cli_complain ("at most %d processes can be named, not %u%s", SONDE_RECORD_MAX_PIDS,
                        self->pids->len,
                        self->comm != NULL ? "; report --comm chooses them out of -a" : "");
  else if (self->frequency_hz != 0 && self->period != 0)
    sonde_cli_complain ("--frequency and --period exclude each other");
  else if (self->java && self->command == NULL)
    sonde_cli_complain ("--java is of a COMMAND");
  else if (is_mode_for_command (self, self->memory, memory_modes))
    sonde_cli_complain ("the mode follows a \"=\": --memory=%s", self->command[0]);
  else if (is_mode_for_command (self, self->trace, trace_modes))
    sonde_cli_complain ("the mode follows a \"=\": --trace=%s", self->command[0]);
  else if (!(self->seconds >= 0 && self->seconds <= MAX_SECONDS))
    sonde_cli_complain ("--duration goes from 0 to %.0f seconds, a year", MAX_SECONDS);
  else
    return TRUE;
  return FALSE;
}

gboolean
sonde_record_options_parse (SondeRecordOptions *self, int *argc, char ***argv)
{
  g_autoptr (GArray) entries = new_entries (self, RECORD);

  /* Its switches fill a screen, so that there is no line to say what it is for. */
  if (!sonde_cli_parse (argc, argv, "-p PID | -u UNIT | -a | [--] COMMAND...", "", DESCRIPTION,
                        (const GOptionEntry *) (void *) entries->data, TRUE, self)
      || !sonde_record_options_find (self))
    return FALSE;
  sonde_record_options_take_command (self, *argc, *argv);
  /* The service's own default is for whoever reads its streams: ALLOCATION frames. */
  if (self->memory != NULL && self->memory_detail == NULL)
    self->memory_detail = g_strdup ("log");
  return sonde_record_options_check (self, "record");
}

gboolean
sonde_record_options_parse_start (SondeRecordOptions *self, int *argc, char ***argv)
{
  g_autoptr (GArray) entries = new_entries (self, START);

  if (!sonde_cli_parse (argc, argv, "-p PID | -u UNIT | -a",
                        "Has the service record into a file of its own, and comes back at once.",
                        "Example: sondectl start -a -d 10",
                        (const GOptionEntry *) (void *) entries->data, FALSE, self)
      || !sonde_record_options_find (self))
    return FALSE;
  if (*argc == 1)
    return sonde_record_options_check (self, "start");
  sonde_cli_complain ("start takes no COMMAND: sondectl record does");
  return FALSE;
}

gboolean
sonde_record_options_has_event (const SondeRecordOptions *self)
{
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++)
    if (g_strcmp0 (switches[i].key, "event") == 0)
      return ((const SondeRecordValue *) member_of (self, i))->text != NULL;
  return FALSE;
}

void
sonde_record_options_clear (SondeRecordOptions *self)
{
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++)
    if (switches[i].arg == G_OPTION_ARG_STRING || switches[i].arg == G_OPTION_ARG_FILENAME)
      g_free (*(char **) member_of (self, i));
    else if (switches[i].arg == G_OPTION_ARG_STRING_ARRAY)
      g_strfreev (*(char ***) member_of (self, i));
  g_free (self->memory);
  g_free (self->trace);
  g_strfreev (self->counters);
  g_clear_pointer (&self->pids, g_array_unref);
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

/* What the switch at @index says, NULL if it was not given: then the service's default holds. A
 * negative number goes there as one that no range has: the refusal then names the range. A multiple
 * of 8, for those that must be one. */
static GVariant *
new_value (const SondeRecordOptions *self, gsize index)
{
  gconstpointer member = member_of (self, index);
  const char *type = switches[index].type;
  gint64 number;

  if (switches[index].arg == G_OPTION_ARG_NONE)
    return *(const gboolean *) member ? g_variant_new_parsed (type) : NULL;
  switch (type[0])
    {
    case 'u':
      number = *(const int *) member;
      if (number == 0 && (member != &self->memory_wait_us || !self->has_memory_wait))
        return NULL;
      return g_variant_new_uint32 (number >= 0 ? (guint32) number : G_MAXUINT32 - 7);
    case 'f':
      return *(const double *) member > 0 || *(const double *) member < 0
                 ? g_variant_new_double (*(const double *) member)
                 : NULL;
    case 't':
    case 'd':
      number
          = type[0] == 't' ? *(const gint64 *) member : (gint64) (*(const double *) member * 1e6);
      return number == 0 ? NULL
                         : g_variant_new_uint64 (number > 0 ? (guint64) number : G_MAXUINT64 - 7);
    case 's':
      return *(char *const *) member != NULL ? g_variant_new_string (*(char *const *) member)
                                             : NULL;
    default:
      return *(char **const *) member != NULL
                 ? g_variant_new_strv (*(const char *const *const *) member, -1)
                 : NULL;
    }
}

GVariant *
sonde_record_options_build (const SondeRecordOptions *self, GUnixFDList **fds, GError **error)
{
  g_auto (GVariantBuilder) request = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  g_autoptr (GUnixFDList) list = g_unix_fd_list_new ();

  if (self->command != NULL)
    {
      g_variant_builder_add (&request, "{sv}", "launch", g_variant_new_boolean (TRUE));
      /* Our own waiting is none of the command's time. */
      g_variant_builder_add (&request, "{sv}", "start-on-exec", g_variant_new_boolean (TRUE));
    }
  else if (self->pids->len > 0 && !add_processes (self, &request, list, error))
    return NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++)
    {
      GVariant *value = switches[i].key != NULL ? new_value (self, i) : NULL;

      if (value != NULL)
        g_variant_builder_add (&request, "{sv}", switches[i].key, value);
    }
  *fds = g_steal_pointer (&list);
  return g_variant_builder_end (&request);
}

gboolean
sonde_record_options_make_preload (const SondeRecordOptions *self, char **preload, GError **error)
{
  const gboolean is_wanted[SONDE_N_PRELOADS] = {
    [SONDE_PRELOAD_MEMORY] = self->memory != NULL, [SONDE_PRELOAD_TRACER] = self->trace != NULL
  };
  g_autofree char *all = NULL;

  for (guint i = 0; i < SONDE_N_PRELOADS && self->command != NULL; i++)
    {
      g_autofree char *path = is_wanted[i] ? sonde_preload_dup_path (i, NULL) : NULL;
      char *joined;

      if (path == NULL)
        continue;
      if (!sonde_preload_check (i, path, self->command[0], NULL, error))
        return FALSE;
      joined = sonde_preload_join (path, all);
      g_free (all);
      all = joined;
    }
  *preload = g_steal_pointer (&all);
  return TRUE;
}

char *
sonde_record_options_dup_subject (const SondeRecordOptions *self)
{
  g_autofree char *name = NULL;

  if (self->command != NULL)
    name = g_path_get_basename (self->command[0]);
  else if (self->unit != NULL)
    name = g_strdup (self->unit);
  else if (self->cgroup != NULL)
    name = g_path_get_basename (self->cgroup);
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
