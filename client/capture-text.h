/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a capture is of and what is missing from it, as lines above a report. */
#pragma once

#include "client/profile.h"

/* "Lost      nothing" and a newline. */
void sonde_capture_text_append_labelled (GString *out, const char *label, const char *text);

/* What was recorded, by the heaviest process of @profile if it is not everything. @settings: see
 * sonde_capture_model_dup_settings() */
void
sonde_capture_text_append_subject (GString *out, const SondeProfile *profile, GKeyFile *settings);

/* What the ledger says was lost. */
void sonde_capture_text_append_losses (GString *out, const SondeCaptureModel *model);
