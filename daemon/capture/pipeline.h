/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Owns and joins the stages of one session, as control tells it to. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: pipeline
 *
 * perf rings → ring-merge → perf-decoder → tracker (processes) and sampler (stacks) → recorder →
 * sinks. The order of messages is in daemon/base/message.h; which of them a state takes is one
 * table in pipeline.c. Main thread only; runs on the thread-default main context.
 */
typedef struct SondePipeline SondePipeline;

/* @status: exit status of the worker. Called once, from the main loop; the pipeline may be freed.
 */
typedef void (*SondePipelineDone) (int status, gpointer user_data);

/* @control_fd: (transfer full): a connected SOCK_SEQPACKET socket. Says HELLO. */
SondePipeline *sonde_pipeline_new (int control_fd, SondePipelineDone done, gpointer user_data);
void sonde_pipeline_free (SondePipeline *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePipeline, sonde_pipeline_free)
