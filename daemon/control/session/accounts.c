/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/session/accounts.h"

#include "daemon/base/limits.h"
#include "daemon/control/session/session-private.h"

#define FULL_WEIGHT 100 /* systemd's own for any unit */

typedef struct
{
  SondeSession *session;
  guint64 cpu_us;         /* at the last look */
  guint64 recent_us;      /* of late: each look counts half as much as the one after it */
  gint64 slowed_since_us; /* monotonic; 0: it is not */
} Member;

typedef struct
{
  uid_t uid;
  GArray *members;     /* Member */
  guint64 debt_us;     /* CPU time beyond the budget that is not paid back */
  guint64 patience_us; /* the debt at which something is done */
  guint n_overruns;    /* how often that was */
  gint64 paid_us;      /* monotonic: it has had no debt since */
} Account;

struct SondeAccounts
{
  const SondeSettings *settings;
  GHashTable *of_uid; /* uid → Account */
  guint timer;
  gint64 looked_us; /* monotonic */
};

static void
account_free (gpointer data)
{
  Account *account = data;

  g_array_unref (account->members);
  g_free (account);
}

SondeAccounts *
sonde_accounts_new (const SondeSettings *settings)
{
  SondeAccounts *self = g_new0 (SondeAccounts, 1);

  self->settings = settings;
  self->of_uid = g_hash_table_new_full (NULL, NULL, NULL, account_free);
  return self;
}

void
sonde_accounts_free (SondeAccounts *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  g_hash_table_unref (self->of_uid);
  g_free (self);
}

/* Tells each session what it may have. Systemd hears of changes only. */
static void
share (const SondeAccounts *self, const Account *account)
{
  guint n = account->members->len;
  SondeUnitShare part = { .cpu_weight = FULL_WEIGHT };

  if (account->uid != 0 && n > 0)
    {
      part.cpu_weight = MAX (FULL_WEIGHT / n, 1);
      if (self->settings->uid_cpu_percent > 0)
        part.cpu_percent = (guint) MAX (self->settings->uid_cpu_percent / n, 1);
      if (!WITH_SANITIZERS)
        part.memory_bytes
            = MIN (self->settings->uid_memory_bytes / n, (guint64) SONDE_LIMIT_WORKER_BYTES);
    }
  for (guint i = 0; i < n; i++)
    {
      SondeSession *session = g_array_index (account->members, Member, i).session;

      session->share = part;
      sonde_session_share_out (session);
    }
}

/* Returns: CPU time that the account's sessions took since the last look, in µs */
static guint64
measure (Account *account)
{
  guint64 sum_us = 0;

  for (guint i = 0; i < account->members->len; i++)
    {
      Member *member = &g_array_index (account->members, Member, i);
      guint64 now_us = sonde_session_measure (member->session);
      guint64 used_us = now_us - MIN (now_us, member->cpu_us);

      member->cpu_us = now_us;
      member->recent_us = member->recent_us / 2 + used_us;
      sum_us += used_us;
    }
  return sum_us;
}

/* Those that take at least the mean of all, of which there is always one. */
static void
slow (const SondeAccounts *self, Account *account, gint64 now_us)
{
  g_autofree char *text = g_strdup_printf (
      "Nothing is recorded for a while: the sessions of uid %u take more CPU time than they may "
      "(uid-cpu-percent, %" G_GUINT64_FORMAT ")",
      (guint) account->uid, self->settings->uid_cpu_percent);
  guint64 sum_us = 0;

  for (guint i = 0; i < account->members->len; i++)
    sum_us += g_array_index (account->members, Member, i).recent_us;
  for (guint i = 0; i < account->members->len; i++)
    {
      Member *member = &g_array_index (account->members, Member, i);

      if (member->recent_us * account->members->len >= sum_us && member->slowed_since_us == 0
          && sonde_session_set_slowed (member->session, TRUE, text))
        member->slowed_since_us = now_us;
    }
}

static void
let_go_on (Account *account, gint64 now_us)
{
  for (guint i = 0; i < account->members->len; i++)
    {
      Member *member = &g_array_index (account->members, Member, i);
      g_autofree char *text = NULL;

      if (member->slowed_since_us == 0)
        continue;
      text = g_strdup_printf ("Recorded again, after %.1f s",
                              (double) (now_us - member->slowed_since_us) / G_USEC_PER_SEC);
      member->slowed_since_us = 0;
      sonde_session_set_slowed (member->session, FALSE, text);
    }
}

