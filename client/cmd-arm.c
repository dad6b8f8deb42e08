/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl arm, disarm: has programs load what records the heap, so that sessions can join them. */
#include "client/commands.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "client/base/cli.h"
#include "client/base/private-beacon.h"
#include "client/base/text.h"
#include "client/base/unit-name.h"
#include "client/systemd/drop-in.h"
#include "client/service/preload.h"
#include "client/service/record-run.h"
#include "client/service/service.h"
#include "client/systemd/unit-manager.h"

#define VARIABLE   "LD_PRELOAD"
#define SECCOMP    "SONDE_SECCOMP" /* a filter that is there from the start lets the program join */
#define PLACES     "/run/sonde"    /* beacon and socket */
#define BEACON     "SONDE_BEACON"  /* another one than there */
#define NAMESPACES 0x7e020080      /* CLONE_NEW*, all that RestrictNamespaces= knows */

typedef struct
{
  gboolean is_user;
  gboolean restart;
  gboolean seccomp;
  GString *out; /* what is told in the end */
} ArmOptions;

/* By the service if it is there, else by what is known here. */
static char *
dup_preload (void)
{
  g_autoptr (SondeClientProfiler) profiler
      = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_NOBODY, NULL);
  g_autoptr (GVariant) properties
      = profiler != NULL ? sonde_client_profiler_dup_properties_sync (profiler, 0, NULL, NULL)
                         : NULL;
  g_autoptr (GVariant) preloads
      = properties != NULL
            ? g_variant_lookup_value (properties, "Preloads", G_VARIANT_TYPE ("a{ss}"))
            : NULL;

  return sonde_preload_dup_path (SONDE_PRELOAD_MEMORY, preloads);
}

/* --- what a unit is like --- */

static gboolean
is_set (GVariant *unit, const char *key)
{
  gboolean value = FALSE;

  g_variant_lookup (unit, key, "b", &value);
  return value;
}

static const char *
text_of (GVariant *unit, const char *key)
{
  const char *text = "";

  g_variant_lookup (unit, key, "&s", &text);
  return text;
}

/* Whether a list, of any type, has members. */
static gboolean
has_members (GVariant *unit, const char *key)
{
  g_autoptr (GVariant) list = g_variant_lookup_value (unit, key, NULL);

  return list != NULL && g_variant_is_container (list) && g_variant_n_children (list) > 0;
}

/* (bas): whether it is an allow-list, and its members. */
static gboolean
has_filter (GVariant *unit, const char *key)
{
  g_autoptr (GVariant) filter = g_variant_lookup_value (unit, key, G_VARIANT_TYPE ("(bas)"));
  g_autofree const char **names = NULL;
  gboolean is_allow_list = FALSE;

  if (filter != NULL)
    g_variant_get (filter, "(b^a&s)", &is_allow_list, &names);
  return is_allow_list || (names != NULL && names[0] != NULL);
}

/* (nullable): a setting for which systemd closes the program by seccomp. */
static const char *
find_seccomp (GVariant *unit)
{
  static const char *const switches[]
      = { "MemoryDenyWriteExecute", "RestrictRealtime",     "RestrictSUIDSGID",  "LockPersonality",
          "ProtectKernelTunables",  "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock",
          "ProtectHostname",        "PrivateDevices" };
  guint64 namespaces = NAMESPACES;

  if (has_filter (unit, "SystemCallFilter"))
    return "SystemCallFilter";
  if (has_filter (unit, "RestrictAddressFamilies"))
    return "RestrictAddressFamilies";
  if (has_members (unit, "SystemCallArchitectures"))
    return "SystemCallArchitectures";
  g_variant_lookup (unit, "RestrictNamespaces", "t", &namespaces);
  if ((namespaces & NAMESPACES) != NAMESPACES)
    return "RestrictNamespaces";
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++)
    if (is_set (unit, switches[i]))
      return switches[i];
  return NULL;
}

static gboolean
has_own_root (GVariant *unit)
{
  return text_of (unit, "RootDirectory")[0] != '\0' || text_of (unit, "RootImage")[0] != '\0';
}

/* Where what is bound is not there yet, or may be hidden. */
static gboolean
needs_places (GVariant *unit)
{
  return has_own_root (unit) || is_set (unit, "PrivateMounts")
         || has_members (unit, "TemporaryFileSystem") || has_members (unit, "InaccessiblePaths");
}

