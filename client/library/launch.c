/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/private-beacon.h"

#define CHILD_CONTROL_FD 3  /* what the program's variables name */
#define MIN_FD           10 /* descriptors of the child's are not in the way of that */

/* What the child needs is ready before the fork: a program with threads may do little after it. */
typedef struct
{
  GVariant *options;
  char *path;
  char **argv;
  char **envp;
  char *folder; /* NULL: ours */
  SondeClientSession *session;
  GPid pid;       /* 0: there is none that is ours to end */
  int control_fd; /* -1: the service gave none, and so on */
  int gate_fd;    /* a byte opens; its end means that we are gone */
  int status_fd;  /* errno of what failed, or its end: the program runs */
  GPid launched;
} Launch;

static void
launch_free (Launch *self)
{
  if (self->pid != 0)
    {
      kill (self->pid, SIGKILL);
      waitpid (self->pid, NULL, 0);
    }
  sonde_clear_fd (&self->control_fd);
  sonde_clear_fd (&self->gate_fd);
  sonde_clear_fd (&self->status_fd);
  g_clear_object (&self->session);
  g_variant_unref (self->options);
  g_strfreev (self->argv);
  g_strfreev (self->envp);
  g_free (self->path);
  g_free (self->folder);
  g_free (self);
}

/* @task, @error: (transfer full). What was begun ends. */
static void
fail (GTask *task, GError *error)
{
  Launch *self = g_task_get_task_data (task);

  if (self->session != NULL)
    sonde_client_session_stop (self->session);
  g_task_return_error (task, error);
  g_object_unref (task);
}

static void
fail_with_errno (GTask *task, int error_number, const char *what)
{
  fail (task, g_error_new (G_IO_ERROR, g_io_error_from_errno (error_number), "%s: %s", what,
                           g_strerror (error_number)));
}

/* --- the child --- */

static void
tell_errno (int status_fd)
{
  int error_number = errno;

  while (write (status_fd, &error_number, sizeof error_number) < 0 && errno == EINTR)
    ;
  _exit (127);
}

/* Async-signal-safe calls alone. @control_fd: -1: none */
static void
run_child (const Launch *self, int gate_fd, int status_fd, int control_fd)
{
  sigset_t none;
  gssize n;
  char word;

  sigemptyset (&none);
  sigprocmask (SIG_SETMASK, &none, NULL);
  signal (SIGPIPE, SIG_DFL);
  if (control_fd >= 0 && dup2 (control_fd, CHILD_CONTROL_FD) < 0)
    tell_errno (status_fd);
  do
    n = read (gate_fd, &word, sizeof word);
  while (n < 0 && errno == EINTR);
  if (n != sizeof word)
    _exit (127); /* nobody is there who could be told */
  if (self->folder != NULL && chdir (self->folder) < 0)
    tell_errno (status_fd);
  execve (self->path, self->argv, self->envp);
  tell_errno (status_fd);
}

/* Descriptors that others opened without O_CLOEXEC are not for the program. */
static void
close_others (int control_fd)
{
  guint first = control_fd >= 0 ? CHILD_CONTROL_FD + 1 : STDERR_FILENO + 1;

  close_range (first, G_MAXUINT, CLOSE_RANGE_CLOEXEC); /* without it they stay, as with exec() */
}

static int
move_up (int *fd)
{
  int moved = fcntl (*fd, F_DUPFD_CLOEXEC, MIN_FD);

  sonde_clear_fd (fd);
  return moved;
}

static gboolean
start_child (Launch *self, GError **error)
{
  sonde_autofd int gate = -1;
  sonde_autofd int status = -1;
  int pair[2];
  pid_t pid;

  if (!g_unix_open_pipe (pair, FD_CLOEXEC, error))
    return FALSE;
  gate = move_up (&pair[0]);
  self->gate_fd = pair[1];
  if (!g_unix_open_pipe (pair, FD_CLOEXEC, error))
    return FALSE;
  self->status_fd = pair[0];
  status = move_up (&pair[1]);
  if (self->control_fd >= 0)
    self->control_fd = move_up (&self->control_fd);
  pid = gate >= 0 && status >= 0 ? fork () : -1;
  if (pid < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot start a process: %s",
                   g_strerror (errno));
      return FALSE;
    }
  if (pid == 0)
    {
      close (self->gate_fd); /* or our end would hide that our parent is gone */
      close_others (self->control_fd);
      run_child (self, gate, status, self->control_fd);
    }
  self->pid = self->launched = pid;
  return TRUE;
}

