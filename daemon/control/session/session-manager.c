/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/session-manager.h"

#include <errno.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/session/accounts.h"
#include "daemon/base/quota.h"
#include "daemon/control/peer/peer-leavers.h"
#include "daemon/control/session/session-private.h"

/* --- those that are over, and still to be seen --- */

typedef struct
{
  guint64 id;
  uid_t uid;
  gpointer item;
  gint64 due_us;
} KeptSession;

struct SondeKeptList
{
  GArray *entries; /* KeptSession, oldest first */
  GDestroyNotify free_item;
};

SondeKeptList *
sonde_kept_list_new (GDestroyNotify free_item)
{
  SondeKeptList *self = g_new0 (SondeKeptList, 1);

  self->entries = g_array_new (FALSE, FALSE, sizeof (KeptSession));
  self->free_item = free_item;
  return self;
}

static const KeptSession *
get_kept (const SondeKeptList *self, guint index)
{
  return &g_array_index (self->entries, KeptSession, index);
}

static void
drop_kept (SondeKeptList *self, guint index)
{
  self->free_item (get_kept (self, index)->item);
  g_array_remove_index (self->entries, index);
}

void
sonde_kept_list_free (SondeKeptList *self)
{
  if (self == NULL)
    return;
  while (self->entries->len > 0)
    drop_kept (self, 0);
  g_array_unref (self->entries);
  g_free (self);
}

/* The oldest one of @uid, or of everybody if nobody has too many. */
static void
make_room_for_kept (SondeKeptList *self, uid_t uid)
{
  guint n_of_uid = 0;
  guint oldest = 0;

  for (guint i = self->entries->len; i > 0; i--)
    if (get_kept (self, i - 1)->uid == uid)
      {
        oldest = i - 1;
        n_of_uid++;
      }
  if (n_of_uid >= SONDE_LIMIT_KEPT_PER_UID)
    drop_kept (self, oldest);
  else if (self->entries->len >= SONDE_LIMIT_KEPT)
    drop_kept (self, 0);
}

void
sonde_kept_list_add (SondeKeptList *self, guint64 id, uid_t uid, gpointer item, gint64 now_us)
{
  const KeptSession entry
      = { .id = id, .uid = uid, .item = item, .due_us = now_us + SONDE_LIMIT_KEPT_US };

  make_room_for_kept (self, uid);
  g_array_append_val (self->entries, entry);
}

gpointer
sonde_kept_list_lookup (const SondeKeptList *self, guint64 id)
{
  for (guint i = 0; i < self->entries->len; i++)
    if (get_kept (self, i)->id == id)
      return get_kept (self, i)->item;
  return NULL;
}

gpointer
sonde_kept_list_get (const SondeKeptList *self, guint index)
{
  return index < self->entries->len ? get_kept (self, index)->item : NULL;
}

gint64
sonde_kept_list_expire (SondeKeptList *self, gint64 now_us)
{
  while (self->entries->len > 0 && get_kept (self, 0)->due_us <= now_us)
    drop_kept (self, 0);
  return self->entries->len > 0 ? get_kept (self, 0)->due_us - now_us : -1;
}

/* --- all of them --- */

/* Who is told of a start. */
typedef struct
{
  SondeSessionStarted started;
  gpointer user_data;
} Start;

/* What stays of a session when it is gone. */
typedef struct
{
  guint64 id; /* 0: none */
  uid_t owner_uid;
} Memory;

struct SondeSessionManager
{
  SondePeerLauncher *launcher;
  SondePeerLeavers *leavers;
  SondeCaptureStore *store; /* NULL: no files */
  SondeFdStore *fd_store;
  const SondeSettings *settings;
  const SondeSessionManagerHandler *handler;
  gpointer user_data;
  GHashTable *sessions;    /* number → SondeSession: with a worker */
  SondeAccounts *accounts; /* of these */
  SondeKeptList *kept;     /* SondeSession: over, and still to be seen */
  guint kept_timer;
  guint tidy_timer;
  GHashTable *starting; /* SondeSession → Start */
  SondeUidRate *starts;
  SondeUidRate *additions;
  SondeSnapshots *snapshots;
  SondeRendezvous *rendezvous; /* NULL: programs have what they inherit alone */
  SondeBeaconPage *beacon;     /* NULL: those that run already are not called */
  char *private_beacon;        /* path of one that is opened when it is needed; or NULL */
  guint calling;               /* source, while what is called for may have changed */
  guint call_again;            /* timer: for those who could not come */
  gboolean has_left;           /* a session since the last call: its programs are to look */
  gboolean is_calling;         /* some session wants programs */
  gboolean has_missed;         /* somebody could not come since the last call, as far as is known */
  guint64 last_id;
  Memory memories[SONDE_LIMIT_REMEMBERED]; /* by number, the newest in the place of older ones */
  guint reaper;                            /* source: frees the dead outside their own callbacks */
  GPtrArray *dead;                         /* SondeSession */
  gboolean is_shutting_down;
  guint shutdown_timer;
  void (*done) (gpointer user_data);
  gpointer done_data;
};

