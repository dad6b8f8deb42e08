/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions that call back, so that a program's stack has native ones between its own. */

typedef int (*CallTreeBack) (int value);

int c_alpha (CallTreeBack back, int value);
int c_beta (CallTreeBack back, int value);
int c_gamma (CallTreeBack back, int value);

/* What is added is done afterwards: no function goes by a jump. */
int
c_alpha (CallTreeBack back, int value)
{
  return back (value) + 1;
}

int
c_beta (CallTreeBack back, int value)
{
  return back (value) + 2;
}

int
c_gamma (CallTreeBack back, int value)
{
  return back (value) + 3;
}
