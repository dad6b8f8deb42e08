#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Run by `meson install`: makes the user that sonded runs as, and then lets who reads once what was installed read it
# again: after-install.sh SYSUSERSDIR TMPFILESDIR
set -eu

# A package's files, or somebody's own copy.
[ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] || exit 0

ldconfig
! command -v systemd-sysusers >/dev/null || systemd-sysusers "$1/sonde.conf"
! command -v systemd-tmpfiles >/dev/null || systemd-tmpfiles --create "$2/sonde-beacon.conf"
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
busctl --quiet call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig ||
  echo "after-install: the system bus reads its policies when it is next started" >&2
# With them sonded, whose sessions go on; 0.1.0 has none of them.
systemctl --quiet try-restart sonde-broker.socket sonde-collect.socket sonde-worker.socket sonded.service || : # units of another prefix
systemctl --quiet stop sonde-capture.socket 2>/dev/null || : # of 0.1.0: its workers go on to their end
