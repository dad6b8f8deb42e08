/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a user can do about errors of the service. */
#pragma once

#include <glib.h>

/**
 * sonde_service_error_advice:
 * @error: of a call to the service, or of the way to it
 * @is_embedded: the service is one of our own
 *
 * Returns: (nullable): a sentence that says what to do next
 */
const char *sonde_service_error_advice (const GError *error, gboolean is_embedded);

/* "sondectl: @what...", the message without the error's D-Bus name, and the advice on a line of its
 * own. */
void sonde_service_error_complain (const char *what, const GError *error, gboolean is_embedded);
