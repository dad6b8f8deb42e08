/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the content of the METADATA frame "sonde": what a capture says about itself. */
#pragma once

#include <glib.h>

#include "daemon/base/message.h"

/* (transfer full): a key file with one group, [sonde] */
char *sonde_metadata_new (const SondeMessageSetup *setup,
                          gsize sample_ring_bytes,
                          gsize sideband_ring_bytes);
