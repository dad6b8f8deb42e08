/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where the conversation between a session and its worker stands. */
#pragma once

#include <gio/gio.h>

/* Finer than the state that the bus shows. */
typedef enum
{
  SONDE_PHASE_IDLE,     /* no worker yet */
  SONDE_PHASE_PROOF,    /* waiting for the broker to prove the targets */
  SONDE_PHASE_HELLO,    /* for the worker to say hello */
  SONDE_PHASE_RINGS,    /* for its rings */
  SONDE_PHASE_SCOPE,    /* for systemd to tell where a unit is */
  SONDE_PHASE_OPEN,     /* for the broker to open the events */
  SONDE_PHASE_LIVE,     /* running or paused */
  SONDE_PHASE_DRAIN,    /* STOP is sent */
  SONDE_PHASE_DELIVERY, /* DRAINED has come; readers take the rest */
  SONDE_PHASE_OVER,     /* FINISHED or FAILED has come, or we gave up: nothing is heard any more */
  SONDE_N_PHASES,
} SondeSessionPhase;

/* Whether the worker may send a message of @type (SondeMessageType, or a foreign number). */
gboolean sonde_session_phase_expects (SondeSessionPhase phase, guint32 type);

/* Why a session fails whose worker is too late in @phase. */
const char *sonde_session_phase_overdue (SondeSessionPhase phase);
