/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A queue of questions, and whose is put when. */
#include "daemon/control/bus/authority.h"

enum
{
  MAX_OPEN = 5,
  MAX_OPEN_PER_UID = 2,
};

typedef struct
{
  const char *name;
  GString *order;
} Question;

static void
put (gpointer data)
{
  const Question *question = data;

  g_string_append_printf (question->order, "%s%s", question->order->len > 0 ? " " : "",
                          question->name);
}

typedef struct
{
  SondeQuestionQueue *queue;
  GString *order;
  Question questions[16];
  SondeQuestionPlace *places[16];
} Fixture;

static void
set_up (Fixture *self, gconstpointer user_data)
{
  self->queue = sonde_question_queue_new (MAX_OPEN, MAX_OPEN_PER_UID, put);
  self->order = g_string_new (NULL);
}

static void
tear_down (Fixture *self, gconstpointer user_data)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->places); i++)
    if (self->places[i] != NULL)
      sonde_question_place_leave (self->places[i]);
  sonde_question_queue_free (self->queue);
  g_string_free (self->order, TRUE);
}

static void
enter (Fixture *self, guint index, uid_t uid, const char *name)
{
  self->questions[index] = (Question){ name, self->order };
  self->places[index] = sonde_question_queue_enter (self->queue, uid, &self->questions[index]);
}

static void
leave (Fixture *self, guint index)
{
  sonde_question_place_leave (g_steal_pointer (&self->places[index]));
}

/* What has been put since the last time. */
static void
assert_put (Fixture *self, const char *expected)
{
  sonde_question_queue_advance (self->queue);
  g_assert_cmpstr (self->order->str, ==, expected);
  g_string_truncate (self->order, 0);
}

static void
test_per_uid (Fixture *self, gconstpointer user_data)
{
  enter (self, 0, 1, "a1");
  enter (self, 1, 1, "a2");
  enter (self, 2, 1, "a3");
  assert_put (self, "a1 a2");
  g_assert_true (self->places[1]->is_open);
  g_assert_false (self->places[2]->is_open);
  enter (self, 3, 2, "b1");
  assert_put (self, "b1");
  leave (self, 0);
  assert_put (self, "a3");
}

static void
test_turns (Fixture *self, gconstpointer user_data)
{
  static const char *const names[] = { "a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    enter (self, i, 1 + i / 3, names[i]);
  assert_put (self, "a1 b1 c1 a2 b2");
  leave (self, 0);
  assert_put (self, "c2");
  leave (self, 1);
  assert_put (self, "a3");
  leave (self, 3);
  leave (self, 4);
  assert_put (self, "b3");
  leave (self, 6);
  assert_put (self, "c3");
}

/* One who comes late is behind one question of each other, not behind all of them. */
static void
test_late (Fixture *self, gconstpointer user_data)
{
  for (guint i = 0; i < 8; i++)
    enter (self, i, 1 + i % 4, "early");
  assert_put (self, "early early early early early");
  enter (self, 8, 9, "late");
  leave (self, 0);
  leave (self, 1);
  leave (self, 2);
  leave (self, 3);
  assert_put (self, "early early early late");
}

static void
test_leaving (Fixture *self, gconstpointer user_data)
{
  for (guint i = 0; i < 6; i++)
    enter (self, i, 1 + i / 2, "x");
  enter (self, 6, 1, "gone");
  enter (self, 7, 4, "gone");
  enter (self, 8, 4, "stays");
  leave (self, 6);
  leave (self, 7);
  assert_put (self, "x x x stays x");
  for (guint i = 0; i < 6; i++)
    leave (self, i);
  assert_put (self, "");
  enter (self, 0, 1, "again");
  assert_put (self, "again");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/question-queue/opens-few-of-one-uid", Fixture, NULL, set_up, test_per_uid,
              tear_down);
  g_test_add ("/question-queue/lets-uids-take-turns", Fixture, NULL, set_up, test_turns, tear_down);
  g_test_add ("/question-queue/lets-a-late-uid-in-at-its-turn", Fixture, NULL, set_up, test_late,
              tear_down);
  g_test_add ("/question-queue/forgets-who-leaves", Fixture, NULL, set_up, test_leaving, tear_down);
  return g_test_run ();
}