static void
remove_kept (gpointer data)
{
  SondeSession *session = data;
  SondeSessionManager *self = session->user_data;

  self->handler->removed (session, self->user_data);
  sonde_session_free (session);
}

SondeSessionManager *
sonde_session_manager_new (SondePeerLauncher *launcher,
                           SondeCaptureStore *store,
                           SondeFdStore *fd_store,
                           const SondeSettings *settings,
                           const SondeSessionManagerHandler *handler,
                           gpointer user_data)
{
  SondeSessionManager *self = g_new0 (SondeSessionManager, 1);

  self->launcher = launcher;
  self->leavers = sonde_peer_leavers_new (launcher, fd_store);
  self->store = store;
  self->fd_store = fd_store;
  self->settings = settings;
  self->handler = handler;
  self->user_data = user_data;
  self->sessions = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free,
                                          (GDestroyNotify) sonde_session_free);
  self->accounts = sonde_accounts_new (settings);
  self->starting = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->starts = sonde_uid_rate_new (SONDE_LIMIT_START_BURST, SONDE_LIMIT_START_INTERVAL_US);
  self->additions = sonde_uid_rate_new (SONDE_LIMIT_ADD_BURST, SONDE_LIMIT_ADD_INTERVAL_US);
  self->snapshots = sonde_snapshots_new ();
  self->kept = sonde_kept_list_new (remove_kept);
  self->dead = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_session_free);
  return self;
}

void
sonde_session_manager_free (SondeSessionManager *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->shutdown_timer, g_source_remove);
  g_clear_handle_id (&self->calling, g_source_remove);
  g_clear_handle_id (&self->call_again, g_source_remove);
  if (self->beacon != NULL)
    sonde_beacon_page_set (self->beacon, NULL, 0);
  g_clear_pointer (&self->beacon, sonde_beacon_page_free);
  g_free (self->private_beacon);
  g_clear_pointer (&self->rendezvous, sonde_rendezvous_free);
  g_clear_handle_id (&self->reaper, g_source_remove);
  g_clear_pointer (&self->accounts, sonde_accounts_free);
  g_clear_pointer (&self->sessions, g_hash_table_unref);
  g_clear_pointer (&self->starting, g_hash_table_unref);
  g_clear_pointer (&self->starts, sonde_uid_rate_free);
  g_clear_pointer (&self->additions, sonde_uid_rate_free);
  g_clear_pointer (&self->dead, g_ptr_array_unref);
  g_clear_handle_id (&self->kept_timer, g_source_remove);
  g_clear_pointer (&self->kept, sonde_kept_list_free);
  g_clear_pointer (&self->snapshots, sonde_snapshots_free);
  g_clear_pointer (&self->store, sonde_capture_store_free);
  g_clear_handle_id (&self->tidy_timer, g_source_remove);
  sonde_peer_leavers_free (self->leavers);
  sonde_peer_launcher_unref (self->launcher);
  g_free (self);
}

static SondeSession *
find_by_key (SondeSessionManager *self, const SondeGuest *guest)
{
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    if (sonde_rendezvous_has_key (sonde_session_facts (session)->rendezvous, guest->key))
      return session;
  return NULL;
}

/* --- programs that are called --- */

static gboolean on_call_again (gpointer user_data);

