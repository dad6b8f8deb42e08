/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stages of one session, joined: bytes in rings become frames in sinks. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/address-set.h"
#include "daemon/capture/event-keeper.h"
#include "daemon/capture/inferiors.h"
#include "daemon/capture/process-counters.h"
#include "daemon/capture/recorder.h"
#include "daemon/capture/ring-merge.h"
#include "daemon/capture/tracker.h"

typedef struct SondeStages SondeStages;

typedef struct
{
  SondeRequestSend send;
  SondeProcessCountersAsk ask_counters;
  SondeRecorderSinkClosed sink_closed;
  SondeInferiorsChanged control_closed;
} SondeStagesHandler;

/* FALSE and a sentence if the setup asks for what this worker cannot do. */
gboolean sonde_stages_supports (const SondeMessageSetup *setup, const char **why);

SondeStages *sonde_stages_new (const SondeMessageSetup *setup,
                               const SondeStagesHandler *handler,
                               gpointer user_data);
void sonde_stages_free (SondeStages *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeStages, sonde_stages_free)

/* @fd: stays the caller's; read to its end, which is bounded. */
void sonde_stages_add_document (SondeStages *self, const SondeMessageDocument *message, int fd);
/* @fd: (transfer full): -1 if the message has none */
void sonde_stages_add_counters (SondeStages *self, const SondeMessageCounters *message, int fd);
/* @ring: (transfer full) */
/* @fd: (transfer full). FALSE: too many. */
gboolean sonde_stages_add_event (SondeStages *self, const SondeMessageEvent *event, int fd);
void sonde_stages_add_ring (SondeStages *self, SondePerfRing *ring, SondeEventKind kind);
/* Once, when the rings are mapped: what the capture says of itself. */
void sonde_stages_describe (SondeStages *self, gsize sample_ring_bytes, gsize sideband_ring_bytes);
/* Once, before the first drain. */
void sonde_stages_start (SondeStages *self);

SondeRecorder *sonde_stages_recorder (SondeStages *self);
SondeTracker *sonde_stages_tracker (SondeStages *self);
SondeEventKeeper *sonde_stages_events (SondeStages *self);
/* NULL before the start. */
SondeInferiors *sonde_stages_inferiors (SondeStages *self);

/* Reads a slice of new files and hands a bounded number of records on. @draining: whatever their
 * age; waits for answers end at
 * @wait_until_ns at the latest. */
SondeRingMergeState sonde_stages_drain (SondeStages *self, gboolean draining, gint64 wait_until_ns);
guint64 sonde_stages_n_records (const SondeStages *self);

/* Ten times a second: counters of the machine and of processes. @is_shown: FALSE while paused */
void sonde_stages_count (SondeStages *self, gboolean is_shown);
/* Asks control again for all that it has not answered. */
void sonde_stages_ask_again (SondeStages *self);

/* Reads the kernel's count of lost samples, of some events or of all. */
void sonde_stages_read_lost (SondeStages *self, gboolean all);
/* About once a second: forgets processes that are gone for long, tries again what failed. */
void sonde_stages_expire (SondeStages *self);
/* Rings are drained and the kernel's counts read: says what was odd. */
void sonde_stages_end (SondeStages *self);
void sonde_stages_statistics (const SondeStages *self, SondeMessageStatistics *message);
/* (nullable): the addresses to name, if that was asked for. */
SondeAddressSet *sonde_stages_addresses (SondeStages *self);
