<?php
// SPDX-License-Identifier: LGPL-2.1-or-later
// php work.php SECONDS
function leaf($rounds) {
    $sum = 0;
    for ($i = 0; $i < $rounds; $i++)
        $sum += strlen(str_repeat('x', $i % 100));
    return $sum;
}

function middle($end) {
    while (microtime(true) < $end)
        leaf(10000);
}

function outer($end) {
    middle($end);
}

outer(microtime(true) + (float) $argv[1]);
