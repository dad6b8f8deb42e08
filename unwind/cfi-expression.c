/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/cfi-expression.h"

#include <errno.h>

enum
{
  OP_DEREF = 0x06,
  OP_CONST1U = 0x08,
  OP_CONST1S = 0x09,
  OP_CONST2U = 0x0a,
  OP_CONST2S = 0x0b,
  OP_CONST4U = 0x0c,
  OP_CONST4S = 0x0d,
  OP_CONST8U = 0x0e,
  OP_CONST8S = 0x0f,
  OP_CONSTU = 0x10,
  OP_CONSTS = 0x11,
  OP_DUP = 0x12,
  OP_DROP = 0x13,
  OP_OVER = 0x14,
  OP_PICK = 0x15,
  OP_SWAP = 0x16,
  OP_ROT = 0x17,
  OP_ABS = 0x19,
  OP_AND = 0x1a,
  OP_DIV = 0x1b,
  OP_MINUS = 0x1c,
  OP_MOD = 0x1d,
  OP_MUL = 0x1e,
  OP_NEG = 0x1f,
  OP_NOT = 0x20,
  OP_OR = 0x21,
  OP_PLUS = 0x22,
  OP_PLUS_UCONST = 0x23,
  OP_SHL = 0x24,
  OP_SHR = 0x25,
  OP_SHRA = 0x26,
  OP_XOR = 0x27,
  OP_BRA = 0x28,
  OP_EQ = 0x29,
  OP_GE = 0x2a,
  OP_GT = 0x2b,
  OP_LE = 0x2c,
  OP_LT = 0x2d,
  OP_NE = 0x2e,
  OP_SKIP = 0x2f,
  OP_LIT0 = 0x30,
  OP_LIT31 = 0x4f,
  OP_BREG0 = 0x70,
  OP_BREG31 = 0x8f,
  OP_BREGX = 0x92,
  OP_DEREF_SIZE = 0x94,
  OP_NOP = 0x96,
};

typedef struct
{
  SondeCfiCursor cursor;
  bool bad; /* an operand was cut; what was taken since is 0 */
  const uint8_t *begin;
  uint64_t stack[SONDE_CFI_EXPRESSION_STACK];
  unsigned depth;
  const SondeCfiRegisters *registers;
  SondeStackCopy *memory;
} StackMachine;

#define DEFINE_TAKE(name, type, read)                                                              \
  static type name (StackMachine *self)                                                            \
  {                                                                                                \
    type value = 0;                                                                                \
                                                                                                   \
    self->bad = !read (&self->cursor, &value) || self->bad;                                        \
    return value;                                                                                  \
  }
DEFINE_TAKE (take_u8, uint8_t, sonde_cfi_read_u8)
DEFINE_TAKE (take_u16, uint16_t, sonde_cfi_read_u16)
DEFINE_TAKE (take_u32, uint32_t, sonde_cfi_read_u32)
DEFINE_TAKE (take_u64, uint64_t, sonde_cfi_read_u64)
DEFINE_TAKE (take_unsigned, uint64_t, sonde_cfi_read_uleb128)
DEFINE_TAKE (take_signed, int64_t, sonde_cfi_read_sleb128)

static int
push (StackMachine *self, uint64_t value)
{
  if (self->depth == SONDE_CFI_EXPRESSION_STACK)
    return -EBADMSG;
  self->stack[self->depth++] = value;
  return 0;
}

static int
push_register (StackMachine *self, uint64_t reg)
{
  uint64_t offset = (uint64_t) take_signed (self);
  uint64_t value;

  if (!sonde_cfi_registers_get (self->registers, reg, &value))
    return -EBADMSG;
  return push (self, value + offset);
}

static int
push_constant (StackMachine *self, uint8_t op)
{
  switch (op)
    {
    case OP_CONST1U:
      return push (self, take_u8 (self));
    case OP_CONST1S:
      return push (self, (uint64_t) (int64_t) (int8_t) take_u8 (self));
    case OP_CONST2U:
      return push (self, take_u16 (self));
    case OP_CONST2S:
      return push (self, (uint64_t) (int64_t) (int16_t) take_u16 (self));
    case OP_CONST4U:
      return push (self, take_u32 (self));
    case OP_CONST4S:
      return push (self, (uint64_t) (int64_t) (int32_t) take_u32 (self));
    case OP_CONST8U:
    case OP_CONST8S:
      return push (self, take_u64 (self));
    case OP_CONSTU:
      return push (self, take_unsigned (self));
    default: /* OP_CONSTS */
      return push (self, (uint64_t) take_signed (self));
    }
}

/* Operations that only move what is on the stack. */
static int
shuffle (StackMachine *self, uint8_t op)
{
  uint64_t *top = self->stack + self->depth;
  uint64_t held;
  unsigned wanted = op == OP_ROT ? 3 : op == OP_DUP || op == OP_DROP ? 1 : 2;

  if (op == OP_PICK)
    wanted = (unsigned) take_u8 (self) + 1;
  if (self->depth < wanted)
    return -EBADMSG;
  switch (op)
    {
    case OP_DUP:
      return push (self, top[-1]);
    case OP_DROP:
      self->depth--;
      return 0;
    case OP_OVER:
      return push (self, top[-2]);
    case OP_PICK:
      return push (self, top[-(int) wanted]);
    case OP_SWAP:
      held = top[-1];
      top[-1] = top[-2];
      top[-2] = held;
      return 0;
    default: /* OP_ROT */
      held = top[-1];
      top[-1] = top[-2];
      top[-2] = top[-3];
      top[-3] = held;
      return 0;
    }
}

