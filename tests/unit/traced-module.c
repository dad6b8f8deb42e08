/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A library that comes to traced.cc while that runs. */

void module_leaf (unsigned value);

static volatile unsigned work;

#ifdef IS_LARGER
void module_branch (unsigned value);

void
module_branch (unsigned value)
{
  work = work * value;
}
#endif

void
module_leaf (unsigned value)
{
  work = work + value;
}
