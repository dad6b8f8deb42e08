/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/service/record-run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/text.h"
#include "client/service/spawn.h"

struct SondeRecordRun
{
  const SondeRecordOptions *options;
  const SondeRecordRunHandler *handler; /* NULL: nobody is told any more */
  gpointer user_data;
  GVariant *request; /* a{sv} */
  GUnixFDList *fds;  /* what its handles mean */
  SondeClientProfiler *profiler;
  gboolean is_embedded;
  GError *absence; /* why there is no service; NULL: there is, or none was wanted */
  GError *refusal; /* why it does not do it for us, so that we try without it; else NULL */
  GCancellable *cancellable;   /* of the start */
  SondeClientSession *session; /* NULL before the start */
  SondeSpawn *spawn;           /* NULL without a command */
  int control_fd;              /* for the command; -1: none */
  gboolean has_begun;          /* the recording: what it is of is in it */
  gboolean has_stopped;        /* it */
  gboolean has_failed;         /* it, or the start of the command */
  gboolean was_told_to_end;    /* on purpose */
  gboolean terminated_command;
  int command_status; /* exit status of the command, -1 before */
  int exec_error;     /* errno, 0 if the command ran */
};

/* --- whether the loader will put a library into the command: it only warns when it cannot --- */

enum
{
  MAX_INTERPRETERS = 4, /* of scripts, as the kernel follows them */
  MAX_SEGMENTS = 64,
  MAX_PATH_BYTES = 256, /* of an interpreter */
};

/* What of an ELF file decides. */
typedef struct
{
  guint8 elf_class;
  guint8 byte_order;
  guint16 machine;
  char loader[MAX_PATH_BYTES]; /* PT_INTERP; "": none */
} Program;

typedef enum
{
  KIND_OTHER, /* exec() knows better */
  KIND_ELF,
  KIND_SCRIPT,
} ProgramKind;

static gboolean
read_at (int fd, gpointer bytes, gsize size_bytes, guint64 offset)
{
  return offset <= G_MAXINT64
         && pread (fd, bytes, size_bytes, (off_t) offset) == (gssize) size_bytes;
}

static void
read_loader (int fd, guint64 offset, guint64 size_bytes, Program *program)
{
  if (!read_at (fd, program->loader, MIN (size_bytes, sizeof program->loader - 1), offset))
    program->loader[0] = '\0';
}

/* Of files in our own byte order: those in another one are refused by it alone. */
static void
read_segments (int fd, Program *program)
{
  union
  {
    Elf64_Ehdr wide;
    Elf32_Ehdr narrow;
  } header;
  gboolean is_wide = program->elf_class == ELFCLASS64;
  guint n_segments;

  if (!read_at (fd, &header, is_wide ? sizeof header.wide : sizeof header.narrow, 0))
    return;
  n_segments = MIN (is_wide ? header.wide.e_phnum : header.narrow.e_phnum, MAX_SEGMENTS);
  for (guint i = 0; i < n_segments && program->loader[0] == '\0'; i++)
    {
      union
      {
        Elf64_Phdr wide;
        Elf32_Phdr narrow;
      } segment;

      if (is_wide
          && read_at (fd, &segment.wide, sizeof segment.wide,
                      header.wide.e_phoff + i * sizeof segment.wide)
          && segment.wide.p_type == PT_INTERP)
        read_loader (fd, segment.wide.p_offset, segment.wide.p_filesz, program);
      else if (!is_wide
               && read_at (fd, &segment.narrow, sizeof segment.narrow,
                           header.narrow.e_phoff + i * sizeof segment.narrow)
               && segment.narrow.p_type == PT_INTERP)
        read_loader (fd, segment.narrow.p_offset, segment.narrow.p_filesz, program);
    }
}

