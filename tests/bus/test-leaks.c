/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random marks in everything that two strangers' processes have, and the search for them in every
 * byte that sonded sends to somebody who may not see them. test-leaks TARGET-PROGRAM */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/polkit-answer.h"

#define DURATION_US 400000
/* Of each process while it is recorded, with four samples a ms. */
#define MIN_RUN_NS 100000000

/* What a process has, as bits of a set. */
enum
{
  NOTHING = 0,
  FILE_NAME = 1 << 0,
  PROCESS_NAME = 1 << 1,
  COMMAND_LINE = 1 << 2,
  ENVIRONMENT = 1 << 3,
  STACK = 1 << 4,
  N_MARKS = 5,
  KERNEL_ADDRESS = 1 << N_MARKS, /* of the machine, rather than of a process */
};

static const char *const mark_names[]
    = { "file name", "process name", "command line", "environment", "stack" };

/* A stranger's process. */
typedef struct
{
  const char *name;
  pid_t pid;
  int life_fd;
  char *marks[N_MARKS];
  guint64 run_from_ns; /* of its own time, when the recording began */
} Victim;

/* Who records what, and what he may see of the strangers. */
typedef struct
{
  const char *name;
  const char
      *options; /* with %d in it: the pid of the other user's victim; NULL: his own process */
  gboolean is_root;
  gboolean has_kernel; /* the options `kernel` */
  gboolean is_raw;     /* and `raw` */
  guint of_other;      /* what may be seen of the other user's process; */
  guint of_root;       /* and of root's */
  guint of_all;        /* what must be found, or the search is no search */
} Scope;

static const char *target_program;

/* First address behind the kernel's text, and the first of it. */
static guint64 kernel_start, kernel_end;

static guint64
find_kernel_symbol (const char *kallsyms, const char *name)
{
  g_autofree char *line = g_strdup_printf (" T %s\n", name);
  const char *found = strstr (kallsyms, line);

  if (found == NULL || found - kallsyms < 16)
    g_error ("/proc/kallsyms has no %s", name);
  return g_ascii_strtoull (found - 16, NULL, 16);
}

static void
find_kernel (void)
{
  g_autofree char *kallsyms = NULL;
  g_autoptr (GError) error = NULL;

  g_file_get_contents ("/proc/kallsyms", &kallsyms, NULL, &error);
  g_assert_no_error (error);
  kernel_start = find_kernel_symbol (kallsyms, "_stext");
  kernel_end = find_kernel_symbol (kallsyms, "_etext");
  g_assert_cmpuint (kernel_start, >, 0); /* else this machine hides them even from root */
  g_assert_cmpuint (kernel_start, <, kernel_end);
}

/* @length characters that nothing else contains. */
static char *
random_text (guint length)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  char *text = g_new0 (char, length + 1);

  for (guint i = 0; i < length; i++)
    text[i] = letters[g_random_int_range (0, (gint) strlen (letters))];
  return text;
}

static void
victim_init (Victim *self, const char *name, uid_t uid)
{
  g_autofree char *command_line = NULL;
  g_autofree char *process_name = NULL;
  g_autofree char *environment = NULL;
  g_autofree char *stack = NULL;
  g_autofree char *program = NULL;
  const char *arguments[] = { "spin", NULL, NULL, NULL, NULL };
  const char *variables[] = { NULL, NULL };

  self->name = name;
  for (guint i = 0; i < N_MARKS; i++)
    self->marks[i]
        = random_text (1u << i == PROCESS_NAME ? 15 : 64); /* a name has no room for more */
  arguments[1] = command_line = g_strconcat ("ignored=", self->marks[2], NULL);
  arguments[2] = process_name = g_strconcat ("name=", self->marks[1], NULL);
  arguments[3] = stack = g_strconcat ("stack=", self->marks[4], NULL);
  variables[0] = environment = g_strconcat ("SECRET=", self->marks[3], NULL);
  g_strreverse (self->marks[4]); /* as target.c has it on its stack */
  program = bus_copy_program (target_program, self->marks[0], 0755);
  self->pid = bus_run (uid, program, arguments, variables, &self->life_fd);
}

