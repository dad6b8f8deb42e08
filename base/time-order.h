/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A natural merge sort by time, for items that come in few ascending runs: what was taken of rings,
 * one after the other. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SONDE_TIME_ORDER_INLINE static inline __attribute__ ((always_inline))

/* Items begin with it, in ns. */
SONDE_TIME_ORDER_INLINE int64_t
sonde_time_order_time (const uint8_t *items, size_t index, size_t item_bytes)
{
  int64_t time_ns;

  memcpy (&time_ns, items + index * item_bytes, sizeof time_ns);
  return time_ns;
}

/* Where the ascending run ends that begins at @start, which may be the end. */
SONDE_TIME_ORDER_INLINE size_t
sonde_time_order_run_end (const uint8_t *items, size_t start, size_t n_items, size_t item_bytes)
{
  size_t end = start + (start < n_items);

  while (end < n_items
         && sonde_time_order_time (items, end - 1, item_bytes)
                <= sonde_time_order_time (items, end, item_bytes))
    end++;
  return end;
}

/**
 * sonde_time_order:
 * @items: each begins with an int64_t, its time in ns
 * @scratch: room for as many
 * @item_bytes: of one; a constant, of which the compiler makes a loop over that kind of item
 *
 * Sorts in n log r steps, where r is the number of ascending runs; items of one time stay in their
 * order.
 *
 * Returns: @items or @scratch, whichever holds them now
 */
SONDE_TIME_ORDER_INLINE void *
sonde_time_order (void *items, void *scratch, size_t n_items, size_t item_bytes)
{
  uint8_t *from = items;
  uint8_t *to = scratch;

  /* Each pass makes one run of each two. */
  while (sonde_time_order_run_end (from, 0, n_items, item_bytes) < n_items)
    {
      uint8_t *swapped = from;

      for (size_t start = 0, end; start < n_items; start = end)
        {
          size_t middle = sonde_time_order_run_end (from, start, n_items, item_bytes);
          size_t left = start;
          size_t right = middle;

          end = sonde_time_order_run_end (from, middle, n_items, item_bytes);
          /* The second run's items stay behind those of one time of the first. */
          for (size_t at = start; at < end; at++)
            {
              int is_left = left < middle
                            && (right >= end
                                || sonde_time_order_time (from, left, item_bytes)
                                       <= sonde_time_order_time (from, right, item_bytes));

              memcpy (to + at * item_bytes, from + (is_left ? left : right) * item_bytes,
                      item_bytes);
              left += is_left != 0;
              right += is_left == 0;
            }
        }
      from = to;
      to = swapped;
    }
  return from;
}
