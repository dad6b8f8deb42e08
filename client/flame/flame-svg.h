/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A flame graph as a still picture. */
#pragma once

#include "client/model/samples.h"
#include "client/names/symbol-resolver.h"

/**
 * sonde_flame_svg_new:
 * @log: with at least one sample
 * @other: to compare with; NULL: nothing
 * @symbols: (nullable): how to look up the names
 * @title: UTF-8
 *
 * SVG without script; what is narrower than three pixels of 1,200 is left out. Names of frames that
 * have no room for them are titles, which browsers show.
 */
GString *sonde_flame_svg_new (const SondeSampleLog *log,
                              const SondeSampleLog *other,
                              const SondeSymbolOptions *symbols,
                              const char *title);
