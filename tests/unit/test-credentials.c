/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes of one's own that the kernel keeps from one's programs all the same. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/broker/credentials.h"
#include "daemon/broker/proc-broker.h"
#include "tests/lib/waiting-child.h"

#define OWNER 64001 /* belongs to nobody */
#define OTHER 64002

static const char status[] = "Name:\tUid:\\n\nUmask:\t0022\nUid:\t1000\t1001\t1002\t1003\n"
                             "Gid:\t100\t101\t102\t103\nGroups:\t4 24 \n"
                             "CapInh:\t0000000000000001\nCapPrm:\t0000000000200400\n";

static void
test_inner_pid (void)
{
  g_assert_cmpint (sonde_credentials_parse_inner_pid ("Name:\tx\nNSpid:\t4242\nNSsid:\t1\n"), ==,
                   4242);
  g_assert_cmpint (sonde_credentials_parse_inner_pid ("NSpid:\t4242\t17\t1\nNSpgid:\t5\n"), ==, 1);
  g_assert_cmpint (sonde_credentials_parse_inner_pid ("Pid:\t4242\n"), ==, 0);
  g_assert_cmpint (sonde_credentials_parse_inner_pid ("NSpid:\t4242\tx\n"), ==, 0);
  g_assert_cmpint (sonde_credentials_parse_inner_pid ("NSpid:\t99999999999\n"), ==, 0);
  g_assert_cmpint (sonde_credentials_parse_inner_pid ("NSpid:\t-1\n"), ==, 0);
}

static void
test_parse (void)
{
  SondeCredentials credentials;

  g_assert_true (sonde_credentials_parse (status, &credentials));
  g_assert_cmpuint (credentials.uids[0], ==, 1000);
  g_assert_cmpuint (credentials.uids[1], ==, 1001);
  g_assert_cmpuint (credentials.uids[2], ==, 1002);
  g_assert_cmpuint (credentials.gids[2], ==, 102);
  g_assert_cmphex (credentials.permitted, ==, 0x200400);
  g_assert_false (sonde_credentials_have_uid (&credentials, 1000));
  g_assert_false (sonde_credentials_have_gid (&credentials, 100));
}

static void
test_parse_refusals (void)
{
  static const char *const texts[] = { "",
                                       "Uid:\t1\t1\t1\t1\n",
                                       "Uid:\t1\t1\nGid:\t1\t1\t1\t1\nCapPrm:\t0\n",
                                       "Uid:\t1\t-1\t1\t1\nGid:\t1\t1\t1\t1\nCapPrm:\t0\n",
                                       "Uid:\t1\t1\t4294967296\t1\nGid:\t1\t1\t1\t1\nCapPrm:\t0\n",
                                       "Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nCapPrm:\tnone\n",
                                       " Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nCapPrm:\t0\n" };
  SondeCredentials credentials;

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_assert_false (sonde_credentials_parse (texts[i], &credentials));
}

/* What a child becomes, once it is OWNER's and dumpable. */
typedef enum
{
  BECOME_PLAIN,
  BECOME_UNDUMPABLE,
  BECOME_OTHER_SAVED_UID,
  BECOME_OTHER_GID,
  BECOME_OTHER_EFFECTIVE_GID,
  BECOME_CAPABLE,
  BECOME_NAMESPACED,
  BECOME_MOUNTED, /* with mounts of one's own in a namespace of one's own */
} Become;

static int
set_capability (int capability)
{
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

  data[0].permitted = data[0].effective = 1u << capability;
  return (int) syscall (SYS_capset, &header, data);
}

/* Changing who one is makes one not dumpable; each of these asks for the contrary at its end, as a
 * helper with rights might for its core files. */
static int
become (Become what)
{
  gid_t gid = what == BECOME_OTHER_GID ? OTHER : OWNER;

  if (setgroups (0, NULL) < 0 || prctl (PR_SET_KEEPCAPS, what == BECOME_CAPABLE) < 0
      || setresgid (gid, what == BECOME_OTHER_EFFECTIVE_GID ? OTHER : gid, gid) < 0
      || setresuid (OWNER, OWNER, what == BECOME_OTHER_SAVED_UID ? OTHER : OWNER) < 0)
    return -1;
  if (what == BECOME_CAPABLE && set_capability (CAP_NET_RAW) < 0)
    return -1;
  if (what == BECOME_NAMESPACED && unshare (CLONE_NEWUSER) < 0)
    return -1;
  if (what == BECOME_MOUNTED && unshare (CLONE_NEWUSER | CLONE_NEWNS) < 0)
    return -1;
  return prctl (PR_SET_DUMPABLE, what != BECOME_UNDUMPABLE);
}

