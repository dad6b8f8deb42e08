/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The private protocol between sonded (the front), sonde-broker and sonde-capture (the worker). */
#pragma once

#include <stdint.h>

#include "daemon/base/asked.h"
#include "daemon/base/probe.h"
#include "daemon/base/socket.h"
#include "daemon/base/walk.h"
#include "protocol/ledger.h"
#include "shared-ring/control-message.h"

/**
 * SECTION: message
 *
 * Three SOCK_SEQPACKET connections for each session: the front with its broker, the front with its
 * worker, and, made by the front, worker and broker with each other. One packet is one message:
 * SondeMessageHeader, then the fixed struct of its type, with file descriptors in SCM_RIGHTS. All
 * run the same version or differ by a restart, so the first message of broker and worker carries
 * it; there is no other negotiation. All structs are host-endian with explicit padding, no
 * pointers, strings NUL-terminated inside their fixed arrays. sonde_message_check() is the one
 * judge of a received message, on all sides.
 *
 * Front and broker: broker → SHEET; front → ASK, PROVE; broker → PROVED; front → SERVE; broker →
 * what the worker hears before it maps rings; front → OPEN; broker → EVENTS*, OPENED; front →
 * ANNOUNCE; broker → NOTE*, PROCESS*; then in any order front → ADD, answered by ADDED,
 * RINGS_MAPPED, JOIN, answered by JOINED, and broker → EVENTS, RINGS, NOTE, STUCK, TARGETS_ENDED;
 * front → CLOSE: nothing is
 * added any more. A broker exits at the end of its connection with the front. What it says to the
 * worker over the front, the front hands on as it is.
 *
 * Front and worker: worker → HELLO; front → LINK, SETUP, DOCUMENT*, COUNTERS*, RINGS; worker →
 * RINGS_MAPPED; front → EVENTS*, SINK, START, NOTE*, PROCESS*; then in any order worker →
 * STATISTICS, SINK_CLOSED and front → SNAPSHOT, answered by SNAPPED, EVENTS, SINK, PAUSE, RESUME,
 * REPORT, NOTE, DOCUMENT (of mounts), RINGS (of a processor that has come), answered by
 * RINGS_MAPPED, PROGRAM, and CONTROL, answered by CONTROLS when its last copy at the other end is
 * closed; front → STOP; worker → DRAINED, then (when all sinks have taken everything or are closed)
 * FINISHED. End of file from the front after START means the same as STOP. Worker → FAILED at any
 * time. After its last word, FINISHED or FAILED, a worker exits when the front has sent LEAVE or is
 * gone.
 *
 * Worker and broker: worker → PROCESS_REQUEST, FILE_REQUEST, COUNTERS_REQUEST, INTERPRETER, PROBES,
 * THREADS_REQUEST; broker → PROCESS, FILE, COUNTERS (of a process), DOCUMENT (of mountinfo),
 * PROBED, NOTE, THREADS.
 *
 * REPORT asks the worker to tell its whole state again, for a sonded that adopts a running worker:
 * SINKS, CONTROLS, STATISTICS, DRAINED if that was said, and its last word; and the broker to say
 * TARGETS_ENDED again. So nothing depends on a message that a sonded has read and died with.
 *
 * A worker of another version than its sonded, which an upgrade leaves behind, is stopped and
 * drained: STOP, REPORT, LEAVE, SINK_CLOSED, SINKS, CONTROLS, STATISTICS, DRAINED, FINISHED and
 * FAILED keep their numbers and layouts in all versions, but for counts that come at the end of
 * SondeMessageStatistics. What it asks for still comes to the front, which does not answer.
 *
 * Source: docs/protocol.md, "Between the three programs"
 */
#define SONDE_MESSAGE_VERSION  6 /* 1: Sonde 0.1.0 */
#define SONDE_MESSAGE_MAX_FDS  SONDE_SEND_MAX_FDS
#define SONDE_MESSAGE_MAX_SIZE 8192 /* bytes */
#define SONDE_MESSAGE_MAX_RINGS                                                                    \
  24576 /* in all messages: three on each of 8,192 processors, as many as Linux knows */
#define SONDE_MESSAGE_MAX_TARGETS       16   /* SONDE_LIMIT_TARGETS */
#define SONDE_MESSAGE_GROUP_BYTES       4096 /* with the NUL */
#define SONDE_MESSAGE_MAX_THREADS       200  /* told of in one message */
#define SONDE_MESSAGE_MAX_ASKED_THREADS 64   /* asked for in one */