static gboolean
on_calling (gpointer user_data)
{
  SondeSessionManager *self = user_data;
  g_autoptr (GArray) wishes = g_array_new (FALSE, FALSE, sizeof (SondeBeaconWish));
  GHashTableIter iter;
  gpointer session;
  SondeBeaconWish wish;

  self->calling = 0;
  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    if (sonde_session_wants_programs (session, &wish))
      g_array_append_val (wishes, wish);
  self->is_calling = wishes->len > 0;
  if (sonde_beacon_page_set (self->beacon, (const SondeBeaconWish *) (void *) wishes->data,
                             wishes->len))
    self->has_missed = TRUE;
  else if (self->has_left)
    sonde_beacon_page_repeat (self->beacon);
  self->has_left = FALSE;
  self->has_missed = self->has_missed && self->is_calling;
  if (self->has_missed && self->call_again == 0)
    self->call_again = g_timeout_add (SONDE_LIMIT_CALL_MS, on_call_again, self);
  /* Another sonded of the user may want it. */
  if (self->private_beacon != NULL && !self->is_calling)
    {
      g_clear_handle_id (&self->call_again, g_source_remove);
      g_clear_pointer (&self->beacon, sonde_beacon_page_free);
    }
  return G_SOURCE_REMOVE;
}

/* Who found the queue full, or waited in vain, is known to nobody: all are asked once more. */
static gboolean
on_call_again (gpointer user_data)
{
  SondeSessionManager *self = user_data;

  self->call_again = 0;
  self->has_missed = FALSE;
  sonde_beacon_page_repeat (self->beacon);
  return G_SOURCE_REMOVE;
}

/* What changes together is called for once. */
static void
call_programs (SondeSessionManager *self)
{
  if (self->beacon != NULL && self->calling == 0)
    self->calling = g_idle_add (on_calling, self);
}

/* The youngest that nobody was asked for yet, of those whose programs he may be. */
static SondeSession *
find_caller (SondeSessionManager *self, const SondeGuest *guest)
{
  SondeSession *found = NULL;
  guint64 best = 0;
  GHashTableIter iter;
  gpointer session;
  SondeBeaconWish wish;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    {
      guint64 id = sonde_session_facts (session)->id;

      if (id <= best || (guest->before_id != 0 && id >= guest->before_id)
          || !sonde_session_wants_programs (session, &wish)
          || !(wish.is_all || wish.uid == guest->uid))
        continue;
      best = id;
      found = session;
    }
  return found;
}

/* He may be another session's; one that had no time for him calls again. */
static void
on_passed_on (SondeSession *session, SondeGuest *guest, int error, gpointer user_data)
{
  SondeSessionManager *self = user_data;
  g_autoptr (SondeGuest) taken = guest;
  SondeSession *next;

  if (error != EPERM && error != ESRCH)
    {
      self->has_missed = TRUE;
      call_programs (self);
      taken->is_awaited = TRUE;
    }
  taken->before_id = session->facts->id;
  next = find_caller (self, taken);
  if (next != NULL)
    sonde_session_meet (next, g_steal_pointer (&taken));
  else
    sonde_guest_answer (taken, taken->is_awaited ? -EAGAIN : -EPERM);
}

static void
on_grew (SondeSession *session, gpointer user_data)
{
  call_programs (user_data);
}

static void
on_met (SondeGuest *guest, gpointer user_data)
{
  g_autoptr (SondeGuest) taken = guest;
  SondeSession *session
      = guest->is_called ? find_caller (user_data, guest) : find_by_key (user_data, guest);

  if (session != NULL)
    sonde_session_meet (session, g_steal_pointer (&taken));
  else
    sonde_guest_answer (taken, -ESRCH);
}

/* Nobody knows whose programs these were: of that user they are. */
static void
on_turned_away (uid_t uid, gpointer user_data)
{
  SondeSessionManager *self = user_data;
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    if (sonde_session_facts (session)->owner_uid == uid)
      sonde_session_turn_away (session);
  self->has_missed = TRUE;
  call_programs (self);
}

gboolean
sonde_session_manager_listen (
    SondeSessionManager *self, int fd, const char *beacon, gboolean is_private, GError **error)
{
  static const SondeRendezvousHandler handler = { .met = on_met, .turned_away = on_turned_away };

  self->rendezvous = sonde_rendezvous_new (fd, &handler, self, error);
  if (self->rendezvous == NULL)
    return FALSE;
  if (is_private)
    self->private_beacon = g_strdup (beacon);
  if (beacon == NULL || is_private)
    return TRUE;
  self->beacon
      = sonde_beacon_page_open (beacon, sonde_rendezvous_address (self->rendezvous), FALSE, error);
  call_programs (self);
  if (self->beacon == NULL)
    g_prefix_error (error, "Programs that run already are not called: ");
  return self->beacon != NULL;
}

