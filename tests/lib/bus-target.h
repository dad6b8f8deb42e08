/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every kind of thing that somebody may want to profile, and what proves that he may. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

typedef enum
{
  BUS_TARGET_OWN,
  BUS_TARGET_OWN_SETUID,           /* started by the owner, runs as root */
  BUS_TARGET_OWN_NONDUMPABLE,      /* hides itself by PR_SET_DUMPABLE */
  BUS_TARGET_OWN_WITH_CAPS,        /* dumpable, but with a capability that its owner lacks */
  BUS_TARGET_OWN_IN_PID_NAMESPACE, /* in a pid namespace of its own */
  BUS_TARGET_OTHERS,
  BUS_TARGET_ROOTS,
  BUS_TARGET_KERNEL_THREAD,
  BUS_TARGET_DEAD, /* was the owner's */
  BUS_N_TARGETS,
} BusTargetKind;

const char *bus_target_kind_name (BusTargetKind kind);

typedef struct
{
  BusTargetKind kind;
  pid_t pid;
  pid_t child; /* the same, if it is a living child of ours; else 0 */
  int life_fd; /* a target ends when this closes */
  uid_t owner;
  int proof_before_death; /* of the dead: its owner's; else -1 */
} BusTarget;

/* To be called once: @program is tests/bus/target.c, of which this makes copies with other rights.
 * The test must run under private-bus. */
void bus_targets_init (const char *program);

/* A process of @kind, seen from @owner; foreign ones are @other's. It waits and does nothing. */
void bus_target_init (BusTarget *self, BusTargetKind kind, uid_t owner, uid_t other);
void bus_target_clear (BusTarget *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (BusTarget, bus_target_clear)

/* /proc/PID/maps as the kernel opens it for @uid; -1 if it refuses him. The second one remembers
 * what its owner had of the dead. */
int bus_open_proof (uid_t uid, pid_t pid);
int bus_target_open_proof (const BusTarget *self, uid_t caller);

/* A copy of @program under this @name in the file system of private-bus, which honours setuid bits.
 * Returns: (transfer full): its path */
char *bus_copy_program (const char *program, const char *name, mode_t mode);

/* A process of @uid that runs @program with the further @arguments and no others of its own, until
 * @life_fd closes; it has said that it is ready. @environment may be NULL. */
pid_t bus_run (uid_t uid,
               const char *program,
               const char *const *arguments,
               const char *const *environment,
               int *life_fd);