typedef enum
{
  /* to the worker */
  SONDE_MESSAGE_SETUP = 1,    /* SondeMessageSetup, no fd */
  SONDE_MESSAGE_DOCUMENT = 2, /* SondeMessageDocument, 1 fd: a /proc text to embed or use */
  SONDE_MESSAGE_RINGS
  = 3, /* SondeMessageEvents, n fds: dummy events that own rings, to be mapped */
  SONDE_MESSAGE_EVENTS = 4, /* SondeMessageEvents, n fds: events, enabled and redirected, to keep */
  SONDE_MESSAGE_SINK = 5,   /* SondeMessageSink, 1 fd: to write to */
  SONDE_MESSAGE_START = 6,  /* header only: the events are on */
  SONDE_MESSAGE_PROCESS = 7,   /* SondeMessageProcess, 0 ... 2 fds */
  SONDE_MESSAGE_FILE = 8,      /* SondeMessageFile, 1 fd if status is 0, else none */
  SONDE_MESSAGE_STOP = 9,      /* header only */
  SONDE_MESSAGE_PAUSE = 10,    /* header only */
  SONDE_MESSAGE_RESUME = 11,   /* header only */
  SONDE_MESSAGE_REPORT = 12,   /* header only */
  SONDE_MESSAGE_NOTE = 13,     /* SondeMessageNote: a sentence for the stream's LOG */
  SONDE_MESSAGE_LEAVE = 14,    /* header only: the last word was heard */
  SONDE_MESSAGE_COUNTERS = 15, /* SondeMessageCounters, 0 or 1 fd: a /proc text to read often */
  SONDE_MESSAGE_CONTROL = 16,  /* header only, 1 fd: our end of a control socket for programs */
  SONDE_MESSAGE_LINK = 17,     /* header only, 1 fd: its end of the connection with the broker */
  SONDE_MESSAGE_PROGRAM = 18,  /* header only, 1 fd: the link of a program that came by itself */
  SONDE_MESSAGE_PROBED = 19,   /* SondeMessageProbed: answer to PROBES */
  SONDE_MESSAGE_SNAPSHOT = 20, /* SondeMessageSnapshot, 1 fd: to write to; answered by SNAPPED */
  SONDE_MESSAGE_THREADS = 21,  /* SondeMessageThreads, no fd: answer to THREADS_REQUEST */
  /* from the worker, never with fds */
  SONDE_MESSAGE_HELLO = 101,           /* SondeMessageHello */
  SONDE_MESSAGE_RINGS_MAPPED = 102,    /* SondeMessageRingsMapped */
  SONDE_MESSAGE_PROCESS_REQUEST = 103, /* SondeMessageProcessRequest */
  SONDE_MESSAGE_FILE_REQUEST = 104,    /* SondeMessageFileRequest */
  SONDE_MESSAGE_STATISTICS = 105,  /* SondeMessageStatistics: about four a second while running */
  SONDE_MESSAGE_DRAINED = 106,     /* SondeMessageStatistics: answer to STOP */
  SONDE_MESSAGE_SINK_CLOSED = 107, /* SondeMessageSinkClosed */
  SONDE_MESSAGE_FINISHED = 108,    /* SondeMessageStatistics: the last message */
  SONDE_MESSAGE_FAILED = 109,      /* SondeMessageFailed */
  SONDE_MESSAGE_SINKS = 110,       /* SondeMessageSinks: which are open; answer to REPORT */
  SONDE_MESSAGE_COUNTERS_REQUEST = 111, /* SondeMessageCountersRequest */
  SONDE_MESSAGE_CONTROLS = 112,         /* SondeMessageControls: one has closed; answer to REPORT */
  SONDE_MESSAGE_INTERPRETER = 113,      /* SondeMessageInterpreter */
  SONDE_MESSAGE_PROBES = 114,           /* SondeMessageProbes */
  SONDE_MESSAGE_SNAPPED = 115,          /* SondeMessageSnapped */
  SONDE_MESSAGE_THREADS_REQUEST = 116,  /* SondeMessageThreadsRequest */
  /* to the broker; also RINGS_MAPPED and REPORT */
  SONDE_MESSAGE_ASK = 201,   /* SondeMessageAsk, no fd: the first one */
  SONDE_MESSAGE_PROVE = 202, /* SondeMessageTargets, their fds; answered by PROVED */
  SONDE_MESSAGE_SERVE
  = 203,                    /* SondeMessageServe, 1 fd: its end of the connection with the worker */
  SONDE_MESSAGE_OPEN = 204, /* SondeMessageOpen, no fd; answered by OPENED */
  SONDE_MESSAGE_ANNOUNCE = 205, /* header only: the worker has heard START */
  SONDE_MESSAGE_ADD = 206,      /* SondeMessageTargets, their fds; answered by ADDED */
  SONDE_MESSAGE_CLOSE = 207,    /* header only */
  SONDE_MESSAGE_JOIN = 208,     /* SondeMessageJoin, no fd; answered by JOINED */
  /* from the broker, without fds but for what is the worker's to hear */
  SONDE_MESSAGE_SHEET = 301,         /* SondeMessageSheet: the first one, unasked */
  SONDE_MESSAGE_PROVED = 302,        /* SondeMessageResult */
  SONDE_MESSAGE_OPENED = 303,        /* SondeMessageResult */
  SONDE_MESSAGE_ADDED = 304,         /* SondeMessageResult */
  SONDE_MESSAGE_BROKEN = 305,        /* SondeMessageResult: the session cannot go on */
  SONDE_MESSAGE_TARGETS_ENDED = 306, /* header only: each time that no target is left */
  SONDE_MESSAGE_STUCK = 307,         /* SondeMessageStuck */
  SONDE_MESSAGE_JOINED = 308,        /* SondeMessageJoined */
} SondeMessageType;

