/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonde-collector.h in C++17: marks as long as a scope, counters that are assigned to. */
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <sonde-collector.h>

/**
 * SECTION: sonde-collector.hpp
 *
 * Header-only; link with libsonde-collector. Nothing here throws, but for what callbacks do.
 *
 *     void draw ()
 *     {
 *       sonde::Mark mark ("ui", "draw");
 *       ...
 *       mark.describe ([&] { return std::to_string (n) + " shapes"; });
 *     }
 *
 *     static sonde::Counter<int64_t> shapes ("ui", "shapes", "Shapes on the screen");
 *     shapes = n;
 *
 * Where nobody listens a mark is a call and a load when it begins, and a comparison when it ends.
 */
namespace sonde
{

inline bool
is_wanted () noexcept
{
  return sonde_collector_is_wanted ();
}

/* From here to the end of the scope. Group and name are kept as pointers. */
class [[nodiscard]] Mark
{
public:
  Mark (const char *group, const char *name) noexcept : group_ (group), name_ (name)
  {
    if (sonde_collector_is_wanted ())
      start_ns_ = sonde_collector_now ();
  }

  Mark (Mark &&other) noexcept : group_ (other.group_),
                                 name_ (other.name_),
                                 message_ (std::move (other.message_)),
                                 start_ns_ (std::exchange (other.start_ns_, 0))
  {
  }

  Mark (const Mark &) = delete;
  Mark &operator= (const Mark &) = delete;
  Mark &operator= (Mark &&) = delete;

  ~Mark () { end (); }

  /* Whether somebody listened when it began: work for its message alone is not lost. */
  explicit operator bool () const noexcept { return start_ns_ != 0; }

  /* @make: called only if somebody listens; returns what a string can be assigned from */
  template <typename Make>
  void
  describe (Make &&make)
  {
    if (start_ns_ != 0)
      message_ = std::forward<Make> (make) ();
  }

  /* Before the scope does; once is enough. */
  void
  end () noexcept
  {
    const int64_t start_ns = std::exchange (start_ns_, 0);

    if (start_ns != 0)
      sonde_collector_mark (start_ns, sonde_collector_now () - start_ns, group_, name_,
                            message_.empty () ? nullptr : message_.c_str ());
  }

private:
  const char *group_;
  const char *name_;
  std::string message_;
  int64_t start_ns_ = 0; /* 0: nobody listens, or it has ended */
};

/* A number of int64_t or double; made once, as a static object. What finds no room for a definition
 * takes values and tells them to nobody. Threads: assignments are told in any order. */
template <typename T> class Counter
{
  static_assert (std::is_same_v<T, int64_t> || std::is_same_v<T, double>,
                 "counters are of int64_t or double");

public:
  Counter (const char *category, const char *name, const char *description) noexcept
      : id_ (sonde_collector_define_counter (std::is_same_v<T, double> ? SONDE_COLLECTOR_DOUBLE
                                                                       : SONDE_COLLECTOR_INT64,
                                             category,
                                             name,
                                             description))
  {
  }

  Counter (const Counter &) = delete;
  Counter &operator= (const Counter &) = delete;

  Counter &
  operator= (T value) noexcept
  {
    if (id_ > 0 && sonde_collector_is_wanted ())
      tell (value);
    return *this;
  }

  /* Below 0: there is no room for it, as sonde_collector_define_counter() says. */
  int
  id () const noexcept
  {
    return id_;
  }

private:
  void
  tell (T value) noexcept
  {
    if constexpr (std::is_same_v<T, double>)
      sonde_collector_set_double (id_, value);
    else
      sonde_collector_set_int64 (id_, value);
  }

  int id_;
};

inline void
log (unsigned severity, const char *domain, const std::string &message) noexcept
{
  sonde_collector_log (severity, domain, message.c_str ());
}

} // namespace sonde
