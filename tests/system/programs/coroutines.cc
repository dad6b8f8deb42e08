/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One that is resumed again and again: coroutines SECONDS */
#include <coroutine>
#include <cstdlib>
#include <ctime>
#include <exception>

static volatile unsigned long sum;

struct Task
{
  struct promise_type
  {
    Task get_return_object () { return { std::coroutine_handle<promise_type>::from_promise (*this) }; }
    std::suspend_always initial_suspend () noexcept { return {}; }
    std::suspend_always final_suspend () noexcept { return {}; }
    void return_void () {}
    void unhandled_exception () { std::terminate (); }
  };
  std::coroutine_handle<promise_type> handle;
};

[[gnu::noinline]] static void
leaf (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sum += i;
}

static Task
middle ()
{
  for (;;)
    {
      leaf (100000);
      co_await std::suspend_always {};
    }
}

[[gnu::noinline]] static void
outer (double seconds)
{
  Task task = middle ();

  while (clock () < seconds * CLOCKS_PER_SEC)
    task.handle.resume ();
  task.handle.destroy ();
}

int
main (int argc, char **argv)
{
  outer (atof (argv[1]));
  return 0;
}