typedef struct
{
  uint32_t type; /* SondeMessageType */
  uint32_t size; /* bytes of the whole message; must equal the packet's */
} SondeMessageHeader;

/* What the events that the kernel gave are like. */
enum
{
  SONDE_SPEC_KERNEL_TIME = 1 << 0, /* they see kernel time (else the kernel refused: user only) */
  SONDE_SPEC_USER_STACK = 1 << 1,  /* samples carry registers and stack */
  SONDE_SPEC_CALLCHAIN = 1 << 2,   /* samples carry the kernel's callchain */
  SONDE_SPEC_DEFERRED = 1 << 3,    /* its user part comes in a record of its own, later */
};

/* The frozen request, and what has become of it. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t version; /* SONDE_MESSAGE_VERSION */
  uint32_t flags;   /* SONDE_SPEC_* */
  uint64_t session_id;
  uint32_t owner_uid;
  uint32_t padding;
  SondeAsked asked;
  uint64_t sample_type;      /* perf_event_attr.sample_type of the sampling events */
  uint64_t sample_regs_user; /* register mask of the sampling events */
  uint64_t read_format;      /* of the sampling events; PERF_FORMAT_LOST absent on old kernels */
  int64_t start_realtime_ns;
  int64_t start_ns; /* CLOCK_MONOTONIC, before the events were on */
  char event[64];   /* "cpu-clock": what "auto" has become */
  char sonde_version[16];
} SondeMessageSetup;

typedef enum
{
  SONDE_DOCUMENT_KALLSYMS = 1,  /* used, never embedded */
  SONDE_DOCUMENT_CPUINFO = 2,   /* embedded as /proc/cpuinfo */
  SONDE_DOCUMENT_MOUNTS = 3,    /* embedded as /proc/mounts */
  SONDE_DOCUMENT_MOUNTINFO = 4, /* embedded as /proc/PID/mountinfo */
} SondeDocumentKind;

typedef struct
{
  SondeMessageHeader header;
  uint32_t kind; /* SondeDocumentKind */
  int32_t pid;   /* of MOUNTINFO, else 0 */
} SondeMessageDocument;

typedef enum
{
  SONDE_COUNTER_KIND_CPU = 1,     /* /proc/stat */
  SONDE_COUNTER_KIND_MEMORY = 2,  /* /proc/meminfo */
  SONDE_COUNTER_KIND_NETWORK = 3, /* /proc/1/net/dev */
  SONDE_COUNTER_KIND_DISK = 4,    /* /proc/diskstats */
  SONDE_COUNTER_KIND_PROCESS = 5, /* /proc/PID/stat */
} SondeCounterKind;

/* A text to make counters of. Of a process it may come without a descriptor: it is to be counted,
 * but not what it runs now. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t kind; /* SondeCounterKind */
  int32_t pid;   /* of PROCESS, else 0 */
} SondeMessageCounters;

typedef enum
{
  SONDE_EVENT_SAMPLES = 1,  /* samples, and their ring */
  SONDE_EVENT_SIDEBAND = 2, /* mmap2, comm, fork, exit, and their ring */
  SONDE_EVENT_WALKS = 3,    /* of interpreters, in the ring of samples (daemon/base/walk.h) */
  SONDE_EVENT_PROBES = 4,   /* hits of probes, in the ring of samples (daemon/base/probe.h) */
  SONDE_EVENT_SWITCHES = 5, /* when threads run and do not, and their ring */
} SondeEventKind;

