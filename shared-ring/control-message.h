/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The messages by which a profiled program and the profiler agree on rings. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: control-message
 *
 * A profiled program inherits one end of a Unix socket pair, the control socket, whose number is in
 * the environment variables SONDE_CONTROL_FD and SYSPROF_CONTROL_FD. All of the program's
 * descendants inherit it too, so nothing that is answered on it can be tied to who asked. Two
 * requests are made there:
 *
 * - SONDE_CONTROL_SYSPROF_REQUEST, ten bytes and no more, asks for a ring of libsysprof-capture.
 *   The answer is one byte of 0 with the ring's memfd in SCM_RIGHTS. There is no error answer: who
 *   may have no ring gets an end of file (the profiler shuts its side down).
 * - SondeControlHeader with type SONDE_CONTROL_LINK asks for a *link*: the answer is the same
 *   header with one end of a new SOCK_SEQPACKET pair in SCM_RIGHTS, which a process shares with
 *   nobody. It may get the link of another process that asked at the same time, and that is as
 * good.
 *
 * The control socket is SOCK_SEQPACKET, so that each request is a message of its own and rubbish
 * spoils nothing but itself; libsysprof-capture works with it as with SOCK_STREAM.
 *
 * On its link a process asks for a ring for each of its threads, or for all
 * (SondeControlRingRequest; one SondeControlRingAnswer each, in order, with the memfd in SCM_RIGHTS
 * when @error is 0), for a larger one in place of one that is full again and again, if that one's
 * features allow it (SondeControlGrowRequest; the same answer), and rings the doorbell
 * (SONDE_CONTROL_BELL, no answer): a ring is filled as far as its reader wanted. One doorbell is
 * for all rings of the process, and says no more than "look". When the last copy of the program's
 * end is closed, the profiler sees the hang-up: no ring of this link gets more frames.
 *
 * Whose ring it is says the kernel (SO_PASSCRED, SCM_CREDENTIALS of the request), not the message.
 * Both sides send with MSG_DONTWAIT | MSG_NOSIGNAL. The profiler never waits for room; a program
 * waits SONDE_CONTROL_TIMEOUT_MS for room for its request and for an answer together. Numbers have
 * the machine's byte order, unused bytes are zero. A message that is shorter or longer than its
 * type says, or of a version above SONDE_CONTROL_VERSION, ends the link; on the control socket it
 * is ignored.
 *
 * Source: docs/protocol.md, "Control socket"
 */

#define SONDE_CONTROL_VERSION    1
#define SONDE_CONTROL_MAGIC      0x534Eu
#define SONDE_CONTROL_TIMEOUT_MS 5000

/* The request of libsysprof-capture, with its NUL. Source: libsysprof-capture, sysprof-collector.c
 */
#define SONDE_CONTROL_SYSPROF_REQUEST       "CreatRing"
#define SONDE_CONTROL_SYSPROF_REQUEST_BYTES 10

typedef enum
{
  SONDE_CONTROL_LINK = 1,  /* request and answer, on the control socket */
  SONDE_CONTROL_RING = 2,  /* request and answer, on a link */
  SONDE_CONTROL_BELL = 3,  /* program to profiler, on a link; a header alone */
  SONDE_CONTROL_NONCE = 4, /* profiler to program, at the rendezvous */
  SONDE_CONTROL_JOIN = 5,  /* its answer, and the profiler's to that */
  SONDE_CONTROL_GROW = 6,  /* request and answer, on a link */
} SondeControlType;

/* What a ring is for, so that the session can refuse what it did not ask for, and say who lost how
 * much. It limits what frames the ring may carry. */
typedef enum
{
  SONDE_PRODUCER_APPLICATION = 1, /* libsonde-collector: marks, counters, log lines, ... */
  SONDE_PRODUCER_MEMORY = 2,      /* libsonde-memory: allocations */
  SONDE_PRODUCER_TRACER = 3,      /* libsonde-tracer: function entries and exits */
} SondeProducer;

