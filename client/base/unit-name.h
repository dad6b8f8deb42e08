/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of systemd's units and of containers, as people write them and as control groups have them.
 */
#pragma once

#include <glib.h>

/* Whether it ends as units do. */
gboolean sonde_unit_name_is (const char *text);

/* (transfer full): "cron" is "cron.service", as for systemctl */
char *sonde_unit_name_complete (const char *text);

/* What the last parts of the control group @path say: the innermost service, scope or slice; the
 * container that runs there. (transfer full): NULL: nothing; of foreign origin */
char *sonde_cgroup_dup_unit (const char *path);
char *sonde_cgroup_dup_container (const char *path);
/* The same with all digits of its id. */
char *sonde_cgroup_dup_container_id (const char *path);

/* Whether that container is meant by @wanted: its name, or the first digits of its id. */
gboolean sonde_cgroup_is_container (const char *path, const char *wanted);
