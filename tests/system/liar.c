/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A library that looks like one of CPython 3.11, PHP 8.2 or Ruby 3.1 (KIND), and whose list of
 * frames is anything at any time: circles, itself, lengths of 2^64, addresses of the kernel, and
 * often enough what it should be. Its lie() runs for so many milliseconds. */
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PYTHON     1
#define PHP        2
#define RUBY       3

#define N_SLOTS    128
#define SLOT_WORDS 32
#define N_WORDS    (N_SLOTS * SLOT_WORDS)
#define N_WRITES   2000 /* of a call */
#define MAX_DEEP   4
#define LIE_IN     16 /* one of so many words is anything */

#define EXPORTED   __attribute__ ((visibility ("default")))

/* What a slot has; and of a word that it has the address of one, or else what it has. */
enum
{
  FRAME,
  CODE,
  BODY, /* what else belongs to code */
  TEXT,
  N_KINDS,
  NUMBER, /* or a small one above it */
  ANYTHING,
};

typedef struct
{
  unsigned slot; /* the kind of it */
  unsigned offset;
  unsigned content;
  uint64_t number;
} Field;

/* Everything that the interpreter has. The first slot is the state of a thread, the others are of
 * each kind in turn. */
static _Atomic uint64_t words[N_WORDS];

/* What a word may be beside an address. */
static const uint64_t strange[] = {
  0,
  1,
  8,
  255,
  4096,
  0x7fffffff,
  0x80000000,
  0xffffffff,
  0x7fffffffffffffff,
  0x8000000000000000,
  0xffffffffffffffff,
  0xffffffff81000000, /* of the kernel */
  0x00007ffffffff000, /* behind the last of a program */
  0xdead000000000000, /* of nobody */
};

#define N_STRANGE (sizeof strange / sizeof strange[0])

EXPORTED void lie (unsigned ms);

static uint64_t
next_random (uint64_t *random)
{
  *random ^= *random << 13;
  *random ^= *random >> 7;
  *random ^= *random << 17;
  return *random;
}

static uint64_t
address_of (uint64_t *random, unsigned kind)
{
  uint64_t slot = 1 + next_random (random) % ((N_SLOTS - 1) / N_KINDS) * N_KINDS + kind;

  return (uint64_t) (uintptr_t) &words[slot * SLOT_WORDS];
}

#if KIND == PYTHON

#define KEY_AT 592

EXPORTED extern uint64_t _PyRuntime[256], PyCode_Type[51], PyUnicode_Type[51];
EXPORTED extern const uint32_t Py_Version;
EXPORTED void *PyGILState_GetThisThreadState (void);
EXPORTED uint64_t _PyEval_EvalFrameDefault (uint64_t *random, unsigned depth);

alignas (64) uint64_t _PyRuntime[256];
uint64_t PyCode_Type[51];
uint64_t PyUnicode_Type[51];
const uint32_t Py_Version = 0x030b02f0;

#define evaluate _PyEval_EvalFrameDefault

static Field fields[] = {
  { FRAME, 32, CODE, 0 },
  { FRAME, 48, FRAME, 0 },
  { FRAME, 56, CODE, 0 }, /* where in it */
  { FRAME, 64, NUMBER, 1ull << 32 },
  { CODE, 8, NUMBER, 0 }, /* the types: of which no constant has the address */
  { CODE, 72, NUMBER, 7 },
  { CODE, 112, TEXT, 0 },
  { CODE, 128, TEXT, 0 },
  { CODE, 136, BODY, 0 },
  { BODY, 16, NUMBER, 40 },
  { BODY, 32, ANYTHING, 0 },
  { BODY, 40, ANYTHING, 0 },
  { TEXT, 8, NUMBER, 0 },
  { TEXT, 16, NUMBER, 12 },
  { TEXT, 24, ANYTHING, 0 },
  { TEXT, 32, NUMBER, 0x64 }, /* compact, of ASCII */
  { TEXT, 48, ANYTHING, 0 },
  { TEXT, 56, ANYTHING, 0 },
};

__attribute__ ((noinline)) void *
PyGILState_GetThisThreadState (void)
{
  return (uint8_t *) _PyRuntime + KEY_AT;
}

static void
set_up (void)
{
  uint32_t key[2] = { 1 };
  pthread_key_t made;

  fields[4].number = (uint64_t) (uintptr_t) PyCode_Type;
  fields[12].number = (uint64_t) (uintptr_t) PyUnicode_Type;
  if (pthread_key_create (&made, NULL) != 0
      || pthread_setspecific (made, (const void *) words) != 0)
    abort ();
  key[1] = made;
  memcpy (PyGILState_GetThisThreadState (), key, sizeof key);
}

static void
set_list (uint64_t *random)
{
  atomic_store (&words[56 / 8], (uint64_t) (uintptr_t) &words[8]);
  atomic_store (&words[9], address_of (random, FRAME));
}

#elif KIND == PHP

#define GLOBALS_BYTES 1800
#define LIST_AT       488

EXPORTED extern uint8_t executor_globals[GLOBALS_BYTES];
EXPORTED extern const char build_of_php[];
EXPORTED uint64_t execute_ex (uint64_t *random, unsigned depth);

alignas (64) uint8_t executor_globals[GLOBALS_BYTES];
const char build_of_php[] = "API20220829,NTS";

#define evaluate      execute_ex