static int
unary (StackMachine *self, uint8_t op)
{
  uint64_t *top = self->stack + self->depth - 1;
  unsigned size_bytes = sonde_stack_copy_word_bytes (self->memory);

  if (self->depth < 1)
    return -EBADMSG;
  switch (op)
    {
    case OP_DEREF_SIZE:
    case OP_DEREF:
      if (op == OP_DEREF_SIZE)
        size_bytes = take_u8 (self);
      if (size_bytes == 0 || size_bytes > 8)
        return -EBADMSG;
      return sonde_stack_copy_read (self->memory, sonde_stack_copy_wrap (self->memory, *top),
                                    size_bytes, top)
                 ? 0
                 : -EFAULT;
    case OP_ABS:
      *top = (int64_t) *top < 0 ? -*top : *top;
      return 0;
    case OP_NEG:
      *top = -*top;
      return 0;
    case OP_NOT:
      *top = ~*top;
      return 0;
    default: /* OP_PLUS_UCONST */
      *top += take_unsigned (self);
      return 0;
    }
}

static int
binary (StackMachine *self, uint8_t op)
{
  uint64_t a, b;
  int64_t sa, sb;

  if (self->depth < 2)
    return -EBADMSG;
  b = self->stack[--self->depth];
  a = self->stack[--self->depth];
  sa = (int64_t) a;
  sb = (int64_t) b;
  switch (op)
    {
    case OP_AND:
      return push (self, a & b);
    case OP_DIV:
      if (b == 0)
        return -EBADMSG;
      return push (self, sb == -1 ? -a : (uint64_t) (sa / sb));
    case OP_MINUS:
      return push (self, a - b);
    case OP_MOD:
      return b == 0 ? -EBADMSG : push (self, a % b);
    case OP_MUL:
      return push (self, a * b);
    case OP_OR:
      return push (self, a | b);
    case OP_PLUS:
      return push (self, a + b);
    case OP_SHL:
      return push (self, b < 64 ? a << b : 0);
    case OP_SHR:
      return push (self, b < 64 ? a >> b : 0);
    case OP_SHRA:
      return push (self, (uint64_t) (sa >> (b < 64 ? b : 63)));
    case OP_XOR:
      return push (self, a ^ b);
    case OP_EQ:
      return push (self, a == b);
    case OP_GE:
      return push (self, sa >= sb);
    case OP_GT:
      return push (self, sa > sb);
    case OP_LE:
      return push (self, sa <= sb);
    case OP_LT:
      return push (self, sa < sb);
    default: /* OP_NE */
      return push (self, a != b);
    }
}

static int
jump (StackMachine *self, uint8_t op)
{
  int16_t distance = (int16_t) take_u16 (self);
  ptrdiff_t target = self->cursor.at - self->begin + distance;

  if (op == OP_BRA)
    {
      if (self->depth < 1)
        return -EBADMSG;
      if (self->stack[--self->depth] == 0)
        return 0;
    }
  if (target < 0 || target > self->cursor.end - self->begin)
    return -EBADMSG;
  self->cursor.at = self->begin + target;
  return 0;
}

static int
run_one (StackMachine *self)
{
  uint8_t op = take_u8 (self);

  if (op >= OP_LIT0 && op <= OP_LIT31)
    return push (self, op - OP_LIT0);
  if (op >= OP_BREG0 && op <= OP_BREG31)
    return push_register (self, op - OP_BREG0);
  if (op == OP_BREGX)
    return push_register (self, take_unsigned (self));
  if (op >= OP_CONST1U && op <= OP_CONSTS)
    return push_constant (self, op);
  if (op >= OP_DUP && op <= OP_ROT)
    return shuffle (self, op);
  if (op == OP_DEREF || op == OP_DEREF_SIZE || op == OP_ABS || op == OP_NEG || op == OP_NOT
      || op == OP_PLUS_UCONST)
    return unary (self, op);
  if (op == OP_BRA || op == OP_SKIP)
    return jump (self, op);
  if (op == OP_NOP)
    return 0;
  return op >= OP_AND && op <= OP_NE ? binary (self, op) : -EBADMSG;
}

int
sonde_cfi_expression_evaluate (const uint8_t *bytes,
                               size_t size_bytes,
                               const SondeCfiRegisters *registers,
                               SondeStackCopy *stack,
                               const uint64_t *initial,
                               uint64_t *value)
{
  StackMachine self = {
    .cursor = { bytes, bytes + size_bytes },
    .begin = bytes,
    .registers = registers,
    .memory = stack,
  };

  if (initial != NULL)
    push (&self, *initial);
  for (unsigned step = 0; self.cursor.at < self.cursor.end; step++)
    {
      int result;

      if (step == SONDE_CFI_MAX_EXPRESSION_STEPS)
        return -EBADMSG;
      result = run_one (&self);
      if (result < 0 || self.bad)
        return result < 0 ? result : -EBADMSG;
    }
  if (self.depth == 0)
    return -EBADMSG;
  *value = self.stack[self.depth - 1];
  /* Numbers have 64 bits on the way. */
  *value = sonde_stack_copy_wrap (stack, *value);
  return 0;
}