/* --- steps, in the order in which they come --- */

static gboolean
status_ready (gint fd, GIOCondition condition, gpointer user_data)
{
  GTask *task = user_data;
  Launch *self = g_task_get_task_data (task);
  int error_number = 0;

  if (read (fd, &error_number, sizeof error_number) == (gssize) sizeof error_number)
    {
      g_autofree char *what = g_strdup_printf ("Cannot run %s", self->argv[0]);

      fail_with_errno (task, error_number, what);
      return G_SOURCE_REMOVE;
    }
  self->pid = 0; /* it is the caller's */
  g_task_return_pointer (task, g_object_ref (self->session), g_object_unref);
  g_object_unref (task);
  return G_SOURCE_REMOVE;
}

static void
process_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  Launch *self = g_task_get_task_data (task);
  GError *error = NULL;

  if (!sonde_client_session_add_process_finish (self->session, result, &error))
    {
      fail (task, error);
      return;
    }
  g_unix_fd_add (self->status_fd, G_IO_IN | G_IO_HUP, status_ready, task);
  if (write (self->gate_fd, "", 1) != 1)
    g_debug ("the child is gone"); /* which its status tells */
}

static void
add_child (GTask *task)
{
  Launch *self = g_task_get_task_data (task);
  GError *error = NULL;

  if (start_child (self, &error))
    sonde_client_session_add_process_async (self->session, self->pid, g_task_get_cancellable (task),
                                            process_added, task);
  else
    fail (task, error);
}

/* Puts @library before what is there. */
static void
preload (Launch *self, const char *library)
{
  const char *others = g_environ_getenv (self->envp, "LD_PRELOAD");
  g_autofree char *all = others != NULL && others[0] != '\0'
                             ? g_strconcat (library, ":", others, NULL)
                             : g_strdup (library);

  self->envp = g_environ_setenv (self->envp, "LD_PRELOAD", all, TRUE);
}

static gboolean
records (const Launch *self, const char *option)
{
  const char *value;

  return g_variant_lookup (self->options, option, "&s", &value) && !g_str_equal (value, "off");
}

/* What a program needs for each of these options: a key of the service's property, and a variable
 * of ours that goes before it. */
static const struct
{
  const char *option;
  const char *variable;
} preloads_known[] = {
  { "trace", "SONDE_TRACER_LIBRARY" },
  { "memory", "SONDE_MEMORY_LIBRARY" },
};

static void
preloads_read (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  Launch *self = g_task_get_task_data (task);
  GError *error = NULL;
  g_autoptr (GVariant) answered = sonde_connection_call_finish (source, result, NULL, &error);
  g_autoptr (GVariant) preloads = NULL;

  if (answered == NULL)
    {
      fail (task, error);
      return;
    }
  g_variant_get (answered, "(v)", &preloads);
  for (guint i = 0; i < G_N_ELEMENTS (preloads_known); i++)
    {
      const char *option = preloads_known[i].option;
      const char *library = g_getenv (preloads_known[i].variable);

      if (!records (self, option))
        continue;
      if (library == NULL
          && (!g_variant_is_of_type (preloads, G_VARIANT_TYPE ("a{ss}"))
              || !g_variant_lookup (preloads, option, "&s", &library)))
        {
          fail (task,
                g_error_new (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_SUPPORTED,
                             "The service has no library that a program needs for %s", option));
          return;
        }
      preload (self, library);
    }
  add_child (task);
}

