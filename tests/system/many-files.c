/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has as many mappings as it is told, with the longest paths that there are, and runs in ever new
 * files: many-files FOLDER MAPPINGS FILES-A-SECOND. It says "ready". */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 250
#define DEPTH      14
#define PAGE_BYTES ((size_t) sysconf (_SC_PAGESIZE))
#define SPINS      200000 /* some samples in ten files */

static void
fail (const char *what)
{
  perror (what);
  exit (1);
}

/* It runs wherever its page is. */
__attribute__ ((noinline, aligned (4096))) static void
spin (void)
{
  for (volatile unsigned i = 0; i < SPINS; i++)
    continue;
}

static void
enter (const char *folder)
{
  char name[NAME_BYTES + 1];

  memset (name, 'm', NAME_BYTES);
  name[NAME_BYTES] = '\0';
  if (chdir (folder) < 0)
    fail (folder);
  for (int i = 0; i < DEPTH; i++)
    if (mkdir (name, 0755) < 0 || chdir (name) < 0)
      fail (name);
}

/* Neighbours do not become one: each begins where the file does. */
static void
map_many (long n_mappings)
{
  int fd = open ("mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

  if (fd < 0 || ftruncate (fd, (off_t) PAGE_BYTES) < 0)
    fail ("mapped");
  for (long i = 0; i < n_mappings; i++)
    if (mmap (NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
      fail ("mmap");
  close (fd);
}

/* Of spin() in the file of this program. */
static off_t
find_offset (void)
{
  FILE *maps = fopen ("/proc/self/maps", "re");
  unsigned long at = (unsigned long) &spin, start, end, offset;
  char line[8192];

  while (maps != NULL && fgets (line, sizeof line, maps) != NULL)
    if (sscanf (line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && start <= at && at < end)
      {
        fclose (maps);
        return (off_t) (offset + at - start);
      }
  fail ("/proc/self/maps");
  return 0;
}

static void
run_in_another (off_t offset, unsigned number)
{
  int program = open ("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  char name[32];
  struct stat st;
  void *page;
  int fd;

  snprintf (name, sizeof name, "program-%u", number);
  fd = open (name, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
  if (program < 0 || fd < 0 || fstat (program, &st) < 0
      || sendfile (fd, program, NULL, (size_t) st.st_size) != st.st_size)
    fail (name);
  page = mmap (NULL, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
               offset & ~(off_t) (PAGE_BYTES - 1));
  if (page == MAP_FAILED)
    fail (name);
  ((void (*) (void)) (void *) ((char *) page + offset % (off_t) PAGE_BYTES)) ();
  munmap (page, PAGE_BYTES);
  unlink (name);
  close (program);
  close (fd);
}

int
main (int argc, char **argv)
{
  struct timespec pause = { 0 };
  off_t offset = find_offset ();

  if (argc != 4)
    return 2;
  pause.tv_nsec = 1000000000 / atol (argv[3]);
  enter (argv[1]);
  map_many (atol (argv[2]));
  puts ("ready");
  fflush (stdout);
  for (unsigned i = 0;; i++)
    {
      struct timespec begin, now;

      clock_gettime (CLOCK_MONOTONIC, &begin);
      run_in_another (offset, i);
      clock_gettime (CLOCK_MONOTONIC, &now);
      now.tv_nsec += (now.tv_sec - begin.tv_sec) * 1000000000 - begin.tv_nsec;
      now.tv_sec = 0;
      now.tv_nsec = pause.tv_nsec - now.tv_nsec;
      if (now.tv_nsec > 0)
        nanosleep (&now, NULL);
    }
}
