/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The system calls that a program makes, and no other, by a seccomp filter. */
#pragma once

#include <gio/gio.h>

/* One that the machine does not have is no rule. */
typedef struct
{
  int number;
  const char *reason; /* why the program needs it */
} SondeSystemCall;

/* A call of which some arguments are as good as no call: allowed where (argument & mask) is
 * value. */
typedef struct
{
  int number;
  unsigned index; /* of the argument */
  guint64 mask;
  guint64 value;
} SondeBoundedSystemCall;

#define SONDE_CALL_ALL_BITS G_MAXUINT32 /* of an int, of which the kernel looks at no more */

typedef struct
{
  const SondeSystemCall *calls;
  gsize n_calls;
  const SondeBoundedSystemCall *bounded; /* several of one number: any of them */
  gsize n_bounded;
  const SondeSystemCall
      *missing; /* fail as if the machine had them not: what a library tries first */
  gsize n_missing;
  /* What is sent to @fd, a socket, and its text written to standard error, before a program ends
   * that made another call: @text is a part of @message that ends with ": ", with room for 32 bytes
   * more: the name of the call. Both stay where they are. */
  int fd;
  gpointer message;
  gsize size_bytes;
  char *text;
} SondeCallList;

/**
 * sonde_call_list_enforce:
 *
 * From here on another call is not carried out, but ends the program with its last word, and
 * EXIT_FAILURE; in sanitized builds, whose runtime has needs of its own, it is carried out and the
 * kernel logs it. To be the last step of a preparation: what it takes to get there is not on the
 * list, which has to have sendto, write and exit_group for the last word, and prlimit64 of the
 * program itself; what abort() sends is. Needs no_new_privs. Before there are threads.
 *
 * Source: seccomp(2), seccomp_rule_add(3)
 */
gboolean sonde_call_list_enforce (const SondeCallList *list, GError **error);