/* How the program finds its session; see sonde_client_session_open_control_async(). */
static void
set_control (Launch *self)
{
  const char *rendezvous = sonde_client_session_get_rendezvous (self->session);
  g_autofree char *number = g_strdup_printf ("%d", CHILD_CONTROL_FD);
  g_autofree char *inode = NULL;
  struct stat st;

  if (fstat (self->control_fd, &st) < 0)
    return;
  inode = g_strdup_printf ("%" G_GUINT64_FORMAT, (guint64) st.st_ino);
  self->envp = g_environ_setenv (self->envp, "SONDE_CONTROL_FD", number, TRUE);
  self->envp = g_environ_setenv (self->envp, "SYSPROF_CONTROL_FD", number, TRUE);
  self->envp = g_environ_setenv (self->envp, "SONDE_CONTROL_INODE", inode, TRUE);
  if (rendezvous != NULL)
    self->envp = g_environ_setenv (self->envp, "SONDE_RENDEZVOUS", rendezvous, TRUE);
  else
    self->envp = g_environ_unsetenv (self->envp, "SONDE_RENDEZVOUS");
}

static void
control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  Launch *self = g_task_get_task_data (task);
  SondeConnection *connection = g_object_get_data (G_OBJECT (task), "connection");
  g_autoptr (GError) error = NULL;

  self->control_fd = sonde_client_session_open_control_finish (self->session, result, &error);
  /* A service that records no program's events says so: then there are samples alone. */
  if (self->control_fd < 0
      && !g_error_matches (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_SUPPORTED))
    {
      fail (task, g_steal_pointer (&error));
      return;
    }
  if (self->control_fd >= 0)
    set_control (self);
  if (connection->name == NULL)
    {
      g_autofree char *beacon = sonde_private_beacon_make ();

      if (beacon != NULL)
        self->envp = g_environ_setenv (self->envp, "SONDE_BEACON", beacon, TRUE);
    }
  if (records (self, "memory") || records (self, "trace"))
    sonde_connection_call (connection,
                           &(SondeServiceCall){ .interface = "org.freedesktop.DBus.Properties",
                                                .method = "Get",
                                                .arguments = g_variant_new (
                                                    "(ss)", SONDE_MANAGER_INTERFACE, "Preloads"),
                                                .type = "(v)",
                                                .is_quiet = TRUE },
                           g_task_get_cancellable (task), preloads_read, task);
  else
    add_child (task);
}

static void
profiled (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  Launch *self = g_task_get_task_data (task);
  GError *error = NULL;

  self->session
      = sonde_client_profiler_profile_finish (SONDE_CLIENT_PROFILER (source), result, &error);
  if (self->session == NULL)
    fail (task, error);
  else
    sonde_client_session_open_control_async (self->session, g_task_get_cancellable (task),
                                             control_opened, task);
}

void
sonde_launch (SondeConnection *connection,
              GTask *task,
              const char *const *argv,
              const char *const *envp,
              const char *folder,
              GVariant *options)
{
  Launch *self = g_new0 (Launch, 1);
  g_auto (GVariantDict) dict = G_VARIANT_DICT_INIT (options);

  if (!g_variant_dict_contains (&dict, "start-on-exec"))
    g_variant_dict_insert (&dict, "start-on-exec", "b", TRUE);
  g_variant_dict_insert (&dict, "launch", "b", TRUE);
  self->options = g_variant_ref_sink (g_variant_dict_end (&dict));
  self->argv = g_strdupv ((char **) argv);
  self->envp = envp != NULL ? g_strdupv ((char **) envp) : g_get_environ ();
  self->folder = g_strdup (folder);
  self->control_fd = self->gate_fd = self->status_fd = -1;
  g_task_set_task_data (task, self, (GDestroyNotify) launch_free);
  g_task_set_check_cancellable (task, FALSE); /* a program that runs is answered in any case */
  g_object_set_data (G_OBJECT (task), "connection", connection);
  self->path = g_find_program_in_path (argv[0]);
  if (self->path == NULL)
    {
      fail (task,
            g_error_new (G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "There is no program %s", argv[0]));
      return;
    }
  sonde_client_profiler_profile_async (g_task_get_source_object (task), self->options, NULL,
                                       g_task_get_cancellable (task), profiled, task);
}

gint
sonde_launch_pid (GTask *task)
{
  return ((Launch *) g_task_get_task_data (task))->launched;
}
