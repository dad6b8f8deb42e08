/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every maximum of the daemon and its workers, with unit and reason. */
#pragma once

/* Sessions of one uid at a time: each is a process and a set of rings. Root profiles for others. */
#define SONDE_LIMIT_SESSIONS      4
#define SONDE_LIMIT_SESSIONS_ROOT 32

/* The same for all uids but root together; one of them takes at most half of what is left. */
#define SONDE_LIMIT_SESSIONS_MACHINE 16
/* µs: a session of StartSession stays visible after its end. */
#define SONDE_LIMIT_KEPT_US (G_GINT64_CONSTANT (600) * 1000000)
/* How many of these one uid has, and all together: each is about a kilobyte. */
#define SONDE_LIMIT_KEPT_PER_UID 16
#define SONDE_LIMIT_KEPT         256

/* Sessions, the newest, of which it is remembered whose they were: 16 bytes each. */
#define SONDE_LIMIT_REMEMBERED 1024

/* Starts of one uid: a burst, then one per interval (µs). A start costs a fork and many events. */
#define SONDE_LIMIT_START_BURST       5
#define SONDE_LIMIT_START_INTERVAL_US 1000000

/* Calls of AddProcess of one uid: a burst, then one per interval (µs). Each may open thousands of
 * events. */
#define SONDE_LIMIT_ADD_BURST       16
#define SONDE_LIMIT_ADD_INTERVAL_US 200000
/* Records of refusals of one uid in a minute; the rest are counted in one. */
#define SONDE_LIMIT_AUDIT_BURST     10
#define SONDE_LIMIT_AUDIT_WINDOW_US 60000000

/* Per cent that one uid takes at most of a resource that all share and of which something is left:
 * descriptors of sonded, memory for rings, the disk, sessions of the machine. */
#define SONDE_LIMIT_SHARE_PERCENT 50

/* Descriptors that sonded keeps free of sessions: for the messages that come, with 16 at most each,
 * and for texts of /proc. */
#define SONDE_LIMIT_RESERVED_FDS 64
/* Threads that close what strangers sent, each of which a file system's server can hold for ever; a
 * message brings 16 descriptors at most. */
#define SONDE_LIMIT_CLOSERS 16
/* Datagrams to systemd, and to the journal, that wait until these take more; ms that they have at
 * the end. */
#define SONDE_LIMIT_OUTBOX    512
#define SONDE_LIMIT_OUTBOX_MS 500
/* Descriptors that may be on their way to others at the moment at which sonded sends one, below
 * what the kernel allows: as many as it sends at the start of a session. */
#define SONDE_LIMIT_FLIGHT_MARGIN 32
/* Descriptors that it holds for one session besides perf events on their way: the connections and
 * the processes of broker and worker, both ends of a stream and of their connection with each other
 * on their way. */
#define SONDE_LIMIT_SESSION_FDS 16

/* Method calls of one uid that are not answered yet; polkit can keep one open for minutes. */
#define SONDE_LIMIT_CALLS 32

/* Values in arrays and dictionaries of one call, together, and bytes of its texts: what a call
 * holds until it is answered. The largest that is of use has 16 targets or 64 pids and a dozen
 * options; a cgroup's path may have 4,095 bytes. */
#define SONDE_LIMIT_MESSAGE_ENTRIES 256
#define SONDE_LIMIT_MESSAGE_TEXT    16384

/* Questions to polkit that are open at a time, with a dialog and as many without one, of all and of
 * one uid; the others wait for their turn. dbus-daemon lets a connection wait for 128 answers, and
 * systemd is asked things, too. */
#define SONDE_LIMIT_QUESTIONS         48
#define SONDE_LIMIT_QUESTIONS_PER_UID 4

/* Processes named in one call: as many descriptors as dbus-daemon passes in a message. */
#define SONDE_LIMIT_TARGETS 16
/* Processes in a session, AddProcess included: each holds a pidfd. */
#define SONDE_LIMIT_SESSION_TARGETS 256

/* Processes of the scope `pids` and their children that a worker has asked about. */
#define SONDE_LIMIT_NAMED_PROCESSES 65536

