/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From one frame to the next: by the small rule, by the whole row, and the same by both. */
#include "tests/lib/cfi-program.h"
#include "unwind/plain-frame.h"

#define SP       UINT64_C (0x7ffe00001000)
#define N_WORDS  16
#define N_RANDOM 200000

enum
{
  RBX = 3,
  RBP = 6,
  RSP = 7,
  LR = 30,
  SP_AARCH64 = 31,
};

typedef struct
{
  CfiProgram program;
  SondeCfiRow row;
  SondeRule rule;
  SondeArch arch;
  SondeFrameState frame;
  guint64 words[N_WORDS]; /* the stack: word n holds 0x1000 + n */
  SondeStackCopy stack;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->arch = SONDE_ARCH_X86_64;
  for (guint i = 0; i < N_WORDS; i++)
    f->words[i] = 0x1000 + i;
  f->stack = (SondeStackCopy){ .bytes = (const uint8_t *) f->words,
                               .address = SP,
                               .size_bytes = sizeof f->words };
  f->frame = (SondeFrameState){ .pc = CODE_BEGIN, .exact_pc = true };
  sonde_cfi_registers_set (&f->frame.registers, RSP, SP);
  sonde_cfi_registers_set (&f->frame.registers, RBP, SP + 32);
}

static void
set_up_aarch64 (Fixture *f, gconstpointer data)
{
  set_up (f, data);
  f->arch = SONDE_ARCH_AARCH64;
  f->frame.registers.valid = 0;
  sonde_cfi_registers_set (&f->frame.registers, SP_AARCH64, SP);
  sonde_cfi_registers_set (&f->frame.registers, LR, 0x4321);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  cfi_program_clear (&f->program);
}

static void
set_rules (Fixture *f, const guint8 *bytes, gsize size)
{
  cfi_program_clear (&f->program);
  cfi_program_init (&f->program, NO_BYTES, bytes, size);
  if (f->arch == SONDE_ARCH_AARCH64)
    f->program.cie.return_register = LR;
  g_assert_cmpint (cfi_program_run (&f->program, CODE_BEGIN, &f->row), ==, 0);
  sonde_rule_from_row (&f->rule, &f->row, &f->program.section, f->arch);
}

static SondeStep
step_by_rule (Fixture *f, SondeFrameState *frame, bool is_first)
{
  f->stack.ran_out = false;
  return sonde_rule_step (&f->rule, f->arch, frame, &f->stack, is_first);
}

static SondeStep
step_by_row (Fixture *f, SondeFrameState *frame, bool is_first)
{
  f->stack.ran_out = false;
  return sonde_row_step (&f->row, &f->program.section, f->arch, frame, &f->stack, is_first);
}

static bool
step_plainly (Fixture *f, SondeFrameState *frame)
{
  SondePlainFrame plain;

  if (!sonde_plain_frame_enter (&plain, f->arch, frame)
      || !sonde_plain_frame_step (&plain, f->arch, &f->rule, &f->stack))
    return false;
  sonde_plain_frame_leave (&plain, f->arch, frame);
  return true;
}

/* The step by the rule, unless it leaves it to the row; a frame that cannot be left stays. */
static void
assert_step (Fixture *f, SondeRuleKind kind, SondeStep expected, bool is_first)
{
  SondeFrameState by_rule = f->frame;
  SondeFrameState by_row = f->frame;

  g_assert_cmpint (f->rule.kind, ==, kind);
  g_assert_cmpint (step_by_row (f, &by_row, is_first), ==, expected);
  if (kind == SONDE_RULE_SLOW)
    g_assert_cmpint (step_by_rule (f, &by_rule, is_first), ==, SONDE_STEP_BAD);
  else
    g_assert_cmpint (step_by_rule (f, &by_rule, is_first), ==, expected);
  if (kind != SONDE_RULE_SLOW)
    {
      g_assert_cmphex (by_rule.pc, ==, by_row.pc);
      g_assert_cmphex (by_rule.registers.valid, ==, by_row.registers.valid);
    }
  if (expected == SONDE_STEP_OK)
    f->frame = by_row;
}

