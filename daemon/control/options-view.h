/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a frozen request looks like to people and programs. */
#pragma once

#include "daemon/control/options.h"

/* Before the session has taken the targets. (transfer floating): a{sv}, the property Options */
GVariant *sonde_options_to_variant (const SondeOptions *self);

/* The same. (transfer full): "process 4711", "the whole machine", ...: at most 16 pids are named */
char *sonde_options_describe_scope (const SondeOptions *self);
/* The same. (transfer full): one line, the property Description */
char *sonde_options_describe (const SondeOptions *self);
