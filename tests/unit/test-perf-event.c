/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The attributes that options become. */
#include <time.h>

#include "daemon/broker/perf-event.h"

static SondeAsked
launch_options (void)
{
  return (SondeAsked){ .scope = SONDE_SCOPE_LAUNCH,
                       .event = SONDE_EVENT_CPU_CLOCK,
                       .frequency_hz = 1000,
                       .children = TRUE,
                       .unwind = SONDE_UNWIND_DWARF,
                       .stack_size_bytes = 16384,
                       .max_depth = 256 };
}

static void
assert_common (const struct perf_event_attr *attr)
{
  g_assert_cmpuint (attr->size, ==, sizeof *attr);
  g_assert_true (attr->disabled);
  g_assert_true (attr->use_clockid);
  g_assert_cmpint (attr->clockid, ==, CLOCK_MONOTONIC);
  g_assert_true (attr->exclude_hv);
  g_assert_true (attr->exclude_guest);
  g_assert_true (attr->sample_type & PERF_SAMPLE_IDENTIFIER);
  g_assert_true (attr->sample_type & PERF_SAMPLE_TIME);
  g_assert_cmpuint (attr->config1, ==, 0);
  g_assert_cmpuint (attr->config2, ==, 0);
}

static void
test_common (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  sonde_perf_plan_init (&plan, &asked);
  assert_common (&plan.samples);
  assert_common (&plan.sideband);
  assert_common (&plan.samples_ring);
  assert_common (&plan.sideband_ring);
  g_assert_true (plan.samples_ring.watermark);
  g_assert_true (plan.sideband_ring.watermark);
  g_assert_cmpuint (plan.samples.read_format, ==, PERF_FORMAT_ID | PERF_FORMAT_LOST);
}

static void
test_sideband_apart (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  sonde_perf_plan_init (&plan, &asked);
  g_assert_false (plan.samples.mmap || plan.samples.mmap2 || plan.samples.comm
                  || plan.samples.task);
  g_assert_true (plan.sideband.mmap && plan.sideband.mmap2 && plan.sideband.comm
                 && plan.sideband.comm_exec && plan.sideband.task);
  g_assert_false (plan.sideband.mmap_data);
  g_assert_cmpuint (plan.sideband.config, ==, PERF_COUNT_SW_DUMMY);
}

static void
test_dwarf (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_REGS_USER);
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_STACK_USER);
  /* For what the copy has no room for. */
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_CALLCHAIN);
  g_assert_true (plan.samples.exclude_callchain_kernel);
  g_assert_false (plan.samples.exclude_callchain_user);
  g_assert_cmpuint (plan.samples.sample_stack_user, ==, 16384);
#if defined(__x86_64__)
  g_assert_cmphex (plan.samples.sample_regs_user, ==, 0xff01ff);
#elif defined(__aarch64__)
  g_assert_cmphex (plan.samples.sample_regs_user, ==, 0x1ffffffff);
#endif
  g_assert_cmpuint (sonde_perf_plan_flags (&plan) & SONDE_SPEC_USER_STACK, !=, 0);
}

static void
test_kernel_names (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  asked.kernel = TRUE;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_CALLCHAIN);
  g_assert_false (plan.samples.exclude_callchain_user);
  g_assert_false (plan.samples.exclude_callchain_kernel);
  asked.unwind = SONDE_UNWIND_LIBDWFL;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_CALLCHAIN);
  g_assert_true (plan.samples.exclude_callchain_user);
}

static void
test_frame_pointer (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  asked.unwind = SONDE_UNWIND_FRAME_POINTER;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_CALLCHAIN);
  g_assert_false (plan.samples.sample_type & PERF_SAMPLE_STACK_USER);
  g_assert_false (plan.samples.exclude_callchain_user);
  g_assert_true (plan.samples.exclude_callchain_kernel);
}

static void
test_no_unwinding (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  asked.unwind = SONDE_UNWIND_NONE;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_false (plan.samples.sample_type
                  & (PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_USER));
}

