/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls of systemd on the system bus. Source: org.freedesktop.systemd1(5) */
#pragma once

#include "daemon/control/system/bus-connection.h"

#define SYSTEMD_NAME       "org.freedesktop.systemd1"
#define SYSTEMD_PATH       "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE  SYSTEMD_NAME ".Manager"
#define UNIT_INTERFACE     SYSTEMD_NAME ".Unit"
#define SERVICE_INTERFACE  SYSTEMD_NAME ".Service"
#define JOB_INTERFACE      SYSTEMD_NAME ".Job"
#define PROPERTY_INTERFACE "org.freedesktop.DBus.Properties"

/* As sonde_bus_connection_call(). */
static inline void
sonde_systemd_call (SondeBusConnection *bus,
                    const char *path,
                    const char *interface,
                    const char *method,
                    GVariant *arguments,
                    const char *type,
                    guint timeout_ms,
                    SondeBusConnectionReply reply,
                    gpointer user_data)
{
  const SondeBusConnectionCall call = { .destination = SYSTEMD_NAME,
                                        .path = path,
                                        .interface = interface,
                                        .method = method,
                                        .arguments = arguments,
                                        .type = type,
                                        .timeout_ms = timeout_ms };

  sonde_bus_connection_call (bus, &call, reply, user_data);
}
