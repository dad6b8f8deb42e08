/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Records as the kernel writes them, for sample_type IDENTIFIER, IP, TID, TIME, CPU and PERIOD. */
#pragma once

#include <linux/perf_event.h>
#include <stdint.h>

/* Of PERF_RECORD_SAMPLE, behind its header. */
typedef struct
{
  uint64_t id, ip;
  uint32_t pid, tid;
  int64_t time_ns;
  uint32_t cpu, reserved;
  uint64_t period;
} SampleBody;

typedef struct
{
  struct perf_event_header header;
  uint32_t pid, parent_pid, tid, parent_tid;
  int64_t time_ns;
  uint32_t id_pid, id_tid; /* from here on what sample_id_all adds */
  int64_t id_time_ns;
  uint32_t cpu, reserved;
  uint64_t id;
} ForkRecord;
