/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
/* Reads the frame list of an interpreter in the kernel, at a sample of the thread that runs it. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "daemon/base/walk.h"

#define MAX_PROCESSES 1024
#define MAX_CPUS      8192
#define N_SEEN        16384 /* a power of two */
#define MAX_KEYS      1024  /* of threads: glibc's PTHREAD_KEYS_MAX */
#define KEYS_A_BLOCK  32
#define MAX_STEPS     512  /* of a walk: with what is on the list and is no frame of it */
#define WINDOW_BYTES  2048 /* of frames, read at once; a power of two */
#define YOUNG_MS      1000 /* an address of code is used anew while a program loads more */
#define CHECK_MS      50
#define NO_ROOM       28 /* ENOSPC */

/* Of objects of CPython, in all versions. */
#define OBJECT_TYPE  8
#define BYTES_LENGTH 16
#define BYTES_DATA   32

/* Of what holds frames, since 3.11. */
#define CHUNK_SIZE 8

/* Of PHP, in all versions that are known. */
#define CALL_IS_TOP       (1u << 17) /* ZEND_CALL_TOP: the evaluating function was entered for it */
#define CALL_IS_CLOSURE   (3u << 22) /* ZEND_CALL_CLOSURE, ZEND_CALL_FAKE_CLOSURE */
#define FUNCTION_BUILTIN  1          /* ZEND_INTERNAL_FUNCTION */
#define FUNCTION_USER     2          /* ZEND_USER_FUNCTION */
#define FUNCTION_EVAL     4          /* ZEND_EVAL_CODE */
#define INSTRUCTION_BYTES 32
#define TYPE_MASK         15 /* of flags */
#define TYPE_IS_STRING    6

/* Of Ruby, in all versions that are known. A frame's flags are in its environment. */
#define FRAME_KIND      0x7fff0001u
#define FRAME_IS_C      0x55550001u /* VM_FRAME_MAGIC_CFUNC: it has a native frame of its own */
#define FRAME_IS_BLOCK  0x66660001u /* VM_FRAME_MAGIC_IFUNC: a block of C, the same */
#define FRAME_IS_DUMMY  0x79990001u /* VM_FRAME_MAGIC_DUMMY: the outermost */
#define FRAME_IS_OLDEST 0x20u       /* VM_FRAME_FLAG_FINISH */
#define VALUE_TYPE      0x1fu
#define VALUE_IS_STRING 0x05u
#define VALUE_IS_ARRAY  0x07u
#define CODE_KIND       0xf01fu
#define VALUE_IS_CODE   0x701au    /* T_IMEMO, of the kind imemo_iseq */
#define IS_SPECIAL      (1u << 13) /* a string is elsewhere; an array is not */
#define EMBEDDED_LENGTH 14         /* shift, of five bits */
#define EMBEDDED        16         /* of what an object has in itself */

/* Of glibc's struct pthread: where each module's variables of the thread are. */
#define THREAD_MODULES 8
#define MODULE_BYTES   16
#define MAX_MODULES    1024
#define MAX_VARIABLE   65536

/* Of the kernel's flags of a process's memory. */
#define DUMPABLE_MASK    3 /* MMF_DUMPABLE_MASK */
#define DUMPABLE_BY_USER 1 /* SUID_DUMP_USER */

/* What of the kernel is read; where it is, the kernel says. */
struct thread_struct
{
  unsigned long fsbase;
} __attribute__ ((preserve_access_index));

/* Before Linux 6.18. */
struct mm_struct___word
{
  unsigned long flags;
} __attribute__ ((preserve_access_index));

struct mm_struct___bits
{
  struct
  {
    unsigned long __mm_flags[1];
  } flags;
} __attribute__ ((preserve_access_index));

struct mm_struct;

struct task_struct
{
  struct thread_struct thread;
  struct mm_struct *mm;
} __attribute__ ((preserve_access_index));

/* A code object that was told of. */
struct seen
{
  uint64_t code;
  uint64_t identity; /* of its name: another object at the same address has another; the lowest bit
                        is CODE_IS_BUILTIN */
  uint32_t pid;
  uint32_t since_ms;
  uint32_t checked_ms;
  uint32_t generation;
};

struct bytes
{
  uint8_t bytes[SONDE_WALK_TEXT_BYTES];
};

/* What meet_code() says of it. */
enum
{
  CODE_IS_BUILTIN = 1 << 0, /* a function of the interpreter itself */
  CODE_IS_NONE = 1 << 1,
};

/* Of the walk that is under way: beyond what a stack of BPF has room for. */
struct scratch
{
  SondeWalkPlace place;
  uint64_t frame;     /* that is next; 0: none */
  uint64_t window_at; /* address of what was read last */
  uint64_t chunk;     /* most frames lie one behind the other from there */
  uint64_t chunk_end; /* 0: they do not */
  uint32_t window_bytes;
  uint32_t now_ms;
  uint32_t n_told;
  uint32_t is_builtin; /* what is told of, see CODE_IS_BUILTIN */
  uint32_t is_rising;  /* callers lie behind their callees, not before */
  uint32_t n_records;  /* of this processor: written, or lost and counted by the kernel */
  uint32_t has_failed; /* something could not be read: nothing more is told of */
  uint8_t window[WINDOW_BYTES + SONDE_WALK_FRAME_BYTES + 8];
  SondeWalkRecord walk;
  SondeWalkCode code;
};