enum
{
  /* Opened after others of the session: its task may have inherited one of those already, and then
   * whatever it does is told twice. */
  SONDE_EVENT_LATE = 1 << 0,
  SONDE_EVENT_ON_EXEC = 1 << 1, /* off until the kernel enables it at its task's exec */
};

typedef struct
{
  uint64_t id; /* PERF_EVENT_IOC_ID; inherited events have their origin's */
  int32_t cpu;
  int32_t tid;    /* -1 whole CPU, or a control group on it */
  uint32_t kind;  /* SondeEventKind */
  uint32_t flags; /* SONDE_EVENT_LATE, _ON_EXEC */
} SondeMessageEvent;

/* RINGS and EVENTS: the n-th descriptor belongs to the n-th entry. RINGS that belong together and
 * do not fit into one message come in several, answered once. Later ones are those of processors
 * that have come since. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t n_events; /* 1 ... SONDE_MESSAGE_MAX_FDS */
  uint32_t n_more;   /* RINGS: that belong to these and follow at once; EVENTS: 0 */
  SondeMessageEvent events[];
} SondeMessageEvents;

/* What control has to say about the capture, for its readers. */
typedef struct
{
  SondeMessageHeader header;
  char text[200]; /* one sentence, printable ASCII */
} SondeMessageNote;

typedef enum
{
  SONDE_SINK_STREAM = 1, /* an AF_UNIX stream socket */
  SONDE_SINK_FILE = 2,   /* a regular file, O_WRONLY and empty */
} SondeSinkKind;

/* What a sink gets beside the state, which is what any frame may need to be decoded (processes,
 * mappings, forks, exits, names, counter definitions, embedded files). */
enum
{
  SONDE_SINK_FRAMES_SAMPLES = 1 << 0,
  SONDE_SINK_FRAMES_ALLOCATIONS = 1 << 1,
  SONDE_SINK_FRAMES_MARKS = 1 << 2,
  SONDE_SINK_FRAMES_COUNTERS = 1 << 3, /* except the ledger's, which every stream has */
  SONDE_SINK_FRAMES_LOGS = 1 << 4,     /* except those that tell of the stream itself */
  SONDE_SINK_FRAMES_ALL = (1 << 5) - 1,
};

#define SONDE_MESSAGE_SINK_MAX_PIDS 64

typedef struct
{
  SondeMessageHeader header;
  uint32_t sink_id;           /* unique in the session, from 1 */
  uint32_t kind;              /* SondeSinkKind */
  uint32_t buffer_size_bytes; /* bound of its queue */
  uint32_t frames;            /* SONDE_SINK_FRAMES_* */
  uint64_t max_bytes;         /* of a file; 0 for a stream */
  uint32_t n_pids;            /* whose frames it gets; 0: of all */
  uint32_t is_last; /* a boolean: it gets the window of the recorder at the end, no more */
  int32_t pids[SONDE_MESSAGE_SINK_MAX_PIDS]; /* the rest is 0 */
} SondeMessageSink;

/* All that the recorder keeps, with names, as a whole capture. */
typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id; /* from 1 */
  uint64_t max_bytes;  /* of the capture */
} SondeMessageSnapshot;

enum
{
  SONDE_PROCESS_FD_MAPS = 1 << 0,    /* a descriptor for /proc/PID/maps follows */
  SONDE_PROCESS_FD_CMDLINE = 1 << 1, /* then one for /proc/PID/cmdline, */
  SONDE_PROCESS_FD_CGROUP = 1 << 2,  /* and one for /proc/PID/cgroup */
};

/* A process, as an answer (request_id) or unasked (0, a target). */
typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id;
  int32_t pid;
  int32_t status;       /* 0, or errno: ESRCH gone, EPERM not for this session */
  uint64_t start_ticks; /* /proc/PID/stat field 22, clock ticks; with pid the process handle */
  uint32_t fds;         /* SONDE_PROCESS_FD_* in the order of the bits */
  uint32_t padding;
  char comm[32]; /* bytes as the kernel gives them, may be invalid UTF-8 */
} SondeMessageProcess;

typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id;
  int32_t status; /* 0 and one O_RDONLY descriptor of a regular file, or errno and none: EPERM the
                     process is not for this session (any more), EACCES the file is not; of what
                     names made code also ELOOP a link, ENODEV no regular file, EREMOTE another
                     user's, EMLINK it has several names */
  uint32_t padding;
} SondeMessageFile;

typedef struct
{
  SondeMessageHeader header;
  uint32_t version; /* SONDE_MESSAGE_VERSION */
  int32_t pid;
} SondeMessageHello;

