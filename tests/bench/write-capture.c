/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The capture of the benchmark of reports, for others: write-capture FILE SAMPLES */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/report-data.h"

int
main (int argc, char **argv)
{
  if (argc != 3)
    {
      fputs ("write-capture FILE SAMPLES\n", stderr);
      return 2;
    }
  return report_data_write_capture (argv[1], strtoull (argv[2], NULL, 10)) ? 0 : 1;
}
