/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Quotas of one uid: shares, rates, what is kept, how often it is written about. */
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/quota.h"
#include "daemon/control/session/session-manager.h"
#include "daemon/control/system/audit.h"

static void
assert_sessions (uid_t uid, guint n_own, guint n_of_others, const char *limit)
{
  g_autoptr (GError) error = NULL;
  gboolean may = sonde_quota_check_sessions (
      uid, n_own, n_of_others, uid == 0 ? SONDE_LIMIT_SESSIONS_ROOT : SONDE_LIMIT_SESSIONS,
      SONDE_LIMIT_SESSIONS_MACHINE, &error);

  g_assert_cmpint (may, ==, limit == NULL);
  if (limit != NULL)
    {
      g_autofree char *begin = g_strdup_printf ("Limit %s: ", limit);

      g_assert_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
      g_assert_true (g_str_has_prefix (error->message, begin));
    }
}

static void
test_sessions (void)
{
  assert_sessions (1000, SONDE_LIMIT_SESSIONS - 1, 0, NULL);
  assert_sessions (1000, SONDE_LIMIT_SESSIONS, 0, "sessions");
  assert_sessions (0, SONDE_LIMIT_SESSIONS_ROOT - 1, 100, NULL);
  assert_sessions (0, SONDE_LIMIT_SESSIONS_ROOT, 0, "sessions-root");
}

/* The last free place is somebody's; of the others one uid takes half. */
static void
test_sessions_of_the_machine (void)
{
  assert_sessions (1000, 0, SONDE_LIMIT_SESSIONS_MACHINE, "sessions-machine");
  assert_sessions (1000, 0, SONDE_LIMIT_SESSIONS_MACHINE - 1, NULL);
  assert_sessions (1000, 1, SONDE_LIMIT_SESSIONS_MACHINE - 3, "sessions-machine");
  assert_sessions (1000, 1, SONDE_LIMIT_SESSIONS_MACHINE - 4, NULL);
  assert_sessions (1000, 3, SONDE_LIMIT_SESSIONS_MACHINE - 8, NULL);
  assert_sessions (1000, 0, G_MAXUINT, "sessions-machine");
}

