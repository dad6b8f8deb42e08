/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a setuid program is to its user: nothing of it may be seen. Linked to an address of its own,
 * by which every sample of it can be told, and without a C library, which could not be so far up.
 */
void _start (void);

void
_start (void)
{
  for (volatile unsigned n = 0;;)
    n = n + 1;
}