static gboolean
become_what (gpointer user_data)
{
  return become (*(const Become *) user_data) == 0;
}

/* -1: cannot be had here */
static pid_t
spawn (Become what)
{
  return waiting_child_spawn (become_what, &what);
}

static SondeTarget *
target_of (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);

  return sonde_target_new (sonde_asked_target_new (pid, open (path, O_RDONLY | O_CLOEXEC)));
}

static int
ask (SondeProcBroker *broker, pid_t pid)
{
  SondeMessageProcess reply;
  int fds[3];
  SondeForeignMount mount;
  unsigned n_fds = sonde_proc_broker_open_process (broker, 1, pid, &reply, fds, &mount);

  for (unsigned i = 0; i < n_fds; i++)
    close (fds[i]);
  return reply.status;
}

static gboolean
is_root (void)
{
  if (getuid () == 0)
    return TRUE;
  g_test_skip ("needs root to be somebody else");
  return FALSE;
}

/* A descriptor that root opened proves nothing of OWNER's rights. */
static void
assert_target (Become what, const SondeTracer *owner, gboolean is_granted)
{
  pid_t pid = spawn (what);
  g_autoptr (SondeTarget) target = NULL;
  g_autoptr (GError) error = NULL;

  if (pid < 0)
    {
      g_test_skip ("this kernel does not let a user become that");
      return;
    }
  target = target_of (pid);
  g_assert_cmpint (sonde_target_prove (target, owner, &error), ==, is_granted);
  if (!is_granted)
    g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED);
  waiting_child_end (pid);
}

static void
test_targets (void)
{
  const SondeTracer unknown = { .uid = OWNER };
  const SondeTracer plain = { .uid = OWNER, .is_known = true, .credentials.gids[1] = OWNER };
  SondeTracer capable = plain;

  if (!is_root ())
    return;
  capable.credentials.permitted = 1u << CAP_NET_RAW;
  assert_target (BECOME_UNDUMPABLE, &capable, FALSE);
  assert_target (BECOME_OTHER_SAVED_UID, &capable, FALSE);
  assert_target (BECOME_OTHER_EFFECTIVE_GID, &unknown, FALSE);
  assert_target (BECOME_OTHER_GID, &plain, FALSE);
  assert_target (BECOME_CAPABLE, &unknown, FALSE);
  assert_target (BECOME_CAPABLE, &plain, FALSE);
  assert_target (BECOME_CAPABLE, &capable, TRUE);
  assert_target (BECOME_PLAIN, &plain, TRUE);
  assert_target (BECOME_NAMESPACED, &unknown, TRUE);
}

/* What a caller's program is known by. */
static void
assert_known (Become what, gboolean is_known, guint64 permitted)
{
  pid_t pid = spawn (what);
  SondeTracer tracer;

  sonde_tracer_init (&tracer, OWNER, pid);
  g_assert_cmpint (tracer.is_known, ==, is_known);
  if (is_known)
    g_assert_cmphex (tracer.credentials.permitted, ==, permitted);
  waiting_child_end (pid);
  sonde_tracer_init (&tracer, OWNER, pid);
  g_assert_false (tracer.is_known);
}

static void
test_callers (void)
{
  SondeTracer tracer;

  sonde_tracer_init (&tracer, OWNER, 0);
  g_assert_false (tracer.is_known);
  sonde_tracer_init (&tracer, OWNER, getpid ());
  g_assert_false (tracer.is_known);
  if (!is_root ())
    return;
  assert_known (BECOME_UNDUMPABLE, FALSE, 0);
  assert_known (BECOME_OTHER_SAVED_UID, FALSE, 0);
  assert_known (BECOME_PLAIN, TRUE, 0);
  assert_known (BECOME_CAPABLE, TRUE, 1u << CAP_NET_RAW);
}

