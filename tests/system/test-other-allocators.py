#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Blocks that libsonde-memory.so does not see are told of: test-other-allocators.py BUILD"""

import glob
import os
import re
import shutil
import subprocess
import sys

from system import DEADLINE_S, System, check
from tap import Skip

N = 1000
# 100 bytes by new, 200 by malloc; those of a library that is loaded have 300, and 400 of one block that is freed here.
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

int
main (int argc, char **argv)
{
  for (int i = 0; i < %d; i++)
    {
      char *made = new char[100];
      void *block = malloc (200);

      asm volatile ("" ::"r"(made), "r"(block));
      delete[] made;
      free (block);
    }
  for (int i = 1; i < argc; i++)
    {
      void *library = dlopen (argv[i], RTLD_NOW | RTLD_DEEPBIND);

      if (library == NULL)
        return puts (dlerror ()), 1;
      free (((void *(*) (int)) dlsym (library, "work")) (%d));
    }
  return 0;
}
""" % (N, N)
# The same, but that it has the addresses of both.
TAKING = PROGRAM.replace('malloc (200)', 'through (200)').replace('int\nmain', """#include <new>

void *(*volatile through) (size_t) = malloc;
void *(*volatile making) (size_t) = operator new;

int
main""")
LIBRARY = """
#include <stdlib.h>

void *
work (int n)
{
  for (int i = 0; i < n; i++)
    {
      void *block = malloc (300);

      __asm__ volatile ("" ::"r"(block));
      free (block);
    }
  return malloc (400);
}
"""
# Of a program's own: it gives, and takes nothing back.
OWN = """
#include <stddef.h>
#include <string.h>

static _Alignas (16) char arena[1 << 22];
static size_t used = 16;

void *
malloc (size_t size)
{
  char *block = arena + used;

  *(size_t *) (block - 8) = size;
  used += (size + 31) & ~(size_t) 15;
  return block;
}

void free (void *block) {}
void *calloc (size_t n, size_t size) { return malloc (n * size); }

void *
realloc (void *block, size_t size)
{
  char *other = malloc (size);

  if (block != NULL)
    memcpy (other, block, size < *(size_t *) ((char *) block - 8) ? size : *(size_t *) ((char *) block - 8));
  return other;
}

