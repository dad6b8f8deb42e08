/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The structs that a walk program shares with who loads it and who reads what it writes. */
#pragma once

#include <stdint.h>

/**
 * SECTION: walk
 *
 * At each sample of a program that interprets another one, a BPF program reads the interpreter's
 * own list of frames and writes it into the session's ring as one record, directly before that of
 * the sample. What a function is called is written before the first walk that has it, as a record
 * of its own.
 *
 * A worker computes from the files of a process where that list is (SondeWalkPlace); the broker
 * checks the numbers and gives them to the program. All of what comes back is of the profiled
 * program, and may be anything, but for the number of a record: the BPF program counts those of
 * each processor from 1 on, modulo 2^32, also those that the ring has no room for.
 *
 * Source: docs/protocol.md, "Walks of interpreters"
 */
#define SONDE_WALK_MAX_FRAMES  256  /* of a walk, newest first; a power of two */
#define SONDE_WALK_MAX_CODES   8    /* that a walk tells of; the others at the next one */
#define SONDE_WALK_TEXT_BYTES  256  /* of a name or a path; what is longer is cut */
#define SONDE_WALK_LINES_BYTES 4096 /* of a line table; what is longer is cut */
#define SONDE_WALK_FRAME_BYTES 128  /* of the interpreter's frame, the part that has the fields */
#define SONDE_WALK_MAX_OFFSET  4096 /* of a field in a struct of the interpreter; exclusive */

/* Processes that are walked at a time. What holds them has room for more, as the kernel may make
 * some before it is full. */
#define SONDE_WALK_MAX_PROCESSES 768

typedef enum
{
  SONDE_WALK_NONE = 0,   /* the process is no interpreter (any more) */
  SONDE_WALK_PYTHON = 1, /* CPython 3.8 to 3.14 */
  SONDE_WALK_PHP = 2,    /* PHP 8.2 and 8.4, without threads */
  SONDE_WALK_RUBY = 3,   /* Ruby 3.1 and 3.3 */
  SONDE_N_WALK_KINDS,
} SondeWalkKind;

/* By what an interpreter tells that a native function of it begins with a frame. */
typedef enum
{
  SONDE_WALK_ENTRY_ALWAYS = 0, /* each frame has a native one of its own */
  SONDE_WALK_ENTRY_FLAG = 1,   /* a byte that is not zero: the oldest frame of a native one */
  SONDE_WALK_ENTRY_SHIM = 2,   /* a byte of 3 or more: a frame behind it, which is no function */
  SONDE_N_WALK_ENTRIES,
} SondeWalkEntry;

/* Offsets in bytes, in structs of the interpreter but where it says otherwise. Of those that its
 * kind of interpreter has no use for all are 0. */
typedef struct
{
  /* glibc's struct pthread and its table of thread-specific data */
  uint32_t thread_data;       /* in struct pthread: the pointers to blocks of 32 keys */
  uint32_t thread_data_size;  /* of one key; the first block is right before those pointers */
  uint32_t thread_data_value; /* in one key */
  /* the state of a thread */
  uint32_t state_frame;  /* the newest frame; or what points to it, see is_indirect */
  uint32_t holder_frame; /* in what that points to */
  uint32_t is_indirect;  /* boolean */
  uint32_t frame_size;   /* that are read of a frame; at most SONDE_WALK_FRAME_BYTES */
  uint32_t frame_code;   /* here and below: of a frame, within frame_size */
  uint32_t frame_caller;
  uint32_t frame_at;    /* the instruction */
  uint32_t is_at_index; /* boolean: it is a number of 4 bytes, else an address */
  uint32_t frame_entry;
  uint32_t entry;          /* SondeWalkEntry */
  uint32_t is_code_tagged; /* boolean: the three lowest bits are no part of the address; Ruby: the
                              lowest one is no part of the first line */
  uint32_t code_line;      /* here and below: of a code object */
  uint32_t code_file;
  uint32_t code_name;
  uint32_t code_lines;
  uint32_t text_length; /* here and below: of a string */
  uint32_t text_hash;
  uint32_t text_state;
  uint32_t text_ascii;  /* its bytes, if they are that */
  uint32_t text_other;  /* its characters of 1, 2 or 4 bytes, else */
  uint32_t state_chunk; /* of a thread's state: memory that has most frames; 0: there is none */
  /* of PHP */
  uint32_t code_scope;       /* the class that it belongs to */
  uint32_t scope_name;       /* in that */
  uint32_t instruction_line; /* in an instruction, of which each tells its own */
  /* of PHP and Ruby */
  uint32_t code_n_lines; /* how many instructions, or entries of lines, there are */
  /* of Ruby */
  uint32_t state_chunk_size;  /* how many words state_chunk has; frames are at its end */
  uint32_t code_body;         /* what has the other fields of a code object */
  uint32_t code_instructions; /* the first one */
  uint32_t code_size;         /* how many words they have */
  uint32_t code_index;        /* what tells which entry of its lines an instruction has */
} SondeWalkLayout;

