/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps the ids, names and addresses of a profiled process to those of the session. */
#pragma once

#include "daemon/capture/heap/heap-book.h"
#include "daemon/capture/process/sampler.h"
#include "daemon/capture/process/tracker.h"

/**
 * SECTION: inferior
 *
 * Programs number their counters and made-up addresses as they like, so that two of them use the
 * same ones, and a third uses ours. Here each gets one of the session's own. Nothing that a program
 * says makes this grow beyond the limits below. The struct is open to this folder alone. Main
 * thread only.
 */
#define SONDE_INFERIOR_MAX_COUNTERS 1024
#define SONDE_INFERIOR_MAX_NAMES    8192
#define SONDE_INFERIORS_MAX_NAMES                                                                  \
  32768 /* of all in a session: half of SONDE_STREAM_STATE_MAX_NAMES */
#define SONDE_INFERIOR_MAX_NAME       512    /* bytes with the NUL; the rest is cut */
#define SONDE_INFERIOR_MAX_ADDRESSES  16384  /* that wait to be looked up */
#define SONDE_INFERIORS_MAX_ADDRESSES 131072 /* of all in a session: about 8 MiB */

/* The parts of the session that inferiors use; all borrowed, and outliving them. */
typedef struct
{
  SondeRecorder *recorder;
  SondeTracker *tracker;
  SondeSampler *sampler;
  guint n_names;       /* of all inferiors that there were */
  guint n_addresses;   /* of all that there are */
  SondeHeapBook *book; /* NULL: each heap event is a frame */
  uint64_t n_stack_seeds;
} SondeInferiorParts;

#define SONDE_INFERIOR_N_RECENT 4096 /* a power of two */

typedef struct
{
  SondeInferiorParts *parts;
  int32_t pid;
  uid_t uid; /* who asked last */
  guint64 peer;
  gint64 since_ns; /* this program */
  gint64 gone_ns;  /* 0: its peer is there */
  guint n_rings;
  guint n_shared;      /* of these, by its threads */
  guint n_lacking;     /* threads that got no ring and share none, which was not told yet */
  guint n_without;     /* of which it is known that they never will */
  int lack_error;      /* why the last of them got none */
  gint64 lacks_ns;     /* when the newest of them was refused */
  gboolean is_settled; /* for the last time */

  SondeHeapBookProcess *heap; /* of the book; NULL: nothing was told of it yet */
  uint64_t stack_seed;        /* of hashes of its stacks: another one where they mean others */

  GHashTable *counters;  /* the program's id → ProgramCounter */
  guint n_defined;       /* counters, those that were replaced by another of the same id, too */
  GHashTable *names;     /* the program's address, in boxes → ProgramName */
  GHashTable *addresses; /* to be looked up, in boxes → whether it is a return address */
  uint64_t recent[SONDE_INFERIOR_N_RECENT]; /* of the addresses */
} SondeInferior;

/* @pid: by the kernel; @peer: of the control server */
SondeInferior *
sonde_inferior_new (SondeInferiorParts *parts, int32_t pid, guint64 peer, gint64 now_ns);
void sonde_inferior_free (SondeInferior *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeInferior, sonde_inferior_free)

/* A counter that the program defines; twice the same is one. */
void sonde_inferior_define_counter (SondeInferior *self,
                                    const SondeCounterDefinition *definition,
                                    gint64 time_ns);
/* Its id in the session. 0: it has no such counter. */
guint32 sonde_inferior_counter (SondeInferior *self, guint32 id);

/* A name that the program gives to a made-up address. */
void
sonde_inferior_add_name (SondeInferior *self, uint64_t address, const char *name, gint64 time_ns);
/* What stands for a made-up @address of the program's. */
uint64_t sonde_inferior_name (SondeInferior *self, uint64_t address, gint64 time_ns);

/* An address of the program's code in one of its stacks: to be named at the end. FALSE: there is no
 * room for it now. */
gboolean sonde_inferior_note_address (SondeInferior *self, uint64_t address, gboolean is_return);

/* About every 100 ms: the process's PROCESS and MAP frames are in the stream once it is known, and
 * its addresses are looked up. @is_over: before its mappings go, with what is known. */
void sonde_inferior_settle (SondeInferior *self, gint64 now_ns, gboolean is_over);
/* Whether it is worth waiting, before its mappings go, until more is known of it. */
gboolean sonde_inferior_is_awaited (SondeInferior *self, gint64 now_ns);
/* Its blocks are over, and what was told of them is in the capture. */
void sonde_inferior_end_heap (SondeInferior *self);
/* The process has executed another program. */
void sonde_inferior_renew (SondeInferior *self, gint64 now_ns);
