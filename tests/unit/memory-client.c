/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program with one kind of trouble for libsonde-memory: memory-client CASE [ARGUMENT…]. It exits
 * with 0 if all was as without it, and prints what the test has to know. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define N_THREADS 4
#define N_BLOCKS  2000

#define CHECK(condition)                                                                           \
  do                                                                                               \
    {                                                                                              \
      if (!(condition))                                                                            \
        {                                                                                          \
          fprintf (stderr, "line %d: %s\n", __LINE__, #condition);                                 \
          _exit (1);                                                                               \
        }                                                                                          \
    }                                                                                              \
  while (0)

/* What the compiler may not leave out. */
static void *
keep (void *block)
{
  __asm__ volatile("" : "+r"(block) : : "memory");
  return block;
}

/* One event of each kind with a size that no other has. */
static int
call_all (char **arguments)
{
  void *block;

  errno = 4711;
  free (keep (malloc (100001)));
  free (keep (calloc (10, 10001)));
  block = keep (malloc (100002));
  block = keep (realloc (block, 300003));
  free (keep (reallocarray (block, 5, 80001)));
  CHECK (posix_memalign (&block, 64, 100004) == 0 && (uintptr_t) keep (block) % 64 == 0);
  free (block);
  block = keep (aligned_alloc (256, 100096));
  CHECK ((uintptr_t) block % 256 == 0 && malloc_usable_size (block) >= 100096);
  free (block);
  free (keep (memalign (512, 100006)));
  free (keep (valloc (100007)));
  free (keep (pvalloc (100008)));
  free (keep (malloc (0)));
  free (keep (strdup ("twelve bytes")));
  CHECK (errno == 4711);
  return 0;
}

/* What fails leaves things as they were, and says so. */
static int
fail (char **arguments)
{
  void *volatile block = keep (malloc (100011));
  void *other;
  /* A 32-bit program has room for half of what its addresses reach. */
  volatile size_t most = sizeof (void *) == 4 ? SIZE_MAX / 4 * 3 : PTRDIFF_MAX;

  errno = 0;
  CHECK (keep (malloc (most)) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK (keep (calloc (most, 16)) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK (keep (realloc (block, most)) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK (keep (reallocarray (block, most, 16)) == NULL && errno == ENOMEM);
  CHECK (posix_memalign (&other, 3, 8) == EINVAL);
  free (block);
  return 0;
}

extern void *__libc_malloc (size_t size_bytes);

/* As in a program whose own malloc() calls libc's, beside libc's free() and realloc(). */
static int
use_foreign (char **arguments)
{
  void *block = keep (__libc_malloc (100021));
  uintptr_t place = (uintptr_t) block;

  free (block);
  block = keep (__libc_malloc (100021));
  CHECK ((uintptr_t) block == place); /* it was given back */
  block = keep (realloc (block, 300021));
  CHECK (block != NULL);
  free (block);
  return 0;
}

/* Grown before anything was freed. */
static int
grow_foreign (char **arguments)
{
  void *block = keep (realloc (keep (__libc_malloc (100021)), 300021));

  CHECK (block != NULL);
  free (block);
  return 0;
}

static void *
fill_and_free (void *argument)
{
  void **blocks = argument;

  for (unsigned i = 0; i < N_BLOCKS; i++)
    {
      free (blocks[i]);
      blocks[i] = keep (malloc (1000 + i));
    }
  return NULL;
}

/* Each thread frees what another one allocated. */
static int
start_threads (char **arguments)
{
  static void *blocks[N_THREADS][N_BLOCKS];

  for (unsigned round = 0; round < 3; round++)
    {
      pthread_t threads[N_THREADS];

      for (unsigned i = 0; i < N_THREADS; i++)
        CHECK (pthread_create (&threads[i], NULL, fill_and_free, blocks[(i + round) % N_THREADS])
               == 0);
      for (unsigned i = 0; i < N_THREADS; i++)
        CHECK (pthread_join (threads[i], NULL) == 0);
    }
  for (unsigned i = 0; i < N_THREADS * N_BLOCKS; i++)
    free (blocks[i / N_BLOCKS][i % N_BLOCKS]);
  return 0;
}

static void
prepare_fork (void)
{
  free (keep (malloc (50)));
}

static void *
fork_first (void *data)
{
  pid_t child = fork ();
  int status;

  if (child == 0)
    {
      free (keep (malloc (200001)));
      _exit (0);
    }
  CHECK (child > 0 && waitpid (child, &status, 0) == child && status == 0);
  return NULL;
}

/* What a child does first is to free. */
static int
free_in_a_child (char **arguments)
{
  void *block = keep (malloc (200004));
  pid_t child = fork ();
  int status;

  if (child == 0)
    {
      free (block);
      _exit (0);
    }
  CHECK (child > 0 && waitpid (child, &status, 0) == child && status == 0);
  free (block);
  return 0;
}

/* Children have heaps of their own; handlers of fork() allocate, in a thread that has not so far.
 */
static int
start_children (char **arguments)
{
  pthread_t thread;
  pid_t child;
  int status;

  CHECK (pthread_atfork (prepare_fork, prepare_fork, prepare_fork) == 0);
  for (unsigned i = 0; i < 3; i++)
    fork_first (NULL);
  CHECK (pthread_create (&thread, NULL, fork_first, NULL) == 0 && pthread_join (thread, NULL) == 0);
  child = vfork ();
  if (child == 0)
    {
      execl (arguments[0], arguments[0], "exec", NULL);
      _exit (1);
    }
  CHECK (child > 0 && waitpid (child, &status, 0) == child && status == 0);
  return 0;
}

static int
be_executed (char **arguments)
{
  free (keep (malloc (200002)));
  return 0;
}

static volatile sig_atomic_t n_signals;

static void
take_signal (int number)
{
  free (keep (malloc (300001)));
  n_signals++;
}

/* Handlers that allocate, on a stack of their own. Without us that would not be safe, but for what
 * is asked of the kernel: so only blocks that malloc() maps. */
static int
take_signals (char **arguments)
{
  const struct sigaction action = { .sa_handler = take_signal, .sa_flags = SA_ONSTACK };
  const struct itimerval often = { .it_value = { 0, 200 }, .it_interval = { 0, 200 } };
  const struct itimerval never = { .it_value = { 0, 0 } };
  stack_t stack = { .ss_size = 64 * 1024 };

  stack.ss_sp
      = mmap (NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK (stack.ss_sp != MAP_FAILED && sigaltstack (&stack, NULL) == 0);
  CHECK (sigaction (SIGVTALRM, &action, NULL) == 0);
  CHECK (setitimer (ITIMER_VIRTUAL, &often, NULL) == 0);
  while (n_signals < 20)
    free (keep (malloc (64)));
  CHECK (setitimer (ITIMER_VIRTUAL, &never, NULL) == 0);
  return 0;
}

static ucontext_t main_context, other_context;

static void
run_coroutine (void)
{
  for (unsigned i = 0; i < 100; i++)
    {
      free (keep (malloc (400001)));
      swapcontext (&other_context, &main_context);
    }
}

/* Stacks that come and go, between guard pages, as small as can be. */
static int
switch_stacks (char **arguments)
{
  const size_t page = (size_t) getpagesize ();
  const size_t size = 4 * page;
  char *stack;

  for (unsigned round = 0; round < 20; round++)
    {
      stack = mmap (NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK (stack != MAP_FAILED && mprotect (stack + page, size, PROT_READ | PROT_WRITE) == 0);
      CHECK (getcontext (&other_context) == 0);
      other_context.uc_stack.ss_sp = stack + page;
      other_context.uc_stack.ss_size = size;
      makecontext (&other_context, run_coroutine, 0);
      for (unsigned i = 0; i < 50; i++)
        {
          swapcontext (&main_context, &other_context);
          free (keep (malloc (400002)));
        }
      CHECK (munmap (stack, size + 2 * page) == 0);
    }
  return 0;
}

/* Modules that come and go, at the same address, with frames of different sizes; all of them want
 * static TLS, of which there is not much. */
static int
load_modules (char **arguments)
{
  unsigned n_failed = 0;

  for (unsigned round = 0; round < 10; round++)
    for (unsigned i = 2; arguments[i] != NULL; i++)
      {
        void *module = dlopen (arguments[i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = module != NULL ? dlsym (module, "allocate") : NULL;
        void (*allocate) (void);

        n_failed += symbol == NULL;
        if (symbol == NULL)
          continue;
        memcpy (&allocate, &symbol, sizeof symbol);
        allocate ();
        if (round < 9)
          CHECK (dlclose (module) == 0);
      }
  printf ("%u", n_failed);
  return 0;
}

static pthread_key_t key;

static void
free_late (void *data)
{
  free (data);
}

static void *
leave_to_destructor (void *data)
{
  CHECK (pthread_setspecific (key, keep (malloc (500001))) == 0);
  return NULL;
}

/* Blocks that only the end of a thread frees. */
static int
end_threads (char **arguments)
{
  pthread_t thread;

  free (keep (malloc (1))); /* so that the key of ours is before theirs */
  CHECK (pthread_key_create (&key, free_late) == 0);
  for (unsigned i = 0; i < 10; i++)
    CHECK (pthread_create (&thread, NULL, leave_to_destructor, NULL) == 0
           && pthread_join (thread, NULL) == 0);
  return 0;
}

/* Descriptors that a daemon does not know are closed, and their numbers used again. */
static int
close_all (char **arguments)
{
  int fds[64];

  free (keep (malloc (600001)));
  for (int fd = 3; fd < 1024; fd++)
    close (fd);
  for (unsigned i = 0; i < 64; i++)
    fds[i] = memfd_create ("mine", 0);
  for (unsigned i = 0; i < 10000; i++)
    free (keep (malloc (600002)));
  fork_first (NULL);
  for (unsigned i = 0; i < 64; i++)
    CHECK (lseek (fds[i], 0, SEEK_END) == 0);
  return 0;
}

/* As many events as @arguments say, by its own count. */
static int
make_events (char **arguments)
{
  unsigned long n = strtoul (arguments[2], NULL, 10);

  for (unsigned long i = 0; i < n; i++)
    free (keep (malloc (64)));
  return 0;
}

/* Until the other end of its standard input is closed. */
static int
make_events_until_told (char **arguments)
{
  struct pollfd end = { STDIN_FILENO, POLLIN, 0 };

  while (poll (&end, 1, 0) == 0)
    free (keep (malloc (64)));
  return 0;
}

/* Mappings of all kinds, of which two are memory. */
static int
map_memory (char **arguments)
{
  const size_t page = (size_t) getpagesize ();
  const int both = PROT_READ | PROT_WRITE;
  char *area = mmap (NULL, 11 * page, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *file = mmap (NULL, 13 * page, PROT_READ, MAP_PRIVATE, memfd_create ("file", 0), 0);
  char *reserved = mmap (NULL, 17 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  CHECK (area != MAP_FAILED && file != MAP_FAILED && reserved != MAP_FAILED);
  area = mremap (area, 11 * page, 23 * page, MREMAP_MAYMOVE);
  CHECK (area != MAP_FAILED && munmap (area, 23 * page) == 0);
  file = mremap (file, 13 * page, 29 * page, MREMAP_MAYMOVE);
  CHECK (file != MAP_FAILED && munmap (file, 29 * page) == 0);
  errno = 0;
  CHECK (munmap (reserved + 1, page) < 0 && errno == EINVAL);
  CHECK (mmap (NULL, 0, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
  return munmap (reserved, 17 * page);
}

static const struct
{
  const char *name;
  int (*run) (char **arguments);
} cases[] = {
  { "all", call_all },
  { "fail", fail },
  { "foreign", use_foreign },
  { "foreign-grown", grow_foreign },
  { "threads", start_threads },
  { "children", start_children },
  { "free-in-child", free_in_a_child },
  { "exec", be_executed },
  { "signals", take_signals },
  { "stacks", switch_stacks },
  { "modules", load_modules },
  { "thread-ends", end_threads },
  { "close", close_all },
  { "map", map_memory },
  { "until-told", make_events_until_told },
  { "events", make_events },
};

int
main (int argc, char **argv)
{
  for (unsigned i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
    if (strcmp (argv[1], cases[i].name) == 0)
      return cases[i].run (argv);
  fprintf (stderr, "no such case\n");
  return 2;
}
