/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lets polkit ask for a password on the terminal. */
#include "client/library/tty-agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "client/base/fd.h"

#define NOTIFY_FD   3 /* the agent closes it when it can be asked */
#define REGISTER_MS 3000

/* A desktop's agent comes first. polkit finds one, and an agent that is a fallback to it, by the
 * session that we are in, so without a session ours must not be a fallback. */
static GSubprocess *
spawn_agent (GSubprocessLauncher *launcher)
{
  const char *option = g_getenv ("XDG_SESSION_ID") != NULL ? "--fallback" : NULL;

  return g_subprocess_launcher_spawn (launcher, NULL, "pkttyagent", "--notify-fd",
                                      G_STRINGIFY (NOTIFY_FD), option, NULL);
}

GSubprocess *
sonde_tty_agent_start (void)
{
  g_autoptr (GSubprocessLauncher) launcher
      = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDERR_SILENCE);
  GSubprocess *self;
  sonde_autofd int ready = -1;
  int fds[2];
  struct pollfd poll_fd = { .events = POLLHUP };

  if (pipe2 (fds, O_CLOEXEC) < 0)
    return NULL;
  ready = fds[0];
  g_subprocess_launcher_take_fd (launcher, fds[1], NOTIFY_FD);
  self = spawn_agent (launcher);
  g_subprocess_launcher_close (launcher);
  poll_fd.fd = ready;
  while (self != NULL && poll (&poll_fd, 1, REGISTER_MS) < 0 && errno == EINTR)
    ;
  return self;
}

void
sonde_tty_agent_stop (GSubprocess *self)
{
  if (self == NULL)
    return;
  g_subprocess_send_signal (self, SIGTERM); /* on which it restores the terminal's settings */
  g_subprocess_wait (self, NULL, NULL);
  g_object_unref (self);
}
