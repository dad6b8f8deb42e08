/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/process/kernel-names.h"

#include <linux/perf_event.h>

#define CACHE_SLOTS 4096 /* a power of two */

typedef struct
{
  uint64_t address; /* 0: empty */
  uint64_t made_up;
} KernelSlot;

struct SondeKernelNames
{
  SondeRecorder *recorder;
  SondeKallsyms *kallsyms;
  gboolean is_raw;
  KernelSlot cache[CACHE_SLOTS];
};

SondeKernelNames *
sonde_kernel_names_new (SondeRecorder *recorder, SondeKallsyms *kallsyms, gboolean is_raw)
{
  SondeKernelNames *self = g_new0 (SondeKernelNames, 1);

  self->recorder = recorder;
  self->kallsyms = kallsyms;
  self->is_raw = is_raw;

  return self;
}

void
sonde_kernel_names_free (SondeKernelNames *self)
{
  if (self == NULL)
    return;

  sonde_kallsyms_free (self->kallsyms);
  g_free (self);
}

static KernelSlot *
slot_of (SondeKernelNames *self, uint64_t address)
{
  return &self->cache[(address * UINT64_C (0x9E3779B97F4A7C15)) >> 52 & (CACHE_SLOTS - 1)];
}

static uint64_t
replace_one (SondeKernelNames *self, uint64_t address, gint64 time_ns)
{
  KernelSlot *slot = slot_of (self, address);
  const char *name = "[kernel]";

  if (slot->address == address && address != 0)
    return slot->made_up;

  if (self->kallsyms != NULL && !sonde_kallsyms_lookup (self->kallsyms, address, &name))
    name = "[kernel]";
  slot->address = address;
  slot->made_up = sonde_recorder_name (self->recorder, name, time_ns);

  return slot->made_up;
}

/* @distance: from @address down to the one whose name it has: a return address's call is one byte
 * lower */
static uint64_t
tell_one (SondeKernelNames *self, uint64_t address, unsigned distance, gint64 time_ns)
{
  KernelSlot *slot = slot_of (self, address);
  const char *name;

  if (!self->is_raw)
    return replace_one (self, address - distance, time_ns);
  if (slot->address == address)
    return address;
  slot->address = address;
  if (self->kallsyms != NULL && sonde_kallsyms_lookup (self->kallsyms, address - distance, &name))
    sonde_recorder_name_address (self->recorder, address, name, time_ns);
  return address;
}

size_t
sonde_kernel_names_replace (SondeKernelNames *self,
                            const uint64_t *chain,
                            size_t n_chain,
                            uint64_t ip,
                            gint64 time_ns,
                            uint64_t *addrs,
                            size_t max_addrs)
{
  gboolean in_kernel = FALSE;
  size_t n_addrs = 0;

  g_assert (max_addrs > 0);
  for (size_t i = 0; (self->kallsyms != NULL || self->is_raw) && i < n_chain && n_addrs < max_addrs;
       i++)
    {
      if (chain[i] >= (uint64_t) PERF_CONTEXT_MAX)
        in_kernel = chain[i] == (uint64_t) PERF_CONTEXT_KERNEL;
      else if (in_kernel)
        /* All but the first are return addresses. */
        addrs[n_addrs] = tell_one (self, chain[i], n_addrs > 0, time_ns), n_addrs++;
    }
  if (n_addrs == 0)
    addrs[n_addrs++] = self->kallsyms != NULL || self->is_raw ? tell_one (self, ip, 0, time_ns)
                                                              : replace_one (self, 1, time_ns);

  return n_addrs;
}
