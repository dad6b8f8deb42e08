/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/beacon.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* These are the process's own, as its environment is. */
static const uint32_t nobody_calls;
const uint32_t *sonde_beacon_word = &nobody_calls;
static const SondeBeacon *page;

/* A file that is shorter than a page would end us by SIGBUS. */
void
sonde_beacon_open (void)
{
  const char *path = secure_getenv ("SONDE_BEACON");
  struct stat status;
  void *mapped = MAP_FAILED;
  int fd;

  if (page != NULL || getauxval (AT_SECURE) != 0)
    return;
  fd = open (path != NULL ? path : SONDE_BEACON_PATH,
             O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return;
  if (fstat (fd, &status) == 0 && S_ISREG (status.st_mode) && status.st_size >= SONDE_BEACON_BYTES)
    mapped = mmap (NULL, SONDE_BEACON_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  close (fd);
  if (mapped == MAP_FAILED)
    return;
  page = mapped;
  sonde_beacon_word = &page->generation;
}

bool
sonde_beacon_is_there (void)
{
  return page != NULL;
}

uint64_t
sonde_beacon_call (SondeProducer producer)
{
  return page != NULL ? sonde_beacon_find_call (page, geteuid (), producer) : 0;
}

socklen_t
sonde_beacon_parse_address (const char *text, size_t size, struct sockaddr_un *address)
{
  *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
  if (size < 2 || size >= sizeof address->sun_path || (text[0] != '/' && text[0] != '@'))
    return 0;
  memcpy (address->sun_path, text, size);
  if (text[0] == '@')
    address->sun_path[0] = '\0';
  return (socklen_t) (offsetof (struct sockaddr_un, sun_path) + size + (text[0] == '/' ? 1 : 0));
}

socklen_t
sonde_beacon_read_address (struct sockaddr_un *address)
{
  char text[sizeof page->address];

  if (page == NULL)
    return 0;
  memcpy (text, page->address, sizeof text);
  return sonde_beacon_parse_address (text, strnlen (text, sizeof text), address);
}
