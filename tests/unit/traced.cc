/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program that does unusual things, built so that each of its functions calls hooks: for
 * test-tracer. Its first argument says what; it prints its functions, and what it counted. */
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT __attribute__ ((noinline))
#ifdef __clang__
#define HIDDEN __attribute__ ((no_instrument_function, xray_never_instrument))
#else
#define HIDDEN __attribute__ ((no_instrument_function, patchable_function_entry (0, 0)))
#endif

#define N 1000

static volatile unsigned work;

extern "C"
{

  KEPT void
  leaf (unsigned value)
  {
    work = work + value;
  }

  KEPT void
  leaf2 (unsigned value)
  {
    work = work ^ value;
  }

  KEPT void
  mid (unsigned value)
  {
    leaf (value);
    leaf2 (value);
    work = work + 1;
  }

  KEPT void
  calls ()
  {
    for (unsigned i = 0; i < N; i++)
      mid (i);
    work = work + 1;
  }

  /* --- out of six frames --- */

  static jmp_buf place;
  static bool is_thrown;

  KEPT void
  sink (unsigned depth)
  {
    if (depth > 1)
      sink (depth - 1);
    else if (is_thrown)
      throw depth;
    else
      longjmp (place, 1);
    work = work + 1;
  }

  KEPT void
  jump_once ()
  {
    if (setjmp (place) == 0)
      sink (6);
    leaf (1);
    work = work + 1;
  }

  KEPT void
  jumps ()
  {
    for (unsigned i = 0; i < N; i++)
      jump_once ();
    work = work + 1;
  }

  KEPT void
  throw_once ()
  {
    try
      {
        sink (6);
      }
    catch (unsigned)
      {
        leaf (1);
      }
    leaf2 (1);
    work = work + 1;
  }

  KEPT void
  throws ()
  {
    is_thrown = true;
    for (unsigned i = 0; i < N; i++)
      throw_once ();
    work = work + 1;
  }

  /* --- calls that are jumps --- */

  KEPT void
  tail_once (unsigned value)
  {
    work = work + value;
    leaf2 (value);
  }

  KEPT void
  tails ()
  {
    for (unsigned i = 0; i < N; i++)
      tail_once (i);
    work = work + 1;
  }

  /* --- arguments and results in other registers than the general ones --- */

  typedef double Wide __attribute__ ((vector_size (32)));

  KEPT double
  add (double a, double b, double c, double d, double e, double f, double g, double h)
  {
    work = work + 1;
    return a + b + c + d + e + f + g + h;
  }

  KEPT long double
  halve (long double value)
  {
    work = work + 1;
    return value / 2;
  }

  __attribute__ ((noinline, target ("avx2"))) Wide
  widen (Wide a, Wide b)
  {
    work = work + 1;
    return a + b;
  }

  HIDDEN __attribute__ ((noinline, target ("avx2"))) static bool
  widens_right ()
  {
    const Wide a = { 1, 2, 3, 4 };
    const Wide b = { 10, 20, 30, 40 };
    Wide c = widen (a, b);

    return c[0] == 11 && c[1] == 22 && c[2] == 33 && c[3] == 44;
  }

  /* The first hook of a thread does more than others. */
  HIDDEN static void *
  vector_thread (void *which)
  {
    bool is_right;

    switch ((unsigned) (uintptr_t) which % 3)
      {
      case 0:
        is_right = add (1, 2, 3, 4, 5, 6, 7, 8) == 36;
        break;
      case 1:
        is_right = halve (5.0L) == 2.5L;
        break;
      default:
        is_right = !__builtin_cpu_supports ("avx2") || widens_right ();
        break;
      }
    if (!is_right)
      abort ();
    for (unsigned i = 0; i < 99; i++)
      if (add (1, 2, 3, 4, 5, 6, 7, i) != 28 + i || halve (i) != i / 2.0L)
        abort ();
    return NULL;
  }

  KEPT void
  vectors ()
  {
    for (unsigned i = 0; i < 99; i++)
      {
        pthread_t id;

        pthread_create (&id, NULL, vector_thread, (void *) (uintptr_t) i);
        pthread_join (id, NULL);
      }
  }

  /* --- alloca --- */

  KEPT void
  allocate (unsigned size)
  {
    char *memory = (char *) alloca (size);

    memset (memory, 1, size);
    leaf ((unsigned) memory[size / 2]);
    work = work + 1;
  }

  KEPT void
  allocas ()
  {
    for (unsigned i = 1; i <= N; i++)
      allocate (i);
    work = work + 1;
  }

  /* --- signals --- */

  static volatile unsigned n_handled;

  KEPT void
  handle (int number)
  {
    n_handled = n_handled + 1;
    leaf (1);
    work = work + 1;
  }

  KEPT void
  raise_once ()
  {
    raise (SIGUSR1);
    leaf2 (1);
    work = work + 1;
  }

  KEPT void
  handlers ()
  {
    static char stack[65536];
    struct sigaction action = {};
    stack_t other = {};

    action.sa_handler = handle;
    sigaction (SIGUSR1, &action, NULL);
    for (unsigned i = 0; i < N; i++)
      raise_once ();
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack (&other, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction (SIGUSR1, &action, NULL);
    for (unsigned i = 0; i < N; i++)
      raise_once ();
  }

  /* As often as the kernel can; in the middle of hooks. */
  HIDDEN static void
  interrupt_often ()
  {
    struct sigaction action = {};
    struct itimerval often = { { 0, 20 }, { 0, 20 } };

    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction (SIGALRM, &action, NULL);
    setitimer (ITIMER_REAL, &often, NULL);
  }

  KEPT void
  interrupts ()
  {
    struct itimerval never = {};

    interrupt_often ();
    for (unsigned i = 0; i < 300 * N; i++)
      mid (i);
    setitimer (ITIMER_REAL, &never, NULL);
    work = work + 1;
  }

  /* --- coroutines --- */

  static ucontext_t context, coroutines[2];

  KEPT void
  give_way (unsigned which)
  {
    swapcontext (&coroutines[which], &context);
    work = work + 1;
  }

  KEPT void
  coroutine (unsigned which)
  {
    for (;;)
      {
        leaf (which);
        give_way (which);
      }
  }

  KEPT void
  resume (unsigned which)
  {
    swapcontext (&context, &coroutines[which]);
    work = work + 1;
  }

  KEPT void
  contexts ()
  {
    for (unsigned i = 0; i < 2; i++)
      {
        getcontext (&coroutines[i]);
        coroutines[i].uc_stack.ss_size = 65536;
        coroutines[i].uc_stack.ss_sp = malloc (65536);
        coroutines[i].uc_link = NULL;
        makecontext (&coroutines[i], (void (*) ()) coroutine, 1, i);
      }
    for (unsigned i = 0; i < N; i++)
      resume (i % 2);
    work = work + 1;
  }

  /* --- processes and threads --- */

  KEPT void
  forks ()
  {
    leaf (1);
    for (unsigned i = 0; i < 20; i++)
      {
        pid_t child = fork ();

        if (child == 0)
          {
            leaf2 (1);
            mid (1);
            if (i % 2 == 0)
              execl ("/proc/self/exe", "traced", "calls", (char *) NULL);
            _exit (0);
          }
        waitpid (child, NULL, 0);
      }
    leaf (1);
    work = work + 1;
  }

  /* As sandboxes do it: nobody tells libc of the child, which changes what it may do. */
  KEPT void
  clones ()
  {
    int status = 1;

    leaf (1);
    pid_t child = (pid_t) syscall (SYS_clone, SIGCHLD, 0, 0, 0, 0);

    if (child == 0)
      {
        alarm (20);
        prctl (PR_SET_KEEPCAPS, 0, 0, 0, 0);
        _exit (0);
      }
    if (waitpid (child, &status, 0) != child || status != 0)
      abort ();
    prctl (PR_SET_KEEPCAPS, 0, 0, 0, 0);
    leaf (1);
    work = work + 1;
  }

  /* What it returns from comes before another call. */
  KEPT void
  vfork_once ()
  {
    pid_t child = vfork ();

    if (child == 0)
      _exit (0);
    waitpid (child, NULL, 0);
    work = work + 1;
  }

  /* Children run on their parent's stack, and in its memory. */
  KEPT void
  vforks ()
  {
    leaf (1);
    for (unsigned i = 0; i < 20; i++)
      {
        pid_t child = vfork ();

        if (child == 0)
          {
            leaf2 (1);
            mid (1);
            if (i % 2 == 0)
              execl ("/proc/self/exe", "traced", "calls", (char *) NULL);
            _exit (0);
          }
        waitpid (child, NULL, 0);
        /* Before the parent has called anything. */
        if (i == 7)
          {
            child = fork ();
            if (child == 0)
              {
                mid (1);
                _exit (0);
              }
            waitpid (child, NULL, 0);
          }
        leaf (1);
        vfork_once ();
      }
    work = work + 1;
  }

  KEPT void *
  thread (void *data)
  {
    mid (1);
    pthread_exit (NULL);
  }

  /* pthread_exit() would load a library. */
  KEPT void *
  thread_that_returns (void *data)
  {
    mid (1);
    return NULL;
  }

  KEPT void
  threads ()
  {
    for (unsigned i = 0; i < 25; i++)
      {
        pthread_t ids[4];

        for (unsigned j = 0; j < 4; j++)
          pthread_create (&ids[j], NULL, thread, NULL);
        for (unsigned j = 0; j < 4; j++)
          pthread_join (ids[j], NULL);
      }
  }

  KEPT void
  many_threads ()
  {
    for (unsigned i = 0; i < 10 * N; i++)
      {
        pthread_t id;

        pthread_create (&id, NULL, thread, NULL);
        pthread_join (id, NULL);
      }
  }

  static volatile bool is_stopped;

  KEPT void *
  busy_thread (void *data)
  {
    while (!is_stopped)
      mid (1);
    return NULL;
  }

  /* Until its standard input is at its end. */
  KEPT void
  switches ()
  {
    pthread_t ids[3];
    char byte;

    for (unsigned i = 0; i < 3; i++)
      pthread_create (&ids[i], NULL, busy_thread, NULL);
    interrupt_often ();
    while (read (STDIN_FILENO, &byte, 1) > 0)
      ;
    is_stopped = true;
    for (unsigned i = 0; i < 3; i++)
      pthread_join (ids[i], NULL);
  }

  /* Libraries that come and go, where others were, until standard input is at its end. */
  KEPT void
  reloads ()
  {
    const char *const names[] = { getenv ("TRACED_MODULE"), getenv ("TRACED_MODULE_2") };
    pthread_t id;
    char byte;

    fcntl (STDIN_FILENO, F_SETFL, O_NONBLOCK);
    pthread_create (&id, NULL, busy_thread, NULL);
    for (unsigned i = 0; read (STDIN_FILENO, &byte, 1) != 0; i++)
      {
        void *module = dlopen (names[i % 2], RTLD_NOW);
        void (*function) (unsigned) = (void (*) (unsigned)) dlsym (module, "module_leaf");

        for (unsigned j = 0; j < 10 * N; j++)
          function (j);
        dlclose (module);
      }
    is_stopped = true;
    pthread_join (id, NULL);
  }

  /* A library that comes while the program runs: TRACED_MODULE is its path. Its function is waited
   * for. */
  KEPT void
  loads ()
  {
    void *module = dlopen (getenv ("TRACED_MODULE"), RTLD_NOW);
    void (*function) (unsigned) = (void (*) (unsigned)) dlsym (module, "module_leaf");
    const volatile unsigned char *code = (const unsigned char *) (uintptr_t) function;

    for (unsigned i = 0; i < 1000 && code[1] != 0; i++)
      usleep (10000);
    for (unsigned i = 0; i < N; i++)
      function (i);
    printf ("module_leaf %lx\n", (unsigned long) (uintptr_t) function);
    dlclose (module);
  }

  KEPT void
  no_descriptors ()
  {
    pthread_t id;

    for (int fd = 3; fd < 1024; fd++)
      close (fd);
    pthread_create (&id, NULL, thread, NULL);
    pthread_join (id, NULL);
  }

  /* Strict mode: four system calls are left, and another one is the end. */
  KEPT void
  confined ()
  {
    mid (1);
    fflush (stdout);
    if (prctl (PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) < 0)
      return;
    for (unsigned i = 0; i < N; i++)
      mid (i);
    syscall (SYS_exit, 0);
  }

  /* A filter that ends who opens a file; a thread's first call would. */
  KEPT void
  filtered ()
  {
    static const struct sock_filter rules[] = {
      { BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof (struct seccomp_data, nr) },
      { BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat },
      { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS },
      { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
    };
    const struct sock_fprog program
        = { sizeof rules / sizeof *rules, (struct sock_filter *) rules };
    pthread_t id;

    mid (1);
    if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
        || syscall (SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
      return;
    mid (1);
    pthread_create (&id, NULL, thread_that_returns, NULL);
    pthread_join (id, NULL);
  }

  HIDDEN static void
  say (const char *name, void *function)
  {
    printf ("%s %lx\n", name, (unsigned long) (uintptr_t) function);
  }

  int
  main (int argc, char *argv[])
  {
#define ROW(name)                                                                                  \
  {                                                                                                \
#name, (void *) name                                                                           \
  }
    static const struct
    {
      const char *name;
      void *function;
    } rows[] = {
      ROW (calls),          ROW (jumps),      ROW (throws),      ROW (tails),
      ROW (vectors),        ROW (switches),   ROW (loads),       ROW (reloads),
      ROW (allocas),        ROW (handlers),   ROW (interrupts),  ROW (contexts),
      ROW (forks),          ROW (vforks),     ROW (vfork_once),  ROW (threads),
      ROW (many_threads),   ROW (confined),   ROW (filtered),    ROW (thread_that_returns),
      ROW (no_descriptors), ROW (leaf),       ROW (leaf2),       ROW (mid),
      ROW (sink),           ROW (jump_once),  ROW (throw_once),  ROW (allocate),
      ROW (handle),         ROW (raise_once), ROW (give_way),    ROW (coroutine),
      ROW (resume),         ROW (thread),     ROW (tail_once),   ROW (add),
      ROW (halve),          ROW (widen),      ROW (busy_thread), ROW (clones),
    };
    setvbuf (stdout, NULL, _IOFBF, 65536);

    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
      say (rows[i].name, rows[i].function);
    say ("main", (void *) (uintptr_t) main);
    fflush (stdout);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows && argc > 1; i++)
      if (strcmp (rows[i].name, argv[1]) == 0)
        ((void (*) ()) rows[i].function) ();
    printf ("handled %u\n", n_handled);
    fflush (stdout);
    return 0;
  }
}