/* @interpreter: (out): of a script */
static ProgramKind
read_program (int fd, Program *program, char interpreter[MAX_PATH_BYTES])
{
  char start[MAX_PATH_BYTES] = "";
  gssize n = pread (fd, start, sizeof start - 1, 0);
  guint16 machine;

  memset (program, 0, sizeof *program);
  if (n > 2 && start[0] == '#' && start[1] == '!')
    {
      const char *path = start + 2 + strspn (start + 2, " \t");

      g_strlcpy (interpreter, path, MIN (strcspn (path, " \t\n") + 1, MAX_PATH_BYTES));
      return KIND_SCRIPT;
    }
  if (n < (gssize) sizeof (Elf32_Ehdr) || memcmp (start, ELFMAG, SELFMAG) != 0)
    return KIND_OTHER;
  memcpy (&machine, start + G_STRUCT_OFFSET (Elf32_Ehdr, e_machine), sizeof machine);
  program->elf_class = (guint8) start[EI_CLASS];
  program->byte_order = (guint8) start[EI_DATA];
  program->machine = machine;
  read_segments (fd, program);
  return KIND_ELF;
}

/* Whether an exec() changes ids or capabilities, so that the loader trusts no variable. */
static gboolean
gains_rights (int fd)
{
  struct stat st;

  if (fstat (fd, &st) < 0)
    return FALSE;
  return ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid ())
         || ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0 && st.st_gid != getgid ())
         || (getuid () != 0 && fgetxattr (fd, "security.capability", NULL, 0) > 0);
}

static gboolean
refuse (GError **error, const char *path, const char *why)
{
  g_autofree char *shown = sonde_text_escape (path, -1);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "Cannot record the heap of %s: %s",
               shown, why);
  return FALSE;
}

static gboolean
is_alike (const Program *program, const Program *library)
{
  return program->elf_class == library->elf_class && program->byte_order == library->byte_order
         && program->machine == library->machine;
}

/* @narrow: the library for 32-bit programs; of class 0: there is none */
static gboolean
check_program (const char *path,
               int fd,
               const Program *program,
               const Program *library,
               const Program *narrow,
               GError **error)
{
  g_autofree char *loader = g_path_get_basename (program->loader);

  if (gains_rights (fd))
    return refuse (error, path,
                   "it gains rights when it is executed, and then loads no library of others");
  if (!is_alike (program, library) && !is_alike (program, narrow))
    return refuse (error, path,
                   program->elf_class == ELFCLASS32 && program->machine == EM_386
                           && library->machine == EM_X86_64
                       ? "it is a 32-bit program, and libsonde-memory.so for those is not there"
                       : "it is of another architecture than libsonde-memory.so");
  if (program->loader[0] == '\0')
    return refuse (error, path, "it is statically linked, and loads no library");
  if (g_str_has_prefix (loader, "ld-musl"))
    return refuse (error, path, "its C library is musl, and libsonde-memory.so needs glibc");
  return TRUE;
}

static gboolean
read_library (const char *path, Program *library, GError **error)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  char interpreter[MAX_PATH_BYTES];
  g_autofree char *shown = sonde_text_escape (path, -1);

  if (fd < 0)
    {
      int saved_errno = errno;

      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (saved_errno),
                   "Cannot preload %s, which records the heap: %s", shown,
                   g_strerror (saved_errno));
      return FALSE;
    }
  if (read_program (fd, library, interpreter) == KIND_ELF)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "Cannot preload %s: it is no library",
               shown);
  return FALSE;
}

/*
 * @library_path: for the command's LD_PRELOAD
 * @command: found through PATH; a script is what its interpreter is
 *
 * A command that is not there, or is no program, is left to exec() to tell.
 *
 * Returns: FALSE with @error if the library would not be loaded: it is not there or none, or the
 *   command is static, of another architecture or C library, or gains rights when it is executed
 * Source: ld.so(8), LD_PRELOAD and "Secure-execution mode"; elf(5)
 */
