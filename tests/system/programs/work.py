# SPDX-License-Identifier: LGPL-2.1-or-later
"""work.py SECONDS"""
import sys
import time


def leaf(rounds):
    return sum(i * i for i in range(rounds))


def middle(end):
    while time.process_time() < end:
        leaf(10000)


def outer(end):
    middle(end)
    return end


outer(float(sys.argv[1]))
