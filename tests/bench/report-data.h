/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The same samples as a capture and as a file of perf. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Both print what went wrong and return false. */
bool report_data_write_capture (const char *path, uint64_t n_samples);
bool report_data_write_perf (const char *path, uint64_t n_samples);