static gboolean
check_preload (const char *library_path, const char *command, GError **error)
{
  g_autofree char *path = g_find_program_in_path (command);
  g_autofree char *wide_path = sonde_record_options_dup_library (library_path, FALSE);
  g_autofree char *narrow_path = sonde_record_options_dup_library (library_path, TRUE);
  Program narrow = { 0 };
  Program library, program;

  if (!read_library (wide_path != NULL ? wide_path : library_path, &library, error)
      || (narrow_path != NULL && !read_library (narrow_path, &narrow, error)))
    return FALSE;
  for (guint i = 0; i <= MAX_INTERPRETERS && path != NULL; i++)
    {
      sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
      char interpreter[MAX_PATH_BYTES] = "";
      ProgramKind kind = fd >= 0 ? read_program (fd, &program, interpreter) : KIND_OTHER;

      if (kind != KIND_SCRIPT)
        return kind == KIND_OTHER || check_program (path, fd, &program, &library, &narrow, error);
      g_free (path);
      path = g_strdup (interpreter);
    }
  return TRUE;
}

/* --- the recording --- */

SondeRecordRun *
sonde_record_run_new (const SondeRecordOptions *options, GError **error)
{
  g_autoptr (SondeRecordRun) self = g_new0 (SondeRecordRun, 1);

  self->options = options;
  self->control_fd = -1;
  self->command_status = -1;
  self->cancellable = g_cancellable_new ();
  if (options->command != NULL)
    {
      g_autofree char *preload = sonde_record_options_dup_preload (options);

      if (preload != NULL && !check_preload (preload, options->command[0], error))
        return NULL;
      self->spawn = sonde_spawn_new (options->command, preload,
                                     g_strcmp0 (options->output, "-") == 0, error);
      if (self->spawn == NULL)
        return NULL;
    }
  self->request = sonde_record_options_build (options, &self->fds, error);
  if (self->request == NULL)
    return NULL;
  g_variant_ref_sink (self->request);
  return g_steal_pointer (&self);
}

void
sonde_record_run_free (SondeRecordRun *self)
{
  if (self == NULL)
    return;
  /* A session that is not over yet keeps itself, and its profiler, until it is told. Nobody else
   * is: who frees us may be gone himself. */
  self->handler = NULL;
  g_clear_pointer (&self->spawn, sonde_spawn_free);
  if (self->session != NULL)
    g_signal_handlers_disconnect_by_data (self->session, self);
  if (self->profiler != NULL)
    sonde_client_profiler_close (self->profiler);
  while (g_main_context_pending (NULL))
    g_main_context_iteration (NULL, FALSE);
  g_clear_object (&self->session);
  g_clear_object (&self->profiler);
  g_clear_object (&self->cancellable);
  g_clear_pointer (&self->request, g_variant_unref);
  g_clear_object (&self->fds);
  sonde_clear_fd (&self->control_fd);
  g_clear_error (&self->absence);
  g_clear_error (&self->refusal);
  g_free (self);
}

static gboolean
connect_embedded (SondeRecordRun *self, GError **error)
{
  self->is_embedded = TRUE;
  self->profiler = sonde_client_profiler_new_embedded (self->options->daemon_path,
                                                       self->options->worker_path, error);
  return self->profiler != NULL;
}

gboolean
sonde_record_run_connect (SondeRecordRun *self, GError **error)
{
  if (self->options->embedded)
    return connect_embedded (self, error);
  self->profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_TERMINAL,
                                                  self->options->service ? error : &self->absence);
  return self->profiler != NULL || (!self->options->service && connect_embedded (self, error));
}

gboolean
sonde_record_run_is_embedded (const SondeRecordRun *self)
{
  return self->is_embedded;
}

static void
check_end (SondeRecordRun *self)
{
  if (self->has_stopped && (self->spawn == NULL || self->command_status >= 0))
    self->handler->ended (self->user_data);
}

/* A request that nobody has answered yet is taken back. */
static void
stop_session (SondeRecordRun *self)
{
  if (self->session != NULL)
    sonde_client_session_stop (self->session);
  else
    g_cancellable_cancel (self->cancellable);
}

