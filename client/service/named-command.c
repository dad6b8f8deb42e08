/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/service/named-command.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

#define MAX_STEPS        4   /* from script to interpreter; the kernel's own bound is 5 */
#define FIRST_LINE_BYTES 256 /* of a script; the kernel's own bound */
#define MIN_MINOR        12  /* of Python 3, since when it has trampolines */
#define USERS_PATH       "/proc/self/ns/user"
#define FIRST_NAMESPACE  0xEFFFFFFDu /* PROC_USER_INIT_INO of the kernel */

/* node's log goes into a file without a name; else it would stay in the working directory. */
static const char *const node_options[]
    = { "--perf-basic-prof", "--interpreted-frames-native-stack", "--no-logfile-per-isolate",
        "--logfile=+", NULL };
static const char *const python_options[] = { "-X", "perf", NULL };

/* Without a frame pointer its stacks end in the first of its frames. What was made since it was
 * asked last it tells in the end; before version 17 it does not know how, and would not begin. */
static const char *const java_options[]
    = { "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+PreserveFramePointer",
        "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", NULL };
static const char *const java_asker[] = { "jcmd", "%p", "Compiler.perfmap", NULL };

static const SondeNamedRuntime node
    = { "node", node_options, "--perf-", "NODE_OPTIONS", FALSE, NULL };
static const SondeNamedRuntime python
    = { "Python", python_options, "perf", "PYTHONPERFSUPPORT", TRUE, NULL };
static const SondeNamedRuntime java = { "Java", java_options, NULL, NULL, FALSE, java_asker };

/* "python3.12", and not "python3.12-config" or a build of another kind. */
static gboolean
is_python_with_trampolines (const char *name)
{
  const char *digits = name + strlen ("python3.");
  char *end;

  return g_str_has_prefix (name, "python3.") && g_ascii_isdigit (*digits)
         && g_ascii_strtoull (digits, &end, 10) >= MIN_MINOR && *end == '\0';
}

static const SondeNamedRuntime *
runtime_of_file (const char *path)
{
  g_autofree char *name = g_path_get_basename (path);

  if (g_str_equal (name, "node") || g_str_equal (name, "nodejs"))
    return &node;
  if (g_str_equal (name, "java"))
    return &java;
  return is_python_with_trampolines (name) ? &python : NULL;
}

/* Returns: the interpreter and its one argument, if it has one; NULL: it is no script */
static char **
read_first_line (const char *path)
{
  char line[FIRST_LINE_BYTES];
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat st;
  gssize n_bytes;
  char *end;
  g_auto (GStrv) words = NULL;

  if (fd < 0 || fstat (fd, &st) < 0 || !S_ISREG (st.st_mode))
    return NULL;
  n_bytes = read (fd, line, sizeof line - 1);
  if (n_bytes < 3 || line[0] != '#' || line[1] != '!')
    return NULL;
  line[n_bytes] = '\0';
  end = strchr (line, '\n');
  if (end == NULL)
    return NULL;
  *end = '\0';
  words = g_strsplit_set (g_strstrip (line + 2), " \t", 2);
  if (words[0] == NULL || words[0][0] != '/')
    return NULL;
  if (words[1] != NULL)
    g_strstrip (words[1]);
  return g_steal_pointer (&words);
}

/* What the kernel, or `env`, makes of a command next. FALSE: it is a program */
static gboolean
take_step (GPtrArray *command, const char *found, const char *real)
{
  g_auto (GStrv) line = NULL;
  g_autofree char *name = g_path_get_basename (real);

  if (g_str_equal (name, "env"))
    {
      if (command->len < 2 || ((char *) command->pdata[1])[0] == '-'
          || strchr (command->pdata[1], '=') != NULL)
        return FALSE;
      g_free (g_ptr_array_remove_index (command, 0));
      return TRUE;
    }
  line = read_first_line (found);
  if (line == NULL)
    return FALSE;
  g_free (command->pdata[0]);
  command->pdata[0] = g_strdup (found);
  if (line[1] != NULL && line[1][0] != '\0')
    g_ptr_array_insert (command, 0, g_strdup (line[1]));
  g_ptr_array_insert (command, 0, g_strdup (line[0]));
  return TRUE;
}

/* Some words are of the program that is run; then it stays without, too. */
static gboolean
has_options (const SondeNamedRuntime *runtime, const GPtrArray *command)
{
  const char *value = g_getenv (runtime->variable);

  for (guint i = 1; i < command->len; i++)
    if (g_str_has_prefix (command->pdata[i], runtime->sign)
        || (g_str_has_prefix (command->pdata[i], "-X")
            && g_str_has_prefix ((char *) command->pdata[i] + strlen ("-X"), runtime->sign)))
      return TRUE;
  return value != NULL && value[0] != '\0'
         && (runtime == &python || strstr (value, runtime->sign) != NULL);
}

char **
sonde_named_command_new (char **command, const SondeNamedRuntime **runtime)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new_null_terminated (8, NULL, TRUE);
  g_auto (GStrv) owned = NULL;

  for (guint i = 0; command[i] != NULL; i++)
    g_ptr_array_add (words, g_strdup (command[i]));
  for (guint step = 0; step < MAX_STEPS; step++)
    {
      g_autofree char *found = g_find_program_in_path (words->pdata[0]);
      g_autofree char *real = found != NULL ? realpath (found, NULL) : NULL;

      *runtime = real != NULL ? runtime_of_file (real) : NULL;
      if (*runtime != NULL || real == NULL || !take_step (words, found, real))
        break;
    }
  if (*runtime != NULL && (*runtime)->sign != NULL && has_options (*runtime, words))
    *runtime = NULL;
  if (*runtime != NULL)
    for (guint i = 0; (*runtime)->options[i] != NULL; i++)
      g_ptr_array_insert (words, (int) i + 1, g_strdup ((*runtime)->options[i]));
  owned = (char **) g_ptr_array_free (g_steal_pointer (&words), FALSE);
  return *runtime != NULL ? g_steal_pointer (&owned) : NULL;
}

/* Rights over a user namespace of one's own are none over the kernel. */
gboolean
sonde_named_command_has_bpf (void)
{
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  const guint32 wanted = CAP_TO_MASK (CAP_BPF) | CAP_TO_MASK (CAP_PERFMON);
  struct stat st;

  return stat (USERS_PATH, &st) == 0 && st.st_ino == FIRST_NAMESPACE
         && syscall (SYS_capget, &header, data) == 0
         && (data[CAP_TO_INDEX (CAP_BPF)].effective & wanted) == wanted;
}

char *
sonde_named_command_dup_map_path (GPid pid)
{
  return g_strdup_printf ("/tmp/perf-%d.map", pid);
}

gboolean
sonde_named_command_make_map (GPid pid)
{
  g_autofree char *path = sonde_named_command_dup_map_path (pid);
  sonde_autofd int fd
      = open (path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);

  return fd >= 0;
}

void
sonde_named_command_remove_map (GPid pid)
{
  g_autofree char *path = sonde_named_command_dup_map_path (pid);
  struct stat st;

  if (lstat (path, &st) == 0 && S_ISREG (st.st_mode) && st.st_uid == geteuid () && st.st_nlink == 1)
    unlink (path);
}
