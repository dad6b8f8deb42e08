/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions of the service as a list that its signals keep true. */
#pragma once

#include "client/library/connection.h"

/* @profiler: kept: what has the connection */
SondeClientSessionList *
sonde_client_session_list_new (GObject *profiler, SondeConnection *connection, gboolean everybody);
