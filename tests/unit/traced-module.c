/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A library that comes to traced.cc while that runs. */

void module_leaf (unsigned value);

static volatile unsigned work;

void
module_leaf (unsigned value)
{
  work = work + value;
}
