/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mounts of other namespaces, and what a worker is told of them. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/broker/proc-answer.h"
#include "tests/lib/waiting-child.h"

#define NOBODY 65534

/* What a library of this machine begins with. */
static const Elf64_Ehdr program_header
    = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                     G_BYTE_ORDER == G_LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT },
        .e_type = ET_DYN };

/* A file on a mount of its own, mapped: what a worker would ask for. */
static gboolean
map_on_mount (const char *directory, SondeMessageFileRequest *request)
{
  g_autofree char *path = g_build_filename (directory, "file", NULL);
  struct stat st;
  void *map;
  int fd;

  if (mount ("none", directory, "tmpfs", 0, "size=64k") < 0
      || (fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0 || ftruncate (fd, 4096) < 0
      || write (fd, &program_header, sizeof program_header) != sizeof program_header
      || fstat (fd, &st) < 0)
    return FALSE;
  map = mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  close (fd);
  *request = (SondeMessageFileRequest){ .request_id = 1,
                                        .pid = getpid (),
                                        .start = (guint64) (guintptr) map,
                                        .inode = st.st_ino,
                                        .dev_major = major (st.st_dev),
                                        .dev_minor = minor (st.st_dev) };
  return map != MAP_FAILED;
}

typedef struct
{
  const char *directory;
  SondeMessageFileRequest *requests; /* in memory that is shared */
  guint n_requests;
} Inside;

/* In a mount namespace of its own. */
static gboolean
go_inside (gpointer user_data)
{
  const Inside *self = user_data;

  if (unshare (CLONE_NEWNS) < 0 || mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return FALSE;
  for (guint i = 0; i < self->n_requests; i++)
    if (!map_on_mount (self->directory, &self->requests[i]))
      return FALSE;
  return TRUE;
}

/* What is to be told of the mounts of its root. */
static SondeForeignMount
find_mount (SondeProcBroker *broker, pid_t pid)
{
  SondeMessageProcess reply;
  SondeForeignMount mount;
  int fds[3];
  unsigned n_fds = sonde_proc_broker_open_process (broker, 9, pid, &reply, fds, &mount);

  for (unsigned i = 0; i < n_fds; i++)
    close (fds[i]);
  return mount;
}

/* Of those of a file, which is opened whatever that is. */
static SondeForeignMount
find_mount_of_file (SondeProcBroker *broker, const SondeMessageFileRequest *request)
{
  SondeForeignMount mount;
  int fd = sonde_proc_broker_open_file (broker, request, NULL, &mount);

  g_assert_cmpint (fd, >=, 0);
  close (fd);
  return mount;
}

/* Returns: what sonde_proc_broker_tell() said */
static int
tell (SondeProcBroker *broker, SondeForeignMount mount)
{
  g_autofree char *name = mount.name;
  sonde_autofd int fd = mount.fd;
  char text[16] = { 0 };

  g_assert_cmpint (read (fd, text, sizeof text - 1), >, 0);
  g_assert_cmpint (g_ascii_strtoll (text, NULL, 10), >, 0); /* the number of a mount */
  return sonde_proc_broker_tell (broker, name);
}

static void
tells_nothing_of_what_all_see (void)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (0, SONDE_SCOPE_LAUNCH, FALSE);

  g_assert_null (find_mount (broker, getpid ()).name);
  g_assert_null (find_mount (broker, 0x7ffffff0).name);
}

static void
tells_of_each_mount_once (void)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (0, SONDE_SCOPE_LAUNCH, FALSE);
  g_autoptr (SondeProcBroker) strangers = sonde_proc_broker_new (NOBODY, SONDE_SCOPE_LAUNCH, FALSE);
  const guint n_requests = SONDE_LIMIT_FOREIGN_MOUNTS + 1;
  const gsize size_bytes = n_requests * sizeof (SondeMessageFileRequest);
  g_autofree char *directory = g_dir_make_tmp (NULL, NULL);
  SondeMessageFileRequest *requests
      = mmap (NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Inside inside = { directory, requests, n_requests };
  pid_t pid = waiting_child_spawn (go_inside, &inside);

  if (pid < 0)
    {
      g_test_skip ("no mount can be made here");
      munmap (requests, size_bytes);
      rmdir (directory);
      return;
    }
  g_assert_null (find_mount (strangers, pid).name);
  g_assert_cmpint (tell (broker, find_mount (broker, pid)), ==, 0);
  g_assert_null (find_mount (broker, pid).name);
  /* The root's was the first. */
  for (guint i = 1; i < SONDE_LIMIT_FOREIGN_MOUNTS; i++)
    {
      g_assert_cmpint (tell (broker, find_mount_of_file (broker, &requests[i])), ==, 0);
      g_assert_null (find_mount_of_file (broker, &requests[i]).name);
    }
  /* That they are too many is said once. */
  g_assert_cmpint (tell (broker, find_mount_of_file (broker, &requests[0])), ==, -ENOSPC);
  g_assert_null (find_mount_of_file (broker, &requests[n_requests - 1]).name);
  waiting_child_end (pid);
  munmap (requests, size_bytes);
  rmdir (directory);
}

static SondeAnswer *
look_into (SondeProcBroker *broker, SondeQuestionKind kind, pid_t pid)
{
  SondeQuestion question = { .kind = kind, .pid = pid, .request_id = 1, .wants_mounts = TRUE };

  return sonde_question_answer (&question, broker, NULL);
}

/* Returns: how many documents a worker hears of */
static guint
send_answer (SondeProcBroker *broker, SondeAnswer *answer)
{
  static const SondeChannelHandler nothing = { .message = NULL };
  g_autoptr (SondeChannel) channel = NULL;
  union
  {
    SondeMessageHeader header;
    char bytes[SONDE_MESSAGE_MAX_SIZE];
  } packet;
  guint n_documents = 0;
  int ends[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, ends, NULL));
  channel = sonde_channel_new (ends[0], SONDE_WAY_WORKER_TO_BROKER, &nothing, NULL);
  g_assert_true (sonde_answer_send (answer, broker, channel, NULL));
  while (recv (ends[1], &packet, sizeof packet, MSG_DONTWAIT) > 0)
    n_documents += packet.header.type == SONDE_MESSAGE_DOCUMENT;
  close (ends[1]);
  return n_documents;
}

