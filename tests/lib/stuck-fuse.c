/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file system that shows a folder, and is told which requests of whom it leaves unanswered.
 *
 *   stuck-fuse FOLDER MOUNT-POINT
 *
 * It speaks the kernel's own protocol (linux/fuse.h) and needs the right to mount: root's, or that
 * of a user and a mount namespace. It says "mounted", and then reads commands, a line each:
 *
 *   stop OP [PID]   requests OP (or ALL) get no answer: of anybody, or of the threads of process
 * PID go              what is held is answered, and so is whatever comes
 *
 * Each is answered by "ok"; each request that is held is told as "held OP PID", with the process
 * that waits (0: the kernel's own). Several stops add up. Whoever waits for an answer waits in
 * state D: no signal ends it. At the end of its input it goes, and with it all that is held:
 * ENOTCONN.
 *
 * The kernel asks for everything each time (nothing is valid for longer than its answer), except
 * pages that it has read already. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAX_WRITE (128 * 1024)
#define MAX_NODES 8192
#define MAX_STOPS 16

typedef struct Request
{
  struct Request *next;
  size_t size;
  union
  {
    struct fuse_in_header header;
    char bytes[MAX_WRITE + 4096];
  };
} Request;

/* What was read of a folder when it was opened. */
typedef struct
{
  size_t size;
  _Alignas(8) char bytes[1024 * 1024];
} Listing;

static const struct
{
  const char *name;
  uint32_t opcode;
} names[] = {
  { "LOOKUP", FUSE_LOOKUP },       { "GETATTR", FUSE_GETATTR }, { "SETATTR", FUSE_SETATTR },
  { "MKDIR", FUSE_MKDIR },         { "UNLINK", FUSE_UNLINK },   { "RMDIR", FUSE_RMDIR },
  { "RENAME2", FUSE_RENAME2 },     { "OPEN", FUSE_OPEN },       { "READ", FUSE_READ },
  { "WRITE", FUSE_WRITE },         { "STATFS", FUSE_STATFS },   { "RELEASE", FUSE_RELEASE },
  { "FSYNC", FUSE_FSYNC },         { "FLUSH", FUSE_FLUSH },     { "OPENDIR", FUSE_OPENDIR },
  { "READDIR", FUSE_READDIR },     { "CREATE", FUSE_CREATE },   { "RELEASEDIR", FUSE_RELEASEDIR },
  { "FALLOCATE", FUSE_FALLOCATE }, { "ACCESS", FUSE_ACCESS },   { "READLINK", FUSE_READLINK },
  { "SYMLINK", FUSE_SYMLINK },
};

static int fuse;
static int root;
static char *nodes[MAX_NODES + 1]; /* by number: paths below the folder; the first is "." */
static uint64_t n_nodes = FUSE_ROOT_ID;
static struct
{
  uint32_t opcode; /* 0: all of them */
  int pid;         /* 0: anybody */
} stops[MAX_STOPS];
static int n_stops;
static Request *held;
static Request **held_end = &held;

static const char *
name_of (uint32_t opcode)
{
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].opcode == opcode)
      return names[i].name;
  return "OTHER";
}

/* The kernel tells the thread. */
static int
process_of (uint32_t thread)
{
  char path[64];
  char line[256];
  int pid = (int) thread;
  FILE *file;

  snprintf (path, sizeof path, "/proc/%u/status", thread);
  file = thread != 0 ? fopen (path, "re") : NULL;
  while (file != NULL && fgets (line, sizeof line, file) != NULL)
    if (sscanf (line, "Tgid: %d", &pid) == 1)
      break;
  if (file != NULL)
    fclose (file);
  return pid;
}

static bool
is_stopped (const struct fuse_in_header *header, int pid)
{
  for (int i = 0; i < n_stops; i++)
    if ((stops[i].opcode == 0 || stops[i].opcode == header->opcode)
        && (stops[i].pid == 0 || stops[i].pid == pid))
      return true;
  return false;
}