static void
victim_clear (Victim *self)
{
  bus_end (self->pid, SIGKILL);
  close (self->life_fd);
  for (guint i = 0; i < N_MARKS; i++)
    g_free (self->marks[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Victim, victim_clear)

static void
append_proc_file (GByteArray *bytes, pid_t pid, const char *name)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/%s", (int) pid, name);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  gsize size_bytes;

  g_file_get_contents (path, &text, &size_bytes, &error);
  g_assert_no_error (error);
  g_byte_array_append (bytes, (const guint8 *) text, (guint) size_bytes);
}

static void
append_stack (GByteArray *bytes, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  g_autofree char *maps = NULL;
  g_autofree guint8 *stack = NULL;
  const char *line;
  guint64 start, end;

  g_assert_true (g_file_get_contents (path, &maps, NULL, NULL));
  line = strstr (maps, "[stack]");
  g_assert_nonnull (line);
  while (line > maps && line[-1] != '\n')
    line--;
  g_assert_cmpint (sscanf (line, "%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x", &start, &end),
                   ==, 2);
  stack = g_malloc (end - start);
  g_assert_cmpint (
      process_vm_readv (pid, &(struct iovec){ stack, end - start }, 1,
                        &(struct iovec){ GSIZE_TO_POINTER ((gsize) start), end - start }, 1, 0),
      ==, (gssize) (end - start));
  g_byte_array_append (bytes, stack, (guint) (end - start));
}

static gboolean
is_kernel_address (guint64 value)
{
  return value >= kernel_start && value < kernel_end;
}

/* As a number in 8 bytes at any place, or as 16 hexadecimal digits. */
static gboolean
has_kernel_address (const GByteArray *bytes)
{
  for (guint i = 0; i + 8 <= bytes->len; i++)
    {
      guint64 value;

      memcpy (&value, bytes->data + i, sizeof value);
      if (is_kernel_address (value))
        return TRUE;
    }
  for (guint i = 0; i + 16 <= bytes->len; i++)
    {
      char digits[17] = "";
      char *end;

      if (bytes->data[i] != 'f' && bytes->data[i] != 'F')
        continue;
      memcpy (digits, bytes->data + i, 16);
      if (is_kernel_address (g_ascii_strtoull (digits, &end, 16)) && end == digits + 16)
        return TRUE;
    }
  return FALSE;
}

/* The set of what @bytes tell of @victim. */
static guint
look_for (const Victim *victim, const GByteArray *bytes)
{
  guint found = NOTHING;

  for (guint i = 0; i < N_MARKS; i++)
    if (memmem (bytes->data, bytes->len, victim->marks[i], strlen (victim->marks[i])) != NULL)
      found |= 1u << i;
  return found;
}

/* Whether the victim has what is looked for, by the same search. */
static gboolean
is_marked (gpointer user_data)
{
  const Victim *victim = user_data;
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  append_proc_file (bytes, victim->pid, "maps");
  append_proc_file (bytes, victim->pid, "comm");
  append_proc_file (bytes, victim->pid, "cmdline");
  append_proc_file (bytes, victim->pid, "environ");
  append_stack (bytes, victim->pid);
  return look_for (victim, bytes) == (1u << N_MARKS) - 1;
}

static void
check_victim (const Scope *scope, const Victim *victim, const GByteArray *bytes, guint allowed)
{
  guint found = look_for (victim, bytes);

  for (guint i = 0; i < N_MARKS; i++)
    {
      if ((found & ~allowed & 1u << i) != 0)
        {
          g_test_message ("%s: the %s of the %s is sent", scope->name, mark_names[i], victim->name);
          g_test_fail ();
        }
      if ((scope->of_all & ~found & 1u << i) != 0)
        {
          g_test_message ("%s: the %s of the %s is not found", scope->name, mark_names[i],
                          victim->name);
          g_test_fail ();
        }
    }
}

static void
check_kernel (const Scope *scope, const GByteArray *bytes)
{
  gboolean found = has_kernel_address (bytes);

  if (found && (scope->of_root & KERNEL_ADDRESS) == 0)
    {
      g_test_message ("%s: a kernel address is sent", scope->name);
      g_test_fail ();
    }
  if (!found && (scope->of_all & KERNEL_ADDRESS) != 0)
    {
      g_test_message ("%s: no kernel address is found", scope->name);
      g_test_fail ();
    }
}

/* Everything that a client hears of sonded: replies, errors and signals, and its streams. */
typedef struct
{
  GMutex mutex;
  GByteArray *bytes;
} Ear;

/* In GDBus's own thread. */
static GDBusMessage *
hear (GDBusConnection *bus, GDBusMessage *message, gboolean incoming, gpointer user_data)
{
  Ear *self = user_data;
  gsize size_bytes;
  g_autofree guchar *blob = NULL;

  if (!incoming)
    return message;
  blob = g_dbus_message_to_blob (message, &size_bytes, G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING,
                                 NULL);
  g_assert_nonnull (blob);
  g_mutex_lock (&self->mutex);
  g_byte_array_append (self->bytes, blob, (guint) size_bytes);
  g_mutex_unlock (&self->mutex);
  return message;
}

/* Reads @fd to its end, and closes it. */
static void
hear_stream (Ear *self, int fd)
{
  guint8 buffer[65536];
  gssize n_bytes;

  g_assert_cmpint (fcntl (fd, F_SETFL, 0), ==, 0); /* blocking */
  while ((n_bytes = read (fd, buffer, sizeof buffer)) > 0)
    {
      g_mutex_lock (&self->mutex);
      g_byte_array_append (self->bytes, buffer, (guint) n_bytes);
      g_mutex_unlock (&self->mutex);
    }
  g_assert_cmpint (n_bytes, ==, 0);
  close (fd);
}

/* Everything that the owner of a session may ask for. */
static void
ask_all (GDBusConnection *bus, const char *session)
{
  g_autoptr (GVariant) all = g_dbus_connection_call_sync (
      bus, "org.sonde.Profiler1", session, "org.freedesktop.DBus.Properties", "GetAll",
      g_variant_new ("(s)", "org.sonde.Profiler1.Session"), NULL, G_DBUS_CALL_FLAGS_NONE,
      BUS_CALL_MS, NULL, NULL);
  g_autoptr (GVariant) sessions = bus_list_sessions (bus);

  g_assert_nonnull (all);
  g_assert_nonnull (sessions);
}

/* Calls that are refused, for what their errors say. */
static void
ask_in_vain (GDBusConnection *bus, const Victim *victim)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (victim->pid, "maps", O_PATH);
  g_autofree char *session = NULL;
  int capture;

  g_assert_false (bus_profile (
      bus, g_variant_new_parsed ("{'targets': <[(%u, %h)]>}", (guint32) victim->pid, 0), fds,
      &session, &capture, NULL));
  g_assert_false (bus_profile (
      bus, g_variant_new_parsed ("{'pids': <[%u]>, 'colour': <1>}", (guint32) victim->pid), NULL,
      &session, &capture, NULL));
}