/* Addresses in the process; but for the key, 0 where its kind has none. */
typedef struct
{
  uint64_t generation; /* the worker's number of this; each walk repeats it */
  uint64_t key; /* Python: a word that says whether there is one, then the key of thread states;
                   PHP: the state of its one thread; Ruby: the number of the module, and the offset
                   in its part of a thread's variables, of what points to the thread's state */
  uint64_t code_type; /* of what a code object is */
  uint64_t text_type; /* of what a string is */
  uint32_t kind;      /* SondeWalkKind */
  SondeWalkLayout layout;
} SondeWalkPlace;

/* What holds for all processes of a session. */
typedef struct
{
  uint64_t device;       /* of the namespace whose numbers processes have, as stat() has its file */
  uint64_t inode;        /* 0: they have the machine's own */
  uint64_t shows_closed; /* boolean: also those that nobody but root may look at */
} SondeWalkSession;

typedef enum
{
  SONDE_WALK_RECORD_FRAMES = 1, /* SondeWalkRecord */
  SONDE_WALK_RECORD_CODE = 2,   /* SondeWalkCode */
} SondeWalkRecordKind;

enum
{
  SONDE_WALK_TORN = 1 << 0, /* ends where something could not be read, or was no code */
  SONDE_WALK_DEEP = 1 << 1, /* there are more frames than it has room, or takes steps, for */
};

typedef struct
{
  uint64_t code; /* address of what tells the function from others; 0: no function */
  uint32_t at;   /* the instruction less the code object; or its number, see is_at_index; PHP: the
                    line; Ruby: the low half of the next instruction's address */
  uint8_t entry; /* the byte as it is; 1 where there is none; PHP, Ruby: whether it is the oldest
                    frame of a native one */
  uint8_t padding[3];
} SondeWalkFrame;

typedef struct
{
  uint32_t kind; /* SONDE_WALK_RECORD_FRAMES */
  uint32_t flags;
  uint64_t generation;
  uint64_t ip; /* of the sample that follows */
  uint32_t pid;
  uint32_t tid;
  uint32_t n_frames;
  uint32_t number;
  SondeWalkFrame frames[SONDE_WALK_MAX_FRAMES]; /* as many as there are, newest first */
} SondeWalkRecord;

/* Characters of a string, as many as fit. */
typedef struct
{
  uint32_t size_bytes;
  uint32_t width; /* bytes of a character: 1 (Latin-1), 2, 4; SONDE_WALK_UTF8; 0: it could not be
                     read */
} SondeWalkText;

#define SONDE_WALK_UTF8 8 /* or whatever bytes */

typedef struct
{
  uint32_t kind; /* SONDE_WALK_RECORD_CODE */
  uint32_t pid;
  uint64_t generation;
  uint64_t code; /* address */
  uint32_t first_line;
  uint32_t lines_bytes;
  SondeWalkText name;
  SondeWalkText file;
  SondeWalkText scope; /* the class that it belongs to, where name does not say so */
  uint32_t number;
  uint32_t first_instruction; /* Ruby: the low half of its address */
  uint8_t name_bytes[SONDE_WALK_TEXT_BYTES];
  uint8_t file_bytes[SONDE_WALK_TEXT_BYTES];
  uint8_t scope_bytes[SONDE_WALK_TEXT_BYTES];
  uint8_t lines[SONDE_WALK_LINES_BYTES]; /* as many as there are; Ruby: SondeWalkLines first */
} SondeWalkCode;

/* What is before the lines of Ruby, which are an index and then entries. */
typedef struct
{
  uint32_t index_bytes;
  uint32_t n_entries;
} SondeWalkLines;

#define SONDE_WALK_ENTRY_BYTES      12 /* the line first */
#define SONDE_WALK_MAX_ENTRIES      250
#define SONDE_WALK_INDEX_BYTES      48 /* and as many for each 512 words of code as follows */
#define SONDE_WALK_INDEX_STEP_BYTES 80
#define SONDE_WALK_MAX_INDEX_STEPS  12

_Static_assert(sizeof (SondeWalkLayout) == 132, "walk layout");
_Static_assert(sizeof (SondeWalkPlace) == 168, "walk place");
_Static_assert(sizeof (SondeWalkFrame) == 16, "walk frame");
_Static_assert(__builtin_offsetof(SondeWalkRecord, frames) == 40, "walk record");
_Static_assert(__builtin_offsetof(SondeWalkCode, name_bytes) == 64, "walk code");