static void
answer (const Request *request, int error, const void *body, size_t size)
{
  struct
  {
    struct fuse_out_header header;
    char body[MAX_WRITE];
  } reply;

  reply.header.unique = request->header.unique;
  reply.header.error = -error;
  reply.header.len = (uint32_t) (sizeof reply.header + (error == 0 ? size : 0));
  if (error == 0 && size > 0)
    memcpy (reply.body, body, size);
  /* ENOENT: whoever asked has been killed before the request was taken. */
  if (write (fuse, &reply, reply.header.len) < 0 && errno != ENOENT)
    perror ("stuck-fuse: an answer");
}

/* Below the node of the request, or that node where @name is NULL. */
static const char *
path_of (const Request *request, const char *name)
{
  static char path[PATH_MAX];
  uint64_t node = request->header.nodeid;

  if (node < FUSE_ROOT_ID || node > n_nodes)
    return "/nowhere";
  if (name == NULL)
    return nodes[node];
  snprintf (path, sizeof path, "%s/%s", nodes[node], name);
  return path;
}

static uint64_t
number_of (const char *path)
{
  for (uint64_t i = FUSE_ROOT_ID; i <= n_nodes; i++)
    if (strcmp (nodes[i], path) == 0)
      return i;
  if (n_nodes == MAX_NODES)
    abort ();
  nodes[++n_nodes] = strdup (path);
  return n_nodes;
}

static int
get_attributes (uint64_t node, int fd, const char *path, struct fuse_attr *attributes)
{
  struct stat st;

  if ((fd >= 0 ? fstat (fd, &st) : fstatat (root, path, &st, AT_SYMLINK_NOFOLLOW)) < 0)
    return errno;
  *attributes = (struct fuse_attr){
    .ino = node,
    .size = (uint64_t) st.st_size,
    .blocks = (uint64_t) st.st_blocks,
    .atime = (uint64_t) st.st_atim.tv_sec,
    .mtime = (uint64_t) st.st_mtim.tv_sec,
    .ctime = (uint64_t) st.st_ctim.tv_sec,
    .atimensec = (uint32_t) st.st_atim.tv_nsec,
    .mtimensec = (uint32_t) st.st_mtim.tv_nsec,
    .ctimensec = (uint32_t) st.st_ctim.tv_nsec,
    .mode = st.st_mode,
    .nlink = (uint32_t) st.st_nlink,
    .uid = st.st_uid,
    .gid = st.st_gid,
    .blksize = (uint32_t) st.st_blksize,
  };
  return 0;
}

static void
answer_attributes (const Request *request, int fd)
{
  struct fuse_attr_out out = { 0 };
  int error = get_attributes (request->header.nodeid, fd, path_of (request, NULL), &out.attr);

  answer (request, error, &out, sizeof out);
}

static int
make_entry (const char *path, struct fuse_entry_out *entry)
{
  struct fuse_attr attributes;
  int error = get_attributes (0, -1, path, &attributes);

  if (error != 0)
    return error;
  *entry = (struct fuse_entry_out){ .nodeid = number_of (path), .attr = attributes };
  entry->attr.ino = entry->nodeid;
  return 0;
}

/* @error: of what came before */
static void
answer_entry (const Request *request, const char *path, int error)
{
  struct fuse_entry_out entry;

  if (error == 0)
    error = make_entry (path, &entry);
  answer (request, error, &entry, sizeof entry);
}

/* A file is made by this process, and its owner is whoever asked for it. */
static int
give_away (const Request *request, const char *path)
{
  if (fchownat (root, path, request->header.uid, request->header.gid, AT_SYMLINK_NOFOLLOW) < 0
      && errno != EPERM)
    return errno;
  return 0;
}

static void
open_file (const Request *request, const struct fuse_open_in *in)
{
  struct fuse_open_out out = { .open_flags = FOPEN_KEEP_CACHE };
  int fd = openat (root, path_of (request, NULL),
                   (int) (in->flags & (O_ACCMODE | O_TRUNC | O_APPEND)) | O_CLOEXEC);

  out.fh = (uint64_t) fd;
  answer (request, fd < 0 ? errno : 0, &out, sizeof out);
}

