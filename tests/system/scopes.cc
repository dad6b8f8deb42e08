/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells by sonde-collector.hpp what test-wrappers.py expects: scopes N marks, and N values. */
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sonde-collector.hpp>
#include <stdexcept>
#include <string>

static sonde::Counter<int64_t> pieces ("scopes", "pieces", "Pieces so far");
static sonde::Counter<double> share ("scopes", "share", "Share of all pieces");

static sonde::Mark
begin (const char *name)
{
  sonde::Mark mark ("scopes", name);

  mark.describe ([name] { return std::string ("made in begin: ") + name; });
  return mark;
}

/* A mark ends when its scope is left, in whatever way. */
static void
leave (int i)
{
  const sonde::Mark mark ("scopes", "left");

  if (i % 2 == 0)
    throw std::runtime_error ("even");
}

int
main (int argc, char **argv)
{
  const int n = argc > 1 ? std::atoi (argv[1]) : 10;
  int n_made = 0;

  for (int i = 0; i < n; i++)
    {
      sonde::Mark mark ("scopes", "piece");
      std::optional<sonde::Mark> moved (begin ("moved"));

      mark.describe (
          [&n_made, i]
          {
            n_made++;
            return "number " + std::to_string (i);
          });
      pieces = i + 1;
      share = (i + 1.0) / n;
      moved->end ();
      moved->end (); /* does nothing */
      try
        {
          leave (i);
        }
      catch (const std::runtime_error &)
        {
          sonde::log (32, "scopes", "left by an exception");
        }
    }
  std::printf ("%d messages\n", n_made);
  return n_made == (sonde::is_wanted () ? n : 0) ? 0 : 1;
}
