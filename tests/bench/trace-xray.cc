/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has LLVM's own runtime use the sleds of the program that it is linked into, in the mode that
 * TRACE_XRAY_MODE names, and fail where that recorded nothing. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define HIDDEN [[clang::xray_never_instrument]]

/* What a recording of some calls has at least. */
static const uint64_t MIN_BYTES = 100;

static uint64_t n_bytes;

HIDDEN static void
fail (const char *what)
{
  fprintf (stderr, "xray: %s\n", what);
  _exit (2);
}

/* Without so much room they stop to record, and seem fast. */
HIDDEN static const char *
options_of (const char *mode)
{
  return mode[5] == 'p' ? "no_flush=true:per_thread_allocator_max=67108864:"
                          "global_allocator_max=67108864:stack_allocator_max=67108864"
                        : "no_file_flush=true:buffer_size=1048576:buffer_max=64:"
                          "func_duration_threshold_us=0";
}

HIDDEN static void
take (const char *, XRayBuffer buffer)
{
  n_bytes += buffer.Size;
}

HIDDEN static void
stop ()
{
  if (__xray_unpatch () != SUCCESS || __xray_log_finalize () != XRAY_LOG_FINALIZED)
    fail ("it does not end");
  usleep (200000); /* as its header says */
  __xray_log_process_buffers (take);
  if (n_bytes < MIN_BYTES)
    fail ("nothing was recorded");
}

HIDDEN __attribute__ ((constructor)) static void
start ()
{
  const char *mode = getenv ("TRACE_XRAY_MODE");

  if (mode == nullptr)
    return;
  if (__xray_log_select_mode (mode) != XRAY_REGISTRATION_OK
      || __xray_log_init_mode (mode, options_of (mode)) != XRAY_LOG_INITIALIZED
      || __xray_patch () != SUCCESS)
    fail ("it does not begin");
  atexit (stop); /* so before its own end, which would throw away what it has */
}