static void
create (const Request *request, const struct fuse_create_in *in)
{
  const char *path = path_of (request, (const char *) (in + 1));
  struct
  {
    struct fuse_entry_out entry;
    struct fuse_open_out open;
  } out = { 0 };
  int fd = openat (root, path, (int) in->flags | O_CREAT | O_CLOEXEC, in->mode & ~in->umask);
  int error = fd < 0 ? errno : give_away (request, path);

  if (error == 0)
    error = make_entry (path, &out.entry);
  out.open.fh = (uint64_t) fd;
  answer (request, error, &out, sizeof out);
}

static void
open_folder (const Request *request)
{
  struct fuse_open_out out = { 0 };
  int fd = openat (root, path_of (request, NULL), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *folder = fd >= 0 ? fdopendir (fd) : NULL;
  Listing *listing = calloc (1, sizeof *listing);
  const struct dirent *file;

  if (folder == NULL || listing == NULL)
    {
      answer (request, errno, NULL, 0);
      return;
    }
  while ((file = readdir (folder)) != NULL)
    {
      size_t length = strlen (file->d_name);
      size_t size = FUSE_DIRENT_ALIGN (FUSE_NAME_OFFSET + length);
      struct fuse_dirent *entry = (struct fuse_dirent *) (void *) &listing->bytes[listing->size];

      if (listing->size + size > sizeof listing->bytes)
        break;
      listing->size += size;
      *entry = (struct fuse_dirent){
        .ino = file->d_ino, .off = listing->size, .namelen = (uint32_t) length, .type = file->d_type
      };
      memcpy (entry->name, file->d_name, length);
    }
  closedir (folder);
  out.fh = (uint64_t) (uintptr_t) listing;
  answer (request, 0, &out, sizeof out);
}

static void
read_folder (const Request *request, const struct fuse_read_in *in)
{
  const Listing *listing = (const Listing *) (uintptr_t) in->fh;
  size_t end = in->offset;

  while (end < listing->size)
    {
      const struct fuse_dirent *entry
          = (const struct fuse_dirent *) (const void *) &listing->bytes[end];

      if (entry->off - in->offset > in->size)
        break;
      end = entry->off;
    }
  answer (request, 0, &listing->bytes[in->offset], end - in->offset);
}

static void
set_attributes (const Request *request, const struct fuse_setattr_in *in)
{
  const char *path = path_of (request, NULL);
  int fd = openat (root, path, O_WRONLY | O_CLOEXEC);
  int error = 0;

  if (error == 0 && in->valid & FATTR_MODE && fchmodat (root, path, in->mode & 07777, 0) < 0)
    error = errno;
  if (error == 0 && in->valid & (FATTR_UID | FATTR_GID)
      && fchownat (root, path, in->valid & FATTR_UID ? in->uid : (uid_t) -1,
                   in->valid & FATTR_GID ? in->gid : (gid_t) -1, AT_SYMLINK_NOFOLLOW)
             < 0)
    error = errno;
  if (error == 0 && in->valid & FATTR_SIZE && ftruncate (fd, (off_t) in->size) < 0)
    error = errno;
  if (error == 0 && in->valid & (FATTR_ATIME | FATTR_MTIME))
    {
      struct timespec times[2] = { { (time_t) in->atime, (long) in->atimensec },
                                   { (time_t) in->mtime, (long) in->mtimensec } };

      if (in->valid & FATTR_ATIME_NOW || !(in->valid & FATTR_ATIME))
        times[0].tv_nsec = in->valid & FATTR_ATIME_NOW ? UTIME_NOW : UTIME_OMIT;
      if (in->valid & FATTR_MTIME_NOW || !(in->valid & FATTR_MTIME))
        times[1].tv_nsec = in->valid & FATTR_MTIME_NOW ? UTIME_NOW : UTIME_OMIT;
      if (utimensat (root, path, times, AT_SYMLINK_NOFOLLOW) < 0)
        error = errno;
    }
  if (fd >= 0)
    close (fd);
  if (error == 0)
    answer_attributes (request, -1);
  else
    answer (request, error, NULL, 0);
}

static void
tell_disk (const Request *request)
{
  struct fuse_statfs_out out = { 0 };
  struct statvfs disk;
  int error = fstatvfs (root, &disk) < 0 ? errno : 0;

  if (error == 0)
    out.st = (struct fuse_kstatfs){
      .blocks = disk.f_blocks,
      .bfree = disk.f_bfree,
      .bavail = disk.f_bavail,
      .files = disk.f_files,
      .ffree = disk.f_ffree,
      .bsize = (uint32_t) disk.f_bsize,
      .namelen = (uint32_t) disk.f_namemax,
      .frsize = (uint32_t) disk.f_frsize,
    };
  answer (request, error, &out, sizeof out);
}

static void
begin (const Request *request, const struct fuse_init_in *in)
{
  const struct fuse_init_out out = {
    .major = FUSE_KERNEL_VERSION,
    .minor = in->minor < 31 ? in->minor : 31,
    .max_readahead = in->max_readahead,
    .flags = FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC,
    .max_background = 1024,
    .congestion_threshold = 1024,
    .max_write = MAX_WRITE - 4096,
    .time_gran = 1,
  };

  answer (request, 0, &out, sizeof out);
}

static void
serve (const Request *request)
{
  static char bytes[MAX_WRITE];
  const void *in = &request->header + 1;
  const char *path = path_of (request, NULL);
  ssize_t size;
  int error = 0;

  switch (request->header.opcode)
    {
    case FUSE_INIT:
      begin (request, in);
      return;
    case FUSE_LOOKUP:
      answer_entry (request, path_of (request, in), 0);
      return;
    case FUSE_GETATTR:
      {
        const struct fuse_getattr_in *get = in;

        answer_attributes (request, get->getattr_flags & FUSE_GETATTR_FH ? (int) get->fh : -1);
        return;
      }
    case FUSE_SETATTR:
      set_attributes (request, in);
      return;
    case FUSE_MKDIR:
      {
        const struct fuse_mkdir_in *make = in;

        path = path_of (request, (const char *) (make + 1));
        error = mkdirat (root, path, make->mode & ~make->umask) < 0 ? errno
                                                                    : give_away (request, path);
        answer_entry (request, path, error);
        return;
      }
    case FUSE_SYMLINK:
      path = path_of (request, in);
      error = symlinkat ((const char *) in + strlen (in) + 1, root, path) < 0
                  ? errno
                  : give_away (request, path);
      answer_entry (request, path, error);
      return;
    case FUSE_READLINK:
      size = readlinkat (root, path, bytes, sizeof bytes);
      answer (request, size < 0 ? errno : 0, bytes, (size_t) size);
      return;
    case FUSE_OPEN:
      open_file (request, in);
      return;
    case FUSE_CREATE:
      create (request, in);
      return;
    case FUSE_OPENDIR:
      open_folder (request);
      return;
    case FUSE_READDIR:
      read_folder (request, in);
      return;
    case FUSE_READ:
      {
        const struct fuse_read_in *get = in;

        size = pread ((int) get->fh, bytes, get->size < sizeof bytes ? get->size : sizeof bytes,
                      (off_t) get->offset);
        answer (request, size < 0 ? errno : 0, bytes, (size_t) size);
        return;
      }
    case FUSE_WRITE:
      {
        const struct fuse_write_in *put = in;
        struct fuse_write_out out = { 0 };

        size = pwrite ((int) put->fh, put + 1, put->size, (off_t) put->offset);
        out.size = (uint32_t) size;
        answer (request, size < 0 ? errno : 0, &out, sizeof out);
        return;
      }
    case FUSE_STATFS:
      tell_disk (request);
      return;
    case FUSE_FALLOCATE:
      {
        const struct fuse_fallocate_in *fall = in;

        if (fallocate ((int) fall->fh, (int) fall->mode, (off_t) fall->offset, (off_t) fall->length)
            < 0)
          error = errno;
        break;
      }
    case FUSE_UNLINK:
    case FUSE_RMDIR:
      if (unlinkat (root, path_of (request, in),
                    request->header.opcode == FUSE_RMDIR ? AT_REMOVEDIR : 0)
          < 0)
        error = errno;
      break;
    case FUSE_RELEASE:
      close ((int) ((const struct fuse_release_in *) in)->fh);
      break;
    case FUSE_RELEASEDIR:
      free ((Listing *) (uintptr_t) ((const struct fuse_release_in *) in)->fh);
      break;
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_ACCESS:
      break;
    default:
      error = ENOSYS;
    }
  answer (request, error, NULL, 0);
}

static bool
take_request (void)
{
  Request *request = malloc (sizeof *request);
  ssize_t size = read (fuse, request->bytes, sizeof request->bytes);
  int pid;

  if (size < (ssize_t) sizeof request->header)
    {
      free (request);
      return size < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN);
    }
  request->next = NULL;
  request->size = (size_t) size;
  /* A request that is held hears of no signal: none of these is answered. */
  if (request->header.opcode == FUSE_FORGET || request->header.opcode == FUSE_BATCH_FORGET
      || request->header.opcode == FUSE_INTERRUPT)
    {
      free (request);
      return true;
    }
  pid = n_stops > 0 ? process_of (request->header.pid) : 0;
  if (request->header.opcode != FUSE_INIT && is_stopped (&request->header, pid))
    {
      *held_end = request;
      held_end = &request->next;
      printf ("held %s %d\n", name_of (request->header.opcode), pid);
      return true;
    }
  serve (request);
  free (request);
  return true;
}