static gboolean
on_kept_due (gpointer user_data)
{
  SondeSessionManager *self = user_data;
  gint64 wait_us = sonde_kept_list_expire (self->kept, g_get_monotonic_time ());

  self->kept_timer = wait_us >= 0 ? g_timeout_add_seconds ((guint) (wait_us / G_USEC_PER_SEC) + 1,
                                                           on_kept_due, self)
                                  : 0;
  return G_SOURCE_REMOVE;
}

static gboolean on_tidy_due (gpointer user_data);

static void
on_tidied (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeSessionManager *self = user_data;

  if (error != NULL)
    g_message ("Old captures are not removed: %s", error->message);
  g_clear_handle_id (&self->tidy_timer, g_source_remove);
  self->tidy_timer = answer->is_so
                         ? g_timeout_add (SONDE_LIMIT_CAPTURE_REMOVALS_MS, on_tidy_due, self)
                         : g_timeout_add_seconds (SONDE_LIMIT_CAPTURE_LOOK_S, on_tidy_due, self);
}

/* At the start, when a session has ended, before a new one, and at times. @uid: whose turn it takes
 */
static void
tidy_captures (SondeSessionManager *self, uid_t uid)
{
  if (self->store != NULL)
    sonde_capture_store_ask (self->store, SONDE_STORE_TIDY, uid, NULL, 0, on_tidied, self);
}

static gboolean
on_tidy_due (gpointer user_data)
{
  SondeSessionManager *self = user_data;

  self->tidy_timer = 0;
  tidy_captures (self, 0);
  return G_SOURCE_REMOVE;
}

/* @session: (transfer full) */
static void
keep (SondeSessionManager *self, SondeSession *session)
{
  sonde_session_retire (session);
  sonde_kept_list_add (self->kept, session->facts->id, session->facts->owner_uid, session,
                       g_get_monotonic_time ());
  if (self->kept_timer == 0)
    on_kept_due (self);
}

/* Says so once. */
static void
finish (SondeSessionManager *self)
{
  void (*done) (gpointer user_data) = self->done;

  g_clear_handle_id (&self->shutdown_timer, g_source_remove);
  self->done = NULL;
  if (done != NULL)
    done (self->done_data);
}

static gboolean
on_reap (gpointer user_data)
{
  SondeSessionManager *self = user_data;

  self->reaper = 0;
  g_ptr_array_set_size (self->dead, 0);
  if (self->is_shutting_down && g_hash_table_size (self->sessions) == 0)
    finish (self);
  return G_SOURCE_REMOVE;
}

static void
schedule_reap (SondeSessionManager *self)
{
  if (self->reaper == 0)
    self->reaper = g_idle_add (on_reap, self);
}

/* Of all sessions of a user that are private to whoever has started them one has the page. */
static void
open_private_beacon (SondeSessionManager *self)
{
  g_autoptr (GError) error = NULL;

  if (self->beacon != NULL || self->private_beacon == NULL)
    return;
  self->beacon = sonde_beacon_page_open (self->private_beacon,
                                         sonde_rendezvous_address (self->rendezvous), TRUE, &error);
  if (self->beacon == NULL)
    g_message ("Programs that run already are not called: %s", error->message);
}

static void
on_started (SondeSession *session, int capture_fd, const GError *error, gpointer user_data)
{
  SondeSessionManager *self = user_data;
  g_autofree Start *start = NULL;
  SondeBeaconWish wish;

  if (!g_hash_table_steal_extended (self->starting, session, NULL, (gpointer *) &start))
    g_assert_not_reached ();
  if (error == NULL && sonde_session_wants_programs (session, &wish))
    open_private_beacon (self);
  if (error == NULL)
    call_programs (self);
  if (error == NULL && self->beacon == NULL && sonde_session_wants_programs (session, &wish))
    sonde_session_note (session,
                        "Programs that run already are not called, as this service has no beacon: "
                        "only those are recorded that get a control socket",
                        NULL);
  if (error == NULL)
    self->handler->started (session, self->user_data);
  start->started (error == NULL ? session->facts->id : 0, capture_fd, error, start->user_data);
}

static void
on_state_changed (SondeSession *session, gpointer user_data)
{
  SondeSessionManager *self = user_data;

  call_programs (self);
  self->handler->state_changed (session, self->user_data);
}

