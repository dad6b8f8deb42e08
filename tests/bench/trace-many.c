/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has 750 functions, which are 1,500 sleds, and sleeps, so that it costs what switching these does.
 */
#include <stdio.h>
#include <unistd.h>

#define FUNCTION(number)                                                                           \
  __attribute__ ((noinline)) void many##number (void) { __asm__ volatile(""); }
#define TEN(make, tens)                                                                            \
  make (tens##0) make (tens##1) make (tens##2) make (tens##3) make (tens##4) make (tens##5)        \
      make (tens##6) make (tens##7) make (tens##8) make (tens##9)
#define HUNDRED_AND_FIFTY(make, hundreds)                                                          \
  TEN (make, hundreds##00)                                                                         \
  TEN (make, hundreds##01) TEN (make, hundreds##02) TEN (make, hundreds##03)                       \
      TEN (make, hundreds##04) TEN (make, hundreds##05) TEN (make, hundreds##06)                   \
          TEN (make, hundreds##07) TEN (make, hundreds##08) TEN (make, hundreds##09)               \
              TEN (make, hundreds##10) TEN (make, hundreds##11) TEN (make, hundreds##12)           \
                  TEN (make, hundreds##13) TEN (make, hundreds##14)

HUNDRED_AND_FIFTY (FUNCTION, 1)
HUNDRED_AND_FIFTY (FUNCTION, 2)
HUNDRED_AND_FIFTY (FUNCTION, 3)
HUNDRED_AND_FIFTY (FUNCTION, 4)
HUNDRED_AND_FIFTY (FUNCTION, 5)

__attribute__ ((xray_never_instrument)) int
main (void)
{
  puts ("ready");
  fflush (stdout);
  for (;;)
    pause ();
}
