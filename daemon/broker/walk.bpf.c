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
#define WINDOW_BYTES  2048 /* of frames, read at once; a power of two */
#define YOUNG_MS      1000 /* an address of code is used anew while a program loads more */
#define CHECK_MS      50

/* Of objects of CPython, in all versions. */
#define OBJECT_TYPE  8
#define BYTES_LENGTH 16
#define BYTES_DATA   32

/* Of what holds frames, since 3.11. */
#define CHUNK_SIZE 8

/* What of the kernel is read; where it is, the kernel says. */
struct thread_struct
{
  unsigned long fsbase;
} __attribute__ ((preserve_access_index));

struct task_struct
{
  struct thread_struct thread;
} __attribute__ ((preserve_access_index));

/* A code object that was told of. */
struct seen
{
  uint64_t code;
  uint64_t identity; /* of its name: another object at the same address has another */
  uint32_t pid;
  uint32_t since_ms;
  uint32_t checked_ms;
  uint32_t generation;
};

/* Beyond what a stack of BPF has room for. */
struct scratch
{
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

/* Whose numbers of processes these are: a namespace of the broker's, as its file tells it; 0: the
 * machine's own. */
struct
{
  __uint (type, BPF_MAP_TYPE_ARRAY);
  __uint (max_entries, 1);
  __type (key, uint32_t);
  __type (value, SondeWalkNamespace);
} namespaces SEC (".maps");

struct walker
{
  struct bpf_perf_event_data *sample;
  const SondeWalkPlace *place;
  struct scratch *scratch;
  uint64_t frame;     /* that is next; 0: none */
  uint64_t window;    /* address of what was read last */
  uint64_t chunk;     /* most frames lie one behind the other from there */
  uint64_t chunk_end; /* 0: they do not */
  uint32_t window_bytes;
  uint32_t pid;
  uint32_t now_ms;
  uint32_t n_told;
};

/* Of the frame that is next, which is in the window. */
static inline const uint8_t *
byte_at (const struct walker *walker, uint32_t offset)
{
  uint32_t at = (walker->frame - walker->window) & (WINDOW_BYTES - 1);

  return walker->scratch->window + at + (offset & (SONDE_WALK_FRAME_BYTES - 1));
}

static inline uint64_t
field (const struct walker *walker, uint32_t offset)
{
  uint64_t value;

  __builtin_memcpy (&value, byte_at (walker, offset), sizeof value);
  return value;
}

static uint64_t
read_pointer (uint64_t address)
{
  uint64_t value = 0;

  bpf_probe_read_user (&value, sizeof value, (const void *) address);
  return value;
}

/* Bytes of a compact string. */
static __noinline int
read_text (const SondeWalkPlace *place, uint64_t address, SondeWalkText *text, uint8_t *bytes)
{
  uint64_t length = 0;
  uint32_t state = 0;
  uint32_t width;
  uint64_t from;

  text->width = 0;
  text->size_bytes = 0;
  if (read_pointer (address + OBJECT_TYPE) != place->text_type
      || bpf_probe_read_user (&length, sizeof length,
                              (const void *) (address + place->layout.text_length))
      || bpf_probe_read_user (&state, sizeof state,
                              (const void *) (address + place->layout.text_state)))
    return -1;
  width = state >> 2 & 7;
  from = address + ((state >> 6 & 1) ? place->layout.text_ascii : place->layout.text_other);
  if (width != 1 && width != 2 && width != 4)
    return -1;
  if (length > SONDE_WALK_TEXT_BYTES / width - 1)
    length = SONDE_WALK_TEXT_BYTES / width - 1;
  length *= width;
  /* The verifier has to see the bound. */
  asm volatile("%0 &= 255" : "+r"(length));
  if (bpf_probe_read_user (bytes, length, (const void *) from))
    return -1;
  text->width = width;
  text->size_bytes = length;
  return 0;
}

static __noinline int
tell_code (struct walker *walker, uint64_t address)
{
  const SondeWalkPlace *place = walker->place;
  SondeWalkCode *code = &walker->scratch->code;
  uint64_t lines = read_pointer (address + place->layout.code_lines);
  uint64_t length = 0;
  uint64_t size_bytes;

  code->kind = SONDE_WALK_RECORD_CODE;
  code->pid = walker->pid;
  code->generation = place->generation;
  code->code = address;
  code->first_line = 0;
  bpf_probe_read_user (&code->first_line, sizeof code->first_line,
                       (const void *) (address + place->layout.code_line));
  read_text (place, read_pointer (address + place->layout.code_name), &code->name,
             code->name_bytes);
  read_text (place, read_pointer (address + place->layout.code_file), &code->file,
             code->file_bytes);
  bpf_probe_read_user (&length, sizeof length, (const void *) (lines + BYTES_LENGTH));
  if (length > SONDE_WALK_LINES_BYTES - 1)
    length = SONDE_WALK_LINES_BYTES - 1;
  asm volatile("%0 &= 4095" : "+r"(length));
  if (bpf_probe_read_user (code->lines, length, (const void *) (lines + BYTES_DATA)))
    length = 0;
  code->lines_bytes = length;
  size_bytes = __builtin_offsetof(SondeWalkCode, lines) + length;
  asm volatile("%0 &= 8191" : "+r"(size_bytes));
  if (size_bytes > sizeof *code)
    return -1;
  return bpf_perf_event_output (walker->sample, &outputs, BPF_F_CURRENT_CPU, code, size_bytes);
}

/* Tells of a code object if that was not done. Returns: whether it is one */
static __noinline int
meet_code (struct walker *walker, uint64_t address)
{
  const SondeWalkPlace *place = walker->place;
  uint32_t now_ms = walker->now_ms;
  uint32_t pid = walker->pid;
  uint32_t slot = ((address >> 4) * 0x9E3779B1u ^ pid * 0x85EBCA6Bu) >> 7 & (N_SEEN - 1);
  struct seen *seen = bpf_map_lookup_elem (&codes, &slot);
  uint64_t name;
  uint64_t hash = 0;
  uint64_t identity;
  int is_same;

  if (!seen)
    return 1;
  is_same = seen->code == address && seen->pid == pid
            && seen->generation == (uint32_t) place->generation;
  if (is_same && now_ms - seen->since_ms >= YOUNG_MS && now_ms - seen->checked_ms < CHECK_MS)
    return 1;
  name = read_pointer (address + place->layout.code_name);
  bpf_probe_read_user (&hash, sizeof hash, (const void *) (name + place->layout.text_hash));
  identity = name ^ hash * 0x9E3779B97F4A7C15ull;
  if (is_same && seen->identity == identity)
    {
      seen->checked_ms = now_ms;
      return 1;
    }
  if (read_pointer (address + OBJECT_TYPE) != place->code_type)
    return 0;
  if (walker->n_told >= SONDE_WALK_MAX_CODES)
    return 1;
  walker->n_told++;
  if (tell_code (walker, address))
    return 1;
  seen->code = address;
  seen->identity = identity;
  seen->pid = pid;
  seen->generation = place->generation;
  seen->since_ms = now_ms;
  seen->checked_ms = now_ms;
  return 1;
}

/* Each read costs as much as any other, however long it is: so the frames before this one are read
 * with it, where they lie in the same memory. Below that a read would fail, and cost more. */
static __noinline int
move_window (struct walker *walker)
{
  uint32_t size_bytes = walker->place->layout.frame_size & (2 * SONDE_WALK_FRAME_BYTES - 1);
  uint64_t end = walker->frame + size_bytes;

  if (walker->frame >= walker->window && end <= walker->window + walker->window_bytes)
    return 0;
  walker->window = walker->frame;
  if (walker->frame >= walker->chunk && end <= walker->chunk_end)
    {
      walker->window = end - walker->chunk > WINDOW_BYTES ? end - WINDOW_BYTES : walker->chunk;
      size_bytes = end - walker->window;
    }
  if (size_bytes > WINDOW_BYTES)
    size_bytes = WINDOW_BYTES;
  walker->window_bytes = size_bytes;
  asm volatile("%0 &= 4095" : "+r"(size_bytes));
  if (size_bytes > WINDOW_BYTES)
    return -1;
  return bpf_probe_read_user (walker->scratch->window, size_bytes, (const void *) walker->window);
}

static long
step (uint32_t index, struct walker *walker)
{
  const SondeWalkPlace *place = walker->place;
  const SondeWalkLayout *layout = &place->layout;
  SondeWalkRecord *walk = &walker->scratch->walk;
  SondeWalkFrame *frame = &walk->frames[index & (SONDE_WALK_MAX_FRAMES - 1)];
  uint64_t code;
  uint8_t entry = 1;

  if (walker->frame == 0)
    return 1;
  if (move_window (walker))
    {
      walk->flags |= SONDE_WALK_TORN;
      return 1;
    }
  code = field (walker, layout->frame_code);
  if (layout->is_code_tagged)
    code &= ~7ull;
  if (layout->entry != SONDE_WALK_ENTRY_ALWAYS)
    entry = *byte_at (walker, layout->frame_entry);
  if (layout->entry == SONDE_WALK_ENTRY_SHIM && entry >= 3)
    code = 0;
  else if (!meet_code (walker, code))
    {
      walk->flags |= SONDE_WALK_TORN;
      return 1;
    }
  frame->code = code;
  frame->at = layout->is_at_index ? (uint32_t) field (walker, layout->frame_at)
                                  : (uint32_t) (field (walker, layout->frame_at) - code);
  frame->entry = entry;
  walker->frame = field (walker, layout->frame_caller);
  walk->n_frames = index + 1;
  return 0;
}

/* What a thread keeps under the interpreter's key. 0: nothing */
static __noinline uint64_t
find_state (const SondeWalkPlace *place)
{
  struct task_struct *task = (void *) bpf_get_current_task ();
  uint64_t thread = BPF_CORE_READ (task, thread.fsbase);
  const SondeWalkLayout *layout = &place->layout;
  uint32_t key[2] = { 0 };
  uint64_t block;

  if (bpf_probe_read_user (key, sizeof key, (const void *) place->key) || key[0] == 0
      || key[1] >= MAX_KEYS)
    return 0;
  block = key[1] < KEYS_A_BLOCK
              ? thread + layout->thread_data - KEYS_A_BLOCK * layout->thread_data_size
              : read_pointer (thread + layout->thread_data + key[1] / KEYS_A_BLOCK * 8);
  return read_pointer (block + key[1] % KEYS_A_BLOCK * layout->thread_data_size
                       + layout->thread_data_value);
}

/* Of the sampled thread, in the broker's namespace. 0: it is in none that this can tell. */
static inline uint64_t
find_ids (void)
{
  uint32_t zero = 0;
  const SondeWalkNamespace *own = bpf_map_lookup_elem (&namespaces, &zero);
  struct bpf_pidns_info ids = { 0 };

  if (!own || own->inode == 0)
    return bpf_get_current_pid_tgid ();
  if (bpf_get_ns_current_pid_tgid (own->device, own->inode, &ids, sizeof ids))
    return 0;
  return (uint64_t) ids.tgid << 32 | ids.pid;
}

/* To return 0 would suppress the sample. */
SEC ("perf_event")
int
sonde_walk (struct bpf_perf_event_data *sample)
{
  uint64_t ids = find_ids ();
  uint32_t pid = ids >> 32;
  uint32_t zero = 0;
  const SondeWalkPlace *place = bpf_map_lookup_elem (&places, &pid);
  struct walker walker = { .sample = sample, .place = place, .pid = pid };
  uint64_t state;
  uint64_t size_bytes;

  if (!place)
    return 1;
  walker.scratch = bpf_map_lookup_elem (&scratches, &zero);
  if (!walker.scratch)
    return 1;
  state = find_state (place);
  if (state == 0)
    return 1;
  walker.frame = read_pointer (state + place->layout.state_frame);
  if (place->layout.is_indirect && walker.frame != 0)
    walker.frame = read_pointer (walker.frame + place->layout.holder_frame);
  if (place->layout.state_chunk != 0)
    {
      walker.chunk = read_pointer (state + place->layout.state_chunk);
      walker.chunk_end = walker.chunk + read_pointer (walker.chunk + CHUNK_SIZE);
    }
  walker.now_ms = bpf_ktime_get_ns () / 1000000;

  walker.scratch->walk.kind = SONDE_WALK_RECORD_FRAMES;
  walker.scratch->walk.flags = 0;
  walker.scratch->walk.generation = place->generation;
  walker.scratch->walk.ip = sample->regs.rip;
  walker.scratch->walk.pid = pid;
  walker.scratch->walk.tid = ids;
  walker.scratch->walk.n_frames = 0;
  bpf_loop (SONDE_WALK_MAX_FRAMES, step, &walker, 0);
  if (walker.scratch->walk.n_frames == SONDE_WALK_MAX_FRAMES && walker.frame != 0)
    walker.scratch->walk.flags |= SONDE_WALK_DEEP;
  size_bytes = __builtin_offsetof(SondeWalkRecord, frames)
               + walker.scratch->walk.n_frames * sizeof (SondeWalkFrame);
  asm volatile("%0 &= 8191" : "+r"(size_bytes));
  if (size_bytes <= sizeof (SondeWalkRecord))
    bpf_perf_event_output (sample, &outputs, BPF_F_CURRENT_CPU, &walker.scratch->walk, size_bytes);
  return 1;
}

char program_license[] SEC ("license") = "GPL";
