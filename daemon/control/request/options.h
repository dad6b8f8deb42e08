/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parses once, and freezes, what a caller asked for; knows which polkit action that needs. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "daemon/base/asked.h"
#include "daemon/base/asked-target.h"
#include "daemon/base/limits.h"
#include "daemon/base/message.h"

/**
 * SECTION: options
 *
 * A table has one row for each key; all that is to know of an option stands there. Of the row's
 * type follows what its member in the struct of all options is:
 *
 * b gboolean; u guint; t guint64; s with words: guint or an enum, the index of the word; s without:
 * char *, NULL for none; as: guint, a bit for each word. Others have functions of their own.
 */
enum
{
  SONDE_OPTION_FOR_POLKIT = 1 << 0, /* rules are told it */
  SONDE_OPTION_LIMITED = 1 << 1,    /* its maximum is in the property Limits */
};

typedef struct SondeOptionRow SondeOptionRow;

struct SondeOptionRow
{
  const char *key;
  const char *type; /* D-Bus signature of the value */
  gsize offset;     /* of the member */
  guint64 normal;   /* without the key */
  guint64 lasting;  /* the same of a session that lasts; 0: no other */
  guint64 min;      /* of a number; what is below stands for none, and is not shown */
  guint64 max;
  guint multiple_of;        /* 0: any number */
  const char *const *words; /* NULL-terminated; of s and as */
  guint flags;
  /* NULL: by the type. @value is of the row's type; @user_data: the message's descriptors */
  gboolean (*parse) (const SondeOptionRow *row,
                     GVariant *value,
                     gpointer options,
                     gpointer user_data,
                     GError **error);
  /* NULL: by the type. Returns: (transfer floating): NULL for no value */
  GVariant *(*show) (const SondeOptionRow *row, gconstpointer options);
};

/* (transfer full): "true", "1000", "cpu disk"; NULL for none. */
char *sonde_option_dup_text (const SondeOptionRow *row, gconstpointer options);
/* Sets the error "Option @key: @why". Always returns FALSE. */
gboolean sonde_option_refuse (GError **error, const char *key, const char *why);

/* Read only once made. Keys, units and ranges: dbus/org.sonde.Profiler1.xml. */
typedef struct
{
  SondeAsked asked;        /* what the broker is told */
  GPtrArray *targets;      /* SondeAskedTarget: of `targets` or `pids`; the session takes them */
  char *cgroup;            /* path, of that scope; NULL: another scope */
  guint buffer_size_bytes; /* of the first stream */
  char *label;             /* [A-Za-z0-9_.-]{1,64} */
  guint format;            /* 0: syscap */
  gboolean collectors;     /* running programs are called for marks, counters and log lines */
} SondeOptions;

/**
 * sonde_options_parse:
 * @dict: a value of type a{sv}
 * @fds: (nullable): the message's descriptors; each must be used by @dict exactly once
 * @is_lasting: for a session that outlives its owner: some options are others without their key
 *
 * Errors: SONDE_ERROR_INVALID_OPTION; SONDE_ERROR_NOT_SUPPORTED for `counters`; both
 * name the key
 */
SondeOptions *
sonde_options_parse (GVariant *dict, GUnixFDList *fds, gboolean is_lasting, GError **error);
/**
 * sonde_options_restore:
 * @view: as sonde_options_to_variant() made it, a{sv}
 *
 * The same options, but without the targets, which the session has taken.
 *
 * Errors: as sonde_options_parse()
 */
SondeOptions *sonde_options_restore (GVariant *view, GError **error);
void sonde_options_free (SondeOptions *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeOptions, sonde_options_free)

/* A value of type a(uh): (element-type SondeAskedTarget). @key names it in errors. */
GPtrArray *
sonde_options_parse_targets (GVariant *value, GUnixFDList *fds, const char *key, GError **error);

/* All that is to know of the option at @index, NULL behind the last one. */
const SondeOptionRow *sonde_options_row (gsize index);

/* Before the session has taken the targets. (transfer floating): a{sv}, the property Options */
GVariant *sonde_options_to_variant (const SondeOptions *self);
/* The same. (transfer full): "process 4711", "the whole machine", ...: at most 16 pids are named */
char *sonde_options_describe_scope (const SondeOptions *self);
/* The same. (transfer full): one line, the property Description */
char *sonde_options_describe (const SondeOptions *self);

/* Declared with their defaults in dbus/org.sonde.profiler1.policy.in. */
typedef enum
{
  SONDE_ACTION_PROFILE_OWN,
  SONDE_ACTION_PROFILE_OWN_RESTRICTED,
  SONDE_ACTION_PROFILE_OWN_KERNEL,
  SONDE_ACTION_PROFILE_OTHERS,
  SONDE_ACTION_PROFILE_SYSTEM,
  SONDE_ACTION_RAW_DATA,
  SONDE_ACTION_MANAGE_SESSIONS,
  SONDE_N_ACTIONS,
} SondeAction;

/* "org.sonde.profiler1.profile-own", ... */
const char *sonde_action_id (SondeAction action);

/* What starting a session with @options needs. @paranoid: kernel.perf_event_paranoid */
SondeAction sonde_action_to_start (const SondeOptions *options, gint64 paranoid);
/* What somebody else's session needs: the processes in it are those of another uid. */
SondeAction sonde_action_to_use (const SondeOptions *options);

/* Of a call that has none. Errors: SONDE_ERROR_INVALID_OPTION, naming the key */
gboolean sonde_options_check_none (GVariant *dict, GError **error);

/* What one reader wants of a session's stream, the options of OpenCapture. Keys, units and ranges:
 * dbus/org.sonde.Profiler1.xml. */
typedef struct
{
  guint buffer_size_bytes; /* queued before frames are dropped for it */
  guint frames;            /* SONDE_SINK_FRAMES_*: what it gets beside the state */
  guint n_pids;            /* 0: of all processes */
  gint32 pids[SONDE_MESSAGE_SINK_MAX_PIDS];
} SondeStreamOptions;

/* Everything, as without any key. */
void sonde_stream_options_init (SondeStreamOptions *self);

/**
 * sonde_stream_options_parse:
 * @dict: a value of type a{sv}
 * @options: (out): written on success only
 *
 * Errors: SONDE_ERROR_INVALID_OPTION, whose message names the key
 */
gboolean sonde_stream_options_parse (GVariant *dict, SondeStreamOptions *options, GError **error);