static void
on_ended (SondeSession *session, gboolean has_started, gpointer user_data)
{
  SondeSessionManager *self = user_data;
  guint64 id = session->facts->id;
  g_autofree guint64 *key = NULL;

  g_hash_table_steal_extended (self->sessions, &id, (gpointer *) &key, NULL);
  sonde_accounts_remove (self->accounts, session);
  self->has_left = TRUE;
  call_programs (self);
  if (has_started)
    self->handler->ended (session, self->user_data);
  if (has_started && session->facts->is_lasting)
    {
      keep (self, session);
      tidy_captures (self, session->facts->owner_uid);
    }
  else
    {
      if (has_started)
        self->handler->removed (session, self->user_data);
      g_ptr_array_add (self->dead, session);
    }
  schedule_reap (self);
}

static void
on_dismissed (SondeSession *session, SondePeer *broker, gpointer user_data)
{
  SondeSessionManager *self = user_data;

  sonde_peer_leavers_take (self->leavers, broker, session->facts->owner_uid);
}

static const SondeSessionHandler session_handler = { .started = on_started,
                                                     .state_changed = on_state_changed,
                                                     .ended = on_ended,
                                                     .grew = on_grew,
                                                     .passed_on = on_passed_on,
                                                     .dismissed = on_dismissed };

static void
insert (SondeSessionManager *self, SondeSession *session)
{
  guint64 id = session->facts->id;

  self->memories[id % SONDE_LIMIT_REMEMBERED]
      = (Memory){ .id = id, .owner_uid = session->facts->owner_uid };
  g_hash_table_insert (self->sessions, g_memdup2 (&id, sizeof id), session);
  call_programs (self);
  sonde_accounts_add (self->accounts, session);
}

static void
adopt_one (SondeSessionManager *self, SondeCallers *callers, SondeLeftSession *left)
{
  const SondeSessionRecord *record = left->record;
  g_autoptr (SondeCaller) owner = sonde_callers_adopt (callers, record->owner, record->bus_id,
                                                       record->owner_uid, record->owner_pid);
  g_autoptr (GError) error = NULL;
  SondeSession *session = sonde_session_adopt (left, self->fd_store, owner, self->store,
                                               self->launcher, &session_handler, self, &error);

  self->last_id = MAX (self->last_id, record->id);
  if (session == NULL)
    {
      g_warning ("Session %" G_GUINT64_FORMAT " cannot be taken over: %s", record->id,
                 error->message);
      sonde_session_forget_left (self->fd_store, left);
    }
  else if (session->worker == NULL)
    keep (self, session);
  else
    {
      insert (self, session);
      /* Its owner, whom it needs, left with the bus that knew him. */
      if (sonde_session_is_in (session, SONDE_STATES_LIVE) && !record->is_lasting
          && g_cancellable_is_cancelled (owner->left))
        sonde_session_stop (session, "owner-left");
    }
}

void
sonde_session_manager_adopt (SondeSessionManager *self, SondeCallers *callers)
{
  g_autoptr (GPtrArray) all = NULL;

  if (self->fd_store != NULL)
    {
      sonde_peer_leavers_adopt (self->leavers);
      all = sonde_session_find_left (self->fd_store);
      for (guint i = 0; i < all->len; i++)
        adopt_one (self, callers, g_ptr_array_index (all, i));
    }
  tidy_captures (self, 0);
}

void
sonde_session_manager_leave (SondeSessionManager *self)
{
  g_autoptr (GList) starting = g_hash_table_get_keys (self->starting);
  GHashTableIter iter;
  gpointer id;
  gpointer session;

  /* Sessions let go of their files here, and go on. */
  g_clear_handle_id (&self->tidy_timer, g_source_remove);
  g_clear_handle_id (&self->calling, g_source_remove);
  g_clear_handle_id (&self->call_again, g_source_remove);
  /* They call on, too. */
  g_clear_pointer (&self->beacon, sonde_beacon_page_free);
  g_clear_pointer (&self->rendezvous, sonde_rendezvous_free);
  for (GList *item = starting; item != NULL; item = item->next)
    sonde_session_abort (item->data, "The service is being restarted");
  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, &id, &session))
    {
      g_hash_table_iter_steal (&iter);
      g_free (id);
      sonde_accounts_remove (self->accounts, session);
      sonde_session_leave (session);
    }
  self->kept->free_item = (GDestroyNotify) sonde_session_leave;
}