typedef struct
{
  SondeMessageHeader header;
  int32_t status; /* 0, or errno of the mapping that failed */
  uint32_t n_rings;
  uint64_t sample_ring_bytes; /* of each CPU's ring */
  uint64_t sideband_ring_bytes;
} SondeMessageRingsMapped;

typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id; /* unique in the session, from 1; shared with FILE_REQUEST */
  int32_t pid;
  uint32_t padding;
} SondeMessageProcessRequest;

/* A process whose counters came unasked has executed another program. */
typedef struct
{
  SondeMessageHeader header;
  int32_t pid;
  uint32_t padding;
} SondeMessageCountersRequest;

typedef enum
{
  SONDE_FILE_PROGRAM = 0,  /* a program or library that is mapped there */
  SONDE_FILE_JIT_DUMP = 1, /* a jitdump of the process that is mapped there */
  SONDE_FILE_PERF_MAP = 2, /* perf's map file of the process, which is nowhere mapped: all that
                              tells of a mapping is 0 */
  SONDE_N_FILES,
} SondeFileKind;

/* The mapping of a process, never a path. start_ticks 0: the process as it is now. */
typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id;
  int32_t pid;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t kind; /* SondeFileKind */
  uint64_t start_ticks;
  uint64_t start;  /* bytes, of the mapping */
  uint64_t offset; /* bytes, into the file */
  uint64_t inode;
} SondeMessageFileRequest;

/* A process interprets programs, and this is how its frames are found: from now on it is walked at
 * its samples. The broker looks whether all addresses are of the file that is mapped there. With a
 * place of SONDE_WALK_NONE it is not walked any more, and all but pid is 0. If the session walks
 * none a NOTE says why, once. */
typedef struct
{
  SondeMessageHeader header;
  int32_t pid;
  uint32_t padding;
  uint64_t start_ticks;
  uint64_t start;  /* bytes, of a mapping of the interpreter's code */
  uint64_t offset; /* bytes, into the file */
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  SondeWalkPlace place;
} SondeMessageInterpreter;

/* A process has a file mapped that has probes: hits of them are wanted from now on, of this process
 * alone, whatever it executes. The broker looks whether the session follows the process, whether
 * the file is one that the kernel can be asked about, and whether there are such probes of
 * SONDE_PROBE_PROVIDER at these notes. Without notes none of this process are wanted any more, the
 * rest but pid is 0, and there is no answer. */
typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id; /* unique in the session, from 1 */
  int32_t pid;
  uint32_t n_notes; /* 0 ... SONDE_PROBE_MAX_SITES */
  uint64_t start_ticks;
  uint64_t start;  /* bytes, of the mapping */
  uint64_t offset; /* bytes, into the file */
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint64_t notes[SONDE_PROBE_MAX_SITES]; /* bytes, into the file; the rest is 0 */
} SondeMessageProbes;

typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id;
  int32_t status; /* 0, or errno: EPERM, ESRCH as in SondeMessageProcess; ENOENT no such mapping;
                     EACCES a file system that the kernel is not asked about; EBADMSG no such
                     probes; EILSEQ another instruction; EDQUOT a limit; ENOSYS this session can
                     have none; ETIMEDOUT; or what the kernel said */
  uint32_t padding;
} SondeMessageProbed;
/* How long the threads of a process ran, and waited for a processor. */
typedef struct
{
  SondeMessageHeader header;
  int32_t pid;
  uint32_t n_threads; /* 0 ... SONDE_MESSAGE_MAX_ASKED_THREADS; 0: all, and their states */
  int32_t tids[];
} SondeMessageThreadsRequest;

/* Of the kernel's account of a thread. Source: proc_pid_schedstat, Documentation/scheduler */
typedef struct
{
  int32_t tid;
  uint32_t state;    /* the letter of /proc/PID/task/TID/stat; 0: it was not asked for */
  uint64_t on_ns;    /* that it ran */
  uint64_t delay_ns; /* that it was runnable and did not run: waits that are over */
  uint64_t slices;   /* how often it was put on a processor */
  int64_t time_ns;   /* CLOCK_MONOTONIC, just before that was read */
} SondeMessageThread;

/* Those that there still are. What does not fit into one message comes in several. */
typedef struct
{
  SondeMessageHeader header;
  int32_t pid;
  uint32_t n_threads; /* 0 ... SONDE_MESSAGE_MAX_THREADS */
  uint32_t n_more;    /* messages that follow */
  int32_t status;     /* 0, or an errno: ESRCH it is gone, else it cannot be looked at */
  SondeMessageThread threads[];
} SondeMessageThreads;