static void
end_dearest (const SondeAccounts *self, Account *account)
{
  g_autofree char *reason = g_strdup_printf (
      "The sessions of uid %u took more CPU time than they may (uid-cpu-percent, "
      "%" G_GUINT64_FORMAT "), and this one most",
      (guint) account->uid, self->settings->uid_cpu_percent);
  const Member *dearest = NULL;

  for (guint i = 0; i < account->members->len; i++)
    {
      const Member *member = &g_array_index (account->members, Member, i);

      if (dearest == NULL || member->recent_us > dearest->recent_us)
        dearest = member;
    }
  if (dearest != NULL)
    sonde_session_end_over_budget (dearest->session, reason);
}

static void
guard (const SondeAccounts *self, Account *account, gint64 now_us)
{
  guint64 percent = self->settings->uid_cpu_percent;
  guint64 budget_us = (guint64) (now_us - self->looked_us) * percent / 100;
  guint64 advance_us = SONDE_LIMIT_BUDGET_MS * percent * 10; /* 1,000 of it each ms, of a hundred */
  guint64 spent_us = account->debt_us + measure (account);

  account->debt_us = percent > 0 ? spent_us - MIN (spent_us, budget_us) : 0;
  if (account->debt_us == 0)
    {
      account->patience_us = advance_us;
      let_go_on (account, now_us);
      if (now_us - account->paid_us > SONDE_LIMIT_BUDGET_FORGET_US)
        account->n_overruns = 0;
      return;
    }
  account->paid_us = now_us;
  if (account->debt_us <= account->patience_us)
    return;
  /* No longer than twice that; and if it does not help as much again until the next step. */
  account->debt_us = MIN (account->debt_us, 2 * advance_us);
  account->patience_us = account->debt_us + advance_us;
  if (account->n_overruns++ < SONDE_LIMIT_BUDGET_SLOWDOWNS)
    slow (self, account, now_us);
  else
    end_dearest (self, account);
}

static gboolean
look (gpointer user_data)
{
  SondeAccounts *self = user_data;
  gint64 now_us = g_get_monotonic_time ();
  GHashTableIter iter;
  gpointer account;

  g_hash_table_iter_init (&iter, self->of_uid);
  while (g_hash_table_iter_next (&iter, NULL, &account))
    {
      Account *one = account;

      if (one->uid != 0)
        guard (self, one, now_us);
      share (self, one);
      if (one->members->len == 0 && one->n_overruns == 0 && one->debt_us == 0)
        g_hash_table_iter_remove (&iter);
    }
  self->looked_us = now_us;
  if (g_hash_table_size (self->of_uid) > 0)
    return G_SOURCE_CONTINUE;
  self->timer = 0;
  return G_SOURCE_REMOVE;
}

void
sonde_accounts_add (SondeAccounts *self, SondeSession *session)
{
  uid_t uid = sonde_session_facts (session)->owner_uid;
  Account *account = g_hash_table_lookup (self->of_uid, GUINT_TO_POINTER (uid));
  /* What an adopted one took before is paid. */
  Member member = { .session = session, .cpu_us = sonde_session_measure (session) };

  if (account == NULL)
    {
      account = g_new0 (Account, 1);
      account->uid = uid;
      account->members = g_array_new (FALSE, FALSE, sizeof (Member));
      account->patience_us = SONDE_LIMIT_BUDGET_MS * self->settings->uid_cpu_percent * 10;
      g_hash_table_insert (self->of_uid, GUINT_TO_POINTER (uid), account);
    }
  g_array_append_val (account->members, member);
  share (self, account);
  if (self->timer == 0)
    {
      self->looked_us = g_get_monotonic_time ();
      self->timer = g_timeout_add (SONDE_LIMIT_BUDGET_LOOK_MS, look, self);
    }
}

void
sonde_accounts_remove (SondeAccounts *self, SondeSession *session)
{
  Account *account = g_hash_table_lookup (
      self->of_uid, GUINT_TO_POINTER (sonde_session_facts (session)->owner_uid));

  for (guint i = 0; account != NULL && i < account->members->len; i++)
    {
      const Member *member = &g_array_index (account->members, Member, i);

      if (member->session != session)
        continue;
      if (account->uid != 0)
        account->debt_us += sonde_session_measure (session) - member->cpu_us;
      g_array_remove_index_fast (account->members, i);
      share (self, account);
      return;
    }
}
