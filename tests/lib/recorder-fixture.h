/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A recorder with all that it needs: an empty process table, and no reader yet. */
#pragma once

#include "daemon/capture/names/jit-names.h"
#include "daemon/capture/stream/recorder.h"

typedef struct
{
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeStreamState *state;
  SondeTally tally;
  SondeRecorder *recorder;
  SondeJitNames *jit_names;
} RecorderFixture;

/* @closed and @user_data: of sonde_recorder_new() */
static inline void
recorder_fixture_init (RecorderFixture *self, SondeRecorderSinkClosed closed, gpointer user_data)
{
  self->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  self->processes = sonde_process_table_new (self->modules);
  self->state = sonde_stream_state_new (self->processes);
  sonde_stream_state_describe (self->state, 0, 0, g_strdup ("[sonde]\n"));
  self->recorder = sonde_recorder_new (self->state, &self->tally, closed, user_data);
  self->jit_names = sonde_jit_names_new (self->recorder, &self->tally, TRUE);
}

/* What was built upon it must be gone. */
static inline void
recorder_fixture_clear (RecorderFixture *self)
{
  sonde_jit_names_free (self->jit_names);
  sonde_recorder_free (self->recorder);
  sonde_stream_state_free (self->state);
  sonde_process_table_free (self->processes);
  sonde_module_store_free (self->modules);
}