/* The answer of a lane that was stuck is dropped: the next one tells. */
static void
tells_of_them_when_an_answer_was_dropped (void)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (0, SONDE_SCOPE_LAUNCH, FALSE);
  Inside inside = { NULL, NULL, 0 };
  pid_t pid = waiting_child_spawn (go_inside, &inside);
  const SondeQuestionKind kinds[] = { SONDE_QUESTION_PROCESS, SONDE_QUESTION_TARGET };

  if (pid < 0)
    {
      g_test_skip ("no mount can be made here");
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      SondeAnswer *answer = look_into (broker, kinds[i], pid);
      SondeAnswer *other = look_into (broker, kinds[i], pid);

      sonde_answer_free (look_into (broker, kinds[i], pid));
      g_assert_cmpuint (send_answer (broker, answer), ==, 1);
      g_assert_cmpuint (send_answer (broker, other), ==, 0);
      g_assert_cmpuint (send_answer (broker, look_into (broker, kinds[i], pid)), ==, 0);
    }
  waiting_child_end (pid);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/foreign-mounts/tells-nothing-of-what-all-see", tells_nothing_of_what_all_see);
  /* Only root may leave the namespace of mounts. */
  if (getuid () == 0)
    {
      g_test_add_func ("/foreign-mounts/tells-of-each-mount-once", tells_of_each_mount_once);
      g_test_add_func ("/foreign-mounts/tells-of-them-when-an-answer-was-dropped",
                       tells_of_them_when_an_answer_was_dropped);
    }
  return g_test_run ();
}
