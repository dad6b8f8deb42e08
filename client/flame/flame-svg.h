/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A flame graph as a still picture. */
#pragma once

#include "client/flame/flame-graph.h"

/* SVG without script; what is narrower than three pixels of 1,200 is left out. Names of frames that
 * have no room for them are titles, which browsers show. */
GString *sonde_flame_svg_new (const SondeFlameSource *source);
