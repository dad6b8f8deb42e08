<?php
// SPDX-License-Identifier: LGPL-2.1-or-later
// A call tree in which each name is at one place, so that a sampled stack can be judged: call-tree.php SECONDS

function leaf_of_comparing($n)
{
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total += $i * $i;
    }
    return $total;
}

function compare($a, $b)
{
    leaf_of_comparing(40);
    return $a <=> $b;
}

function through_usort()
{
    $numbers = range(30, 1);
    usort($numbers, 'compare');
    return $numbers[0];
}

function leaf_of_mapping($n)
{
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total ^= $i << 1;
    }
    return $total;
}

function through_map()
{
    return array_map(function ($n) {
        return leaf_of_mapping($n * 20) +
            leaf_of_mapping($n * 21);
    }, range(1, 12));
}

function leaf_of_replacing($n)
{
    $text = '';
    for ($i = 0; $i < $n; $i++) {
        $text .= chr(65 + $i % 26);
    }
    return $text;
}

function replacement($match)
{
    return leaf_of_replacing(
        $match[0] * 100);
}

function through_re()
{
    return preg_replace_callback('/[0-9]/', 'replacement', 'a1b2c3');
}

function leaf_of_generator($n)
{
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total += $i % 7;
    }
    return $total;
}

function numbers($n)
{
    for ($i = 1; $i <= $n; $i++) {
        yield leaf_of_generator(150);
    }
}

function through_generator()
{
    $total = 0;
    foreach (numbers(10) as $number) {
        $total += $number;
    }
    return $total;
}

class Odd
{
    private $found = 1;

    public function __get($name)
    {
        return $this->found(300);
    }

    private function found($n)
    {
        for ($i = 0; $i < $n; $i++) {
            $this->found += $i;
        }
        return $this->found;
    }

    public static function made($n)
    {
        $bound = function ($m) use ($n) {
            $total = $n;
            for ($i = 0; $i < $m; $i++) {
                $total += $i;
            }
            return $total;
        };
        return $bound(700);
    }

    public function __destruct()
    {
        for ($i = 0; $i < 400; $i++) {
            $this->found += $i;
        }
    }
}

function through_objects()
{
    $odd = new Odd();
    $read = $odd->missing;
    $made = Odd::made(3);
    $odd = null;
    return $read + $made;
}

function bottom($n)
{
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total += $i;
    }
    return $total;
}

function descend($depth)
{
    if ($depth == 0) {
        return bottom(500);
    }
    return descend($depth - 1) + 1;
}

function through_recursion()
{
    return descend(12);
}

eval('function generated($n) { return made_up($n); } function made_up($n) { $t = 0; while ($n-- > 0) { $t += $n; } return $t; }');

function through_eval()
{
    return generated(600);
}

function leaf_of_callable($n)
{
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total += $i & 3;
    }
    return $total;
}

function through_callable()
{
    $callable = leaf_of_callable(...);
    return call_user_func($callable, 500) + count(array_filter(range(1, 20), 'is_int'));
}

function turn()
{
    through_usort();
    through_map();
    through_re();
    through_generator();
    through_objects();
    through_recursion();
    through_eval();
    through_callable();
}

function main($seconds)
{
    $end = microtime(true) + $seconds;
    while (microtime(true) < $end) {
        turn();
    }
}

main((float) $argv[1]);
