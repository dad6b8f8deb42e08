/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocates tables in large pages, for look-ups all over them. */
#pragma once

#include <stddef.h>

/**
 * sonde_large_table_allocate:
 *
 * As g_malloc0_n(). A look-up in a table of many MiB waits for the address of its page, too, which
 * the processor keeps for some pages only: of 4 KiB, or of 2 MiB where the kernel has those.
 *
 * Returns: (transfer full): for free()
 */
void *sonde_large_table_allocate (size_t n, size_t bytes);