static void
assert_caller (Fixture *f, guint64 pc, guint64 cfa)
{
  g_assert_cmphex (f->frame.pc, ==, pc);
  g_assert_cmphex (f->frame.registers.values[f->arch == SONDE_ARCH_AARCH64 ? SP_AARCH64 : RSP], ==,
                   cfa);
}

static void
test_refuses_kinds (Fixture *f, gconstpointer data)
{
  static const struct
  {
    SondeRuleKind kind;
    SondeStep step;
  } cases[] = {
    { SONDE_RULE_NONE, SONDE_STEP_NO_RULE }, { SONDE_RULE_SLOW, SONDE_STEP_BAD },
    { SONDE_RULE_BAD, SONDE_STEP_BAD },      { 99, SONDE_STEP_BAD },
    { SONDE_RULE_END, SONDE_STEP_END },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      f->rule.kind = cases[i].kind;
      g_assert_cmpint (step_by_rule (f, &f->frame, true), ==, cases[i].step);
      g_assert_cmphex (f->frame.pc, ==, CODE_BEGIN);
    }
}

static void
test_wild_places (Fixture *f, gconstpointer data)
{
  set_rules (f, BYTES (0x0c, RBP, 16, 0x90, 1));
  for (guint shift = 3; shift < 64; shift++)
    {
      guint64 rbp = SP ^ UINT64_C (1) << shift;

      sonde_cfi_registers_set (&f->frame.registers, RBP, rbp);
      if (rbp < SP || rbp - SP > sizeof f->words)
        assert_step (f, SONDE_RULE_REGISTER,
                     rbp < SP || shift >= 30 ? SONDE_STEP_BAD : SONDE_STEP_RAN_OUT, false);
    }
  sonde_cfi_registers_set (&f->frame.registers, RBP, G_MAXUINT64 - 7);
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_BAD, false); /* wraps to 8 */
  set_rules (f, BYTES (0x0c, 5, 16, 0x90, 1));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_BAD, true); /* an unknown register */
  set_rules (f, BYTES (0x0c, RSP, 8, 0x09, 16, 5));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_BAD, true);
  set_rules (f, BYTES (0x0c, RSP, 8, 0x09, 16, 0x80, 0x80, 0x80, 0x38));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_BAD, true);
}

static void
test_no_progress (Fixture *f, gconstpointer data)
{
  set_rules (f, BYTES (0x0c, RSP, 0, 0x09, 16, RBP));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_LOOP, false);
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_OK, true); /* only the sampled frame may */
  set_rules (f, BYTES (0x12, RSP, 1, 0x09, 16, RBP));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_LOOP, true);
  /* a CFA that is a constant: once more at most */
  set_rules (f, BYTES (0x0f, 9, 0x0e, 0x20, 0x10, 0, 0, 0xfe, 0x7f, 0, 0, 0x90, 1));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_OK, true);
  assert_caller (f, 0x1003, SP + 0x20);
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_LOOP, false);
}

static void
test_plain_frames (Fixture *f, gconstpointer data)
{
  set_rules (f, BYTES (0x0c, RSP, 16, 0x90, 1, 0x86, 2));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_OK, true);
  assert_caller (f, 0x1001, SP + 16);
  g_assert_cmphex (f->frame.registers.values[RBP], ==, 0x1000);
  g_assert_false (f->frame.exact_pc);
  sonde_cfi_registers_set (&f->frame.registers, RBP, SP + 32);
  set_rules (f, BYTES (0x0c, RBP, 16, 0x90, 1, 0x86, 2, 0x83, 3));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_OK, false);
  assert_caller (f, 0x1005, SP + 48);
  g_assert_cmphex (f->frame.registers.values[RBX], ==, 0x1003);
}

static void
test_ends (Fixture *f, gconstpointer data)
{
  set_rules (f, BYTES (0x0c, RSP, 8, 0x07, 16));
  assert_step (f, SONDE_RULE_END, SONDE_STEP_END, true);
  set_rules (f, BYTES (0x0c, RSP, 8, 0x90, 1));
  f->words[0] = 0;
  g_assert_cmpint (step_by_rule (f, &f->frame, true), ==, SONDE_STEP_END);
}

/* breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus */
static void
test_plt (Fixture *f, gconstpointer data)
{
  for (guint i = 0; i < 16; i++)
    {
      SondeFrameState frame = f->frame;

      set_rules (
          f, BYTES (0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, 0x90, 1));
      g_assert_cmpint (f->rule.kind, ==, SONDE_RULE_PLT);
      frame.pc = CODE_BEGIN + i;
      sonde_cfi_registers_set (&frame.registers, 16, frame.pc);
      g_assert_cmpint (step_by_rule (f, &frame, true), ==, SONDE_STEP_OK);
      g_assert_cmphex (frame.pc, ==, i >= 11 ? 0x1001 : 0x1000);
    }
  /* one byte of it otherwise, and it is no rule */
  set_rules (f,
             BYTES (0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x1c, 0x90, 1));
  g_assert_cmpint (f->rule.kind, ==, SONDE_RULE_SLOW);
}

/* As compilers realign: CFA = *(rbp-8), registers saved around rbp. */
static void
test_realigned (Fixture *f, gconstpointer data)
{
  f->words[3] = SP + 80;
  set_rules (
      f, BYTES (0x0f, 3, 0x76, 0x78, 0x06, 0x90, 1, 0x10, RBP, 2, 0x76, 0, 0x10, RBX, 2, 0x76, 8));
  assert_step (f, SONDE_RULE_DEREF, SONDE_STEP_OK, true);
  assert_caller (f, 0x1009, SP + 80);
  g_assert_cmphex (f->frame.registers.values[RBP], ==, 0x1004);
  g_assert_cmphex (f->frame.registers.values[RBX], ==, 0x1005);
  sonde_cfi_registers_set (&f->frame.registers, RBP, SP);
  assert_step (f, SONDE_RULE_DEREF, SONDE_STEP_BAD, false);
}

/* As in vfork: the caller waits in a register. */
static void
test_return_in_register (Fixture *f, gconstpointer data)
{
  sonde_cfi_registers_set (&f->frame.registers, 5, 0x777);
  set_rules (f, BYTES (0x0c, RSP, 0, 0x09, 16, 5));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_OK, true);
  assert_caller (f, 0x777, SP);
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_BAD, false); /* a call clobbers rdi */
}

static void
test_signal_frames (Fixture *f, gconstpointer data)
{
  set_rules (f, NO_BYTES);
  f->program.cie.is_signal_frame = true;
  cfi_program_clear (&f->program);
  cfi_program_init (&f->program, NO_BYTES,
                    BYTES (0x0f, 3, 0x77, 16, 6, 0x10, 16, 2, 0x77, 24, 0x10, RBP, 2, 0x77, 32,
                           0x10, RSP, 2, 0x77, 16));
  f->program.cie.is_signal_frame = true;
  g_assert_cmpint (cfi_program_run (&f->program, CODE_BEGIN, &f->row), ==, 0);
  sonde_rule_from_row (&f->rule, &f->row, &f->program.section, f->arch);
  f->words[2] = SP + 64;
  assert_step (f, SONDE_RULE_DEREF, SONDE_STEP_OK, false);
  assert_caller (f, 0x1003, SP + 64);
  g_assert_true (f->frame.exact_pc);
  g_assert_cmphex (f->frame.registers.values[RBP], ==, 0x1004);
}

/* In an epilogue the register was popped already; elsewhere what is not there is unknown. */
static void
test_popped_registers (Fixture *f, gconstpointer data)
{
  SondeFrameState frame = f->frame;

  set_rules (f, BYTES (0x0c, RSP, 8, 0x90, 1, 0x86, 2));
  g_assert_cmpint (step_by_rule (f, &frame, true), ==, SONDE_STEP_OK);
  g_assert_cmphex (frame.registers.values[RBP], ==, SP + 32);
  g_assert_cmphex (frame.registers.valid >> RBP & 1, ==, 1);
  frame = f->frame;
  g_assert_cmpint (step_by_rule (f, &frame, false), ==, SONDE_STEP_OK);
  g_assert_cmphex (frame.registers.valid >> RBP & 1, ==, 0);
}