static void
test_descriptors (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (sonde_quota_check_fds (1000, 1, &error));
  g_assert_no_error (error);
  g_assert_false (sonde_quota_check_fds (1000, G_MAXUINT32, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  g_assert_true (g_str_has_prefix (error->message, "Limit descriptors: "));
  g_assert_false (sonde_quota_check_fds (0, G_MAXUINT32, NULL));
}

static void
test_rings (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (sonde_quota_check_rings (1000, 0, &error));
  g_assert_false (sonde_quota_check_rings (1000, G_MAXINT32, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  g_assert_true (g_str_has_prefix (error->message, "Limit perf-rings: "));
  g_assert_true (sonde_quota_check_rings (0, G_MAXINT32, NULL));
}

static void
test_rate (void)
{
  g_autoptr (SondeUidRate) rate = sonde_uid_rate_new (3, 100);

  for (guint i = 0; i < 3; i++)
    {
      g_assert_true (sonde_uid_rate_has_room (rate, 7, 1000));
      sonde_uid_rate_count (rate, 7, 1000);
    }
  g_assert_false (sonde_uid_rate_has_room (rate, 7, 1000));
  g_assert_true (sonde_uid_rate_has_room (rate, 8, 1000));
  g_assert_false (sonde_uid_rate_has_room (rate, 7, 1099));
  g_assert_true (sonde_uid_rate_has_room (rate, 7, 1100));
  sonde_uid_rate_count (rate, 7, 1100);
  g_assert_false (sonde_uid_rate_has_room (rate, 7, 1199));
  /* Time earns no more than the burst. */
  for (guint i = 0; i < 3; i++)
    {
      g_assert_true (sonde_uid_rate_has_room (rate, 7, G_MAXINT32));
      sonde_uid_rate_count (rate, 7, G_MAXINT32);
    }
  g_assert_false (sonde_uid_rate_has_room (rate, 7, G_MAXINT32));
}

static void
test_kept_time (void)
{
  g_autoptr (SondeKeptList) list = sonde_kept_list_new (g_free);

  g_assert_cmpint (sonde_kept_list_expire (list, 0), ==, -1);
  sonde_kept_list_add (list, 1, 7, g_strdup ("a"), 1000);
  sonde_kept_list_add (list, 2, 7, g_strdup ("b"), 3000);
  g_assert_cmpint (sonde_kept_list_expire (list, 1000), ==, SONDE_LIMIT_KEPT_US);
  g_assert_cmpstr (sonde_kept_list_lookup (list, 1), ==, "a");
  g_assert_cmpint (sonde_kept_list_expire (list, 1000 + SONDE_LIMIT_KEPT_US), ==, 2000);
  g_assert_null (sonde_kept_list_lookup (list, 1));
  g_assert_cmpstr (sonde_kept_list_get (list, 0), ==, "b");
  g_assert_null (sonde_kept_list_get (list, 1));
  g_assert_cmpint (sonde_kept_list_expire (list, 3000 + SONDE_LIMIT_KEPT_US), ==, -1);
}

static void
test_kept_number (void)
{
  g_autoptr (SondeKeptList) list = sonde_kept_list_new (g_free);
  guint64 id = 0;

  sonde_kept_list_add (list, ++id, 7, g_strdup ("of somebody else"), 0);
  for (guint i = 0; i <= SONDE_LIMIT_KEPT_PER_UID; i++)
    sonde_kept_list_add (list, ++id, 8, g_strdup ("one more"), 0);
  g_assert_nonnull (sonde_kept_list_lookup (list, 1));
  g_assert_null (sonde_kept_list_lookup (list, 2));
  g_assert_nonnull (sonde_kept_list_lookup (list, 3));

  for (uid_t uid = 100; id < 2 * SONDE_LIMIT_KEPT; uid++)
    sonde_kept_list_add (list, ++id, uid, g_strdup ("of many"), 0);
  g_assert_null (sonde_kept_list_lookup (list, 1));
  g_assert_nonnull (sonde_kept_list_get (list, SONDE_LIMIT_KEPT - 1));
  g_assert_null (sonde_kept_list_get (list, SONDE_LIMIT_KEPT));
}

/* What was written to the journal. */
typedef struct
{
  guint n_records;
  char *last_detail;
  char *last_message;
} Journal;

static GLogWriterOutput
take_record (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  Journal *journal = user_data;

  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, "SONDE_DETAIL"))
      {
        journal->n_records++;
        g_free (journal->last_detail);
        journal->last_detail = g_strdup (fields[i].value);
      }
    else if (g_str_equal (fields[i].key, "MESSAGE"))
      {
        g_free (journal->last_message);
        journal->last_message = g_strdup (fields[i].value);
      }
  return G_LOG_WRITER_HANDLED;
}

static void
test_refusals (void)
{
  static Journal journal;
  SondeRefusals *refusals = sonde_refusals_new ();
  g_autoptr (GString) endless = g_string_new (NULL);

  g_log_set_writer_func (take_record, &journal, NULL);
  for (guint i = 0; i < SONDE_LIMIT_AUDIT_BURST + 25; i++)
    sonde_refusals_record (refusals, 5, 1000, "no");
  g_assert_cmpuint (journal.n_records, ==, SONDE_LIMIT_AUDIT_BURST);
  sonde_refusals_record (refusals, 5, 1001, "not you either");
  g_assert_cmpuint (journal.n_records, ==, SONDE_LIMIT_AUDIT_BURST + 1);
  g_assert_cmpstr (journal.last_detail, ==, "not you either");
  sonde_refusals_free (refusals);
  g_assert_cmpuint (journal.n_records, ==, SONDE_LIMIT_AUDIT_BURST + 2);
  g_assert_cmpstr (journal.last_detail, ==, "25 more in a minute");
  g_assert_cmpstr (journal.last_message, ==, "refused: uid 1000: 25 more in a minute");

  sonde_audit ("refused", 7, 42, "Stop: no\n\033[2Jrefused: \342\200\256\377ä");
  g_assert_cmpstr (journal.last_message, ==,
                   "refused: uid 42, session 7: Stop: no??[2Jrefused: ?\357\277\275ä");
  for (guint i = 0; i < 1000; i++)
    g_string_append (endless, "ä");
  sonde_audit ("refused", 0, 42, endless->str);
  g_assert_cmpuint (strlen (journal.last_detail), ==, 512);
  g_assert_true (g_utf8_validate (journal.last_message, -1, NULL));
  g_free (journal.last_detail);
  g_free (journal.last_message);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/quota/refuses-one-session-too-many", test_sessions);
  g_test_add_func ("/quota/leaves-half-of-the-machine-to-others", test_sessions_of_the_machine);
  g_test_add_func ("/quota/leaves-descriptors-to-others", test_descriptors);
  g_test_add_func ("/quota/leaves-memory-to-others", test_rings);
  g_test_add_func ("/quota/gives-back-what-time-earns", test_rate);
  g_test_add_func ("/quota/keeps-what-ended-for-a-while", test_kept_time);
  g_test_add_func ("/quota/keeps-so-many-and-no-more", test_kept_number);
  g_test_add_func ("/quota/writes-ten-refusals-in-one-line-each-and-counts-the-rest",
                   test_refusals);
  return g_test_run ();
}
