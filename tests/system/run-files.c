/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs code of files that are mapped for it: run-files MILLISECONDS BASE STEP {FILE OFFSET CUT}…
 *
 * The n-th file is mapped at BASE + n × STEP, executable and as a whole, and what is at OFFSET
 * called as a function of a number until it has used so much CPU time. A CUT that is not 0 is a
 * size to which the file is truncated every other time, and made as long as before in between. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/unwinding/spin.h"

#define SLICE_MILLISECONDS 10

typedef void (*Function) (unsigned rounds);

static int
run_file (const char *path, char *place, size_t offset, off_t cut, unsigned milliseconds)
{
  int fd = open (path, cut != 0 ? O_RDWR : O_RDONLY);
  struct stat status;
  union
  {
    char *place;
    Function function;
  } code = { .place = place + offset };

  if (fd < 0 || fstat (fd, &status) < 0
      || mmap (place, (size_t) status.st_size, PROT_READ | PROT_EXEC,
               MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0)
             != place)
    {
      perror (path);
      return 1;
    }
  for (unsigned used = 0; used < milliseconds; used += SLICE_MILLISECONDS)
    {
      if (cut != 0
          && ftruncate (fd, used % (2 * SLICE_MILLISECONDS) != 0 ? cut : status.st_size) < 0)
        return 1;
      spin (SLICE_MILLISECONDS, code.function);
    }
  close (fd);
  return 0;
}

int
main (int argc, char **argv)
{
  unsigned milliseconds = (unsigned) strtoul (argv[1], NULL, 0);
  size_t base = strtoul (argv[2], NULL, 0), step = strtoul (argv[3], NULL, 0);

  for (int i = 4; i + 2 < argc; i += 3, base += step)
    if (run_file (argv[i], (char *) base, strtoul (argv[i + 1], NULL, 0),
                  strtol (argv[i + 2], NULL, 0), milliseconds)
        != 0)
      return 1;
  return 0;
}
