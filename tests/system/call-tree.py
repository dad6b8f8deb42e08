# SPDX-License-Identifier: LGPL-2.1-or-later
"""A call tree in which each name is at one place, so that a sampled stack can be judged: call-tree.py LIBRARY SECONDS"""

import ctypes
import functools
import re
import sys
import threading
import time
import zlib

native = ctypes.CDLL(sys.argv[1])
Back = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def leaf_of_callbacks(n):
    total = 0
    for i in range(n):
        total += i
    return total


@Back
def inner_back(n):
    return leaf_of_callbacks(n) % 7


@Back
def middle_back(n):
    return native.c_gamma(inner_back, n) + 1


@Back
def outer_back(n):
    return native.c_beta(middle_back, n) + 1


def through_c(n):
    return native.c_alpha(outer_back, n) + 1


def leaf_of_replacing(n):
    return sum(i for i in range(n))


def replacement(match):
    return str(
        leaf_of_replacing(
            400))


def through_re():
    return re.sub(r'\d', replacement, 'a1b2c3')


def sort_key(value):
    return sum([value * i for i in range(300)])


def through_sorted():
    return sorted(range(5), key=sort_key)


def join_two(a, b):
    total = a
    for i in range(b):
        total ^= i
    return total


def through_reduce():
    return functools.reduce(join_two, [1, 400, 500, 600])


def leaf_of_generator(n):
    x = 1
    for i in range(n):
        x = x * 3 % 1000003
    return x


def numbers():
    for i in range(3):
        yield leaf_of_generator(400)


def through_generator():
    return sum(numbers())


class Odd:
    @property
    def computed(self):
        x = 0
        for i in range(900):
            x += i & 3
        return x

    def __getattr__(self, name):
        return len(name * 900) + self.found(700)

    def found(self, n):
        x = 0
        for i in range(n):
            x -= i
        return x


def through_objects():
    odd = Odd()
    return odd.computed + odd.missing


def descend(depth):
    if depth == 0:
        return bottom(900)
    return descend(depth - 1) + 1


def bottom(n):
    x = 0
    for i in range(n):
        x |= i
    return x


def through_recursion():
    return descend(12)


GENERATED = '''
def made(n):
    x = 0
    for i in range(n):
        x += i % 3
    return x

result = made(900)
'''


def through_exec():
    exec(compile(GENERATED, 'generated.py', 'exec'), {})


def compress(end):
    data = bytes(range(256)) * 2000
    while time.monotonic() < end:
        zlib.compress(data, 6)


def turn():
    through_c(900)
    through_re()
    through_sorted()
    through_reduce()
    through_generator()
    through_objects()
    through_recursion()
    through_exec()


def main(seconds):
    end = time.monotonic() + seconds
    thread = threading.Thread(target=compress, args=(end,))
    thread.start()
    while time.monotonic() < end:
        turn()
    thread.join()


main(float(sys.argv[2]))