static GVariant *
scope_options (const Scope *scope, pid_t own, const Victim *other, guint64 duration_us)
{
  g_autofree char *own_text = g_strdup_printf ("'targets': <[(uint32 %d, handle 0)]>", (int) own);
  g_autofree char *pids_text = g_strdup_printf ("'pids': <[uint32 %d]>", (int) other->pid);
  const char *what = scope->options;
  g_autofree char *text = NULL;

  if (what == NULL)
    what = own_text;
  else if (g_str_equal (what, "pids"))
    what = pids_text;
  text = g_strdup_printf ("{%s, 'kernel': <%s>, 'raw': <%s>, 'duration': <uint64 %" G_GUINT64_FORMAT
                          ">, 'frequency': <uint32 4000>}",
                          what, scope->has_kernel ? "true" : "false",
                          scope->is_raw ? "true" : "false", duration_us);
  return g_variant_new_parsed (text);
}

/* The proof of a session of one's own process, or NULL. */
static GUnixFDList *
open_proof (const Scope *scope, uid_t uid, pid_t own)
{
  int proof;

  if (scope->options != NULL)
    return NULL;
  proof = bus_open_proof (uid, own);
  return g_unix_fd_list_new_from_array (&proof, 1);
}

/* ns for which it has had a processor. */
static guint64
victim_run_ns (const Victim *self)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/schedstat", (int) self->pid);
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return g_ascii_strtoull (text, NULL, 10);
}

static gboolean
has_run (gpointer user_data)
{
  const Victim *victim = user_data;

  return victim_run_ns (victim) >= victim->run_from_ns + MIN_RUN_NS;
}

/* The first stream, and one that began later. */
static void
record (const Scope *scope,
        GDBusConnection *bus,
        uid_t uid,
        pid_t own,
        Victim *other,
        Victim *root,
        Ear *ear)
{
  g_autoptr (GUnixFDList) fds = open_proof (scope, uid, own);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture, late;

  bus_profile (bus, scope_options (scope, own, other, 0), fds, &session, &capture, &error);
  g_assert_no_error (error);
  late = bus_open_capture (bus, session, NULL, &error);
  g_assert_no_error (error);
  ask_all (bus, session);
  other->run_from_ns = victim_run_ns (other);
  root->run_from_ns = victim_run_ns (root);
  bus_wait (has_run, other, "the other user's process having run");
  bus_wait (has_run, root, "the process of root having run");
  g_variant_unref (bus_stop (bus, session));
  hear_stream (ear, capture);
  hear_stream (ear, late);
}