static SondePreloadUser
find_user (GVariant *unit, gboolean is_user)
{
  const char *name = text_of (unit, "User");
  const struct passwd *user = name[0] != '\0' ? getpwnam (name) : NULL;
  guint64 number;

  SondePreloadUser found = { .gains_nothing = is_set (unit, "NoNewPrivileges") };
  if (is_user)
    found.uid = getuid (), found.gid = getgid ();
  else if (user != NULL)
    found.uid = user->pw_uid, found.gid = user->pw_gid;
  else if (g_ascii_string_to_unsigned (name, 10, 0, G_MAXUINT32, &number, NULL))
    found.uid = found.gid = (guint32) number;
  else if (name[0] != '\0' || is_set (unit, "DynamicUser"))
    found.uid = found.gid = G_MAXUINT32; /* nobody's, and no file's */
  return found;
}

/* The programs that systemd starts. Of another root nothing is known here. */
static gboolean
check_programs (GVariant *unit, const char *preload, gboolean is_user, GError **error)
{
  const SondePreloadUser user = find_user (unit, is_user);
  g_autoptr (GVariant) commands
      = g_variant_lookup_value (unit, "ExecStart", G_VARIANT_TYPE ("a(sasbttttuii)"));
  gsize n_commands = commands != NULL ? g_variant_n_children (commands) : 0;

  for (gsize i = 0; i < n_commands && !has_own_root (unit); i++)
    {
      g_autoptr (GVariant) command = g_variant_get_child_value (commands, i);
      const char *path;

      g_variant_get_child (command, 0, "&s", &path);
      if (!sonde_preload_check (SONDE_PRELOAD_MEMORY, preload, path, &user, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
refuse (GError **error, const char *unit, const char *why)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "Cannot arm %s: %s", unit, why);
  return FALSE;
}

static gboolean
check_unit (const char *name, GVariant *unit, const char *preload, gboolean is_user, GError **error)
{
  g_autoptr (GVariant) unset = g_variant_lookup_value (unit, "UnsetEnvironment", NULL);
  g_autofree const char **names = NULL;

  if (g_str_equal (name, "sonded.service") || g_str_has_prefix (name, "sonde-broker@")
      || g_str_has_prefix (name, "sonde-worker@"))
    return refuse (error, name, "it would record itself");
  if (unset != NULL && g_variant_is_of_type (unset, G_VARIANT_TYPE_STRING_ARRAY))
    names = g_variant_get_strv (unset, NULL);
  for (gsize i = 0; names != NULL && names[i] != NULL; i++)
    if (g_str_equal (names[i], VARIABLE) || g_str_has_prefix (names[i], VARIABLE "="))
      return refuse (error, name, "its UnsetEnvironment= takes LD_PRELOAD away");
  return check_programs (unit, preload, is_user, error);
}

/* --- what is written --- */

/* Between quotes, as systemd reads it again: @start and @text. FALSE: there is no way to write it.
 * Source: systemd.syntax(7), "Quoting"; systemd.unit(5), "Specifiers" */
static gboolean
append_quoted (GString *out, const char *start, const char *text)
{
  g_string_append_printf (out, "\"%s", start);
  for (const char *c = text; *c != '\0'; c++)
    {
      if (g_ascii_iscntrl (*c))
        return FALSE;
      if (strchr ("\"\\", *c) != NULL)
        g_string_append_c (out, '\\');
      if (*c == '%')
        g_string_append_c (out, '%');
      g_string_append_c (out, *c);
    }
  g_string_append_c (out, '"');
  return TRUE;
}

/* (nullable): with @error */
static char *
make_drop_in (const char *name,
              GVariant *unit,
              const char *all,
              const char *preload,
              const ArmOptions *options,
              GError **error)
{
  g_autoptr (GString) text = g_string_new ("[Service]\nEnvironment=");
  g_autofree char *file = sonde_preload_dup_file (preload);
  g_autofree char *folder = g_path_get_dirname (file);
  gboolean is_good = append_quoted (text, VARIABLE "=", all);

  g_string_append_c (text, '\n');
  if (options->seccomp)
    g_string_append (text, "Environment=\"" SECCOMP "=1\"\n");
  if (needs_places (unit))
    {
      g_string_append (text, "BindReadOnlyPaths=-" PLACES " ");
      is_good = append_quoted (text, "-", folder) && is_good;
      g_string_append_c (text, '\n');
    }
  if (is_good)
    return g_strdup (text->str);
  refuse (error, name, "its LD_PRELOAD has characters that no line of a drop-in can have");
  return NULL;
}

/* What the user should know of it. */
static void
tell_of_unit (const char *name, GVariant *unit, const ArmOptions *options)
{
  const char *seccomp = find_seccomp (unit);

  if (seccomp != NULL && !options->seccomp)
    sonde_cli_complain ("%s= closes %s by seccomp: sessions cannot join it unless it is armed with "
                        "--seccomp, and its filter allows it to connect",
                        seccomp, name);
  if (has_members (unit, "EnvironmentFiles"))
    sonde_cli_complain ("%s has an EnvironmentFile=: if that sets LD_PRELOAD, it counts instead",
                        name);
}

/* --- arm --- */

/* FALSE, with @error, if what was written does not count. */
static gboolean
check_effect (SondeUnitManager *manager, const char *name, const char *all, GError **error)
{
  g_autoptr (GVariant) unit = sonde_unit_manager_dup_unit (manager, name, error);
  g_autoptr (GVariant) environment
      = unit != NULL ? g_variant_lookup_value (unit, "Environment", G_VARIANT_TYPE_STRING_ARRAY)
                     : NULL;

  if (unit == NULL)
    return FALSE;
  return g_strcmp0 (sonde_unit_find_variable (environment, VARIABLE), all) == 0
         || refuse (error, name, "another drop-in of it sets LD_PRELOAD, and counts instead");
}

static gboolean
restart (SondeUnitManager *manager, const char *name, const ArmOptions *options, GError **error)
{
  if (options->restart)
    return sonde_unit_manager_restart (manager, name, error);
  g_string_append_printf (
      options->out, "It counts when the unit is started the next time: systemctl %srestart %s\n",
      options->is_user ? "--user " : "", name);
  return TRUE;
}

/* The file is there, and systemd has read it; else it is not there. */
static gboolean
put_drop_in (SondeUnitManager *manager,
             SondeDropInKind kind,
             const char *name,
             const char *all,
             const char *text,
             GError **error)
{
  if (!sonde_drop_in_write (kind, name, text, error))
    return FALSE;
  if (sonde_unit_manager_reload (manager, error) && check_effect (manager, name, all, error))
    return TRUE;
  sonde_drop_in_remove (kind, name, NULL);
  sonde_unit_manager_reload (manager, NULL);
  return FALSE;
}

static gboolean
arm_unit (const char *unit, const ArmOptions *options, GError **error)
{
  SondeDropInKind kind = options->is_user ? SONDE_DROP_IN_USER : SONDE_DROP_IN_SYSTEM;
  g_autoptr (SondeUnitManager) manager = NULL;
  g_autoptr (GVariant) properties = NULL;
  g_autoptr (GVariant) environment = NULL;
  g_autofree char *preload = NULL;
  g_autofree char *general = NULL;
  g_autofree char *all = NULL;
  g_autofree char *text = NULL;
  g_autofree char *path = NULL;
  const char *name, *others;

  if (!sonde_drop_in_check_unit (unit, error))
    return FALSE;
  manager = sonde_unit_manager_open (options->is_user, error);
  properties = manager != NULL ? sonde_unit_manager_dup_unit (manager, unit, error) : NULL;
  if (properties == NULL)
    return FALSE;
  name = text_of (properties, "Id"); /* of an alias, what it stands for */
  preload = dup_preload ();
  if (!sonde_drop_in_check_unit (name, error)
      || !check_unit (name, properties, preload, options->is_user, error))
    return FALSE;

  environment = g_variant_lookup_value (properties, "Environment", G_VARIANT_TYPE_STRING_ARRAY);
  others = sonde_unit_find_variable (environment, VARIABLE);
  if (others == NULL)
    others = general = sonde_unit_manager_dup_variable (manager, VARIABLE);
  all = sonde_preload_join (preload, others);
  text = make_drop_in (name, properties, all, preload, options, error);
  path = sonde_drop_in_dup_path (kind, name, error);
  if (text == NULL || path == NULL || !put_drop_in (manager, kind, name, all, text, error))
    return FALSE;
  tell_of_unit (name, properties, options);
  g_string_append_printf (options->out, "%s is armed: %s\n", name, path);
  return restart (manager, name, options, error);
}

/* Whoever runs it has it read what its folder holds now. */
static void
reload_session (const ArmOptions *options)
{
  g_autoptr (SondeUnitManager) manager = sonde_unit_manager_open (TRUE, NULL);

  if (manager != NULL && sonde_unit_manager_reload (manager, NULL))
    g_string_append (
        options->out,
        "It counts for what your systemd starts from now on; for all else from the next login "
        "on\n");
  else
    g_string_append (options->out, "It counts from the next login on\n");
}

static gboolean
arm_session (const ArmOptions *options, GError **error)
{
  g_autofree char *preload = dup_preload ();
  g_autoptr (GString) value = g_string_new (preload);
  g_autofree char *text = NULL;
  g_autofree char *path = sonde_drop_in_dup_path (SONDE_DROP_IN_SESSION, NULL, error);

  if (path == NULL || !sonde_preload_check (SONDE_PRELOAD_MEMORY, preload, "", NULL, error))
    return FALSE;
  /* A single one begins a variable there, or takes the meaning of what follows. */
  g_string_replace (value, "\\", "\\\\", 0);
  g_string_replace (value, "$", "$$", 0);
  text = g_strdup_printf ("LD_PRELOAD=%s${LD_PRELOAD:+:$LD_PRELOAD}\n%s", value->str,
                          options->seccomp ? SECCOMP "=1\n" : "");
  if (!sonde_drop_in_write (SONDE_DROP_IN_SESSION, NULL, text, error))
    return FALSE;
  g_string_append_printf (options->out, "Your sessions are armed: %s\n", path);
  reload_session (options);
  return TRUE;
}

/* Where no service calls programs embedded sessions of the user do; and where he says so. The page
 * has to be there when the program starts. */
static void
set_beacon (void)
{
  g_autofree char *path = NULL;

  if (g_getenv (BEACON) == NULL && access (PLACES "/beacon", R_OK) == 0)
    return;
  path = sonde_private_beacon_make ();
  if (path != NULL)
    g_setenv (BEACON, path, TRUE);
}

/* Becomes the command; returns an exit status if it cannot. */
static int
arm_command (char **argv, const ArmOptions *options)
{
  g_autofree char *preload = sonde_preload_dup_path (SONDE_PRELOAD_MEMORY, NULL);
  g_autofree char *all = sonde_preload_join (preload, g_getenv (VARIABLE));
  g_autoptr (GError) error = NULL;
  int saved_errno;

  if (!sonde_preload_check (SONDE_PRELOAD_MEMORY, preload, argv[0], NULL, &error))
    {
      sonde_cli_fail (error);
      return SONDE_EXIT_OUR_FAILURE;
    }
  g_setenv (VARIABLE, all, TRUE);
  if (options->seccomp)
    g_setenv (SECCOMP, "1", TRUE);
  set_beacon ();
  signal (SIGXFSZ, SIG_DFL); /* as it was before main() */
  execvp (argv[0], argv);
  saved_errno = errno;
  sonde_cli_complain ("Cannot run %s: %s", argv[0], g_strerror (saved_errno));
  return saved_errno == ENOENT ? SONDE_EXIT_NOT_FOUND : SONDE_EXIT_CANNOT_RUN;
}

/* One word that ends as units do; paths of programs hardly ever do. */
static gboolean
is_unit (int argc, char **argv)
{
  return argc == 2 && sonde_unit_name_is (argv[1]);
}

int
sonde_cmd_arm (int argc, char **argv)
{
  g_autoptr (GString) out = g_string_new (NULL);
  ArmOptions options = { .out = out };
  const GOptionEntry entries[]
      = { { "user", 0, 0, G_OPTION_ARG_NONE, &options.is_user,
            "Arm a UNIT of your own systemd; without one all that you log in to", NULL },
          { "restart", 0, 0, G_OPTION_ARG_NONE, &options.restart,
            "Restart the UNIT, and wait for it", NULL },
          { "seccomp", 0, 0, G_OPTION_ARG_NONE, &options.seccomp,
            "Join it even if it has a seccomp filter from its start, which must allow connect(2)",
            NULL },
          G_OPTION_ENTRY_NULL };
  gboolean is_command = FALSE;
  g_autoptr (GError) error = NULL;

  if (!sonde_cli_parse (
          &argc, &argv, "UNIT | COMMAND [ARGUMENT...]",
          "Has a program load libsonde-memory.so, which costs next to nothing until a "
          "session wants its heap. Of a UNIT, a service of systemd, by a drop-in "
          "that counts from its next start on.",
          "Example:\n  sondectl arm --restart cron.service", entries, TRUE, &options))
    return 1;
  if (argc > 1 && g_str_equal (argv[1], "--"))
    {
      is_command = TRUE;
      argc--, argv++;
    }
  if (argc > 1 && !options.is_user && (is_command || !is_unit (argc, argv)))
    {
      if (!options.restart)
        return arm_command (argv + 1, &options);
      sonde_cli_complain ("--restart is for a UNIT, whose name ends in .service");
      return 1;
    }
  if (argc > 2 || (argc < 2 && (options.restart || !options.is_user)))
    {
      sonde_cli_complain ("arm needs one UNIT, or --user, or a COMMAND");
      return 1;
    }
  if (!(argc == 2 ? arm_unit (argv[1], &options, &error) : arm_session (&options, &error)))
    sonde_cli_fail (error);
  return sonde_cli_print (out) && error == NULL ? 0 : 1;
}

/* --- disarm --- */

static int
list_armed (void)
{
  static const char *const words[SONDE_N_DROP_INS] = { "", "--user ", "--user" };
  g_autoptr (GString) out = g_string_new (NULL);

  for (SondeDropInKind kind = 0; kind < SONDE_N_DROP_INS; kind++)
    {
      g_auto (GStrv) units = sonde_drop_in_list (kind);

      for (guint i = 0; units[i] != NULL; i++)
        g_string_append_printf (out, "%s%s\n", words[kind], units[i]);
    }
  if (out->len == 0)
    g_string_append (out, "Nothing is armed.\n");
  return sonde_cli_print (out) ? 0 : 1;
}

/* By its own name, or @id, the one that it stands for. Returns the one by which it was armed. */
static const char *
take_back (SondeDropInKind kind, const char *unit, const char *id, GError **error)
{
  g_autoptr (GError) failure = NULL;

  if (sonde_drop_in_remove (kind, unit, &failure))
    return unit;
  if (!g_error_matches (failure, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return NULL;
    }
  if (!g_str_equal (unit, id) && sonde_drop_in_remove (kind, id, NULL))
    return id;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
               "%s is not armed; sondectl disarm shows what is", unit);
  return NULL;
}

/* The file goes even if systemd is not there, or knows no such unit any more. */
static gboolean
disarm_unit (const char *unit, const ArmOptions *options, GError **error)
{
  SondeDropInKind kind = options->is_user ? SONDE_DROP_IN_USER : SONDE_DROP_IN_SYSTEM;
  g_autoptr (SondeUnitManager) manager = NULL;
  g_autoptr (GVariant) properties = NULL;
  g_autoptr (GError) absence = NULL;
  const char *name;

  if (!sonde_drop_in_check_unit (unit, error))
    return FALSE;
  manager = sonde_unit_manager_open (options->is_user, &absence);
  properties = manager != NULL ? sonde_unit_manager_dup_unit (manager, unit, NULL) : NULL;
  name = take_back (kind, unit, properties != NULL ? text_of (properties, "Id") : unit, error);
  if (name == NULL)
    return FALSE;
  g_string_append_printf (options->out, "%s is not armed any more\n", name);
  if (manager == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&absence));
      return FALSE;
    }
  return sonde_unit_manager_reload (manager, error) && restart (manager, name, options, error);
}

