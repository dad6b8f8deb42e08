/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that somebody else has taken over. What it does is told by the frequency that a session
 * asks for. */
#pragma once

enum
{
  HOSTILE_ASK_OTHERS = 101,
  HOSTILE_FLOOD = 102,
  HOSTILE_NEVER_READ = 103,
  HOSTILE_HANG = 104,
  HOSTILE_ASK_MAPPINGS = 105,
  HOSTILE_ASK_EARLY = 106, /* before the session runs */
  HOSTILE_EARLY = 200,        /* and more by a type: one before the session runs */
  HOSTILE_LATE = 700,         /* the same while it does */
  HOSTILE_BAD = 1200,         /* and more by a number: a packet that cannot be */
  HOSTILE_BAD_REQUEST = 1600, /* the same, to the broker */
};

/* Of private-bus: who to ask about, one pid a line, the first of them its own target. */
#define HOSTILE_PID_FILE "/mnt/victims"
/* Of private-bus: which files to ask for, "PID START OFFSET MAJOR:MINOR INODE" a line, numbers as
 * in maps. It says "files: yn", a letter for each: whether it got one. */
#define HOSTILE_MAPPING_FILE "/mnt/mappings"

void hostile_worker_main (void);
