#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Walks of interpreters whose programs change all the time, or lie: test-walks.py BUILD HAS-PROGRAM

Each liar lies for SONDE_TEST_MINUTES, else for some seconds; with SONDE_TEST_LONG=1 for a minute, and 10,000 pairs of
functions and 400 programs are judged."""

import collections
import os
import re
import shutil
import subprocess
import sys
import time

from capture import CONTEXTS, JIT_BASE
from system import DEADLINE_S, System, check, find_descendant

IS_LONG = bool(os.environ.get('SONDE_TEST_LONG'))
N_PAIRS = 10000 if IS_LONG else 1000
N_PROGRAMS = 400 if IS_LONG else 24
LIE_S = 60 * float(os.environ.get('SONDE_TEST_MINUTES', '1' if IS_LONG else '0.1'))
LIARS = {'libpython3.11-liar.so': 'Python', 'libphp8.2-liar.so': 'PHP', 'libruby-3.1-liar.so': 'Ruby'}
# For its rings, files and tables of functions: bounded whatever the program does (docs/security.md).
MAX_WORKER_KIB = 96 << 10

# Two functions at a time, which are gone when the next two are made: at the same places in memory.
PAIRS = '''
import sys, time
end = time.process_time() + float(sys.argv[1])
n = 1000
while time.process_time() < end:
    made = {}
    exec(f"def h_{n}(k):\\n    t = 0\\n    for i in range(k):\\n        t += i\\n    return t\\n"
         f"def f_{n}(k):\\n    return h_{n}(k) + 1\\n", made)
    made[f"f_{n}"](3000)
    n = n + 1 if n < 9999 else 1000
'''

# Each executes the next one in the same process: the fourth is a shell, and then the first comes again. What they do has
# a name that no other has.
LANGUAGES = ('python', 'php', 'ruby')
N_IN_TURN = len(LANGUAGES) + 1
TURNS = {
    'python': ('turn.py', '''
import os, sys, json
here, n, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
made = {}
exec(f"def turn_{n}(k):\\n    t = 0\\n    for i in range(k):\\n        t += i\\n    return t\\n", made)
made[f"turn_{n}"](1500000)
if n < last:
    os.execv("/bin/sh", ["sh", here + "/next", here, "php", str(n + 1), str(last)])
'''),
    'php': ('turn.php', '''<?php
[$_, $here, $n, $last] = $argv;
eval("function turn_$n(\\$k) { \\$t = 0; for (\\$i = 0; \\$i < \\$k; \\$i++) { \\$t += \\$i; } return \\$t; }");
("turn_$n")(5000000);
if ($n < $last) pcntl_exec("/bin/sh", [$here . "/next", $here, "ruby", (string) ($n + 1), $last]);
'''),
    'ruby': ('turn.rb', '''
here, n, last = ARGV[0], ARGV[1].to_i, ARGV[2]
eval "def turn_#{n}(k)\\n t = 0\\n while k > 0\\n t += k\\n k -= 1\\n end\\n t\\nend\\n"
send("turn_#{n}", 2500000)
exec("/bin/sh", here + "/next", here, "burn", (n + 1).to_s, last) if n < last.to_i
'''),
}


def check_pairs(system):
    """Each f_N calls h_N: what two functions at the same address are called is not to be mixed up."""
    seconds = N_PAIRS / 1000
    with open(system.path('pairs.py'), 'w', encoding='utf-8') as file:
        file.write(PAIRS)
    capture, _ = system.finish_recording(
        system.start_recording('pairs.syscap', '-F', '4000', '--', '/usr/bin/python3', system.path('pairs.py'), str(seconds)),
        'pairs.syscap', timeout=DEADLINE_S + seconds)
    pairs, wrong, unnamed = 0, collections.Counter(), 0
    for sample in capture.samples:
        names = [re.fullmatch(r'([fh])_(\d{4}) \(.*\)', name or '') for name in capture.stack(sample)]
        found = [(match[1], match[2]) for match in names if match]
        unnamed += '[unnamed function]' in capture.stack(sample)
        if len(found) == 2:
            pairs += 1
            if found[0] != ('h', found[1][1]) or found[1][0] != 'f':
                wrong[str(found)] += 1
    system.note(f'{len(capture.samples)} samples, {pairs} pairs, {sum(wrong.values())} wrong {wrong.most_common(3)}, {unnamed} unnamed')
    check(pairs >= 0.5 * N_PAIRS, 'too few pairs')
    check(not wrong, 'names of what was there before')


def write_turns(system):
    for name, text in TURNS.values():
        with open(system.path(name), 'w', encoding='utf-8') as file:
            file.write(text)
    ruby = shutil.which('ruby3.1') or shutil.which('ruby')
    php = shutil.which('php8.2') or shutil.which('php')
    with open(system.path('next'), 'w', encoding='utf-8') as file:
        file.write(f'''here=$1 kind=$2 n=$3 last=$4
case $kind in
  python) exec /usr/bin/python3 "$here/turn.py" "$here" "$n" "$last" ;;
  php) exec {php} "$here/turn.php" "$here" "$n" "$last" ;;
  ruby) exec {ruby} --disable-gems "$here/turn.rb" "$here" "$n" "$last" ;;
  burn) i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done
    exec /usr/bin/python3 "$here/turn.py" "$here" "$((n + 1))" "$last" ;;
esac
''')


def check_programs(system):
    """One process executes one interpreter after another: of each sample the functions are those of the program that it
    was then, which its native functions tell."""
    write_turns(system)
    capture, _ = system.finish_recording(
        system.start_recording('programs.syscap', '-F', '2000', '--', '/bin/sh', system.path('next'), system.folder, 'python', '0',
                               str(N_PROGRAMS)), 'programs.syscap', timeout=DEADLINE_S + N_PROGRAMS, with_meanings=True)
    turns, wrong, bare = [], collections.Counter(), 0
    for sample, meaning in zip(capture.samples, capture.meanings.of_samples):
        places = ' '.join(str(place) for place in meaning[1:] if place and place.startswith('/'))
        # Whose file the sample's own addresses are in.
        language = 'python' if re.search(r'/(python3|libpython)', places) else 'php' if '/php' in places else 'ruby' if '/libruby' in places else None
        names = [re.fullmatch(r'(?:Object#)?turn_(\d+) \([^)]*.*?\)( \[\w+\])?', name or '') for name in capture.stack(sample)]
        found = [(int(match[1]), (match[2] or ' python').strip(' []')) for match in names if match]
        bare += language is not None and not found
        for number, kind in found:
            turns.append(number)
            if kind != language or LANGUAGES.index(kind) != number % N_IN_TURN:
                wrong[f'turn_{number} of {kind} in a stack of {language}'] += 1
    n_seen = len(set(turns))
    n_wanted = sum(number % N_IN_TURN < len(LANGUAGES) for number in range(N_PROGRAMS + 1))
    n_back = sum(after < before for before, after in zip(turns, turns[1:]))
    system.note(f'{len(capture.samples)} samples, {len(turns)} functions of {n_seen} of {n_wanted} programs, {bare} samples of '
                f'interpreters without, {sum(wrong.values())} wrong {wrong.most_common(3)}, {n_back} after their time')
    check(n_seen >= 0.9 * n_wanted, 'programs are missing')
    check(not wrong and not n_back, 'functions of another program')


def kernel_messages():
    text = subprocess.run(['dmesg'], capture_output=True, text=True, check=False).stdout
    return [line for line in text.splitlines() if re.search(r'BUG|Oops|bpf|general protection|WARNING:.* at (kernel|arch|mm)/', line)]


def check_liar(system, library):
    before = kernel_messages()
    recording = system.start_recording('liar.syscap', '-F', '2000', '--', system.program('tests/system/load-liar'),
                                       system.program('tests/system/' + library), str(int(1000 * LIE_S)), prefix=('sh', '-c', 'exec "$@" 2>&1', 'sh'))
    most_kib = 0
    while recording.poll() is None:
        worker = find_descendant(recording.pid, 'sonde-capture')
        try:
            with open(f'/proc/{worker}/status', encoding='utf-8') as status:
                most_kib = max(most_kib, int(re.search(r'^RssAnon:\s+(\d+)', status.read(), re.M)[1]))
        except (OSError, TypeError):
            pass
        time.sleep(0.2)
    capture, said = system.finish_recording(recording, 'liar.syscap')
    n_walked = sum(any(JIT_BASE <= address < CONTEXTS for address in sample.addresses) for sample in capture.samples)
    absent = re.search(r'([\d.]+)% of the stacks show an interpreter and not its program', said)
    system.note(f'{library} for {LIE_S:.0f} s: {len(capture.samples)} samples, {n_walked} walked, {absent and absent[1]} % without, '
                f'{len(capture.jit_names)} names, worker up to {most_kib} KiB, {capture.ledger["lost-kernel"]} lost')
    # Other work has the processors, too.
    check(len(capture.samples) > 20 * LIE_S, 'too few samples')
    check(n_walked > 0.2 * len(capture.samples), 'it was not walked')
    check(len(capture.jit_names) > 20, 'nothing of it was believed')
    # Its second thread has no list; and some lists have no frame.
    check(absent and float(absent[1]) > 20, f'what has no list is not told of: {said}')
    check(100 * n_walked / len(capture.samples) + float(absent[1]) > 85, 'samples of it are neither')
    check(0 < most_kib < MAX_WORKER_KIB, 'the worker has grown')
    strange = [name for name in capture.jit_names.values() if re.search(r'[\x00-\x1f\x7f]', name)]
    check(not strange, f'names with control characters: {strange[:3]}')
    check(kernel_messages() == before, f'the kernel says {kernel_messages()[len(before):]}')


def main():
    cases = [('names of functions that replace others are their own', check_pairs, ()),
             ('a process that executes one interpreter after another shows what it runs', check_programs, ())]
    cases += [(f'what looks like {language} and is none harms nothing', check_liar, (library,)) for library, language in LIARS.items()]
    system = System(len(cases))
    for name, run, arguments in cases:
        if sys.argv[2] != 'true':
            system.skip(name, 'built without the BPF program')
            continue
        if run is check_programs and not (shutil.which('php') and shutil.which('ruby')):
            system.skip(name, 'no PHP or no Ruby here')
            continue
        with system.case(name):
            system.measure(run, *arguments)
    system.finish()


main()
