/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/base/call-list.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/error.h"

#define N_NAMES          512
#define MAX_NAME         32
#define MAX_LOAD_SECONDS 3u /* of CPU time of the process: it takes milliseconds */

/* A signal handler has nothing but what is static. */
static struct
{
  SondeCallList list;
  char names[N_NAMES][MAX_NAME]; /* by number */
} last_word;

static void
on_violation (int signum, siginfo_t *info, void *context)
{
  const SondeCallList *list = &last_word.list;
  const char *name = info->si_syscall >= 0 && info->si_syscall < N_NAMES
                         ? last_word.names[info->si_syscall]
                         : "unknown";

  strcat (list->text, name);
  (void) send (list->fd, list->message, list->size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (write (STDERR_FILENO, list->text, strlen (list->text)) > 0)
    (void) !write (STDERR_FILENO, "\n", 1);
  _exit (EXIT_FAILURE);
}

/* Returns: 0 or a negative errno */
static int
prepare_last_word (const SondeCallList *list)
{
  struct sigaction action = { .sa_sigaction = on_violation, .sa_flags = SA_SIGINFO };

  last_word.list = *list;
  for (int i = 0; i < N_NAMES; i++)
    {
      char *name = seccomp_syscall_resolve_num_arch (SCMP_ARCH_NATIVE, i);

      g_strlcpy (last_word.names[i], name != NULL ? name : "unknown", MAX_NAME);
      free (name);
    }
  return sigaction (SIGSYS, &action, NULL) < 0 ? -errno : 0;
}

/* Returns: 0 or a negative errno */
static int
add_rules (scmp_filter_ctx filter, const SondeCallList *list)
{
  /* abort(), of itself alone */
  int result = seccomp_rule_add (
      filter, SCMP_ACT_ALLOW, SCMP_SYS (tgkill), 1,
      SCMP_CMP64 (0, SCMP_CMP_MASKED_EQ, SONDE_CALL_ALL_BITS, (scmp_datum_t) getpid ()));

  for (gsize i = 0; i < list->n_calls && result == 0; i++)
    result = seccomp_rule_add (filter, SCMP_ACT_ALLOW, list->calls[i].number, 0);
  for (gsize i = 0; i < list->n_bounded && result == 0; i++)
    {
      const SondeBoundedSystemCall *call = &list->bounded[i];

      result = seccomp_rule_add (
          filter, SCMP_ACT_ALLOW, call->number, 1,
          SCMP_CMP64 (call->index, SCMP_CMP_MASKED_EQ, call->mask, call->value));
    }
  for (gsize i = 0; i < list->n_missing && result == 0; i++)
    result = seccomp_rule_add (filter, SCMP_ACT_ERRNO (ENOSYS), list->missing[i].number, 0);
  return result;
}

/* Where libseccomp gets no memory it may go round for ever: then the kernel ends us, and whoever
 * waits is told at once. The filter lets the limit be taken back. */
static int
load_in_time (scmp_filter_ctx filter)
{
  struct rlimit before = { RLIM_INFINITY, RLIM_INFINITY };
  struct rlimit bounded;
  int result;

  getrlimit (RLIMIT_CPU, &before);
  bounded = (struct rlimit){ MIN (before.rlim_cur, MAX_LOAD_SECONDS), before.rlim_max };
  setrlimit (RLIMIT_CPU, &bounded);
  result = seccomp_load (filter);
  setrlimit (RLIMIT_CPU, &before);
  return result;
}

gboolean
sonde_call_list_enforce (const SondeCallList *list, GError **error)
{
  scmp_filter_ctx filter = seccomp_init (WITH_SANITIZERS ? SCMP_ACT_LOG : SCMP_ACT_TRAP);
  int result = -ENOMEM;

  if (filter != NULL)
    /* Calls of another architecture are for those who have something to hide. */
    result = seccomp_attr_set (filter, SCMP_FLTATR_ACT_BADARCH,
                               WITH_SANITIZERS ? SCMP_ACT_LOG : SCMP_ACT_KILL_PROCESS);
  if (result == 0)
    result = add_rules (filter, list);
  if (result == 0)
    result = prepare_last_word (list);
  if (result == 0)
    result = load_in_time (filter);
  seccomp_release (filter);

  return result == 0 || sonde_error_set_errno (error, -result, "Cannot restrict its system calls");
}