/* Of two that do not do it, the service says what can be done about that. */
static void
tell_failure (SondeRecordRun *self, const char *what, const GError *error)
{
  self->has_failed = TRUE;
  if (self->refusal != NULL && !self->has_begun)
    {
      self->is_embedded = FALSE;
      self->handler->failed ("", self->refusal, self->user_data);
    }
  else
    self->handler->failed (what, error, self->user_data);
}

static void
give_up (SondeRecordRun *self, const char *what, const GError *error)
{
  tell_failure (self, what, error);
  stop_session (self);
}

static void
notice_embedded (const SondeRecordRun *self, const char *why, const GError *error)
{
  g_autofree char *shown = sonde_text_escape (error->message, -1);
  g_autofree char *text
      = g_strdup_printf ("Recording embedded, with your own rights: %s (%s)", why, shown);

  self->handler->noticed (text, self->user_data);
}

/* The session runs, and all that was asked for is in it: what it records is wanted from now on. */
static void
begin (SondeRecordRun *self)
{
  self->has_begun = TRUE;
  if (self->refusal != NULL)
    notice_embedded (self, "the service refuses", self->refusal);
  else if (!self->is_embedded && !self->options->service)
    self->handler->noticed ("Recording through the service: it is there, and allows it",
                            self->user_data);
  self->handler->started (self->session, self->user_data);
}

static void session_started (GObject *source, GAsyncResult *result, gpointer user_data);

static void
start_session (SondeRecordRun *self)
{
  sonde_client_profiler_profile_async (self->profiler, self->request, self->fds, self->cancellable,
                                       session_started, self);
}

/* Whether with rights and a kernel's view of our own it may go better: what is wrong with the
 * request stays wrong, and limits are there to be kept. */
static gboolean
is_refusal (const GError *error)
{
  if (error->domain == SONDE_CLIENT_ERROR)
    return error->code == SONDE_CLIENT_ERROR_NOT_AUTHORIZED
           || error->code == SONDE_CLIENT_ERROR_NOT_SUPPORTED;
  return error->domain == G_DBUS_ERROR;
}

/* Before anything has begun; its command still waits. FALSE: it is an error. */
static gboolean
fall_back (SondeRecordRun *self, const GError *error)
{
  if (self->is_embedded || self->options->service || self->was_told_to_end || !is_refusal (error))
    return FALSE;
  self->refusal = g_error_copy (error);
  if (self->session != NULL)
    g_signal_handlers_disconnect_by_data (self->session, self);
  g_clear_object (&self->session);
  sonde_client_profiler_close (self->profiler);
  g_clear_object (&self->profiler);
  if (!connect_embedded (self, NULL))
    return FALSE;
  start_session (self);
  return TRUE;
}

static void
process_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autoptr (GError) error = NULL;
  gboolean is_added
      = sonde_client_session_add_process_finish (SONDE_CLIENT_SESSION (source), result, &error);

  if (self->handler == NULL)
    return;
  if (is_added && !self->has_stopped)
    begin (self);
  if (is_added && !self->was_told_to_end)
    sonde_spawn_release (self->spawn, self->control_fd,
                         sonde_client_session_get_rendezvous (self->session));
  /* The last copy that is closed is the command's. */
  sonde_clear_fd (&self->control_fd);
  if (!is_added && !self->has_stopped && !fall_back (self, error))
    give_up (self, "Cannot record the command: ", error);
}

/* Without one, as of an older service, the command has nobody to tell of itself. */
static void
control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autoptr (GError) error = NULL;

  self->control_fd
      = sonde_client_session_open_control_finish (SONDE_CLIENT_SESSION (source), result, &error);
  if (self->handler == NULL || self->has_stopped)
    return;
  if (error != NULL && self->options->memory != NULL)
    give_up (self, "Cannot record the command's heap: ", error);
  else
    sonde_client_session_add_process_async (self->session, sonde_spawn_pid (self->spawn), NULL,
                                            process_added, self);
}

/* A command that we started does not outlive a recording that was ended on purpose; one whose
 * recording broke goes on. */