/* Perf events of a session; each is a descriptor of the worker and about 1 KiB of kernel memory. */
#define SONDE_LIMIT_EVENTS 16384
/* Passes over /proc/PID/task: a process that makes threads faster than we look is refused. */
#define SONDE_LIMIT_TASK_PASSES 64

/* Files of processes whose probes a session follows at a time. The kernel takes some 30 ms to let
 * go of one, so that a broker with all of them ends within SONDE_LIMIT_PEER_EXIT_MS. */
#define SONDE_LIMIT_PROBED_FILES 32
/* Such files that a session's broker is asked about: a burst, then one per interval (µs). Each
 * makes all forks of the machine look twice for some milliseconds. */
#define SONDE_LIMIT_PROBES_BURST       64
#define SONDE_LIMIT_PROBES_INTERVAL_US 100000

/* Hz. */
#define SONDE_LIMIT_FREQUENCY 20000
/* ns or counts; the lower bound keeps a sample's cost below its distance. */
#define SONDE_LIMIT_PERIOD_MIN G_GUINT64_CONSTANT (100000)
#define SONDE_LIMIT_PERIOD_MAX G_GUINT64_CONSTANT (10000000000)
/* Bytes of user stack per sample: a perf record is at most 64 KiB. */
#define SONDE_LIMIT_STACK_SIZE_MIN 1024
#define SONDE_LIMIT_STACK_SIZE_MAX 65280
/* Frames kept of a sample. */
#define SONDE_LIMIT_DEPTH 1024
/* µs: longer than a year is a mistake. */
#define SONDE_LIMIT_DURATION_US (G_GUINT64_CONSTANT (366) * 24 * 3600 * 1000000)

/* Characters of a label, which is part of a file name. */
#define SONDE_LIMIT_LABEL 64

/* Bytes between heap samples: more than a terabyte is a mistake. */
#define SONDE_LIMIT_MEMORY_INTERVAL (G_GUINT64_CONSTANT (1) << 40)
/* µs that an allocation of a profiled program may wait for room: more would look like a hang. */
#define SONDE_LIMIT_MEMORY_WAIT_US 1000000

/* Bytes of the call tries of a session's programs, and what is asked for as a rule. The worker
 * keeps up to four times as much of what it has read there: half of SONDE_LIMIT_WORKER_BYTES. */
#define SONDE_LIMIT_TRACE_MEMORY_BYTES (64 * 1024 * 1024)
#define SONDE_LIMIT_TRACE_MEMORY_MIN   (256 * 1024)
/* µs from which on a call is slow, as much as a call may take that is timed well. */
#define SONDE_LIMIT_TRACE_SLOW_US 100000000
/* % of a processor that hooks of a process may take: more than most have. */
#define SONDE_LIMIT_TRACE_BUDGET 10000
/* Lines of the option trace-filter. */
#define SONDE_LIMIT_TRACE_FILTERS 64

/* Control sockets of a session that are open: one for each program that a client starts. */
#define SONDE_LIMIT_CONTROLS 16
/* Rings of profiled programs in a session, and bytes of all of them: what 1,000 programs at a time
 * need. */
#define SONDE_LIMIT_RINGS             2048
#define SONDE_LIMIT_RING_MEMORY_BYTES (256 * 1024 * 1024)
/* Bytes that are taken before a ring does not get what it wishes for any more, but one of so many
 * parts of what is left: the first ones are large, and there is room for many. */
#define SONDE_LIMIT_RING_AMPLE_BYTES (SONDE_LIMIT_RING_MEMORY_BYTES / 8)
#define SONDE_LIMIT_RING_PARTS       384
/* Per cent that one uid's programs may take of the memory that others leave, where there may be
 * several: 1,000 programs of one user, each with the smallest ring that there is, are more than
 * half. */
#define SONDE_LIMIT_RING_SHARE_PERCENT 75
/* Per cent of both that rings of a single thread may take, and rings that the threads of a process
 * share beside another: the rest is for those that a process cannot do without. How many of the
 * latter a process has, for events of one kind. */
#define SONDE_LIMIT_OWN_RINGS_PERCENT  25
#define SONDE_LIMIT_MORE_RINGS_PERCENT 40
#define SONDE_LIMIT_SHARED_RINGS       8

/* Programs at the rendezvous that have not shown who they are, of all and, by shares, of one uid;
 * ms that they have for it. Each is two descriptors. */