/* What a session counts beside the ledger. Names in sonde_statistic_name(). */
typedef enum
{
  SONDE_STATISTIC_LEDGER = 0, /* SONDE_N_LEDGER entries; the stream-* ones summed over all sinks */
  SONDE_STATISTIC_UNWIND_COMPLETE = SONDE_N_LEDGER, /* samples, here and in the next nine */
  SONDE_STATISTIC_UNWIND_TRUNCATED_DUMP,            /* cut at the dump's size */
  SONDE_STATISTIC_UNWIND_TRUNCATED_PAGE,            /* cut at a page the program never touched */
  SONDE_STATISTIC_UNWIND_NO_CFI,
  SONDE_STATISTIC_UNWIND_BAD_CFI,
  SONDE_STATISTIC_UNWIND_NO_MODULE,
  SONDE_STATISTIC_UNWIND_DEPTH_LIMIT,
  SONDE_STATISTIC_UNWIND_LOOP,
  SONDE_STATISTIC_UNWIND_CHAIN_COMPLETE, /* above the copy by frame pointers, to the outermost */
  SONDE_STATISTIC_UNWIND_CHAIN_SHORT,    /* the same, but not so far */
  SONDE_STATISTIC_KERNEL_ONLY,           /* samples without a user part (kernel threads) */
  SONDE_STATISTIC_LATE,          /* records older than the reorder window; used all the same */
  SONDE_STATISTIC_THROTTLED,     /* THROTTLE records */
  SONDE_STATISTIC_DUPLICATE,     /* samples of a task that two events watch; one of each two goes */
  SONDE_STATISTIC_LOST_SIDEBAND, /* side-band records the kernel dropped (maps were read again) */
  SONDE_STATISTIC_RING_BYTES,    /* mapped for perf rings, all CPUs */
  SONDE_STATISTIC_PROCESSES,     /* in the table now */
  SONDE_STATISTIC_MODULES,       /* in the store now */
  SONDE_STATISTIC_BYTES,         /* put into sinks */
  SONDE_STATISTIC_SHARED_RINGS,  /* of profiled programs, now */
  SONDE_STATISTIC_SHARED_RING_BYTES, /* of these */
  SONDE_STATISTIC_EVENTS_WAITED,     /* events of programs that waited for room in a ring */
  SONDE_STATISTIC_EVENTS_WAITED_US,  /* that they waited, together, by the programs' account */
  SONDE_STATISTIC_TARGET_STUCK,      /* questions about a process or its files that the kernel did
                                        not answer */
  SONDE_STATISTIC_RINGS_REFUSED,     /* rings that threads of programs asked for and did not get */
  /* programs that made no event, as they loaded no library of ours; here and in the next two */
  SONDE_STATISTIC_PROGRAMS_32_BIT,
  SONDE_STATISTIC_PROGRAMS_STATIC,
  SONDE_STATISTIC_PROGRAMS_WITHOUT_LIBRARY, /* for another reason */
  SONDE_STATISTIC_TRACED_PROCESSES,         /* whose calls are counted, now */
  SONDE_STATISTIC_CALLS,                    /* of functions, as processes say */
  SONDE_STATISTIC_CALLS_LOST,               /* of which no path is known, the same */
  SONDE_STATISTIC_TRACES_REFUSED, /* processes whose calls are not counted, or no more: they got no
                                     memory, or said of them what cannot be */
  SONDE_STATISTIC_TRACES_EMPTY,   /* processes that could have been counted, and called no hook */
  SONDE_STATISTIC_JIT_REFUSED, /* files with names of made code that were not read, or not whole */
  SONDE_STATISTIC_JIT_UNNAMED, /* samples in code that programs make which has no name, in the end
                                */
  SONDE_STATISTIC_WALKS,       /* samples that show functions of an interpreted program */
  SONDE_STATISTIC_WALKS_LOST,  /* walks and names that the rings had no room for */
  SONDE_STATISTIC_WALKS_UNPAIRED, /* walks whose sample the ring had no room for */
  SONDE_STATISTIC_WALKS_TORN,     /* of WALKS, also in the next three: the list was being changed */
  SONDE_STATISTIC_WALKS_DEEP,     /* the outermost functions are missing */
  SONDE_STATISTIC_WALKS_APART,    /* it did not fit to the native stack, and is shown below that */
  SONDE_STATISTIC_WALKS_UNNAMED,  /* a function's name had not come */
  SONDE_STATISTIC_WALKS_ABSENT,   /* samples of an interpreter's own functions that no walk came
                                     with: its thread has no list that is known, or it has closed
                                     itself */
  SONDE_STATISTIC_INTERPRETERS_CLOSED,  /* processes of interpreters that are not walked: none is */
  SONDE_STATISTIC_INTERPRETERS_MUSL,    /* their C library is not glibc */
  SONDE_STATISTIC_INTERPRETERS_UNKNOWN, /* another version or build */
  SONDE_STATISTIC_INTERPRETERS_BEYOND,  /* there are too many, or too many files of such */
  SONDE_STATISTIC_PROBED_PROGRAMS,      /* whose allocators' own probes were followed */
  SONDE_STATISTIC_PROBES_REFUSED,       /* programs of which they were not */
  SONDE_STATISTIC_RECORDER_US,          /* how far back the recorder reaches; 0 without one */
  SONDE_STATISTIC_RECORDER_BYTES,       /* of memory that it takes */
  SONDE_STATISTIC_RECORDER_GONE,        /* frames that it had and has not any more */
  SONDE_STATISTIC_SWITCHES,             /* of threads onto a processor and off it */
  SONDE_STATISTIC_SWITCHES_LOST,        /* that the rings had no room for */
  SONDE_STATISTIC_WAITS_UNKNOWN_US,     /* of threads, in which nobody knows what they did */
  SONDE_STATISTIC_THREADS_BEYOND,       /* whose times are not told: there were too many */
  SONDE_N_STATISTICS,
} SondeStatistic;