static void
test_rate (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  asked.frequency_hz = 99;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.freq);
  g_assert_cmpuint (plan.samples.sample_freq, ==, 99);
  asked.frequency_hz = 0;
  asked.period = 500000;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_false (plan.samples.freq);
  g_assert_cmpuint (plan.samples.sample_period, ==, 500000);
}

static void
test_inherit (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.inherit && !plan.samples.inherit_thread);
  g_assert_true (plan.sideband.inherit && !plan.sideband.inherit_thread);
  asked.children = FALSE;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_true (plan.samples.inherit && plan.samples.inherit_thread);
  asked.scope = SONDE_SCOPE_SYSTEM;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_false (plan.samples.inherit || plan.sideband.inherit);
  g_assert_true (plan.samples.exclude_idle);
}

static void
test_auto (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  asked.event = SONDE_EVENT_AUTO;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_cmpstr (plan.event_name, ==, "cycles");
  g_assert_cmpuint (plan.samples.type, ==, PERF_TYPE_HARDWARE);
  g_assert_true (plan.may_fall_back);
}

static void
test_none (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;

  asked.event = SONDE_EVENT_NONE;
  sonde_perf_plan_init (&plan, &asked);
  g_assert_false (plan.has_samples);
  /* The worker has to know how the side band's records end. */
  g_assert_cmpuint (plan.samples.sample_type, ==, plan.sideband.sample_type);
  g_assert_cmpuint (sonde_perf_plan_flags (&plan) & SONDE_SPEC_USER_STACK, ==, 0);
  g_assert_true (sonde_perf_plan_probe (&plan, &asked, 0, NULL));
}

/* Whatever this kernel allows, what the plan says and what the flags say stay one. */
static void
test_probe (void)
{
  SondeAsked asked = launch_options ();
  SondePerfPlan plan;
  g_autoptr (GError) error = NULL;

  asked.event = SONDE_EVENT_AUTO;
  asked.kernel = TRUE;
  sonde_perf_plan_init (&plan, &asked);
  if (!sonde_perf_plan_probe (&plan, &asked, 0, &error))
    {
      g_test_skip (error->message);
      return;
    }
  g_assert_cmpint ((sonde_perf_plan_flags (&plan) & SONDE_SPEC_CALLCHAIN) != 0, ==,
                   (plan.samples.sample_type & PERF_SAMPLE_CALLCHAIN) != 0);
  g_assert_cmpint ((sonde_perf_plan_flags (&plan) & SONDE_SPEC_DEFERRED) != 0, ==, plan.defers);
  g_assert_cmpint ((sonde_perf_plan_flags (&plan) & SONDE_SPEC_KERNEL_TIME) == 0, ==,
                   plan.samples.exclude_kernel);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/perf-event/attributes-share-clock-and-identity", test_common);
  g_test_add_func ("/perf-event/side-band-records-stay-off-the-samples", test_sideband_apart);
  g_test_add_func ("/perf-event/dwarf-asks-for-registers-and-stack", test_dwarf);
  g_test_add_func ("/perf-event/kernel-names-add-the-kernel-s-part-of-the-callchain", test_kernel_names);
  g_test_add_func ("/perf-event/frame-pointer-leaves-the-stack-to-the-kernel", test_frame_pointer);
  g_test_add_func ("/perf-event/no-unwinding-asks-for-no-stack", test_no_unwinding);
  g_test_add_func ("/perf-event/rate-is-frequency-or-period", test_rate);
  g_test_add_func ("/perf-event/children-are-followed-as-asked", test_inherit);
  g_test_add_func ("/perf-event/auto-begins-with-cycles", test_auto);
  g_test_add_func ("/perf-event/none-samples-nothing", test_none);
  g_test_add_func ("/perf-event/probe-keeps-flags-and-attributes-one", test_probe);
  return g_test_run ();
}