#define SONDE_LIMIT_GUESTS   256
#define SONDE_LIMIT_GUEST_MS 2000
/* Programs that come there of one uid: a burst, then one per interval (µs): as fast as a machine
 * makes processes. Each costs a few system calls, and a question to a broker. */
#define SONDE_LIMIT_GUEST_BURST       2048
#define SONDE_LIMIT_GUEST_INTERVAL_US 1000
/* Connections that are taken at once, before others have their turn; that wait to be closed until
 * no more are taken, so that descriptors of messages have the threads that close, too; ms without
 * any then, and when there are no descriptors. */
#define SONDE_LIMIT_GUESTS_A_TURN  64
#define SONDE_LIMIT_GUESTS_LEAVING 128
#define SONDE_LIMIT_GUEST_REST_MS  20
/* ms until programs that the beacon has called are called again, as some may not have come. */
#define SONDE_LIMIT_CALL_MS 1000
/* Programs of a session that its broker is being asked about. */
#define SONDE_LIMIT_JOINS 256

/* Bytes of a worker's private memory. As MemoryMax= in systemd/sonde-worker@.service. */
#define SONDE_LIMIT_WORKER_BYTES (512 * 1024 * 1024)
/* Per cent of one processor that the sessions of a uid but root's may take together: a worker has
 * one thread. 0: no bound. Bytes of private memory: what SONDE_LIMIT_SESSIONS workers may have. */
#define SONDE_LIMIT_UID_CPU_PERCENT  100
#define SONDE_LIMIT_UID_MEMORY_BYTES (G_GUINT64_CONSTANT (2) << 30)
/* ms: between two looks at what sessions take; how much of their uid's budget they may take in
 * advance, as at an end, when functions are named; slowdowns before one of them is ended; µs
 * without a debt after which those do not count any more. */
#define SONDE_LIMIT_BUDGET_LOOK_MS   1000
#define SONDE_LIMIT_BUDGET_MS        5000
#define SONDE_LIMIT_BUDGET_SLOWDOWNS 2
#define SONDE_LIMIT_BUDGET_FORGET_US 60000000
/* Bytes of one CPU's perf rings, locked memory apart from the worker's own. */
#define SONDE_LIMIT_RING_BYTES (16 * 1024 * 1024)
/* Readers of one session: each is a queue and a socket. */
#define SONDE_LIMIT_SINKS 16
/* µs that a recorder keeps at most: beyond a day a file is the place. Bytes of a worker's memory
 * for that: what it gets, and may ask for: a fourth of the worker's; the state of a machine is some
 * hundred kilobytes. All that a uid's sessions ask for is at most this part of its budget, in per
 * cent. */
#define SONDE_LIMIT_RECORDER_US             (G_GUINT64_CONSTANT (24) * 3600 * 1000000)
#define SONDE_LIMIT_RECORDER_US_MIN         1000000
#define SONDE_LIMIT_RECORDER_BYTES          (32 * 1024 * 1024)
#define SONDE_LIMIT_RECORDER_BYTES_MIN      (1024 * 1024)
#define SONDE_LIMIT_RECORDER_BYTES_MAX      (128 * 1024 * 1024)
#define SONDE_LIMIT_RECORDER_BUDGET_PERCENT 50
/* Bytes of one snapshot, whose frames are not packed; of these of a uid that still are somebody's,
 * there is no further one: memory that is charged to a worker, and stays when that has gone. How
 * many there are, and of these are being written; how many are asked for: a burst, then one per
 * interval (µs). Descriptors of each; ms until one is written. */
#define SONDE_LIMIT_SNAPSHOT_BYTES       (256 * 1024 * 1024)
#define SONDE_LIMIT_SNAPSHOTS            8
#define SONDE_LIMIT_SNAPSHOTS_AT_ONCE    2
#define SONDE_LIMIT_SNAPSHOT_BURST       5
#define SONDE_LIMIT_SNAPSHOT_INTERVAL_US 1000000
#define SONDE_LIMIT_SNAPSHOT_FDS         3
#define SONDE_LIMIT_SNAPSHOT_MS          20000
/* ms: between two looks at whether snapshots are still somebody's. */
#define SONDE_LIMIT_SNAPSHOT_LOOK_MS 500
/* Connections of a uid that are told of sessions: each gets two signals for each of them. */
#define SONDE_LIMIT_SUBSCRIBERS 32
/* Bytes queued for one reader before frames are dropped for it: what it gets, and may ask for. */
#define SONDE_LIMIT_SINK_BUFFER     (4 * 1024 * 1024)
#define SONDE_LIMIT_SINK_BUFFER_MIN (64 * 1024)
#define SONDE_LIMIT_SINK_BUFFER_MAX (8 * 1024 * 1024)