/* The file of a session that has ended. */
static void
record_file (
    const Scope *scope, GDBusConnection *bus, uid_t uid, pid_t own, const Victim *other, Ear *ear)
{
  g_autoptr (GUnixFDList) fds = open_proof (scope, uid, own);
  g_autoptr (GError) error = NULL;
  g_autofree char *session
      = bus_start_session (bus, scope_options (scope, own, other, DURATION_US), fds, &error);
  g_autofree char *finished = NULL;
  int file;

  g_assert_no_error (error);
  finished = bus_wait_finished (bus, session);
  file = bus_open_capture (bus, session, NULL, &error);
  g_assert_no_error (error);
  ask_all (bus, session);
  hear_stream (ear, file);
}

static void
test_scope (gconstpointer user_data)
{
  const Scope *scope = user_data;
  g_auto (Victim) other = { 0 };
  g_auto (Victim) root = { 0 };
  uid_t uid = scope->is_root ? 0 : bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  Ear ear = { .bytes = g_byte_array_new () };
  int life_fd;
  pid_t own;

  polkit_answer_set (POLKIT_YES);
  victim_init (&other, "other user's process", bus_next_uid ());
  victim_init (&root, "process of root", 0);
  bus_wait (is_marked, &other, "the other user's process having its marks");
  bus_wait (is_marked, &root, "the process of root having its marks");
  g_dbus_connection_add_filter (bus, hear, &ear, NULL);
  if (!scope->is_root)
    ask_in_vain (bus, &other);
  own = bus_run (uid, target_program, (const char *const[]){ "spin", NULL }, NULL, &life_fd);
  record (scope, bus, uid, own, &other, &root, &ear);
  record_file (scope, bus, uid, own, &other, &ear);
  bus_end (own, SIGKILL);
  close (life_fd);
  g_assert_true (g_dbus_connection_close_sync (bus, NULL, NULL));

  g_test_message ("%s: %u bytes looked at", scope->name, ear.bytes->len);
  check_victim (scope, &other, ear.bytes, scope->of_other);
  check_victim (scope, &root, ear.bytes, scope->of_root);
  check_kernel (scope, ear.bytes);
  g_byte_array_unref (ear.bytes);
}

/* The table of what each scope may see; root's raw session shows that the search finds. */
static const Scope scopes[] = {
  { "own", NULL, FALSE, FALSE, FALSE, NOTHING, NOTHING, NOTHING },
  { "own-with-kernel", NULL, FALSE, TRUE, FALSE, NOTHING, NOTHING, NOTHING },
  { "raw-own", NULL, FALSE, TRUE, TRUE, NOTHING, KERNEL_ADDRESS, KERNEL_ADDRESS },
  { "pids", "pids", FALSE, FALSE, FALSE, FILE_NAME | PROCESS_NAME, NOTHING, NOTHING },
  { "system", "'system': <true>", FALSE, TRUE, FALSE, FILE_NAME | PROCESS_NAME,
    FILE_NAME | PROCESS_NAME, FILE_NAME | PROCESS_NAME },
  { "system-of-root", "'system': <true>", TRUE, TRUE, FALSE,
    FILE_NAME | PROCESS_NAME | COMMAND_LINE, FILE_NAME | PROCESS_NAME | COMMAND_LINE,
    FILE_NAME | PROCESS_NAME },
  { "raw-system-of-root", "'system': <true>", TRUE, TRUE, TRUE,
    FILE_NAME | PROCESS_NAME | COMMAND_LINE,
    FILE_NAME | PROCESS_NAME | COMMAND_LINE | KERNEL_ADDRESS,
    FILE_NAME | PROCESS_NAME | COMMAND_LINE | KERNEL_ADDRESS },
};

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  target_program = bus_copy_program (argv[1], "own", 0755);
  find_kernel ();
  for (guint i = 0; i < G_N_ELEMENTS (scopes); i++)
    {
      g_autofree char *path = g_strconcat ("/leaks/", scopes[i].name, NULL);

      g_test_add_data_func (path, &scopes[i], test_scope);
    }
  return g_test_run ();
}
