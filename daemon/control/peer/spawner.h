/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spawns brokers and workers from a process of its own, which is forked before sonded gives up its
 * rights. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/**
 * SECTION: spawner
 *
 * Where no systemd starts them somebody has to who may give a broker its rights and a worker a uid
 * of its own, and sonded may not. So it forks this process first. What it may ask for is to start
 * a program of those that were named before the fork, and to kill one that was started so; nothing
 * else is read. Where sonded has its caller's rights the same process has them, too.
 *
 * It ends when the other end of its connection is closed, and what is queued there is done before.
 * Its programs go on.
 *
 * A worker that root spawns gets a uid, and the gid of the same number, that no other process has:
 * locked memory is counted for each uid, and workers must not be able to signal each other. A
 * broker, and anybody else's worker, is the caller. Of these uids the kernel tells which ones live
 * processes have, so that two daemons get along; ours are remembered until they are reaped.
 *
 * The range lies below that of DynamicUser= (61184 to 65519) among those that systemd leaves to
 * nobody, clear of what Debian gives to packages, and within the 65,536 ids that a container
 * usually has.
 *
 * Source: https://systemd.io/UIDS-GIDS; Debian Policy 9.2.2; getpriority(2)
 */
#define SONDE_WORKER_UID_FIRST 60928u
#define SONDE_WORKER_N_UIDS    256u

/* Those that live at a time: some of each session. */
#define SONDE_SPAWNER_N_PROCESSES 1024u

/* The only descriptor that a program inherits but for standard error. */
#define SONDE_PEER_FD 3

typedef enum
{
  SONDE_SPAWNER_START,   /* to it, with one descriptor */
  SONDE_SPAWNER_KILL,    /* to it; one that has ended is none */
  SONDE_SPAWNER_STARTED, /* from it */
  SONDE_SPAWNER_ENDED,   /* from it, last of that process; with an error it has not started */
} SondeSpawnerType;

/* A packet in either direction. */
typedef struct
{
  uint32_t type;
  uint32_t program; /* START: an index */
  uint64_t id;      /* the asker's, once */
  int32_t pid;      /* STARTED */
  int32_t status;   /* ENDED: as waitpid() has it */
  int32_t error;    /* ENDED: an errno, or 0; EUSERS: all uids are in use */
  uint32_t padding;
} SondeSpawnerPacket;

_Static_assert(sizeof (SondeSpawnerPacket) == 32, "no holes");

typedef struct
{
  const char *path; /* the executable */
  int has_own_uid;  /* if root spawns it */
} SondeSpawnerProgram;

/* An end of a connection with it, close-on-exec; before there is any thread. -1 with errno. */
int sonde_spawner_fork (const SondeSpawnerProgram *programs, unsigned n_programs);