struct
{
  __uint (type, BPF_MAP_TYPE_LRU_HASH);
  __uint (max_entries, MAX_PROCESSES);
  __type (key, uint32_t);
  __type (value, SondeWalkPlace);
} places SEC (".maps");

struct
{
  __uint (type, BPF_MAP_TYPE_ARRAY);
  __uint (max_entries, N_SEEN);
  __type (key, uint32_t);
  __type (value, struct seen);
} codes SEC (".maps");

/* An entry stays when the descriptor that it was made of is closed. */
struct
{
  __uint (type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
  __uint (max_entries, MAX_CPUS);
  __uint (map_flags, BPF_F_PRESERVE_ELEMS);
  __type (key, uint32_t);
  __type (value, uint32_t);
} outputs SEC (".maps");

struct
{
  __uint (type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint (max_entries, 1);
  __type (key, uint32_t);
  __type (value, struct scratch);
} scratches SEC (".maps");

/* One. */
struct
{
  __uint (type, BPF_MAP_TYPE_ARRAY);
  __uint (max_entries, 1);
  __type (key, uint32_t);
  __type (value, SondeWalkSession);
} sessions SEC (".maps");

/* Functions below that are not static are checked by the kernel once, and not at each call; they
 * see what they are given as so many bytes, so no pointer to another thing can be in there. */

/* Of the frame that is next, which is in the window. */
static inline const uint8_t *
byte_at (const struct scratch *scratch, uint32_t offset)
{
  uint32_t at = (scratch->frame - scratch->window_at) & (WINDOW_BYTES - 1);

  return scratch->window + at + (offset & (SONDE_WALK_FRAME_BYTES - 1));
}

static inline uint64_t
field (const struct scratch *scratch, uint32_t offset)
{
  uint64_t value;

  __builtin_memcpy (&value, byte_at (scratch, offset), sizeof value);
  return value;
}

static inline uint64_t
read_pointer (uint64_t address)
{
  uint64_t value = 0;

  bpf_probe_read_user (&value, sizeof value, (const void *) address);
  return value;
}

/* A read that fails is a fault, which costs more than others: after one the walk ends. Returns: 0
 * if it was read */
static inline long
try_pointer (uint64_t address, uint64_t *value)
{
  return bpf_probe_read_user (value, sizeof *value, (const void *) address);
}

static inline long
try_number (uint64_t address, uint32_t *value)
{
  return bpf_probe_read_user (value, sizeof *value, (const void *) address);
}

/* The kernel counts as lost what the ring has no room for, and nothing else. */
static inline int
count_record (struct scratch *scratch, int result)
{
  if (result == 0 || result == -NO_ROOM)
    scratch->n_records++;
  return result;
}

/* Where the characters of a compact string of CPython are. Returns: their width; 0: it is none; -1:
 * it cannot be read */
static inline int
find_python_text (const SondeWalkPlace *place, uint64_t address, uint64_t *from)
{
  uint64_t type;
  uint32_t state;

  if (try_pointer (address + OBJECT_TYPE, &type))
    return -1;
  if (type != place->text_type)
    return 0;
  if (try_number (address + place->layout.text_state, &state))
    return -1;
  *from = address + ((state >> 6 & 1) ? place->layout.text_ascii : place->layout.text_other);
  return state >> 2 & 7;
}

static inline int
find_php_text (const SondeWalkPlace *place, uint64_t address, uint64_t *from)
{
  uint32_t flags;

  if (try_number (address + place->layout.text_state, &flags))
    return -1;
  *from = address + place->layout.text_ascii;
  return (flags & TYPE_MASK) == TYPE_IS_STRING ? SONDE_WALK_UTF8 : 0;
}

static inline int
find_ruby_text (const SondeWalkPlace *place, uint64_t address, uint64_t *from, uint64_t *length)
{
  uint64_t flags;

  if (try_pointer (address + place->layout.text_state, &flags))
    return -1;
  if ((flags & VALUE_TYPE) != VALUE_IS_STRING)
    return 0;
  *length = flags >> EMBEDDED_LENGTH & 31;
  *from = address + place->layout.text_ascii;
  /* Up to 3.1 one that has its bytes in itself has them where others have the length. */
  if (((flags & IS_SPECIAL) != 0 || place->layout.text_ascii != place->layout.text_length)
      && try_pointer (address + place->layout.text_length, length))
    return -1;
  if ((flags & IS_SPECIAL) != 0 && try_pointer (address + place->layout.text_other, from))
    return -1;
  return SONDE_WALK_UTF8;
}

/* Characters of a string. Returns: 0, also if it is none; -1: it cannot be read */
__noinline int
read_text (const SondeWalkPlace *place, uint64_t address, SondeWalkText *text, struct bytes *bytes)
{
  uint64_t length = 0;
  uint64_t from = 0;
  uint32_t unit;
  int width;

  if (!place || !text || !bytes)
    return -1;
  text->width = 0;
  text->size_bytes = 0;
  if (place->kind == SONDE_WALK_RUBY)
    width = find_ruby_text (place, address, &from, &length);
  else
    {
      width = place->kind == SONDE_WALK_PHP ? find_php_text (place, address, &from)
                                            : find_python_text (place, address, &from);
      if (width > 0 && try_pointer (address + place->layout.text_length, &length))
        width = -1;
    }
  if (width < 0)
    return -1;
  unit = width == SONDE_WALK_UTF8 ? 1 : width;
  if (unit != 1 && unit != 2 && unit != 4)
    return 0;
  if (length > SONDE_WALK_TEXT_BYTES / unit - 1)
    length = SONDE_WALK_TEXT_BYTES / unit - 1;
  length *= unit;
  /* The verifier has to see the bound. */
  asm volatile("%0 &= 255" : "+r"(length));
  if (bpf_probe_read_user (bytes->bytes, length, (const void *) from))
    return -1;
  text->width = width;
  text->size_bytes = length;
  return 0;
}

/* Of what is told of. Returns: 0 also if it cannot be read, or something before could not */
static inline uint64_t
fetch_pointer (struct scratch *scratch, uint64_t address)
{
  uint64_t value = 0;

  if (!scratch->has_failed && try_pointer (address, &value))
    scratch->has_failed = 1;
  return scratch->has_failed ? 0 : value;
}

static inline uint32_t
fetch_number (struct scratch *scratch, uint64_t address)
{
  uint32_t value = 0;

  if (!scratch->has_failed && try_number (address, &value))
    scratch->has_failed = 1;
  return scratch->has_failed ? 0 : value;
}

/* A line table of CPython. Returns: how many bytes of it there are */
static inline uint64_t
copy_python_lines (struct scratch *scratch, uint64_t address)
{
  uint64_t length = fetch_pointer (scratch, address + BYTES_LENGTH);

  if (length > SONDE_WALK_LINES_BYTES - 1)
    length = SONDE_WALK_LINES_BYTES - 1;
  asm volatile("%0 &= 4095" : "+r"(length));
  if (!scratch->has_failed
      && bpf_probe_read_user (scratch->code.lines, length, (const void *) (address + BYTES_DATA)))
    scratch->has_failed = 1;
  return scratch->has_failed ? 0 : length;
}

/* A name that there is none of is empty: that of the code outside of functions, for one. */
static inline void
tell_text (struct scratch *scratch, uint64_t address, SondeWalkText *text, uint8_t *bytes)
{
  text->width = scratch->has_failed ? 0 : 1;
  text->size_bytes = 0;
  if (!scratch->has_failed && address != 0)
    scratch->has_failed = read_text (&scratch->place, address, text, (struct bytes *) bytes) != 0;
}

/* What CPython has of a code object. Returns: bytes of its lines */
static inline uint64_t
describe_python (struct scratch *scratch, uint64_t address)
{
  const SondeWalkLayout *layout = &scratch->place.layout;
  SondeWalkCode *code = &scratch->code;

  code->first_line = fetch_number (scratch, address + layout->code_line);
  tell_text (scratch, 0, &code->scope, code->scope_bytes);
  tell_text (scratch, fetch_pointer (scratch, address + layout->code_name), &code->name,
             code->name_bytes);
  tell_text (scratch, fetch_pointer (scratch, address + layout->code_file), &code->file,
             code->file_bytes);
  return copy_python_lines (scratch, fetch_pointer (scratch, address + layout->code_lines));
}

static inline void
describe_php (struct scratch *scratch, uint64_t address)
{
  const SondeWalkLayout *layout = &scratch->place.layout;
  SondeWalkCode *code = &scratch->code;
  uint64_t scope = fetch_pointer (scratch, address + layout->code_scope);
  uint64_t file = 0;

  if (!scratch->is_builtin)
    {
      code->first_line = fetch_number (scratch, address + layout->code_line);
      file = fetch_pointer (scratch, address + layout->code_file);
    }
  tell_text (scratch, fetch_pointer (scratch, address + layout->code_name), &code->name,
             code->name_bytes);
  if (scope != 0)
    scope = fetch_pointer (scratch, scope + layout->scope_name);
  tell_text (scratch, scope, &code->scope, code->scope_bytes);
  tell_text (scratch, file, &code->file, code->file_bytes);
}

/* An index, which says of each word of code how many entries begin up to there; and the entries. */
static inline uint64_t
copy_ruby_lines (struct scratch *scratch, uint64_t body)
{
  const SondeWalkLayout *layout = &scratch->place.layout;
  SondeWalkCode *code = &scratch->code;
  SondeWalkLines *lines = (SondeWalkLines *) code->lines;
  uint32_t n_words = fetch_number (scratch, body + layout->code_size);
  uint32_t n_entries = fetch_number (scratch, body + layout->code_n_lines);
  uint64_t index = fetch_pointer (scratch, body + layout->code_index);
  uint64_t entries = fetch_pointer (scratch, body + layout->code_lines);
  uint64_t index_bytes;
  uint64_t entries_bytes;

  if (scratch->has_failed)
    return 0;
  index_bytes = (uint64_t) n_words / 512 + 1;
  if (index_bytes > SONDE_WALK_MAX_INDEX_STEPS)
    index_bytes = SONDE_WALK_MAX_INDEX_STEPS;
  index_bytes = SONDE_WALK_INDEX_BYTES + index_bytes * SONDE_WALK_INDEX_STEP_BYTES;
  /* Of one entry alone there is none. */
  if (n_entries < 2)
    index_bytes = 0;
  if (n_entries > SONDE_WALK_MAX_ENTRIES)
    n_entries = SONDE_WALK_MAX_ENTRIES;
  entries_bytes = n_entries * SONDE_WALK_ENTRY_BYTES;
  asm volatile("%0 &= 2047" : "+r"(index_bytes));
  asm volatile("%0 &= 4095" : "+r"(entries_bytes));
  if (index_bytes
          > SONDE_WALK_INDEX_BYTES + SONDE_WALK_MAX_INDEX_STEPS * SONDE_WALK_INDEX_STEP_BYTES
      || entries_bytes > SONDE_WALK_MAX_ENTRIES * SONDE_WALK_ENTRY_BYTES)
    return 0;
  lines->index_bytes = index_bytes;
  lines->n_entries = n_entries;
  if ((index_bytes > 0
       && bpf_probe_read_user (code->lines + sizeof *lines, index_bytes, (const void *) index))
      || bpf_probe_read_user (code->lines + sizeof *lines + index_bytes, entries_bytes,
                              (const void *) entries))
    {
      scratch->has_failed = 1;
      return 0;
    }
  return sizeof *lines + index_bytes + entries_bytes;
}

static inline uint64_t
describe_ruby (struct scratch *scratch, uint64_t address)
{
  const SondeWalkLayout *layout = &scratch->place.layout;
  SondeWalkCode *code = &scratch->code;
  uint64_t body = fetch_pointer (scratch, address + layout->code_body);
  uint64_t file = fetch_pointer (scratch, body + layout->code_file);

  code->first_line
      = fetch_pointer (scratch, body + layout->code_line) >> (layout->is_code_tagged ? 1 : 0);
  code->first_instruction = fetch_pointer (scratch, body + layout->code_instructions);
  tell_text (scratch, 0, &code->scope, code->scope_bytes);
  tell_text (scratch, fetch_pointer (scratch, body + layout->code_name), &code->name,
             code->name_bytes);
  /* Two paths: as it was said, and without links. */
  if (file != 0
      && (fetch_pointer (scratch, file) & (VALUE_TYPE | IS_SPECIAL))
             == (VALUE_IS_ARRAY | IS_SPECIAL))
    file = fetch_pointer (scratch, file + EMBEDDED);
  tell_text (scratch, file, &code->file, code->file_bytes);
  return copy_ruby_lines (scratch, body);
}

/* @key: what frames have of it; @address: where it is */
__noinline int
tell_code (struct bpf_perf_event_data *sample,
           struct scratch *scratch,
           uint64_t key,
           uint64_t address)
{
  SondeWalkCode *code;
  uint64_t length = 0;
  uint64_t size_bytes;

  if (!scratch)
    return -1;
  code = &scratch->code;
  code->kind = SONDE_WALK_RECORD_CODE;
  code->pid = scratch->walk.pid;
  code->generation = scratch->place.generation;
  code->code = key;
  code->number = scratch->n_records + 1;
  code->first_line = 0;
  code->first_instruction = 0;
  switch (scratch->place.kind)
    {
    case SONDE_WALK_PHP:
      describe_php (scratch, address);
      break;
    case SONDE_WALK_RUBY:
      length = describe_ruby (scratch, address);
      break;
    default:
      length = describe_python (scratch, address);
    }
  code->lines_bytes = length;
  size_bytes = __builtin_offsetof(SondeWalkCode, lines) + length;
  asm volatile("%0 &= 8191" : "+r"(size_bytes));
  if (size_bytes > sizeof *code)
    return -1;
  return count_record (
      scratch, bpf_perf_event_output (sample, &outputs, BPF_F_CURRENT_CPU, code, size_bytes));
}

/* Whether there is code at @address, and a function of what sort. Returns: CODE_* */
static inline int
look_at_code (const SondeWalkPlace *place, uint64_t address)
{
  uint8_t type = 0;

  if (place->kind == SONDE_WALK_PYTHON)
    return read_pointer (address + OBJECT_TYPE) == place->code_type ? 0 : CODE_IS_NONE;
  if (place->kind == SONDE_WALK_RUBY)
    return (read_pointer (address) & CODE_KIND) == VALUE_IS_CODE ? 0 : CODE_IS_NONE;
  bpf_probe_read_user (&type, sizeof type, (const void *) address);
  if (type == FUNCTION_BUILTIN)
    return CODE_IS_BUILTIN;
  return type == FUNCTION_USER || type == FUNCTION_EVAL ? 0 : CODE_IS_NONE;
}

static inline uint64_t
mix (uint64_t identity, uint64_t value)
{
  identity = (identity ^ value) * 0x9E3779B97F4A7C15ull;
  return identity ^ identity >> 32;
}

/* What another object at the same address has not; @what: CODE_*. Code outside of functions has no
 * name in PHP, and is freed when its file was included: the next one lies at the same address.
 * Returns: 0; -1: it cannot be read */
static inline int
identify_code (const SondeWalkPlace *place, uint64_t address, int what, uint64_t *identity)
{
  const SondeWalkLayout *layout = &place->layout;
  uint64_t name;
  uint64_t file;
  uint64_t other = 0;
  uint64_t line = 0;
  uint32_t number;

  if (place->kind == SONDE_WALK_RUBY)
    {
      /* Its texts have no hash; but what it has of its own lies elsewhere. */
      if (try_pointer (address + layout->code_body, &other)
          || try_pointer (other + layout->code_name, &name)
          || try_pointer (other + layout->code_file, &file)
          || try_pointer (other + layout->code_line, &line))
        return -1;
      *identity = mix (mix (mix (other, name), file), line);
      return 0;
    }
  if (try_pointer (address + layout->code_name, &name)
      || (name != 0 && try_pointer (name + layout->text_hash, &other)))
    return -1;
  *identity = mix (name, other);
  if (place->kind != SONDE_WALK_PHP)
    return 0;
  if (try_pointer (address + layout->code_scope, &other))
    return -1;
  *identity = mix (*identity, other);
  /* A function of the interpreter itself has neither, and its object ends before them. */
  if (what == CODE_IS_BUILTIN)
    return 0;
  if (try_pointer (address + layout->code_file, &file)
      || try_number (address + layout->code_line, &number))
    return -1;
  *identity = mix (mix (*identity, file), number);
  return 0;
}

/* Tells of a code object if that was not done. Its @key is its @address, or what others of the same
 * code have, too. Returns: CODE_* */
__noinline int
meet_code (struct bpf_perf_event_data *sample,
           struct scratch *scratch,
           uint64_t key,
           uint64_t address)
{
  const SondeWalkPlace *place;
  uint32_t now_ms;
  uint32_t pid;
  uint32_t slot;
  struct seen *seen;
  uint64_t identity;
  int is_same;
  int what;

  if (!scratch)
    return 0;
  place = &scratch->place;
  now_ms = scratch->now_ms;
  pid = scratch->walk.pid;
  slot = ((key >> 4) * 0x9E3779B1u ^ pid * 0x85EBCA6Bu) >> 7 & (N_SEEN - 1);
  seen = bpf_map_lookup_elem (&codes, &slot);
  if (!seen)
    return 0;
  is_same
      = seen->code == key && seen->pid == pid && seen->generation == (uint32_t) place->generation;
  if (is_same && now_ms - seen->since_ms >= YOUNG_MS && now_ms - seen->checked_ms < CHECK_MS)
    return seen->identity & CODE_IS_BUILTIN;
  what = look_at_code (place, address);
  if (what == CODE_IS_NONE || identify_code (place, address, what, &identity))
    return CODE_IS_NONE;
  identity = (identity & ~(uint64_t) CODE_IS_BUILTIN) | what;
  if (is_same && seen->identity == identity)
    {
      seen->checked_ms = now_ms;
      return what;
    }
  if (scratch->n_told >= SONDE_WALK_MAX_CODES || scratch->has_failed)
    return what;
  scratch->n_told++;
  scratch->is_builtin = what;
  if (tell_code (sample, scratch, key, address))
    return what;
  seen->code = key;
  seen->identity = identity;
  seen->pid = pid;
  seen->generation = place->generation;
  seen->since_ms = now_ms;
  seen->checked_ms = now_ms;
  return what;
}

/* Each read costs as much as any other, however long it is: so the frames before this one are read
 * with it, where they lie in the same memory. Below that a read would fail, and cost more. */
__noinline int
move_window (struct scratch *scratch)
{
  uint32_t size_bytes;
  uint64_t end;

  if (!scratch)
    return -1;
  size_bytes = scratch->place.layout.frame_size & (2 * SONDE_WALK_FRAME_BYTES - 1);
  end = scratch->frame + size_bytes;
  if (end < scratch->frame)
    return -1;
  if (scratch->frame >= scratch->window_at && end <= scratch->window_at + scratch->window_bytes)
    return 0;
  scratch->window_at = scratch->frame;
  if (scratch->is_rising && end <= scratch->chunk_end)
    size_bytes = scratch->chunk_end - scratch->frame > WINDOW_BYTES
                     ? WINDOW_BYTES
                     : scratch->chunk_end - scratch->frame;
  else if (scratch->frame >= scratch->chunk && end <= scratch->chunk_end)
    {
      scratch->window_at
          = end - scratch->chunk > WINDOW_BYTES ? end - WINDOW_BYTES : scratch->chunk;
      size_bytes = end - scratch->window_at;
    }
  if (size_bytes > WINDOW_BYTES)
    size_bytes = WINDOW_BYTES;
  scratch->window_bytes = size_bytes;
  asm volatile("%0 &= 4095" : "+r"(size_bytes));
  if (size_bytes > WINDOW_BYTES)
    return -1;
  return bpf_probe_read_user (scratch->window, size_bytes, (const void *) scratch->window_at);
}

struct walker
{
  struct bpf_perf_event_data *sample;
  struct scratch *scratch;
};

/* What became of the frame that is next. */
enum
{
  FRAME_TAKEN,
  FRAME_SKIPPED,
  FRAME_TORN, /* it is none: the walk ends */
};

static inline int
step_python (struct walker *walker, SondeWalkFrame *frame)
{
  struct scratch *scratch = walker->scratch;
  const SondeWalkLayout *layout = &scratch->place.layout;
  uint64_t code = field (scratch, layout->frame_code);
  uint8_t entry = 1;

  if (layout->is_code_tagged)
    code &= ~7ull;
  if (layout->entry != SONDE_WALK_ENTRY_ALWAYS)
    entry = *byte_at (scratch, layout->frame_entry);
  if (layout->entry == SONDE_WALK_ENTRY_SHIM && entry >= 3)
    code = 0;
  else if (meet_code (walker->sample, scratch, code, code) == CODE_IS_NONE)
    return FRAME_TORN;
  frame->code = code;
  frame->at = layout->is_at_index ? (uint32_t) field (scratch, layout->frame_at)
                                  : (uint32_t) (field (scratch, layout->frame_at) - code);
  frame->entry = entry;
  return FRAME_TAKEN;
}

/* Of the newest frame the evaluating function has the instruction in a register, and the frame in
 * another (ZEND_VM_FP_GLOBAL_REG, ZEND_VM_IP_GLOBAL_REG). What the frame has of it may be older, or
 * of another function that was called before. @at: 0: it is not known. Returns: 0; -1: what would
 * tell cannot be read */
static inline int
find_instruction (const struct walker *walker, uint64_t function, uint64_t *at)
{
  const struct scratch *scratch = walker->scratch;
  const SondeWalkLayout *layout = &scratch->place.layout;
  uint64_t saved = field (scratch, layout->frame_at);
  uint64_t current = walker->sample->regs.r15;
  uint64_t size_bytes;
  uint64_t first;
  uint32_t n;

  *at = saved;
  if (scratch->walk.n_frames > 0)
    return 0;
  if (try_number (function + layout->code_n_lines, &n)
      || try_pointer (function + layout->code_lines, &first))
    return -1;
  size_bytes = (uint64_t) n * INSTRUCTION_BYTES;
  if (walker->sample->regs.r14 == scratch->frame && current - first < size_bytes)
    *at = current;
  else if (saved - first >= size_bytes)
    *at = 0;
  return 0;
}

/* A closure is an object that has the function: another at the same address is another function,
 * and those of the same code are the same. */
static inline int
step_php (struct walker *walker, SondeWalkFrame *frame)
{
  struct scratch *scratch = walker->scratch;
  const SondeWalkLayout *layout = &scratch->place.layout;
  uint64_t function = field (scratch, layout->frame_code);
  uint32_t info = field (scratch, layout->frame_entry);
  uint64_t key = function;
  uint64_t instruction = 0;
  uint32_t line = 0;
  int what;

  /* It stands for what calls functions from outside. */
  if (function == 0)
    return FRAME_SKIPPED;
  if ((info & CALL_IS_CLOSURE) != 0 && try_pointer (function + layout->code_lines, &key))
    return FRAME_TORN;
  if (key == 0)
    key = function;
  what = meet_code (walker->sample, scratch, key, function);
  if (what == CODE_IS_NONE)
    return FRAME_TORN;
  if (what != CODE_IS_BUILTIN && find_instruction (walker, function, &instruction))
    return FRAME_TORN;
  if (instruction != 0 && try_number (instruction + layout->instruction_line, &line))
    return FRAME_TORN;
  frame->code = key;
  frame->at = line;
  frame->entry = what != CODE_IS_BUILTIN && (info & CALL_IS_TOP) != 0;
  return FRAME_TAKEN;
}

/* What is written in C has native frames, and is left out. */
static inline int
step_ruby (struct walker *walker, SondeWalkFrame *frame)
{
  struct scratch *scratch = walker->scratch;
  const SondeWalkLayout *layout = &scratch->place.layout;
  uint64_t code = field (scratch, layout->frame_code);
  uint64_t flags = 0;

  if (bpf_probe_read_user (&flags, sizeof flags,
                           (const void *) field (scratch, layout->frame_entry)))
    return FRAME_TORN;
  switch (flags & FRAME_KIND)
    {
    case FRAME_IS_C:
    case FRAME_IS_BLOCK:
    case FRAME_IS_DUMMY:
      return FRAME_SKIPPED;
    }
  if (meet_code (walker->sample, scratch, code, code) == CODE_IS_NONE)
    return FRAME_TORN;
  frame->code = code;
  frame->at = field (scratch, layout->frame_at);
  frame->entry = (flags & FRAME_IS_OLDEST) != 0;
  return FRAME_TAKEN;
}

/* Of Ruby frames have no pointers to their callers. */
static inline uint64_t
find_caller (const struct scratch *scratch)
{
  const SondeWalkLayout *layout = &scratch->place.layout;
  uint64_t next = scratch->frame + layout->frame_size;

  if (scratch->place.kind != SONDE_WALK_RUBY)
    return field (scratch, layout->frame_caller);
  return next < scratch->chunk_end ? next : 0;
}

static inline int
step_of_kind (struct walker *walker, SondeWalkFrame *frame)
{
  switch (walker->scratch->place.kind)
    {
    case SONDE_WALK_PHP:
      return step_php (walker, frame);
    case SONDE_WALK_RUBY:
      return step_ruby (walker, frame);
    default:
      return step_python (walker, frame);
    }
}

static long
step (uint32_t index, struct walker *walker)
{
  struct scratch *scratch = walker->scratch;
  SondeWalkFrame *frame
      = &scratch->walk.frames[scratch->walk.n_frames & (SONDE_WALK_MAX_FRAMES - 1)];
  int result = FRAME_TORN;

  if (scratch->frame == 0 || scratch->walk.n_frames >= SONDE_WALK_MAX_FRAMES)
    return 1;
  if (move_window (scratch) == 0)
    result = step_of_kind (walker, frame);
  if (result == FRAME_TORN)
    {
      scratch->walk.flags |= SONDE_WALK_TORN;
      return 1;
    }
  scratch->frame = find_caller (scratch);
  scratch->walk.n_frames += result == FRAME_TAKEN;
  return 0;
}

/* What a thread keeps under the interpreter's key. 0: nothing */
__noinline uint64_t
find_state (const SondeWalkPlace *place)
{
  struct task_struct *task = (void *) bpf_get_current_task ();
  uint64_t thread = BPF_CORE_READ (task, thread.fsbase);
  uint32_t key[2] = { 0 };
  uint64_t block;

  if (!place || bpf_probe_read_user (key, sizeof key, (const void *) place->key) || key[0] == 0
      || key[1] >= MAX_KEYS)
    return 0;
  block = key[1] < KEYS_A_BLOCK
              ? thread + place->layout.thread_data - KEYS_A_BLOCK * place->layout.thread_data_size
              : read_pointer (thread + place->layout.thread_data + key[1] / KEYS_A_BLOCK * 8);
  return read_pointer (block + key[1] % KEYS_A_BLOCK * place->layout.thread_data_size
                       + place->layout.thread_data_value);
}

/* Of the sampled thread, in the broker's namespace. 0: it is in none that this can tell. */
static inline uint64_t
find_ids (const SondeWalkSession *session)
{
  struct bpf_pidns_info ids = { 0 };

  if (session->inode == 0)
    return bpf_get_current_pid_tgid ();
  if (bpf_get_ns_current_pid_tgid (session->device, session->inode, &ids, sizeof ids))
    return 0;
  return (uint64_t) ids.tgid << 32 | ids.pid;
}

/* Whether its user may not look at the sampled process, as that said so itself. */
static inline int
is_closed (void)
{
  struct task_struct *task = (void *) bpf_get_current_task ();
  void *memory = BPF_CORE_READ (task, mm);
  struct mm_struct___word *older = memory;
  struct mm_struct___bits *newer = memory;
  unsigned long flags = bpf_core_field_exists (older->flags)
                            ? BPF_CORE_READ (older, flags)
                            : BPF_CORE_READ (newer, flags.__mm_flags[0]);

  return (flags & DUMPABLE_MASK) != DUMPABLE_BY_USER;
}

/* The newest frame of the thread, and memory where others are. They are 0 where there is none. */
__noinline int
begin_python (struct scratch *scratch)
{
  const SondeWalkLayout *layout;
  uint64_t state;

  if (!scratch)
    return 0;
  layout = &scratch->place.layout;
  state = find_state (&scratch->place);
  if (state == 0)
    return 0;
  scratch->frame = read_pointer (state + layout->state_frame);
  if (layout->is_indirect && scratch->frame != 0)
    scratch->frame = read_pointer (scratch->frame + layout->holder_frame);
  if (layout->state_chunk != 0 && scratch->frame != 0)
    scratch->chunk = read_pointer (state + layout->state_chunk);
  if (scratch->chunk != 0)
    scratch->chunk_end = scratch->chunk + read_pointer (scratch->chunk + CHUNK_SIZE);
  return 1;
}

/* The state is the process's own, so it is the first thread's: others of it are of libraries.
 * Frames lie one behind the other, and the newest is the last. */
__noinline int
begin_php (struct scratch *scratch)
{
  const SondeWalkLayout *layout;

  if (!scratch || scratch->walk.pid != scratch->walk.tid)
    return 0;
  layout = &scratch->place.layout;
  scratch->frame = read_pointer (scratch->place.key + layout->state_frame);
  if (scratch->frame == 0)
    return 0;
  scratch->chunk = read_pointer (scratch->place.key + layout->state_chunk);
  scratch->chunk_end = scratch->frame + layout->frame_size;
  return 1;
}

/* Callers lie behind their callees, up to the end of a stack. */
__noinline int
begin_ruby (struct scratch *scratch)
{
  struct task_struct *task = (void *) bpf_get_current_task ();
  uint64_t thread = BPF_CORE_READ (task, thread.fsbase);
  const SondeWalkLayout *layout;
  uint64_t variable[2] = { 0 }; /* module, offset */
  uint64_t state;
  uint64_t block;

  if (!scratch)
    return 0;
  layout = &scratch->place.layout;
  if (bpf_probe_read_user (variable, sizeof variable, (const void *) scratch->place.key)
      || variable[0] == 0 || variable[0] >= MAX_MODULES || variable[1] >= MAX_VARIABLE)
    return 0;
  block = read_pointer (read_pointer (thread + THREAD_MODULES) + variable[0] * MODULE_BYTES);
  state = block != 0 ? read_pointer (block + variable[1]) : 0;
  if (state == 0)
    return 0;
  scratch->frame = read_pointer (state + layout->state_frame);
  if (scratch->frame == 0)
    return 0;
  scratch->chunk = read_pointer (state + layout->state_chunk);
  scratch->chunk_end
      = scratch->chunk + read_pointer (state + layout->state_chunk_size) * sizeof (uint64_t);
  scratch->is_rising = 1;
  return scratch->frame >= scratch->chunk && scratch->frame < scratch->chunk_end;
}

static inline int
begin (struct scratch *scratch)
{
  switch (scratch->place.kind)
    {
    case SONDE_WALK_PHP:
      return begin_php (scratch);
    case SONDE_WALK_RUBY:
      return begin_ruby (scratch);
    default:
      return begin_python (scratch);
    }
}

/* To return 0 would suppress the sample. */
SEC ("perf_event")
int
sonde_walk (struct bpf_perf_event_data *sample)
{
  uint32_t zero = 0;
  const SondeWalkSession *session = bpf_map_lookup_elem (&sessions, &zero);
  uint64_t ids = session ? find_ids (session) : 0;
  uint32_t pid = ids >> 32;
  const SondeWalkPlace *place = bpf_map_lookup_elem (&places, &pid);
  struct walker walker = { .sample = sample };
  struct scratch *scratch;
  uint64_t size_bytes;

  if (!session || !place || (!session->shows_closed && is_closed ()))
    return 1;
  scratch = bpf_map_lookup_elem (&scratches, &zero);
  if (!scratch)
    return 1;
  scratch->place = *place;
  scratch->walk.pid = pid;
  scratch->walk.tid = ids;
  scratch->chunk = 0;
  scratch->chunk_end = 0;
  scratch->is_rising = 0;
  if (!begin (scratch))
    return 1;
  scratch->window_at = 0;
  scratch->window_bytes = 0;
  scratch->n_told = 0;
  scratch->has_failed = 0;
  scratch->now_ms = bpf_ktime_get_ns () / 1000000;

  scratch->walk.kind = SONDE_WALK_RECORD_FRAMES;
  scratch->walk.flags = 0;
  scratch->walk.generation = scratch->place.generation;
  scratch->walk.ip = sample->regs.rip;
  scratch->walk.n_frames = 0;
  walker.scratch = scratch;
  bpf_loop (MAX_STEPS, step, &walker, 0);
  if (scratch->frame != 0 && scratch->walk.flags == 0)
    scratch->walk.flags |= SONDE_WALK_DEEP;
  scratch->walk.number = scratch->n_records + 1;
  size_bytes = __builtin_offsetof(SondeWalkRecord, frames)
               + scratch->walk.n_frames * sizeof (SondeWalkFrame);
  asm volatile("%0 &= 8191" : "+r"(size_bytes));
  if (size_bytes <= sizeof (SondeWalkRecord))
    count_record (scratch, bpf_perf_event_output (sample, &outputs, BPF_F_CURRENT_CPU,
                                                  &scratch->walk, size_bytes));
  return 1;
}

char program_license[] SEC ("license") = "GPL";