static void
test_rows_for_the_slow_path (Fixture *f, gconstpointer data)
{
  set_rules (f, BYTES (0x0c, RSP, 16, 0x90, 1, 0x14, RBP, 1)); /* rbp is CFA-8 */
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_OK, true);
  g_assert_cmphex (f->frame.registers.values[RBP], ==, SP + 8);
  set_rules (f, BYTES (0x0c, RSP, 16, 0x90, 1, 0x16, RBP, 2, 0x34, 0x22));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_OK, false);
  g_assert_cmphex (f->frame.registers.values[RBP], ==, SP + 36);
  set_rules (f, BYTES (0x0c, RSP, 16, 0x90, 1, 0x09, RBP, RSP));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_OK, false);
  g_assert_cmphex (f->frame.registers.values[RBP], ==, SP + 32);
  set_rules (f, BYTES (0x0c, RSP, 16, 0x16, 16, 3, 0x0a, 0x55, 0x66));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_OK, false);
  assert_caller (f, 0x6655, SP + 64);
  set_rules (f, BYTES (0x0c, RSP, 16, 0x16, 16, 1, 0xff));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_BAD, false);
  set_rules (f, BYTES (0x0f, 4, 0x31, 0x2f, 0xfc, 0xff, 0x90, 1));
  assert_step (f, SONDE_RULE_SLOW, SONDE_STEP_BAD, false);
}

static void
test_aarch64_leaf (Fixture *f, gconstpointer data)
{
  set_rules (f, BYTES (0x0c, SP_AARCH64, 0));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_OK, true);
  assert_caller (f, 0x4321, SP);
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_LOOP, false);
}

static void
test_aarch64_pac (Fixture *f, gconstpointer data)
{
  f->words[1] = UINT64_C (0xab12ffff87654321);
  f->words[3] = UINT64_C (0x7fff000012345678);
  set_rules (f, BYTES (0x2d, 0x0c, SP_AARCH64, 16, 0x9d, 2, 0x9e, 1));
  assert_step (f, SONDE_RULE_REGISTER, SONDE_STEP_OK, true);
  assert_caller (f, UINT64_C (0xffff87654321), SP + 16);
  g_assert_cmphex (f->frame.registers.values[29], ==, 0x1000);
  g_assert_true (step_plainly (f, &f->frame));
  assert_caller (f, 0x12345678, SP + 32);
}

static guint8
random_register (GRand *random)
{
  static const guint8 some[] = { RBX, RBP, RSP, 12, 16, 5 };

  return some[g_rand_int_range (random, 0, G_N_ELEMENTS (some))];
}

/* One instruction that is well-formed, whatever it means. */
static void
append_random (GByteArray *program, GRand *random)
{
  guint8 reg = random_register (random);
  guint8 words = (guint8) g_rand_int_range (random, 0, 8);
  guint8 shapes[][5] = {
    { 0x0c, reg, words * 8 },
    { 0x0f, 2, 0x70 + reg, words * 8 },
    { 0x0f, 3, 0x70 + reg, words * 8, 6 },
    { 0x80 + reg, words },
    { 0x80 + reg, words },
    { 0x11, reg, 0x80 - words - 1 },
    { 0x10, reg, 2, 0x76, words * 8 },
    { 0x07, reg },
    { 0x08, reg },
    { 0x09, reg, random_register (random) },
    { 0x14, reg, words },
  };
  static const guint8 sizes[] = { 3, 4, 5, 2, 2, 3, 5, 2, 2, 3, 3 };
  guint shape = (guint) g_rand_int_range (random, 0, G_N_ELEMENTS (shapes));

  g_byte_array_append (program, shapes[shape], sizes[shape]);
}

