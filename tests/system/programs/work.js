// SPDX-License-Identifier: LGPL-2.1-or-later
// node work.js SECONDS
let sum = 0;

function leaf(rounds) {
  for (let i = 0; i < rounds; i++)
    sum = (sum + i * i) % 1000003;
}

function middle(end) {
  while (process.cpuUsage().user < end)
    leaf(100000);
  sum++;
}

function outer(end) {
  middle(end);
  sum++;
}

outer(process.cpuUsage().user + Number(process.argv[2]) * 1e6);
