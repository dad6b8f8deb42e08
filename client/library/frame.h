/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frames of a capture as the library hands them out. */
#pragma once

#include "client/library/sonde-client.h"
#include "protocol/frame.h"

/* @frame: accepted by sonde_frame_check(); copied */
SondeClientFrame *sonde_client_frame_new (const SondeFrame *frame);

const SondeFrame *sonde_client_frame_peek (const SondeClientFrame *self);