int
main (void)
{
  for (int i = 0; i < 100; i++)
    free (malloc (10));
  return 0;
}
"""


class Test:
    def __init__(self, system):
        self.system = system
        self.plain = self.build('plain', PROGRAM, 'g++', '-xc++')

    def build(self, name, source, compiler, *options):
        path = self.system.path(name)
        if not shutil.which(compiler):
            raise Skip(f'there is no {compiler}')
        options, libraries = [word for word in options if word[0] == '-'], [word for word in options if word[0] != '-']
        subprocess.run([compiler, '-O1', '-fno-builtin', *options, '-', '-o', path, '-xnone', '-Wl,--no-as-needed', *libraries],
                       input=source, text=True, check=True, timeout=DEADLINE_S)
        return path

    def record(self, *command):
        """Events by the sizes of blocks, what is told of others, and what sondectl heap says of it."""
        self.system.record('other.syscap', '--event=none', '--memory', '--memory-wait=1000000', '--', *command)
        path = self.system.path('other.syscap')
        text = self.system.sondectl('dump', path)
        sizes = {size: len(re.findall(f'^ *ALLOCATION .* size={size} n=', text, re.M)) for size in (10, 100, 200, 300, 400)}
        notes = re.findall(r'^LOG .* domain="sonde-memory" message="(.*)"$', text, re.M)
        told = subprocess.run([self.system.program('client/sondectl'), 'heap', path], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE_S, check=False).stderr
        for note in notes:
            check(told.count(f'{note}\n') == 1, f'{note} is not in: {told}')
        return sizes, notes


def find(pattern):
    found = glob.glob(f'/usr/lib/*/{pattern}') + glob.glob(f'/usr/lib64/{pattern}')
    if not found:
        raise Skip(f'there is no {pattern}')
    return found[0]


def test_usual(test):
    sizes, notes = test.record(test.plain)
    check((sizes[100], sizes[200]) == (N, N) and not notes, f'{sizes} {notes}')


def test_own_new(test, pattern):
    library = find(pattern)
    name = os.path.basename(library)
    linked = test.build('linked', PROGRAM, 'g++', '-xc++', library)
    # One that was preloaded stands behind ours, as the linked one does.
    os.environ['LD_PRELOAD'] = library
    try:
        preloaded = test.record(test.plain)
    finally:
        del os.environ['LD_PRELOAD']
    for sizes, notes in (test.record(linked), preloaded):
        check((sizes[100], sizes[200]) == (0, N), f'{sizes}')
        check(len(notes) == 1 and notes[0].startswith(f'{name} has an operator new of its own'), f'{notes}')


def test_fixed(test):
    """Programs at a fixed place that take the address of malloc() have an entry of that name, and call ours."""
    fixed = test.build('fixed', TAKING, 'g++', '-xc++', '-fno-pie', '-no-pie')
    sizes, notes = test.record(fixed)
    check((sizes[100], sizes[200]) == (N, N) and not notes, f'{sizes} {notes}')
    libraries = glob.glob('/usr/lib/*-linux-gnu/libjemalloc.so.2')
    if libraries:
        sizes, notes = test.record(test.build('fixed-own', TAKING, 'g++', '-xc++', '-fno-pie', '-no-pie', libraries[0]))
        check((sizes[100], sizes[200]) == (0, N), f'{sizes}')
        check(len(notes) == 1 and notes[0].startswith('libjemalloc.so.2 has an operator new'), f'{notes}')


def test_first(test):
    own = test.build('own', OWN, 'gcc', '-xc')
    sizes, notes = test.record(own)
    check(not any(sizes.values()), f'{sizes}')
    check(len(notes) == 1 and notes[0].startswith('malloc() is that of own, which comes before'), f'{notes}')
    # In a process that a shell has made, too.
    _, notes = test.record('sh', '-c', f'{own}; {own}; true')
    check(len(notes) == 2, f'{notes}')


def test_deep(test):
    libraries = [test.build(f'deep-{i}.so', LIBRARY, 'gcc', '-xc', '-shared', '-fPIC') for i in range(20)]
    sizes, notes = test.record(test.plain, libraries[0])
    check((sizes[100], sizes[200], sizes[300], sizes[400]) == (N, N, 0, 0), f'{sizes}')
    check(len(notes) == 1 and notes[0].startswith('deep-0.so was loaded with RTLD_DEEPBIND'), f'{notes}')
    # The dynamic linker still knows who asks: its caller's folders count.
    folder = os.path.dirname(libraries[0])
    seeker = test.build('seeker', PROGRAM, 'g++', '-xc++', f'-Wl,-rpath,{folder},--enable-new-dtags')
    _, notes = test.record(seeker, 'deep-3.so')
    check(len(notes) == 1 and notes[0].startswith('deep-3.so was'), f'{notes}')
    _, notes = test.record(test.plain, *libraries)
    check(len(notes) == 17 and notes[15].startswith('deep-15.so') and notes[16].startswith('Another library'), f'{notes}')


def main():
    system = System(6)
    test = Test(system)
    with system.case('new and malloc of the usual libraries are recorded'):
        test_usual(test)
    with system.case('an operator new of jemalloc is told of'):
        test_own_new(test, 'libjemalloc.so.2')
    with system.case('an operator new of tcmalloc is told of'):
        test_own_new(test, 'libtcmalloc_minimal.so.4')
    with system.case('nothing is told of a program that only takes the address of malloc'):
        test_fixed(test)
    with system.case('a malloc before ours is told of'):
        test_first(test)
    with system.case('libraries that are bound deeply are told of'):
        test_deep(test)
    system.finish()


if __name__ == '__main__':
    sys.exit(main())