typedef struct
{
  uint16_t magic; /* SONDE_CONTROL_MAGIC */
  uint16_t version;
  uint32_t type; /* SondeControlType */
} SondeControlHeader;

typedef struct
{
  SondeControlHeader header;
  uint32_t producer;   /* SondeProducer */
  int32_t tid;         /* as the program sees it; for people, not believed. 0: for those of the
                          process's threads that get none of their own */
  uint32_t size_bytes; /* of the ring's body, see ring-layout.h; 0: as the profiler likes */
  uint32_t number;     /* the answer repeats it */
} SondeControlRingRequest;

/* For what the other ring is for, and whom. It is the program's alone to say that it goes on there,
 * by an end frame with the new number (ring-layout.h); each ring has one that continues it. */
typedef struct
{
  SondeControlHeader header;
  uint32_t continues;  /* the number of the request that got the other ring */
  uint32_t size_bytes; /* of the body; the answer's may be smaller, but is larger than the other */
  uint32_t number;     /* the answer repeats it */
  uint32_t padding;    /* 0 */
} SondeControlGrowRequest;

typedef enum
{
  SONDE_MEMORY_OFF = 0,
  SONDE_MEMORY_ALL = 1,     /* each heap event */
  SONDE_MEMORY_SAMPLED = 2, /* one in about @memory_interval_bytes */
} SondeMemoryMode;

typedef struct
{
  SondeControlHeader header;
  int32_t error;        /* 0, or a negative errno: -EDQUOT no more rings or memory for this session,
                           -EOPNOTSUPP the session wants nothing of this producer, -EINVAL the request */
  uint32_t number;      /* of the request */
  uint32_t memory_mode; /* SondeMemoryMode, to SONDE_PRODUCER_MEMORY */
  uint32_t max_depth;   /* frames of a stack, at most */
  uint64_t memory_interval_bytes; /* between heap samples, on average */
} SondeControlRingAnswer;

/* --- the rendezvous --- */

#define SONDE_CONTROL_NONCE_BYTES 16
#define SONDE_CONTROL_KEY_BYTES   16

typedef struct
{
  SondeControlHeader header;
  uint8_t nonce[SONDE_CONTROL_NONCE_BYTES]; /* of this connection */
} SondeControlNonce;

typedef struct
{
  SondeControlHeader header;
  uint8_t nonce[SONDE_CONTROL_NONCE_BYTES]; /* as it came: whoever sends this is there now */
  uint8_t key[SONDE_CONTROL_KEY_BYTES];     /* of the session, as the environment has it; all zero:
                                               of none, for whoever the beacon calls for */
} SondeControlJoin;

/* Behind an error of 0 the connection is the program's link. */
typedef struct
{
  SondeControlHeader header;
  int32_t error;    /* 0, or a negative errno: -ESRCH there is no such session, or none that
                       wants any, -EPERM it is not for this process, -EAGAIN too many ask */
  uint32_t padding; /* 0 */
} SondeControlJoinAnswer;

_Static_assert(sizeof (SondeControlNonce) == 24, "SondeControlNonce has a wrong size");
_Static_assert(sizeof (SondeControlJoin) == 40, "SondeControlJoin has a wrong size");
_Static_assert(sizeof (SondeControlJoinAnswer) == 16, "SondeControlJoinAnswer has a wrong size");
_Static_assert(sizeof (SondeControlHeader) == 8, "SondeControlHeader has a wrong size");
_Static_assert(sizeof (SondeControlRingRequest) == 24, "SondeControlRingRequest has a wrong size");
_Static_assert(sizeof (SondeControlGrowRequest) == 24, "SondeControlGrowRequest has a wrong size");
_Static_assert(sizeof (SondeControlRingAnswer) == 32, "SondeControlRingAnswer has a wrong size");
_Static_assert(sizeof SONDE_CONTROL_SYSPROF_REQUEST == SONDE_CONTROL_SYSPROF_REQUEST_BYTES,
               "CreatRing is ten bytes");