gboolean
sonde_session_manager_is_busy (const SondeSessionManager *self)
{
  return g_hash_table_size (self->sessions) > 0 || sonde_kept_list_get (self->kept, 0) != NULL
         || !sonde_peer_leavers_is_empty (self->leavers);
}

gboolean
sonde_session_manager_has_progress (SondeSessionManager *self)
{
  gboolean has_progress = TRUE;
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    has_progress = sonde_session_has_progress (session) && has_progress;
  return has_progress;
}

static gboolean
check_sessions (SondeSessionManager *self, uid_t uid, GError **error)
{
  guint n_own = 0;
  guint n_of_others = 0;
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    {
      uid_t owner_uid = sonde_session_facts (session)->owner_uid;

      n_own += owner_uid == uid;
      n_of_others += owner_uid != uid && owner_uid != 0;
    }
  return sonde_quota_check_sessions (
      uid, n_own, n_of_others,
      (guint) (uid == 0 ? self->settings->sessions_root : self->settings->sessions),
      (guint) self->settings->sessions_machine, error);
}

/* Root is exempt: its brokers may be stuck by anybody's process. */
static gboolean
check_brokers (SondeSessionManager *self, uid_t uid, GError **error)
{
  guint n_stuck;
  guint n = sonde_peer_leavers_count (self->leavers, uid, &n_stuck);

  if (uid == 0)
    return TRUE;
  if (!sonde_uid_rate_has_room (self->starts, uid, g_get_monotonic_time ()))
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit starts: at most %d at once, then one a second", SONDE_LIMIT_START_BURST);
  else if (n_stuck >= SONDE_LIMIT_STUCK_BROKERS)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                         "Limit brokers: one of an earlier session waits for a file system that "
                         "does not answer");
  /* Each session may have one predecessor that is about to go. */
  else if (n >= self->settings->sessions)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                         "Limit brokers: those of earlier sessions have not ended yet");
  else
    return TRUE;
  return FALSE;
}

/* Root has no budget. */
static gboolean
check_recorders (SondeSessionManager *self, uid_t uid, guint64 wanted_bytes, GError **error)
{
  guint64 max_bytes = self->settings->uid_memory_bytes * SONDE_LIMIT_RECORDER_BUDGET_PERCENT / 100;
  guint64 sum_bytes = wanted_bytes;
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    if (sonde_session_facts (session)->owner_uid == uid)
      sum_bytes += sonde_session_options (session)->asked.recorder_bytes;
  if (uid == 0 || wanted_bytes == 0 || sum_bytes <= max_bytes)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "Limit uid-memory-bytes: recorders have at most %d %% of it, and those of uid %u "
               "would have %" G_GUINT64_FORMAT " bytes",
               SONDE_LIMIT_RECORDER_BUDGET_PERCENT, (guint) uid, sum_bytes);
  return FALSE;
}

static gboolean
check_start (SondeSessionManager *self,
             uid_t uid,
             const SondeOptions *options,
             gboolean is_lasting,
             GError **error)
{
  if (self->is_shutting_down)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE, "sonded is going down");
      return FALSE;
    }
  if (is_lasting && self->store == NULL)
    {
      g_set_error_literal (
          error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
          "This service has no place for capture files (see the property Features)");
      return FALSE;
    }
  return check_sessions (self, uid, error) && check_brokers (self, uid, error)
         && check_recorders (self, uid, options->asked.recorder_bytes, error)
         && sonde_quota_check_fds (uid, SONDE_LIMIT_SESSION_FDS, error)
         && sonde_quota_check_flight (error);
}

void
sonde_session_manager_start (SondeSessionManager *self,
                             SondeCaller *owner,
                             SondeOptions *options,
                             gboolean is_lasting,
                             SondeSessionStarted started,
                             gpointer user_data)
{
  const Start start = { started, user_data };
  SondeSession *session;
  uid_t owner_uid = owner->uid;
  g_autoptr (GError) error = NULL;

  if (!check_start (self, owner_uid, options, is_lasting, &error))
    {
      sonde_options_free (options);
      started (0, -1, error, user_data);
      return;
    }
  if (is_lasting)
    tidy_captures (self, owner_uid);
  session = sonde_session_new (++self->last_id, owner, options, is_lasting ? self->store : NULL,
                               self->fd_store, &session_handler, self);
  if (self->rendezvous != NULL)
    {
      g_autofree char *key = sonde_rendezvous_make_key ();

      session->facts->rendezvous = sonde_rendezvous_describe (self->rendezvous, key);
    }
  g_hash_table_insert (self->starting, session, g_memdup2 (&start, sizeof start));
  insert (self, session);
  sonde_session_start (session, self->launcher);
  /* Whatever becomes of it, unless it could not even have a broker. */
  if (!sonde_session_is_over (session))
    sonde_uid_rate_count (self->starts, owner_uid, g_get_monotonic_time ());
}