typedef struct
{
  SondeMessageHeader header;
  uint64_t values[SONDE_N_STATISTICS];
} SondeMessageStatistics;

typedef struct
{
  SondeMessageHeader header;
  uint32_t sink_id;
  int32_t reason; /* 0 everything delivered; errno: EPIPE reader left, ETIMEDOUT stuck 30 s, ... */
} SondeMessageSinkClosed;

typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id;
  int32_t status; /* 0: it is whole, and nothing is written to it any more; or an errno: EFBIG it
                     would have been larger, ENOSPC no memory, ESHUTDOWN the session ends */
  uint32_t padding;
} SondeMessageSnapped;

#define SONDE_MESSAGE_MAX_SINKS 16 /* SONDE_LIMIT_SINKS */

typedef struct
{
  SondeMessageHeader header;
  uint32_t n_sinks;
  uint32_t sink_ids[SONDE_MESSAGE_MAX_SINKS]; /* the rest is 0 */
  uint32_t padding;
} SondeMessageSinks;

/* Control sockets: how many were ever taken, and how many of them are open. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t n_taken;
  uint32_t n_open;
} SondeMessageControls;

typedef struct
{
  SondeMessageHeader header;
  int32_t error; /* errno */
  uint32_t padding;
  char text[200]; /* one sentence, printable ASCII */
} SondeMessageFailed;

/* What the session is to be, once and for all: kernel addresses are given out by what is said here
 * alone. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t version; /* SONDE_MESSAGE_VERSION */
  uint32_t owner_uid;
  int32_t owner_pid;
  uint32_t padding;
  SondeAsked asked;
} SondeMessageAsk;

enum
{
  SONDE_TARGET_HAS_PROOF = 1 << 0, /* the caller had to prove his right */
  SONDE_TARGET_HAS_MAPS = 1 << 1,  /* a descriptor follows: his proof, good or not */
  SONDE_TARGET_HAS_PIDFD = 1 << 2, /* then one: there was such a process */
};

typedef struct
{
  int32_t pid;
  uint32_t flags; /* SONDE_TARGET_* */
} SondeMessageTarget;

/* PROVE and ADD: the descriptors in the order of targets and bits. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t n_targets; /* 0 ... SONDE_MESSAGE_MAX_TARGETS */
  uint32_t padding;
  SondeMessageTarget targets[];
} SondeMessageTargets;

typedef struct
{
  SondeMessageHeader header;
  uint64_t session_id;
} SondeMessageServe;

/* Whether that process may be one of the session's programs: who knows its key if its owner may
 * look into him, who was called only if the session's scope has him, too. The front has its pidfd,
 * and looks behind the answer whether the number was the same process's all the time. */
typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id; /* from 1 */
  int32_t pid;
  int32_t is_called; /* a boolean: without a key, as the beacon has called */
} SondeMessageJoin;

typedef struct
{
  SondeMessageHeader header;
  uint64_t request_id;
  int32_t status; /* 0 or an errno: EPERM it may not; ESRCH it is gone; ETIMEDOUT, EAGAIN */
  uint32_t padding;
} SondeMessageJoined;

