/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rules: kept by the cache, applied in two ways. */
#include <glib.h>

#include "unwind/plain-frame.h"
#include "unwind/rule-cache.h"

#define STACK_ADDRESS UINT64_C (0x7ffd00001000)
#define N_WORDS       32

enum
{
  RBX = 3,
  RBP = 6,
  RSP = 7,
  SAVED_RBP = 1 << 0, /* SondeArchRegisters' order */
};

typedef struct
{
  uint64_t words[N_WORDS];
  SondeStackCopy stack;
  SondeFrameState frame;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  for (size_t i = 0; i < N_WORDS; i++)
    f->words[i] = 0x400000 + i;
  f->stack = (SondeStackCopy){
    .bytes = (const uint8_t *) f->words,
    .address = STACK_ADDRESS,
    .size_bytes = sizeof f->words,
  };
  f->frame = (SondeFrameState){ .pc = 0x401000, .exact_pc = true };
  sonde_cfi_registers_set (&f->frame.registers, RSP, STACK_ADDRESS);
  sonde_cfi_registers_set (&f->frame.registers, RBP, 0xb1);
  sonde_cfi_registers_set (&f->frame.registers, RBX, 0xb2);
}

/* CFA = rsp + @cfa_words words, return address below it. */
static SondeRule
frame_of (int cfa_words)
{
  return (SondeRule){
    .kind = SONDE_RULE_REGISTER,
    .cfa_register = RSP,
    .cfa_offset = cfa_words * 8,
    .ra_place = -1,
  };
}

static SondeStep
step (Fixture *f, const SondeRule *rule, bool is_first)
{
  return sonde_rule_step (rule, SONDE_ARCH_X86_64, &f->frame, &f->stack, is_first);
}

static void
test_no_progress (Fixture *f, gconstpointer data)
{
  SondeRule rule = frame_of (0);

  rule.ra_place = 1;
  g_assert_cmpint (step (f, &rule, false), ==, SONDE_STEP_LOOP);
  g_assert_cmphex (f->frame.pc, ==, 0x401000);
  g_assert_cmpint (step (f, &rule, true), ==, SONDE_STEP_OK);
}

static void
test_above (Fixture *f, gconstpointer data)
{
  SondeRule rule = frame_of (N_WORDS + 1);

  g_assert_cmpint (step (f, &rule, true), ==, SONDE_STEP_RAN_OUT);
  rule.cfa_offset = 0;
  f->stack.ran_out = false;
  g_assert_cmpint (step (f, &rule, true), ==, SONDE_STEP_BAD);
}

static void
test_popped (Fixture *f, gconstpointer data)
{
  SondeRule rule = frame_of (1);
  uint64_t value = 0;

  rule.saved_mask = SAVED_RBP;
  rule.saved_offset[0] = -2; /* one word below the stack pointer */
  g_assert_cmpint (step (f, &rule, true), ==, SONDE_STEP_OK);
  g_assert_true (sonde_cfi_registers_get (&f->frame.registers, RBP, &value));
  g_assert_cmphex (value, ==, 0xb1);
}

static void
test_lost_register (Fixture *f, gconstpointer data)
{
  SondeRule rule = frame_of (1);
  uint64_t value = 0;

  rule.saved_mask = SAVED_RBP;
  rule.saved_offset[0] = -18; /* below the red zone */
  g_assert_cmpint (step (f, &rule, true), ==, SONDE_STEP_OK);
  g_assert_false (sonde_cfi_registers_get (&f->frame.registers, RBP, &value));

  rule = frame_of (1);
  rule.cfa_register = RBP;
  g_assert_cmpint (step (f, &rule, false), ==, SONDE_STEP_BAD);
}

static void
test_other_stack (Fixture *f, gconstpointer data)
{
  SondeRule rule = frame_of (2);

  rule.kind = SONDE_RULE_DEREF;
  rule.flags = SONDE_RULE_SIGNAL | SONDE_RULE_RA_FROM_BASE;
  rule.ra_place = 0;
  f->words[2] = STACK_ADDRESS - 0x100000;
  g_assert_cmpint (step (f, &rule, false), ==, SONDE_STEP_OK);
  g_assert_true (f->frame.exact_pc);

  rule = frame_of (1);
  g_assert_cmpint (step (f, &rule, false), ==, SONDE_STEP_RAN_OUT);
}