gboolean
sonde_session_manager_check_addition (SondeSessionManager *self, uid_t uid, GError **error)
{
  gint64 now_us = g_get_monotonic_time ();

  if (uid != 0 && !sonde_uid_rate_has_room (self->additions, uid, now_us))
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit additions: at most %d at once, then five a second",
                   SONDE_LIMIT_ADD_BURST);
      return FALSE;
    }
  sonde_uid_rate_count (self->additions, uid, now_us);
  return TRUE;
}

SondeSnapshots *
sonde_session_manager_snapshots (SondeSessionManager *self)
{
  return self->snapshots;
}

SondeCaptureStore *
sonde_session_manager_store (SondeSessionManager *self)
{
  return self->store;
}

SondeSession *
sonde_session_manager_lookup (SondeSessionManager *self, guint64 id)
{
  SondeSession *session = g_hash_table_lookup (self->sessions, &id);

  return session != NULL ? session : sonde_kept_list_lookup (self->kept, id);
}

gboolean
sonde_session_manager_was_of (const SondeSessionManager *self, guint64 id, uid_t uid)
{
  const Memory *memory = &self->memories[id % SONDE_LIMIT_REMEMBERED];

  return id != 0 && memory->id == id && memory->owner_uid == uid;
}

static int
compare_ids (gconstpointer a, gconstpointer b)
{
  guint64 id_a = sonde_session_facts (*(SondeSession *const *) a)->id;
  guint64 id_b = sonde_session_facts (*(SondeSession *const *) b)->id;

  return (id_a > id_b) - (id_a < id_b);
}

GPtrArray *
sonde_session_manager_list (SondeSessionManager *self)
{
  GPtrArray *sessions = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    g_ptr_array_add (sessions, session);
  for (guint i = 0; (session = sonde_kept_list_get (self->kept, i)) != NULL; i++)
    g_ptr_array_add (sessions, session);
  g_ptr_array_sort (sessions, compare_ids);
  return sessions;
}

gboolean
sonde_session_manager_has_others (SondeSessionManager *self, uid_t uid)
{
  g_autoptr (GPtrArray) sessions = sonde_session_manager_list (self);

  for (guint i = 0; i < sessions->len; i++)
    if (sonde_session_facts (g_ptr_array_index (sessions, i))->owner_uid != uid)
      return TRUE;
  return FALSE;
}

/* Stopping one never takes it out of the table at once: its worker is reaped first. */
void
sonde_session_manager_stop (SondeSessionManager *self, const char *owner, const char *reason)
{
  GHashTableIter iter;
  gpointer session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    if (owner == NULL
        || (!sonde_session_facts (session)->is_lasting
            && g_str_equal (sonde_session_facts (session)->owner, owner)))
      sonde_session_stop (session, reason);
}

/* How their processes ended nobody could tell. */
static gboolean
on_shutdown_overdue (gpointer user_data)
{
  SondeSessionManager *self = user_data;

  self->shutdown_timer = 0;
  finish (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_shutdown_timeout (gpointer user_data)
{
  SondeSessionManager *self = user_data;
  GHashTableIter iter;
  gpointer session;

  self->shutdown_timer = 0;
  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, &session))
    sonde_session_abort (session, "sonded goes down");
  self->shutdown_timer = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS, on_shutdown_overdue, self);
  return G_SOURCE_REMOVE;
}

void
sonde_session_manager_shut_down (SondeSessionManager *self,
                                 const char *reason,
                                 void (*done) (gpointer user_data),
                                 gpointer user_data)
{
  if (self->is_shutting_down)
    return;
  self->is_shutting_down = TRUE;
  self->done = done;
  self->done_data = user_data;
  self->shutdown_timer = g_timeout_add (SONDE_LIMIT_SHUTDOWN_MS, on_shutdown_timeout, self);
  sonde_session_manager_stop (self, NULL, reason);
  if (g_hash_table_size (self->sessions) == 0)
    schedule_reap (self);
}
