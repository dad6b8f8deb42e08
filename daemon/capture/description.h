/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a capture says about itself: the METADATA frame "sonde". */
#pragma once

#include <glib.h>

#include "daemon/base/message.h"

/* (transfer full): a key file with one group, [sonde] */
char *sonde_description_new (const SondeMessageSetup *setup,
                             gsize sample_ring_bytes,
                             gsize sideband_ring_bytes);