static void
go_on (void)
{
  n_stops = 0;
  while (held != NULL)
    {
      Request *request = held;

      held = request->next;
      serve (request);
      free (request);
    }
  held_end = &held;
}

static bool
stop (const char *operation, int pid)
{
  uint32_t opcode = 0;

  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp (names[i].name, operation) == 0)
      opcode = names[i].opcode;
  if ((opcode == 0 && strcmp (operation, "ALL") != 0) || n_stops == MAX_STOPS)
    return false;
  stops[n_stops].opcode = opcode;
  stops[n_stops++].pid = pid;
  return true;
}

static void
take_command (char *line)
{
  char operation[32];
  int pid = 0;

  if (strcmp (line, "go") == 0)
    go_on ();
  else if (sscanf (line, "stop %31s %d", operation, &pid) < 1 || !stop (operation, pid))
    {
      printf ("unknown: %s\n", line);
      return;
    }
  puts ("ok");
}

/* Returns: whether there may be more */
static bool
take_input (void)
{
  static char input[4096];
  static size_t n_bytes;
  ssize_t size = read (STDIN_FILENO, input + n_bytes, sizeof input - n_bytes);
  char *end;

  if (size <= 0)
    return false;
  n_bytes += (size_t) size;
  while ((end = memchr (input, '\n', n_bytes)) != NULL)
    {
      *end = '\0';
      take_command (input);
      n_bytes -= (size_t) (end + 1 - input);
      memmove (input, end + 1, n_bytes);
    }
  return n_bytes < sizeof input;
}

int
main (int argc, char **argv)
{
  char options[128];
  struct pollfd fds[2];
  bool goes_on = true;

  if (argc != 3)
    return 2;
  setvbuf (stdout, NULL, _IOLBF, 0);
  umask (0);
  root = open (argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  fuse = open ("/dev/fuse", O_RDWR | O_CLOEXEC);
  nodes[FUSE_ROOT_ID] = strdup (".");
  snprintf (options, sizeof options,
            "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other,default_permissions", fuse,
            getuid (), getgid ());
  if (root < 0 || fuse < 0
      || mount ("stuck", argv[2], "fuse.stuck", MS_NOSUID | MS_NODEV, options) < 0)
    {
      perror ("stuck-fuse");
      return 1;
    }
  puts ("mounted");
  fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
  fds[1] = (struct pollfd){ .fd = fuse, .events = POLLIN };
  while (goes_on)
    {
      if (poll (fds, 2, -1) < 0)
        continue;
      if (fds[1].revents != 0)
        goes_on = take_request ();
      if (goes_on && fds[0].revents != 0)
        goes_on = take_input ();
    }
  umount2 (argv[2], MNT_DETACH);
  return 0;
}
