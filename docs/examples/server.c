/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Answers requests out of a cache, so that the few which are not in it are slow: docs/tracing.md
 * finds out why. It sends them to itself; a real one has a network there. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_REQUESTS 2000u
#define N_PAGES    500u /* of which one is not in the cache */

#define KEPT       __attribute__ ((noinline))

static int sockets[2];

/* What nobody expects to take long. */
KEPT static unsigned
read_page (unsigned number)
{
  usleep (20000); /* a disk */
  return number;
}

KEPT static unsigned
look_up (unsigned number)
{
  return number % N_PAGES == 0 ? read_page (number) : number;
}

KEPT static bool
answer (unsigned request)
{
  unsigned page = look_up (request);

  return write (sockets[0], &page, sizeof page) == sizeof page;
}

KEPT static void
serve (void)
{
  unsigned request;

  while (read (sockets[0], &request, sizeof request) == sizeof request && answer (request))
    ;
}

static void *
ask (void *data)
{
  unsigned page;

  for (unsigned i = 1; i <= N_REQUESTS; i++)
    if (write (sockets[1], &i, sizeof i) != sizeof i
        || read (sockets[1], &page, sizeof page) != sizeof page || page != i)
      fprintf (stderr, "request %u failed\n", i);
  shutdown (sockets[1], SHUT_RDWR);
  return NULL;
}

int
main (void)
{
  pthread_t client;

  if (socketpair (AF_UNIX, SOCK_SEQPACKET, 0, sockets) < 0
      || pthread_create (&client, NULL, ask, NULL) != 0)
    return 1;
  serve ();
  return pthread_join (client, NULL);
}
