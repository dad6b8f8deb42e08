# SPDX-License-Identifier: LGPL-2.1-or-later
# gawk -v seconds=SECONDS -f work.awk
function leaf(rounds,    i, sum) {
  for (i = 0; i < rounds; i++)
    sum += length(sprintf("%d", i * i))
  return sum
}

function middle(rounds,    i) {
  for (i = 0; i < rounds; i++)
    leaf(100000)
}

function outer(rounds) {
  middle(rounds)
  return rounds
}

BEGIN { outer(seconds * 20) }
