/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limits of capture files, reached. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/bus/limit-rows.h"
#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"
#include "tests/lib/bus-user.h"

#define MIB G_GUINT64_CONSTANT (1048576)

/* A user who may have capture files. */
typedef struct
{
  uid_t uid;
  GDBusConnection *bus;
  char *session; /* the latest */
} Owner;

static void
owner_init (Owner *self)
{
  self->uid = bus_next_uid ();
  self->bus = bus_connect (self->uid);
}

static void
owner_clear (Owner *self)
{
  g_clear_object (&self->bus);
  g_clear_pointer (&self->session, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Owner, owner_clear)

/* A session with nothing in it. */
static gboolean
owner_start (Owner *self, GError **error)
{
  g_clear_pointer (&self->session, g_free);
  self->session
      = bus_start_session (self->bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, error);
  return self->session != NULL;
}

/* The file of a session that has ended. Returns: (transfer full): its path */
static char *
owner_make_file (Owner *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) path = NULL;
  g_autofree char *finished = NULL;

  owner_start (self, &error);
  g_assert_no_error (error);
  path = bus_session_get (self->bus, self->session, "CaptureFile", &error);
  g_assert_no_error (error);
  g_variant_unref (bus_stop (self->bus, self->session));
  finished = bus_wait_finished (self->bus, self->session);
  return g_variant_dup_string (path, NULL);
}

static void
owner_assert_refused (Owner *self, const char *name)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (owner_start (self, &error));
  limit_assert_refusal (error, name);
}

void
limit_reach_capture_uid_bytes (const char *name)
{
  g_auto (Owner) owner = { 0 };
  g_autofree char *path = NULL;

  owner_init (&owner);
  path = owner_make_file (&owner);
  g_assert_cmpint (truncate (path, (off_t) limit_lookup (name)), ==, 0); /* a file of holes */
  owner_assert_refused (&owner, name);
  g_assert_cmpint (truncate (path, 0), ==, 0);
}

/* A file may have @name bytes, and never more than what is left of another limit: a session that
 * fills that ends, and what it has written decodes. */
void
limit_reach_capture_bytes (const char *name)
{
  static const char *const arguments[] = { "spin", NULL };
  guint64 left = 2 * MIB;
  g_auto (Owner) owner = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *first = NULL;
  int life_fd, proof;
  g_autofree char *finished = NULL;
  pid_t pid;

  g_assert_cmpuint (left, <, limit_lookup (name));
  owner_init (&owner);
  first = owner_make_file (&owner);
  g_assert_cmpint (truncate (first, (off_t) (limit_lookup ("capture-uid-bytes") - left)), ==, 0);
  pid = bus_run (owner.uid, limit_target_program, arguments, NULL, &life_fd);
  proof = bus_open_proof (owner.uid, pid);
  fds = g_unix_fd_list_new_from_array (&proof, 1);
  g_free (owner.session);
  owner.session = bus_start_session (
      owner.bus,
      g_variant_new_parsed ("{'targets': <[(%u, %h)]>, 'frequency': <uint32 20000>}", (guint32) pid,
                            0),
      fds, &error);
  g_assert_no_error (error);
  finished = bus_wait_finished (owner.bus, owner.session);
  g_assert_cmpstr (finished, ==, "capture-full");
  g_assert_cmpint (truncate (first, 0), ==, 0);
  bus_end (pid, SIGKILL);
  close (life_fd);
}

/* Empty files count as well as full ones: each has a link in a folder of its owner's. */
void
limit_reach_capture_files (const char *name)
{
  g_auto (Owner) owner = { 0 };
  g_autofree char *path = NULL;
  g_autofree char *folder = NULL;
  guint64 limit = limit_lookup (name);

  owner_init (&owner);
  path = owner_make_file (&owner);
  folder = g_strdup_printf ("%s/state/owners/%u", g_getenv ("PRIVATE_BUS_DIR"), owner.uid);
  for (guint64 i = 1; i < limit; i++)
    {
      g_autofree char *file = g_strdup_printf ("%s-%" G_GUINT64_FORMAT, path, i);
      g_autofree char *file_name = g_path_get_basename (file);
      g_autofree char *link = g_build_filename (folder, file_name, NULL);
      int fd = open (file, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

      g_assert_cmpint (fd, >=, 0);
      close (fd);
      g_assert_cmpint (symlink (file, link), ==, 0);
    }
  owner_assert_refused (&owner, name);
}

void
limit_reach_capture_free (const char *name)
{
  const char *directory = g_getenv ("PRIVATE_BUS_DIR");
  g_autofree char *path = g_build_filename (directory, "ballast", NULL);
  guint64 size_bytes = 64 * MIB;
  g_auto (Owner) owner = { 0 };
  int fd;

  owner_init (&owner);
  g_assert_cmpint (mount ("private-bus", directory, "tmpfs", MS_REMOUNT, "size=64m"), ==, 0);
  fd = open (path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  g_assert_cmpint (
      posix_fallocate (fd, 0, (off_t) (size_bytes * (100 - limit_lookup (name)) / 100)), ==, 0);
  close (fd);
  owner_assert_refused (&owner, name);
  g_assert_cmpint (unlink (path), ==, 0);
  g_assert_cmpint (mount ("private-bus", directory, "tmpfs", MS_REMOUNT, "size=50%"), ==, 0);
}