static void
assert_same_frame (const SondeFrameState *a, const SondeFrameState *b)
{
  g_assert_cmphex (a->pc, ==, b->pc);
  g_assert_cmpint (a->exact_pc, ==, b->exact_pc);
  g_assert_cmphex (a->registers.valid, ==, b->registers.valid);
  for (guint reg = 0; reg < SONDE_CFI_N_REGISTERS; reg++)
    if ((a->registers.valid >> reg & 1) != 0)
      g_assert_cmphex (a->registers.values[reg], ==, b->registers.values[reg]);
}

/* What the plain way follows, it follows as the other does. */
static void
assert_plain_agrees (Fixture *f, const SondeFrameState *by_rule)
{
  SondeFrameState plain = f->frame;

  if (!step_plainly (f, &plain))
    return;
  g_assert_cmphex (plain.registers.valid & ~by_rule->registers.valid, ==, 0);
  g_assert_cmphex (plain.pc, ==, by_rule->pc);
  for (guint reg = 0; reg < SONDE_CFI_N_REGISTERS; reg++)
    if ((plain.registers.valid >> reg & 1) != 0)
      g_assert_cmphex (plain.registers.values[reg], ==, by_rule->registers.values[reg]);
}

static void
test_random_rows (Fixture *f, gconstpointer data)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (11);
  guint n_ok = 0;

  for (guint i = 0; i < N_WORDS; i++)
    f->words[i] = SP + (i * 5 % N_WORDS) * 8;
  for (guint i = 0; i < N_RANDOM / (g_test_quick () ? 10 : 1); i++)
    {
      g_autoptr (GByteArray) program = g_byte_array_new ();
      SondeFrameState by_rule = f->frame;
      SondeFrameState by_row = f->frame;
      bool is_first = g_rand_boolean (random);

      for (gint n = g_rand_int_range (random, 1, 8); n > 0; n--)
        append_random (program, random);
      cfi_program_clear (&f->program);
      cfi_program_init (&f->program, BYTES (0x0c, RSP, 16, 0x90, 1), program->data, program->len);
      if (cfi_program_run (&f->program, CODE_BEGIN, &f->row) != 0)
        continue; /* an offset for an expression's CFA */
      sonde_rule_from_row (&f->rule, &f->row, &f->program.section, f->arch);
      if (f->rule.kind == SONDE_RULE_SLOW)
        continue;
      if (step_by_rule (f, &by_rule, is_first) != SONDE_STEP_OK)
        {
          g_assert_cmpint (step_by_row (f, &by_row, is_first), !=, SONDE_STEP_OK);
          continue;
        }
      g_assert_cmpint (step_by_row (f, &by_row, is_first), ==, SONDE_STEP_OK);
      assert_same_frame (&by_rule, &by_row);
      assert_plain_agrees (f, &by_rule);
      n_ok++;
    }
  g_test_message ("%u frames left", n_ok);
  g_assert_cmpuint (n_ok, >, 1000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add ("/cfi-rule/" path, Fixture, NULL, set_up, test, tear_down)
#define ADD_AARCH64(path, test)                                                                    \
  g_test_add ("/cfi-rule/" path, Fixture, NULL, set_up_aarch64, test, tear_down)
  ADD ("refuses-rules-that-lead-nowhere", test_refuses_kinds);
  ADD ("reads-no-memory-outside-of-the-copy", test_wild_places);
  ADD ("stops-when-the-stack-does-not-rise", test_no_progress);
  ADD ("leaves-plain-frames", test_plain_frames);
  ADD ("ends-where-there-is-no-caller", test_ends);
  ADD ("knows-what-linkers-write-for-the-plt", test_plt);
  ADD ("leaves-realigned-frames", test_realigned);
  ADD ("finds-the-caller-in-a-register", test_return_in_register);
  ADD ("finds-the-interrupted-instruction", test_signal_frames);
  ADD ("knows-registers-that-an-epilogue-popped", test_popped_registers);
  ADD ("leaves-the-rest-to-the-whole-row", test_rows_for_the_slow_path);
  ADD_AARCH64 ("finds-the-caller-of-a-leaf-in-lr", test_aarch64_leaf);
  ADD_AARCH64 ("strips-authentication-codes", test_aarch64_pac);
  ADD ("goes-where-the-whole-row-goes", test_random_rows);
  return g_test_run ();
}