typedef struct
{
  SondeMessageHeader header;
  char group[SONDE_MESSAGE_GROUP_BYTES]; /* path, of the scope `unit` or `cgroup`, else "" */
} SondeMessageOpen;

/* What this machine has, as only who has rights can see it. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t version; /* SONDE_MESSAGE_VERSION */
  uint32_t padding;
  uint64_t events;      /* bit n: SondeEventChoice n can be had */
  uint64_t tracepoints; /* bit n: sonde_tracepoint_name (n) is there */
} SondeMessageSheet;

#define SONDE_MESSAGE_NO_ERROR UINT32_MAX

typedef struct
{
  SondeMessageHeader header;
  uint32_t error; /* SondeError, or SONDE_MESSAGE_NO_ERROR */
  uint32_t padding;
  char text[1024]; /* why; UTF-8; "" without an error */
} SondeMessageResult;

/* The kernel does not answer about a process for seconds: nothing is told of processes and files of
 * that uid until it does. */
typedef struct
{
  SondeMessageHeader header;
  uint32_t uid;
  int32_t pid; /* which was asked about */
  uint32_t is_over;
  uint32_t padding;
} SondeMessageStuck;

_Static_assert(sizeof (SondeMessageHeader) == 8, "message header");
_Static_assert(sizeof (SondeAsked) == 2448, "what is asked is padded explicitly");
_Static_assert(sizeof (SondeMessageEvent) == 24, "event entry");
_Static_assert(sizeof (SondeMessageSetup) % 8 == 0, "setup is padded explicitly");
_Static_assert(sizeof (SondeMessageEvents) + SONDE_MESSAGE_MAX_FDS * sizeof (SondeMessageEvent)
                   <= SONDE_MESSAGE_MAX_SIZE,
               "a full EVENTS message fits");
_Static_assert(sizeof (SondeMessageProcess) == 72, "process");
_Static_assert(sizeof (SondeMessageCounters) == 16, "counters");
_Static_assert(sizeof (SondeMessageSink) == 296, "sink");
_Static_assert(sizeof (SondeMessageFileRequest) == 64, "file request");
_Static_assert(sizeof (SondeMessageInterpreter) == 224, "interpreter");
_Static_assert(sizeof (SondeMessageProbes) == 192, "probes");
_Static_assert(sizeof (SondeMessageProbed) == 24, "probed");
_Static_assert(sizeof (SondeMessageThread) == 40, "thread");
_Static_assert(sizeof (SondeMessageThreads)
                       + SONDE_MESSAGE_MAX_THREADS * sizeof (SondeMessageThread)
                   <= SONDE_MESSAGE_MAX_SIZE,
               "a full THREADS message fits");

/* Who says it to whom. */
typedef enum
{
  SONDE_WAY_FRONT_TO_WORKER = 1 << 0,
  SONDE_WAY_WORKER_TO_FRONT = 1 << 1,
  SONDE_WAY_FRONT_TO_BROKER = 1 << 2,
  SONDE_WAY_BROKER_TO_FRONT = 1 << 3,
  SONDE_WAY_BROKER_TO_WORKER = 1 << 4,
  SONDE_WAY_WORKER_TO_BROKER = 1 << 5,
} SondeMessageWay;

/* A row of the table of all messages. */
typedef struct
{
  const char *name;
  uint32_t ways;        /* SONDE_WAY_* */
  uint64_t size_bytes;  /* of the fixed struct */
  uint64_t entry_bytes; /* of each entry behind it; 0: none may follow */
  unsigned min_fds;
  unsigned max_fds;
} SondeMessageShape;

/* NULL for a foreign type. */
const SondeMessageShape *sonde_message_shape (uint32_t type);

/**
 * sonde_message_check:
 * @bytes: one received packet, 8-aligned
 * @size_bytes: its length
 * @n_fds: descriptors that came with it
 * @way: who has sent it to whom
 *
 * Judges type (known and of that way), size, descriptor count, counts, enums, padding that
 * must be zero and string termination. Says nothing of order: that is the receiver's state machine.
 *
 * Returns: 0, or -EBADMSG and *@why (a static sentence)
 */
int sonde_message_check (
    const void *bytes, uint64_t size_bytes, unsigned n_fds, SondeMessageWay way, const char **why);

/* "setup", "file-request", ...; "?" for a foreign type. */
const char *sonde_message_type_to_string (uint32_t type);

/* The key in the D-Bus property Statistics: ledger names, then "unwind-complete", ... "ring-bytes".
 */
const char *sonde_statistic_name (SondeStatistic statistic);
