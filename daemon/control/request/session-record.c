/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/request/session-record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"

/* --- states --- */

static const SondeSessionStateRow states[SONDE_N_STATES] = {
  [SONDE_STATE_NONE] = { "none", SONDE_STATE_NONE, 0, NULL },
  [SONDE_STATE_CALLING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS, "The broker did not start in time" },
  [SONDE_STATE_PROVING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_PROOF_MS, "The targets were not proven in time" },
  [SONDE_STATE_STARTING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS, "The worker did not say hello in time" },
  [SONDE_STATE_MAPPING] = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS,
                            "The worker did not map its rings in time" },
  [SONDE_STATE_PLACING] = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS,
                            "systemd did not tell in time where the unit is" },
  [SONDE_STATE_OPENING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS, "The events were not opened in time" },
  [SONDE_STATE_RUNNING]
  = { "running", SONDE_STATE_RUNNING, SONDE_LIMIT_SILENCE_MS, "The worker gave no sign of life" },
  [SONDE_STATE_PAUSED]
  = { "paused", SONDE_STATE_PAUSED, SONDE_LIMIT_SILENCE_MS, "The worker gave no sign of life" },
  [SONDE_STATE_DRAINING] = { "draining", SONDE_STATE_DRAINING, SONDE_LIMIT_DRAIN_MS,
                             "The worker did not drain its rings in time" },
  [SONDE_STATE_DELIVERING] = { "draining", SONDE_STATE_DRAINING, SONDE_LIMIT_DELIVERY_MS,
                               "The readers did not take the rest of the capture in time" },
  /* It is finished, which is not told before it is gone. Its process is killed if it stays. */
  [SONDE_STATE_LEAVING] = { "draining", SONDE_STATE_FINISHED, SONDE_LIMIT_PEER_EXIT_MS, NULL },
  [SONDE_STATE_FINISHED] = { "finished", SONDE_STATE_FINISHED, 0, NULL },
  [SONDE_STATE_FAILED] = { "failed", SONDE_STATE_FAILED, 0, NULL },
};