/* Any rule and any registers: where the fast way gives an answer, it is the other one's. */
static void
test_same (Fixture *f, gconstpointer data)
{
  const SondeArchRegisters *registers = sonde_arch_registers (SONDE_ARCH_X86_64);
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  unsigned n_plain = 0;

  for (unsigned i = 0; i < 100000; i++)
    {
      SondeRule rule = frame_of (g_rand_int_range (random, -2, N_WORDS + 4));
      const uint8_t bases[] = { RSP, RBP, RBX, 12 };
      SondePlainFrame plain = { 0 };
      SondeFrameState left;

      set_up (f, NULL);
      sonde_cfi_registers_set (&f->frame.registers, RBP,
                               STACK_ADDRESS
                                   + 8 * (uint64_t) g_rand_int_range (random, 0, N_WORDS));
      rule.cfa_register = bases[g_rand_int_range (random, 0, 4)];
      rule.ra_place = (int16_t) g_rand_int_range (random, -N_WORDS, 2);
      rule.saved_mask = (uint8_t) g_rand_int_range (random, 0, 64);
      for (unsigned k = 0; k < SONDE_RULE_N_SAVED; k++)
        rule.saved_offset[k] = (int16_t) g_rand_int_range (random, -N_WORDS, 2);
      g_assert_true (sonde_plain_frame_enter (&plain, SONDE_ARCH_X86_64, &f->frame));
      if (!sonde_plain_frame_step (&plain, SONDE_ARCH_X86_64, &rule, &f->stack))
        continue;

      n_plain++;
      left = f->frame;
      sonde_plain_frame_leave (&plain, SONDE_ARCH_X86_64, &left);
      g_assert_cmpint (step (f, &rule, i % 2 == 0), ==, SONDE_STEP_OK);
      g_assert_cmphex (left.pc, ==, f->frame.pc);
      g_assert_cmpint (left.exact_pc, ==, f->frame.exact_pc);
      for (unsigned k = 0; k < 2; k++)
        g_assert_cmphex (left.registers.values[registers->saved[k]], ==,
                         f->frame.registers.values[registers->saved[k]]);
      g_assert_cmphex (left.registers.values[RSP], ==, f->frame.registers.values[RSP]);
      g_assert_cmphex (left.registers.valid & ~f->frame.registers.valid, ==, 0);
    }
  g_assert_cmpuint (n_plain, >, 1000);
}

static SondeRuleCachePlace
place_at (uint32_t offset)
{
  return (SondeRuleCachePlace){ sonde_rule_cache_module (7), offset };
}

static int
cached_cfa (SondeRuleCache *cache, uint32_t offset)
{
  const SondeRule *rule = sonde_rule_cache_find (cache, place_at (offset));

  return rule != NULL ? rule->cfa_offset : -1;
}

static void
test_cache_range (void)
{
  SondeRuleCache *cache = sonde_rule_cache_new ();
  SondeRule rule = frame_of (3);
  SondeRuleCachePlace other = place_at (0x1050);

  other.module = sonde_rule_cache_module (8);
  g_assert_cmpint (cached_cfa (cache, 0x1050), ==, -1);
  sonde_rule_cache_add (cache, place_at (0x1050), &rule, 0x1040, 0x3000);
  g_assert_cmpint (cached_cfa (cache, 0x103f), ==, -1);
  g_assert_cmpint (cached_cfa (cache, 0x1040), ==, 24);
  g_assert_cmpint (cached_cfa (cache, 0x10ff), ==, 24);
  g_assert_cmpint (cached_cfa (cache, 0x1100), ==, -1); /* another block */
  g_assert_null (sonde_rule_cache_find (cache, other));
  sonde_rule_cache_free (cache);
}

static void
test_cache_longest (void)
{
  SondeRuleCache *cache = sonde_rule_cache_new ();
  SondeRule entry = frame_of (1);
  SondeRule body = frame_of (4);
  SondeRule end = frame_of (2);

  sonde_rule_cache_add (cache, place_at (0x1000), &entry, 0x1000, 0x1004);
  sonde_rule_cache_add (cache, place_at (0x1020), &body, 0x1004, 0x10f0);
  sonde_rule_cache_add (cache, place_at (0x10f2), &end, 0x10f0, 0x10f8);
  g_assert_cmpint (cached_cfa (cache, 0x1000), ==, -1); /* gave way */
  g_assert_cmpint (cached_cfa (cache, 0x10ef), ==, 32);
  g_assert_cmpint (cached_cfa (cache, 0x10f2), ==, 16);
  g_assert_cmpint (cached_cfa (cache, 0x10f3), ==, -1); /* by its address alone */
  sonde_rule_cache_add (cache, place_at (0x1000), &entry, 0x1000, 0x1004);
  g_assert_cmpint (cached_cfa (cache, 0x1000), ==, 8);
  g_assert_cmpint (cached_cfa (cache, 0x1004), ==, 32);
  sonde_rule_cache_free (cache);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, NULL)
  ADD ("/rule/refuses-a-stack-pointer-that-does-not-rise", test_no_progress);
  ADD ("/rule/tells-memory-above-the-copy-from-memory-below", test_above);
  ADD ("/rule/keeps-a-register-that-was-just-popped", test_popped);
  ADD ("/rule/forgets-a-register-that-the-copy-does-not-hold", test_lost_register);
  ADD ("/rule/ends-as-truncated-where-a-signal-came-from-another-stack", test_other_stack);
  ADD ("/rule/gives-the-same-frames-the-fast-way", test_same);
  g_test_add_func ("/rule-cache/knows-a-rule-wherever-it-holds-in-its-block", test_cache_range);
  g_test_add_func ("/rule-cache/keeps-the-longest-rule-of-a-block", test_cache_longest);
  return g_test_run ();
}