/* The session's own target is plain: what else of OWNER's may its worker ask for? */
static void
assert_process (Become what, int expected)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (OWNER, SONDE_SCOPE_TARGETS, FALSE);
  pid_t plain = spawn (BECOME_PLAIN);
  pid_t pid = spawn (what);
  g_autoptr (SondeTarget) target = target_of (plain);

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = OWNER }, NULL));
  g_assert_cmpint (ask (broker, plain), ==, EPERM);
  sonde_proc_broker_allow (broker, target);
  g_assert_cmpint (ask (broker, plain), ==, 0);
  if (pid < 0)
    g_test_skip ("this kernel does not let a user become that");
  else
    g_assert_cmpint (ask (broker, pid), ==, expected);
  waiting_child_end (plain);
  if (pid > 0)
    {
      waiting_child_end (pid);
    }
}

static void
test_processes (void)
{
  if (!is_root ())
    return;
  assert_process (BECOME_UNDUMPABLE, EPERM);
  assert_process (BECOME_OTHER_SAVED_UID, EPERM);
  assert_process (BECOME_OTHER_GID, EPERM);
  assert_process (BECOME_OTHER_EFFECTIVE_GID, EPERM);
  assert_process (BECOME_CAPABLE, EPERM);
  assert_process (BECOME_PLAIN, 0);
  assert_process (BECOME_NAMESPACED, 0);
}

/* The proof was good; then the process closes itself, without an exec. */
static void
test_closes_between (void)
{
  int gate[2];
  int ready[2];
  char byte;
  pid_t pid;
  g_autoptr (SondeTarget) target = NULL;
  g_autoptr (GError) error = NULL;

  if (!is_root ())
    return;
  g_assert_cmpint (pipe2 (gate, O_CLOEXEC), ==, 0);
  g_assert_cmpint (pipe2 (ready, O_CLOEXEC), ==, 0);
  pid = fork ();
  if (pid == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      if (become (BECOME_PLAIN) < 0 || write (ready[1], "x", 1) != 1
          || read (gate[0], &byte, 1) != 1 || prctl (PR_SET_DUMPABLE, 0) < 0
          || write (ready[1], "x", 1) != 1)
        _exit (1);
      pause ();
      _exit (0);
    }
  g_assert_cmpint (read (ready[0], &byte, 1), ==, 1);
  target = target_of (pid);
  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = OWNER }, &error));
  g_assert_cmpint (write (gate[1], "x", 1), ==, 1);
  g_assert_cmpint (read (ready[0], &byte, 1), ==, 1);
  g_assert_false (sonde_target_confirm (target, &(SondeTracer){ .uid = OWNER }, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED);
  waiting_child_end (pid);
  close (gate[0]);
  close (gate[1]);
  close (ready[0]);
  close (ready[1]);
}

static gboolean
has_mounts_of (pid_t pid, uid_t uid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d", (int) pid);
  sonde_autofd int process_fd = open (path, O_PATH | O_DIRECTORY | O_CLOEXEC);

  return sonde_credentials_has_mounts_of (process_fd, uid);
}

/* What OWNER may mount there is his; the machine's mounts are everybody's. */
static void
test_mounts (void)
{
  pid_t pid;

  g_assert_true (has_mounts_of (getpid (), OWNER));
  g_assert_true (has_mounts_of (getpid (), 0));
  if (!is_root ())
    return;
  pid = spawn (BECOME_MOUNTED);
  if (pid < 0)
    {
      g_test_skip ("this kernel does not let a user become that");
      return;
    }
  g_assert_true (has_mounts_of (pid, OWNER));
  g_assert_false (has_mounts_of (pid, OTHER));
  g_assert_false (has_mounts_of (pid, 0));
  waiting_child_end (pid);
  g_assert_false (has_mounts_of (pid, OWNER));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/credentials/status/refuses-what-is-not-of-its-form", test_parse_refusals);
  g_test_add_func ("/credentials/status/tells-ids-and-capabilities", test_parse);
  g_test_add_func ("/credentials/status/tells-the-innermost-number", test_inner_pid);
  g_test_add_func ("/credentials/callers/are-known-by-an-open-program-of-theirs", test_callers);
  g_test_add_func ("/credentials/targets/are-what-the-kernel-opens-for-the-caller", test_targets);
  g_test_add_func ("/credentials/targets/are-refused-when-they-close-between", test_closes_between);
  g_test_add_func ("/credentials/mounts/are-whose-namespace-they-are-in", test_mounts);
  g_test_add_func ("/credentials/processes/have-no-more-rights-than-the-targets", test_processes);
  return g_test_run ();
}