static const Field fields[] = {
  { FRAME, 0, BODY, 0 },
  { FRAME, 24, CODE, 0 },
  { FRAME, 40, NUMBER, 1 << 17 }, /* ZEND_CALL_TOP */
  { FRAME, 48, FRAME, 0 },
  { CODE, 0, NUMBER, 2 }, /* of the program */
  { CODE, 8, TEXT, 0 },
  { CODE, 16, BODY, 0 },
  { CODE, 80, NUMBER, 10 },
  { CODE, 88, BODY, 0 },
  { CODE, 152, TEXT, 0 },
  { CODE, 160, NUMBER, 7 },
  { BODY, 8, TEXT, 0 },
  { BODY, 24, NUMBER, 9 },
  { TEXT, 0, NUMBER, 6ull << 32 },
  { TEXT, 8, ANYTHING, 0 },
  { TEXT, 16, NUMBER, 12 },
  { TEXT, 24, ANYTHING, 0 },
  { TEXT, 32, ANYTHING, 0 },
};

static void
set_up (void)
{
}

static void
set_list (uint64_t *random)
{
  uint64_t address = address_of (random, FRAME);

  memcpy (executor_globals + LIST_AT, &address, sizeof address);
}

#else

EXPORTED extern const uint32_t ruby_api_version[3];
EXPORTED extern __thread void *ruby_current_ec;
EXPORTED void *rb_errinfo (void);
EXPORTED uint64_t rb_vm_exec (uint64_t *random, unsigned depth);
static uint64_t evaluate (uint64_t *random, unsigned depth);

const uint32_t ruby_api_version[3] = { 3, 1, 0 };
__thread void *ruby_current_ec;

/* Callers lie behind their callees, 64 bytes each. */
static const Field fields[] = {
  { FRAME, 0, BODY, 0 },
  { FRAME, 16, CODE, 0 },
  { FRAME, 32, BODY, 0 },
  { FRAME, 64, BODY, 0 },
  { FRAME, 80, CODE, 0 },
  { FRAME, 96, BODY, 0 },
  { CODE, 0, NUMBER, 0x701a },
  { CODE, 16, BODY, 0 },
  { BODY, 0, NUMBER, 0x11110021 }, /* flags of a method */
  { BODY, 8, BODY, 0 },
  { BODY, 64, TEXT, 0 },
  { BODY, 80, TEXT, 0 },
  { BODY, 88, NUMBER, 15 },
  { BODY, 120, BODY, 0 },
  { BODY, 136, NUMBER, 4 },
  { BODY, 144, BODY, 0 },
  { TEXT, 0, NUMBER, 0x5 | 12 << 14 }, /* a string of twelve bytes */
  { TEXT, 16, ANYTHING, 0 },
  { TEXT, 24, ANYTHING, 0 },
};

__attribute__ ((noinline)) void *
rb_errinfo (void)
{
  return ruby_current_ec;
}

__attribute__ ((noinline)) uint64_t
rb_vm_exec (uint64_t *random, unsigned depth)
{
  return evaluate (random, depth) + 1;
}

static void
set_up (void)
{
  ruby_current_ec = (void *) words;
}

/* The stack, how many words it has, and where in it the newest frame is. */
static void
set_list (uint64_t *random)
{
  atomic_store (&words[0], (uint64_t) (uintptr_t) words);
  atomic_store (&words[1], N_WORDS);
  atomic_store (&words[2], address_of (random, FRAME));
}

#endif

#define N_FIELDS (sizeof fields / sizeof fields[0])

static uint64_t
any_word (uint64_t *random)
{
  switch (next_random (random) % 4)
    {
    case 0:
      return address_of (random, (unsigned) (next_random (random) % N_KINDS));
    case 1:
      return address_of (random, 0) + next_random (random) % 256;
    case 2:
      return next_random (random);
    default:
      return strange[next_random (random) % N_STRANGE];
    }
}

static void
write_field (uint64_t *random)
{
  const Field *field = &fields[next_random (random) % N_FIELDS];
  uint64_t at = address_of (random, field->slot) + field->offset;
  uint64_t word;

  if (field->content == ANYTHING || next_random (random) % LIE_IN == 0)
    word = any_word (random);
  else if (field->content == NUMBER)
    word = field->number;
  else
    word = address_of (random, field->content);
  atomic_store_explicit ((_Atomic uint64_t *) (uintptr_t) at, word, memory_order_relaxed);
}

/* What an interpreter has one native frame of for each function, or for some. That of Ruby is found
 * by its size. */
#if KIND == RUBY
__attribute__ ((noinline)) static uint64_t
#else
__attribute__ ((noinline)) uint64_t
#endif
evaluate (uint64_t *random, unsigned depth)
{
#if KIND == RUBY
  __asm__ volatile(".rept 9000\n\tnop\n\t.endr");
  if (depth > 0)
    return rb_vm_exec (random, depth - 1) + 1;
#else
  if (depth > 0)
    return evaluate (random, depth - 1) + 1;
#endif
  for (unsigned i = 0; i < N_WRITES; i++)
    write_field (random);
  set_list (random);
  return 0;
}

static atomic_bool has_ended;

/* A thread that has no list. */
static void *
lie_beside (void *unused)
{
  uint64_t random = 0x9E3779B97F4A7C15;

  while (!atomic_load (&has_ended))
    evaluate (&random, 1);
  return NULL;
}

static uint64_t
now_ms (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

void
lie (unsigned ms)
{
  uint64_t random = 88172645463325252;
  uint64_t end_ms = now_ms () + ms;
  pthread_t beside;

  set_up ();
  if (pthread_create (&beside, NULL, lie_beside, NULL) != 0)
    abort ();
  while (now_ms () < end_ms)
    evaluate (&random, (unsigned) (next_random (&random) % MAX_DEEP));
  atomic_store (&has_ended, true);
  pthread_join (beside, NULL);
}
