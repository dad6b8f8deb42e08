/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* To be preloaded: a program that asks for the machine's name opens a file, as if taken over. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int
uname (struct utsname *name)
{
  long fd = syscall (SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);

  if (fd >= 0)
    close ((int) fd);
  return (int) syscall (SYS_uname, name);
}
