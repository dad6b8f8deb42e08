/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The account of what users have of a session: what the programs of one leave to another. */
#include "daemon/capture/program/uid-shares.h"

#define MAX_N     64
#define MAX_BYTES ((gsize) 6400)
#define SIZE      ((gsize) 10)
#define FIRST     1000
#define N_USERS   6

static const SondeUidAmount max = { MAX_N, MAX_BYTES };

/* Takes all that there is for it. */
static guint
take_all (SondeUidShares *shares, uid_t uid, gsize size_bytes)
{
  guint n = 0;

  for (; sonde_uid_shares_has_room (shares, uid, &max, size_bytes); n++)
    sonde_uid_shares_take (shares, uid, size_bytes);
  return n;
}

static void
refuses_what_is_more_than_there_is (void)
{
  const SondeUidAmount none = { 0, MAX_BYTES };
  SondeUidShares shares;

  sonde_uid_shares_init (&shares, FALSE);
  g_assert_false (sonde_uid_shares_has_room (&shares, FIRST, &max, MAX_BYTES + 1));
  g_assert_false (sonde_uid_shares_has_room (&shares, FIRST, &max, G_MAXSIZE));
  g_assert_false (sonde_uid_shares_has_room (&shares, FIRST, &none, 0));
  g_assert_true (sonde_uid_shares_has_room (&shares, FIRST, &max, MAX_BYTES));
  sonde_uid_shares_clear (&shares);
}

static void
gives_one_user_all_that_there_is (void)
{
  SondeUidShares shares;

  sonde_uid_shares_init (&shares, FALSE);
  g_assert_cmpuint (take_all (&shares, FIRST, SIZE), ==, MAX_N);
  g_assert_false (sonde_uid_shares_has_room (&shares, FIRST + 1, &max, SIZE));
  sonde_uid_shares_give_back (&shares, FIRST, SIZE);
  g_assert_true (sonde_uid_shares_has_room (&shares, FIRST + 1, &max, SIZE));
  sonde_uid_shares_clear (&shares);
}

/* Of the number, half of what the ones before have left. */
static void
leaves_something_to_each_who_comes_later (void)
{
  SondeUidShares shares;
  guint left = MAX_N;

  sonde_uid_shares_init (&shares, TRUE);
  for (guint i = 0; i < N_USERS; i++)
    {
      guint n = take_all (&shares, FIRST + i, SIZE);

      g_assert_cmpuint (n, ==, left / 2);
      g_assert_cmpuint (sonde_uid_shares_n_uids (&shares), ==, i + 1);
      left -= n;
    }
  g_assert_cmpuint (take_all (&shares, 0, SIZE), ==, left);
  sonde_uid_shares_clear (&shares);
}

static void
divides_memory_as_well (void)
{
  SondeUidShares shares;
  guint n;

  sonde_uid_shares_init (&shares, TRUE);
  n = take_all (&shares, FIRST, MAX_BYTES / 8);
  g_assert_cmpuint (n, ==, 6);
  g_assert_false (sonde_uid_shares_has_room (&shares, FIRST, &max, MAX_BYTES / 64));
  g_assert_true (sonde_uid_shares_has_room (&shares, FIRST + 1, &max, MAX_BYTES / 16 * 3));
  g_assert_cmpuint (sonde_uid_shares_room (&shares, FIRST, MAX_BYTES), ==, 0);
  g_assert_cmpuint (sonde_uid_shares_room (&shares, FIRST + 1, MAX_BYTES), ==, MAX_BYTES / 16 * 3);
  g_assert_cmpuint (sonde_uid_shares_room (&shares, 0, MAX_BYTES), ==, MAX_BYTES / 4);
  for (; n > 0; n--)
    sonde_uid_shares_give_back (&shares, FIRST, MAX_BYTES / 8);
  g_assert_cmpuint (sonde_uid_shares_n_uids (&shares), ==, 0);
  g_assert_cmpuint (shares.all.n, ==, 0);
  g_assert_cmpuint (shares.all.bytes, ==, 0);
  sonde_uid_shares_clear (&shares);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define TEST(name, function) g_test_add_func ("/uid-shares/" name, function)
  TEST ("refuses-what-is-more-than-there-is", refuses_what_is_more_than_there_is);
  TEST ("gives-one-user-all-that-there-is", gives_one_user_all_that_there_is);
  TEST ("leaves-something-to-each-who-comes-later", leaves_something_to_each_who_comes_later);
  TEST ("divides-memory-as-well", divides_memory_as_well);

  return g_test_run ();
}
