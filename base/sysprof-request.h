/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Packets between sonde-sysprof, whom callers of Sysprof's service reach, and the recorder of a
 * caller's own user. */
#pragma once

#include <stdint.h>

/* Where systemd listens for the user of a uid, in the abstract space, and whom the recorder hears:
 * the user of sonde-sysprof.service. */
#define SONDE_SYSPROF_ADDRESS "sonde-sysprof-%u"
#define SONDE_SYSPROF_USER    "sonde-sysprof"

/* The first packet, from sonde-sysprof, with one descriptor: the file that the capture goes into.
 * Nothing else follows but the end of this direction, which asks for the end of the recording. */
typedef struct
{
  uint32_t magic;
  int32_t pid; /* the caller, whose children are to be recorded */
} SondeSysprofRequest;

#define SONDE_SYSPROF_MAGIC 0x53795371u

/* The answers, in this order: RECORDING or REFUSED; after RECORDING, ENDED. Each is a byte and, but
 * for RECORDING, a text that says why; of ENDED it is empty if all went well. */
enum
{
  SONDE_SYSPROF_RECORDING = 'r',
  SONDE_SYSPROF_REFUSED = 'n',
  SONDE_SYSPROF_ENDED = 'e',
};

#define SONDE_SYSPROF_MAX_ANSWER 512