static void
session_finished (SondeClientSession *session,
                  const char *reason,
                  const GError *error,
                  gpointer user_data)
{
  SondeRecordRun *self = user_data;

  self->has_stopped = TRUE;
  if (error != NULL && !g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    tell_failure (self, "", error);
  if (self->spawn != NULL && !sonde_spawn_is_running (self->spawn))
    sonde_spawn_kill (self->spawn, SIGKILL);
  else if (self->spawn != NULL && !self->has_failed)
    {
      self->terminated_command = TRUE;
      sonde_spawn_kill (self->spawn, SIGTERM);
    }
  if (self->handler->stopped != NULL)
    self->handler->stopped (reason, self->user_data);
  check_end (self);
}

static void
session_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autoptr (GError) error = NULL;

  self->session = sonde_client_profiler_profile_finish (self->profiler, result, &error);
  if (self->handler == NULL)
    return;
  if (self->session == NULL)
    {
      if (!fall_back (self, error))
        session_finished (NULL, NULL, error, self);
      return;
    }
  g_signal_connect (self->session, "finished", G_CALLBACK (session_finished), self);
  if (self->spawn != NULL)
    sonde_client_session_open_control_async (self->session, NULL, control_opened, self);
  else
    begin (self);
}

static void
exec_failed (int error_number, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autofree char *command = sonde_text_escape (self->options->command[0], -1);
  g_autofree char *what = g_strdup_printf ("Cannot run %s: ", command);
  g_autoptr (GError) error = NULL;

  self->exec_error = error_number;
  error = g_error_new_literal (G_IO_ERROR, g_io_error_from_errno (error_number),
                               g_strerror (error_number));
  give_up (self, what, error);
}

static void
command_exited (int wait_status, gpointer user_data)
{
  SondeRecordRun *self = user_data;

  if (WIFSIGNALED (wait_status))
    self->command_status = SONDE_EXIT_SIGNAL_BASE + WTERMSIG (wait_status);
  else
    self->command_status = WEXITSTATUS (wait_status);
  stop_session (self);
  check_end (self);
}

void
sonde_record_run_start (SondeRecordRun *self,
                        const SondeRecordRunHandler *handler,
                        gpointer user_data)
{
  static const SondeSpawnHandler spawn_handler = { exec_failed, command_exited };

  self->handler = handler;
  self->user_data = user_data;
  if (self->spawn != NULL)
    sonde_spawn_watch (self->spawn, &spawn_handler, self);
  if (self->absence != NULL)
    notice_embedded (self, "there is no service", self->absence);
  start_session (self);
}

gboolean
sonde_record_run_end (SondeRecordRun *self, int signal_number)
{
  if (self->was_told_to_end)
    {
      self->has_failed = self->has_failed || !self->has_stopped;
      return FALSE;
    }
  self->was_told_to_end = TRUE;
  if (self->spawn != NULL && signal_number != 0 && sonde_spawn_is_running (self->spawn))
    sonde_spawn_kill (self->spawn, signal_number);
  stop_session (self);
  return TRUE;
}

SondeClientSession *
sonde_record_run_session (const SondeRecordRun *self)
{
  return self->session;
}

gboolean
sonde_record_run_has_stopped (const SondeRecordRun *self)
{
  return self->has_stopped;
}

int
sonde_record_run_exec_error (const SondeRecordRun *self)
{
  return self->exec_error;
}

int
sonde_record_run_exit_status (const SondeRecordRun *self)
{
  if (self->exec_error != 0)
    return self->exec_error == ENOENT ? SONDE_EXIT_NOT_FOUND : SONDE_EXIT_CANNOT_RUN;
  if (self->has_failed)
    return SONDE_EXIT_OUR_FAILURE;
  /* what we ended ourselves, because the time was over, did not fail */
  if (self->terminated_command && !self->was_told_to_end
      && self->command_status == SONDE_EXIT_SIGNAL_BASE + SIGTERM)
    return 0;
  return MAX (self->command_status, 0);
}