static gboolean
disarm_session (const ArmOptions *options, GError **error)
{
  g_autoptr (GError) failure = NULL;

  if (sonde_drop_in_remove (SONDE_DROP_IN_SESSION, NULL, &failure))
    {
      g_string_append (options->out, "Your sessions are not armed any more\n");
      reload_session (options);
      return TRUE;
    }
  if (g_error_matches (failure, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "Your sessions are not armed");
  else
    g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

int
sonde_cmd_disarm (int argc, char **argv)
{
  g_autoptr (GString) out = g_string_new (NULL);
  ArmOptions options = { .out = out };
  const GOptionEntry entries[]
      = { { "user", 0, 0, G_OPTION_ARG_NONE, &options.is_user,
            "Of your own systemd; without a UNIT what --user alone has armed", NULL },
          { "restart", 0, 0, G_OPTION_ARG_NONE, &options.restart,
            "Restart the UNIT, and wait for it", NULL },
          G_OPTION_ENTRY_NULL };
  g_autoptr (GError) error = NULL;

  if (!sonde_cli_parse (&argc, &argv, "[UNIT]",
                        "Takes back what sondectl arm wrote; without an argument it shows what is "
                        "armed, as disarm takes it.",
                        "Example:\n  sondectl disarm", entries, FALSE, &options))
    return 1;
  if (argc > 2 || (argc < 2 && options.restart))
    {
      sonde_cli_complain ("disarm takes one UNIT, or --user, or nothing");
      return 1;
    }
  if (argc < 2 && !options.is_user)
    return list_armed ();
  if (!(argc == 2 ? disarm_unit (argv[1], &options, &error) : disarm_session (&options, &error)))
    sonde_cli_fail (error);
  return sonde_cli_print (out) && error == NULL ? 0 : 1;
}