static const SondeSessionState next_state[SONDE_N_STATES][SONDE_N_STEPS] = {
  [SONDE_STATE_CALLING]
  = { [SONDE_STEP_CALL] = SONDE_STATE_PROVING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PROVING]
  = { [SONDE_STEP_PROVE] = SONDE_STATE_STARTING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_STARTING]
  = { [SONDE_STEP_GREET] = SONDE_STATE_MAPPING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_MAPPING]
  = { [SONDE_STEP_MAP] = SONDE_STATE_PLACING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PLACING]
  = { [SONDE_STEP_OPEN] = SONDE_STATE_OPENING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_OPENING]
  = { [SONDE_STEP_START] = SONDE_STATE_RUNNING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_RUNNING] = { [SONDE_STEP_PAUSE] = SONDE_STATE_PAUSED,
                            [SONDE_STEP_STOP] = SONDE_STATE_DRAINING,
                            [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PAUSED] = { [SONDE_STEP_RESUME] = SONDE_STATE_RUNNING,
                           [SONDE_STEP_STOP] = SONDE_STATE_DRAINING,
                           [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_DRAINING] = { [SONDE_STEP_DELIVER] = SONDE_STATE_DELIVERING,
                             [SONDE_STEP_LEAVE] = SONDE_STATE_LEAVING,
                             [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_DELIVERING]
  = { [SONDE_STEP_LEAVE] = SONDE_STATE_LEAVING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_LEAVING]
  = { [SONDE_STEP_FINISH] = SONDE_STATE_FINISHED, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
};

const SondeSessionStateRow *
sonde_session_state_row (SondeSessionState state)
{
  g_assert (state < SONDE_N_STATES);

  return &states[state];
}

SondeSessionState
sonde_session_state_next (SondeSessionState state, SondeSessionStep step)
{
  g_assert (state < SONDE_N_STATES && step < SONDE_N_STEPS);

  return next_state[state][step];
}

/* --- the sheet --- */

#define SEALS     (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

#define SINK_TYPE "(us)"
#define MAX_TEXT  4096 /* bytes of a path, a name or a description */

/* Before the dictionary of values. Raise the version when a value comes or changes its meaning. */
typedef struct
{
  guint32 magic;
  guint32 version;
  guint32 protocol;   /* SONDE_MESSAGE_VERSION of its worker's sonded */
  guint32 size_bytes; /* of the dictionary */
} Header;

static const Header good_header
    = { .magic = 0x534f4e44, .version = 2, .protocol = SONDE_MESSAGE_VERSION };

#define AT(member) G_STRUCT_OFFSET (SondeSessionRecord, member)

/* All values but those of the lists, as g_variant_lookup() takes them. */
static const struct
{
  const char *key;
  const char *format; /* of "s" an empty one stands for none, "@at" are SONDE_N_STATISTICS */
  gsize offset;
  guint32 since; /* version of the first records that have it; they may have more than these */
} values[] = {
  { "id", "t", AT (id), 1 },
  { "bus-id", "s", AT (bus_id), 1 },
  { "owner", "s", AT (owner), 1 },
  { "owner-uid", "u", AT (owner_uid), 1 },
  { "owner-pid", "i", AT (owner_pid), 1 },
  { "options", "@a{sv}", AT (options), 1 },
  { "description", "s", AT (description), 1 },
  { "start-time", "t", AT (start_time_us), 1 },
  { "live-since", "x", AT (live_since_us), 1 },
  { "state", "u", AT (state), 1 },
  { "reason", "s", AT (reason), 1 },
  { "statistics", "@at", AT (statistics), 1 },
  { "worker-pid", "i", AT (worker_pid), 1 },
  { "broker-pid", "i", AT (broker_pid), 2 },
  { "n-additions", "u", AT (n_additions), 2 },
  { "is-broken", "b", AT (is_broken), 2 },
  { "rendezvous", "s", AT (rendezvous), 2 },
  { "is-lasting", "b", AT (is_lasting), 1 },
  { "capture-file", "s", AT (capture_file), 1 },
  { "capture-max-bytes", "t", AT (capture_max_bytes), 1 },
  { "last-sink-id", "u", AT (last_sink_id), 1 },
};

static void
clear_sink (gpointer sink)
{
  g_free (((SondeRecordSink *) sink)->reader);
}

SondeSessionRecord *
sonde_session_record_new (void)
{
  SondeSessionRecord *self = g_new0 (SondeSessionRecord, 1);

  self->protocol = SONDE_MESSAGE_VERSION;
  self->sinks = g_array_new (FALSE, FALSE, sizeof (SondeRecordSink));
  g_array_set_clear_func (self->sinks, clear_sink);
  return self;
}

void
sonde_session_record_free (SondeSessionRecord *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->sinks);
  g_clear_pointer (&self->options, g_variant_unref);
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    if (values[i].format[0] == 's')
      g_clear_pointer (&G_STRUCT_MEMBER (char *, self, values[i].offset), g_free);
  g_free (self);
}

/* --- writing --- */

static GVariant *
value_to_variant (const SondeSessionRecord *self, gsize index)
{
  gconstpointer member = (const char *) self + values[index].offset;
  const char *text;

  switch (values[index].format[0])
    {
    case 't':
      return g_variant_new_uint64 (*(const guint64 *) member);
    case 'x':
      return g_variant_new_int64 (*(const gint64 *) member);
    case 'u':
      return g_variant_new_uint32 (*(const guint32 *) member);
    case 'i':
      return g_variant_new_int32 (*(const gint32 *) member);
    case 'b':
      return g_variant_new_boolean (*(const gboolean *) member);
    case 's':
      text = *(const char *const *) member;
      return g_variant_new_string (text != NULL ? text : "");
    default:
      return g_str_equal (values[index].format, "@at") ? g_variant_new_fixed_array (
                 G_VARIANT_TYPE_UINT64, member, SONDE_N_STATISTICS, sizeof (guint64))
                                                       : *(GVariant *const *) member;
    }
}

GVariant *
sonde_session_record_show (const SondeSessionRecord *self, const char *key)
{
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    if (g_str_equal (values[i].key, key))
      return value_to_variant (self, i);
  g_assert_not_reached ();
}

static GVariant *
to_variant (const SondeSessionRecord *self)
{
  GVariantBuilder dict;
  GVariantBuilder sinks;

  g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    g_variant_builder_add (&dict, "{sv}", values[i].key, value_to_variant (self, i));
  g_variant_builder_init (&sinks, G_VARIANT_TYPE ("a" SINK_TYPE));
  for (guint i = 0; i < self->sinks->len; i++)
    {
      const SondeRecordSink *sink = &g_array_index (self->sinks, SondeRecordSink, i);

      g_variant_builder_add (&sinks, SINK_TYPE, sink->id, sink->reader != NULL ? sink->reader : "");
    }
  g_variant_builder_add (&dict, "{sv}", "sinks", g_variant_builder_end (&sinks));
  return g_variant_ref_sink (g_variant_builder_end (&dict));
}

static gboolean
write_all (int fd, gconstpointer bytes, gsize size_bytes, GError **error)
{
  const char *next = bytes;

  while (size_bytes > 0)
    {
      ssize_t n = write (fd, next, size_bytes);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return sonde_error_set_errno (error, errno, "Cannot write down the state of a session");
      next += n;
      size_bytes -= (gsize) n;
    }
  return TRUE;
}

int
sonde_session_record_write (const SondeSessionRecord *self, GError **error)
{
  g_autoptr (GVariant) dict = to_variant (self);
  sonde_autofd int fd = memfd_create ("sonde-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Header header = good_header;

  header.protocol = self->protocol;
  header.size_bytes = (guint32) g_variant_get_size (dict);
  if (fd < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot make a place for the state of a session");
      return -1;
    }
  if (!write_all (fd, &header, sizeof header, error)
      || !write_all (fd, g_variant_get_data (dict), header.size_bytes, error))
    return -1;
  if (fcntl (fd, F_ADD_SEALS, SEALS) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot seal the state of a session");
      return -1;
    }
  return sonde_steal_fd (&fd);
}

/* --- reading --- */

static gboolean
refuse (GError **error, const char *what)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The record of a session: %s", what);
  return FALSE;
}

/* Copied first: what is checked is what is used. */
static GVariant *
read_dict (int fd, Header *header_out, GError **error)
{
  g_autofree char *bytes = NULL;
  g_autoptr (GBytes) copy = NULL;
  gsize size_bytes;
  struct stat st;
  Header header;

  if ((fcntl (fd, F_GET_SEALS) & SEALS) != SEALS || fstat (fd, &st) < 0)
    {
      refuse (error, "not a sealed memfd");
      return NULL;
    }
  if (st.st_size < (off_t) sizeof header || st.st_size > SONDE_LIMIT_RECORD_BYTES)
    {
      refuse (error, "size out of range");
      return NULL;
    }
  size_bytes = (gsize) st.st_size - sizeof header;
  bytes = g_malloc (size_bytes);
  if (pread (fd, &header, sizeof header, 0) != sizeof header
      || pread (fd, bytes, size_bytes, sizeof header) != (ssize_t) size_bytes)
    {
      refuse (error, "cannot be read");
      return NULL;
    }
  if (header.magic != good_header.magic || header.version == 0
      || header.version > good_header.version || header.protocol == 0
      || header.protocol > good_header.protocol)
    {
      refuse (error, "of another version");
      return NULL;
    }
  if (header.size_bytes != size_bytes)
    {
      refuse (error, "size is not what it says");
      return NULL;
    }
  *header_out = header;
  copy = g_bytes_new_take (g_steal_pointer (&bytes), size_bytes);
  return g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE_VARDICT, copy, FALSE));
}

/* The first value that is missing is told. */
static gboolean
get (GVariant *dict, const char *key, const char *format, gpointer value, GError **error)
{
  g_autofree char *what = NULL;

  if (g_variant_lookup (dict, key, format, value))
    return TRUE;
  what = g_strdup_printf ("no value \"%s\"", key);
  return refuse (error, what);
}

static gboolean
get_values (SondeSessionRecord *self, GVariant *dict, guint32 version, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    {
      gpointer member = G_STRUCT_MEMBER_P (self, values[i].offset);
      gboolean is_array = g_str_equal (values[i].format, "@at");
      g_autoptr (GVariant) array = NULL;
      gconstpointer numbers;
      gsize n_numbers;

      if (version < values[i].since)
        continue;
      if (!get (dict, values[i].key, values[i].format, is_array ? &array : member, error))
        return FALSE;
      if (values[i].format[0] == 's')
        {
          char **text = member;

          if (strlen (*text) > MAX_TEXT)
            return refuse (error, "a text is too long");
          if ((*text)[0] == '\0')
            g_clear_pointer (text, g_free);
        }
      if (!is_array)
        continue;
      numbers = g_variant_get_fixed_array (array, &n_numbers, sizeof self->statistics[0]);
      /* Others are only ever added behind these. */
      if (n_numbers == 0 || n_numbers > SONDE_N_STATISTICS
          || (n_numbers < SONDE_N_STATISTICS && version == good_header.version))
        return refuse (error, "other statistics");
      memcpy (member, numbers, n_numbers * sizeof self->statistics[0]);
    }
  return TRUE;
}

static gboolean
get_sinks (SondeSessionRecord *self, GVariant *dict, GError **error)
{
  g_autoptr (GVariantIter) iter = NULL;
  guint32 id;
  const char *reader;

  if (!get (dict, "sinks", "a" SINK_TYPE, &iter, error))
    return FALSE;
  while (g_variant_iter_next (iter, "(u&s)", &id, &reader))
    {
      SondeRecordSink sink = { .id = id };

      if (id == 0 || id > self->last_sink_id || self->sinks->len >= SONDE_LIMIT_SINKS)
        return refuse (error, "impossible sinks");
      sink.reader = reader[0] != '\0' ? g_strdup (reader) : NULL;
      g_array_append_val (self->sinks, sink);
    }
  return TRUE;
}

static gboolean
check (const SondeSessionRecord *self, GError **error)
{
  gboolean is_over;

  if (self->id == 0 || self->owner == NULL || self->bus_id == NULL || self->description == NULL)
    return refuse (error, "no number, owner, bus or description");
  /* Others are recorded as one of these. */
  if (self->state >= SONDE_N_STATES || self->state == SONDE_STATE_NONE
      || sonde_session_state_row (self->state)->record != self->state)
    return refuse (error, "impossible state");
  is_over = sonde_session_state_is_in (self->state, SONDE_STATES_OVER);
  if ((is_over || self->state == SONDE_STATE_DRAINING) && self->reason == NULL)
    return refuse (error, "an end without a reason");
  if (self->worker_pid < 0 || (self->worker_pid == 0 && !is_over))
    return refuse (error, "no worker");
  if (self->broker_pid < 0 || self->n_additions > SONDE_LIMIT_CALLS)
    return refuse (error, "an impossible broker");
  /* The next session has the next number, and a duration is counted from there. */
  if (self->id > G_MAXINT64 || self->live_since_us < 0)
    return refuse (error, "an impossible number or time");
  if (self->is_lasting != (self->capture_file != NULL))
    return refuse (error, "its capture file is not what it lasts for");
  return TRUE;
}

SondeSessionRecord *
sonde_session_record_read (int fd, GError **error)
{
  g_autoptr (SondeSessionRecord) self = sonde_session_record_new ();
  Header header;
  g_autoptr (GVariant) dict = read_dict (fd, &header, error);

  if (dict == NULL)
    return NULL;
  self->protocol = header.protocol;
  if (!g_variant_is_normal_form (dict))
    {
      refuse (error, "malformed");
      return NULL;
    }
  if (!get_values (self, dict, header.version, error) || !get_sinks (self, dict, error)
      || !check (self, error))
    return NULL;
  return g_steal_pointer (&self);
}