/* Bytes of one capture file, and of all that one uid has. */
#define SONDE_LIMIT_CAPTURE_BYTES     (G_GUINT64_CONSTANT (1) << 30)
#define SONDE_LIMIT_CAPTURE_UID_BYTES (G_GUINT64_CONSTANT (4) << 30)
/* Capture files of one uid: a directory that can be counted at each start. */
#define SONDE_LIMIT_CAPTURE_FILES 1024
/* Per cent of a disk that captures leave free. */
#define SONDE_LIMIT_CAPTURE_FREE_PERCENT 10
/* Bytes of the disk that the captures of all uids take before old ones are removed; 0: a tenth of
 * the disk, within these two. Files of all uids: what is looked through for that. */
#define SONDE_LIMIT_CAPTURE_MACHINE_BYTES     0
#define SONDE_LIMIT_CAPTURE_MACHINE_BYTES_MIN (G_GUINT64_CONSTANT (64) << 20)
#define SONDE_LIMIT_CAPTURE_MACHINE_BYTES_MAX (G_GUINT64_CONSTANT (16) << 30)
#define SONDE_LIMIT_CAPTURE_MACHINE_FILES     4096
/* Days after its last byte for which a capture is kept: who has not fetched it by then will not. */
#define SONDE_LIMIT_CAPTURE_DAYS 30
/* s: between two looks at whether a capture is too old. */
#define SONDE_LIMIT_CAPTURE_LOOK_S 3600
/* Captures that one look removes: each may cost the disk some milliseconds. The next follows after
 * this many ms. */
#define SONDE_LIMIT_CAPTURE_REMOVALS    16
#define SONDE_LIMIT_CAPTURE_REMOVALS_MS 100

/* Bytes of a /proc/PID/maps that are looked at: 65,530 mappings (vm.max_map_count) of 256 bytes. */
#define SONDE_LIMIT_MAPS_BYTES (16 * 1024 * 1024)
/* Bytes of it that a lane holds at a time: many lines, each of which names a path of PATH_MAX. */
#define SONDE_LIMIT_MAPS_PIECE_BYTES (64 * 1024)
/* What is kept of it while requests of one process are answered: executable mappings of files, of
 * which a worker looks at 4,096, and bytes of their paths. */
#define SONDE_LIMIT_TABLE_MAPPINGS   16384
#define SONDE_LIMIT_TABLE_PATH_BYTES (1024 * 1024)
/* Questions of a worker about processes of one uid that wait for its lane, as many as it has open;
 * those for files of one process that are answered by one reading of its mappings; the part of the
 * time that such readings take, one in so many. */
#define SONDE_LIMIT_LANE_QUESTIONS 1024
#define SONDE_LIMIT_LANE_BATCH     64
#define SONDE_LIMIT_LANE_PART      4
/* Members of a unit whose events are opened at a time, where the kernel does not watch the group:
 * only together with those of the session are they within SONDE_LIMIT_EVENTS, and not before. */
#define SONDE_LIMIT_MEMBERS_AT_ONCE 32
/* ms: between two looks at whether events can be opened that could not be. */
#define SONDE_LIMIT_GAP_LOOK_MS 1000
/* Lanes of one session: each is a thread. */
#define SONDE_LIMIT_LANES 32
/* Bytes of texts and tables that all lanes hold at a time, so that none has to wait for the room of
 * one that is stuck: below the MemoryMax= of a broker, which is 256 MiB. */
#define SONDE_LIMIT_LANE_BYTES (192 * 1024 * 1024)
/* ms: within which the kernel answers a question about a process, or its uid's lane is stuck;
 * between two looks at that. */
