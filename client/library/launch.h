/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs started at a gate, which opens when their session records them. */
#pragma once

#include "client/library/connection.h"

/* @task: (transfer full): of the profiler; gets the session */
void sonde_launch (SondeConnection *connection,
                   GTask *task,
                   const char *const *argv,
                   const char *const *envp,
                   const char *folder,
                   GVariant *options);

/* The process of one that has its session. */
gint sonde_launch_pid (GTask *task);
