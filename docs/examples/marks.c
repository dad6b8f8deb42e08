/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Marks and a counter of a GLib program in its profile: marks [N] tells of N pieces of work. */
#include <glib.h>
#include <sonde-collector.h>

/* From its declaration to the end of the block. */
typedef struct
{
  gint64 start_ns; /* 0: nobody listens */
  const char *group;
  const char *name;
  char *message; /* (nullable) (owned) */
} AppMark;

static inline AppMark
app_mark_begin (const char *group, const char *name)
{
  return (AppMark){ .start_ns = sonde_collector_is_wanted () ? sonde_collector_now () : 0,
                    .group = group,
                    .name = name };
}

static inline void
app_mark_end (AppMark *self)
{
  if (self->start_ns != 0)
    sonde_collector_mark (self->start_ns, sonde_collector_now () - self->start_ns, self->group,
                          self->name, self->message);
  g_free (self->message);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AppMark, app_mark_end)

static guint
work (guint i)
{
  g_auto (AppMark) mark = app_mark_begin ("app", "work");
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint n = 0; n < 1000; n++)
    g_string_append_printf (text, "%u ", n * i);
  /* Not made where nobody reads it. */
  if (mark.start_ns != 0)
    mark.message = g_strdup_printf ("piece %u", i);
  return (guint) text->len;
}

int
main (int argc, char **argv)
{
  guint64 n = 10;
  int length = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "app", "length",
                                               "Bytes of the last text");

  if (argc > 1 && !g_ascii_string_to_unsigned (argv[1], 10, 1, 1000000, &n, NULL))
    {
      g_printerr ("marks: %s is no number of pieces\n", argv[1]);
      return 1;
    }
  for (guint i = 0; i < n; i++)
    sonde_collector_set_int64 (length, work (i));
  return 0;
}