#define SONDE_LIMIT_LANE_MS      2000
#define SONDE_LIMIT_LANE_LOOK_MS 500
/* Bytes of /etc/subuid. */
#define SONDE_LIMIT_SUBUID_BYTES (1024 * 1024)
/* Mounts of other namespaces, on which programs are, of which a session is told: with each come all
 * those of its namespace, a text of some kilobytes. */
#define SONDE_LIMIT_FOREIGN_MOUNTS 128
/* Bytes of any other /proc text that sonded reads. */
#define SONDE_LIMIT_PROC_TEXT_BYTES (1024 * 1024)

/* Bytes of a session's record in systemd's fd store; one of Sonde 0.1.0 has 32 for each of
 * SONDE_LIMIT_NAMED_PROCESSES. */
#define SONDE_LIMIT_RECORD_BYTES (4 * 1024 * 1024)

/* ms: for each of the two questions to systemd; together less than a worker's time to start. */
#define SONDE_LIMIT_UNIT_MS 4000
/* ms: for each question to systemd about our own unit, while we are about to end. */
#define SONDE_LIMIT_UNIT_JOB_MS 1000
/* Control groups below a unit's: a container manager makes some dozens. */
#define SONDE_LIMIT_UNIT_GROUPS 4096
/* ms: the disk of the capture files answers; at the start and at the end, when everything waits for
 * it. */
#define SONDE_LIMIT_STORE_MS      5000
#define SONDE_LIMIT_STORE_OPEN_MS 250
/* ms: between two looks into a control group of version 1, which does not tell when it is empty. */
#define SONDE_LIMIT_GROUP_LOOK_MS 1000
/* Levels of control groups below a unit's. */
#define SONDE_LIMIT_UNIT_DEPTH 16
/* ms: without a call or a session that can be seen sonded ends. */
#define SONDE_LIMIT_IDLE_MS 60000
/* ms: sonded and its bus or client greet each other, which no person has a part in. */
#define SONDE_LIMIT_CONNECT_MS 4000
/* ms: a broker or a worker says it is there, opens its events or maps its rings. */
#define SONDE_LIMIT_START_MS 10000
/* ms: a broker proves the targets of one call: /proc answers at once, unless a process of theirs is
 * stuck. */
#define SONDE_LIMIT_PROOF_MS 2000
/* ms: the spare broker says what this machine has; the service goes on without. */
#define SONDE_LIMIT_SHEET_MS 2000
/* ms: a worker that runs says something three times a second; within twice this it is dead. */
#define SONDE_LIMIT_SILENCE_MS 5000
/* ms: Stop answers within 2 s, even of a worker that hangs. */
#define SONDE_LIMIT_DRAIN_MS 1900
/* ms, and how often: a worker that is late, but something of which waits to be read, has more time:
 * it may be sonded that is late. */
#define SONDE_LIMIT_UNREAD_MS    1000
#define SONDE_LIMIT_UNREAD_TIMES 8
/* ms: after Stop, for readers that do read; the worker itself drops one that is stuck for 30 s. */
#define SONDE_LIMIT_DELIVERY_MS 120000
/* ms: the same when nobody who asked is left. */
#define SONDE_LIMIT_DELIVERY_ORPHAN_MS 5000
/* Bytes on their way to a broker or a worker, before the kernel doubles them: two of the largest
 * messages, and so some hundred descriptors. What it does not take for longer waits where it comes
 * from. */
#define SONDE_LIMIT_PEER_BUFFER 16384
/* ms: between a worker's last word, the end of its connection and its exit; a broker's likewise. */
#define SONDE_LIMIT_PEER_EXIT_MS 2000
/* ms: between the kill of a broker and its end. One that takes longer waits for what the kernel
 * asks of somebody's file system; with so many of these a uid gets no new session. */
#define SONDE_LIMIT_PEER_KILL_MS  2000
#define SONDE_LIMIT_STUCK_BROKERS 1
/* ms: sonded itself, from SIGTERM until sessions that still deliver are killed. */
#define SONDE_LIMIT_SHUTDOWN_MS 5000
/* ms: polkit without a person, and with one who types a password; as long for the turn before. */
#define SONDE_LIMIT_POLKIT_MS             20000
#define SONDE_LIMIT_POLKIT_INTERACTIVE_MS 180000
