#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names and lines of real programs, against binutils: test-names.py BUILD SOURCE [SYSPROF-NAMES]"""

import bisect
import json
import os
import random
import re
import shutil
import subprocess
import sys

from capture import JIT_BASE
from system import System, check

USER = 0xFFFFFFFFFFFFFE00
CONTEXTS = 0xFFFFFFFFFFFFF001
FEWEST_SAMPLES = 200
MIN_NAMED_PERCENT = 99
N_ADDRESSES = 1000
MAX_UNLIKE_PERCENT = 1


class ElfFile:
    """Which addresses of a file lie in a symbol, as readelf says."""
    def __init__(self, path):
        self.ranges = []
        self.loads = []
        text = subprocess.run(['readelf', '-W', '--segments', '--symbols', path], capture_output=True, text=True,
                              errors='replace', check=False).stdout
        for offset, vaddr, size in re.findall(r'^ +LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+) .*E', text, re.M):
            self.loads.append((int(offset, 16), int(vaddr, 16), int(size, 16)))
        for begin, size, index in re.findall(r'^ *\d+: (\w+) +(\d+|0x\w+) (?:FUNC|IFUNC) +\w+ +\w+ +(\w+) ', text, re.M):
            if index != 'UND' and int(size, 0) > 0:
                self.ranges.append((int(begin, 16), int(begin, 16) + int(size, 0)))
        self.ranges.sort()

    def vaddr(self, offset):
        return next((offset - begin + vaddr for begin, vaddr, size in self.loads if begin <= offset < begin + size), None)

    def has_symbol(self, offset):
        vaddr = self.vaddr(offset)
        if vaddr is None:
            return False
        index = bisect.bisect_right(self.ranges, (vaddr, 1 << 64))
        return any(vaddr < end for _, end in self.ranges[max(0, index - 8):index])


def user_frames(sample, places):
    """(address, its place, whether it is the leaf) of the user part of a sample; a return address names its call."""
    mode, n_seen, is_first = USER, 0, True
    for address in sample.addresses:
        if address >= CONTEXTS:
            mode, is_first = address, True
            continue
        if mode == USER:
            yield (address if is_first or address >= JIT_BASE else address - 1), places[n_seen], n_seen == 0
        n_seen += 1
        is_first = False


def read_made_code(capture):
    """{pid: [(begin, end, name), …]} of map files that the recorded processes left; they are removed."""
    made = {}
    for pid, _ in capture.processes:
        path = f'/tmp/perf-{pid}.map'
        if os.path.exists(path):
            with open(path, encoding='utf-8', errors='replace') as file:
                made[pid] = [(int(begin, 16), int(begin, 16) + int(size, 16), name)
                             for begin, size, name in (line.rstrip('\n').split(' ', 2) for line in file)]
            os.unlink(path)
    return made


def test_program(system, with_callers, *command):
    process = system.start_recording('names.syscap', '-F', '2000', '--', *command)
    capture, _ = system.finish_recording(process, 'names.syscap', with_meanings=True)
    made = read_made_code(capture)
    made_names = {pid: {name for _, _, name in codes} for pid, codes in made.items()}
    files = {}
    n_in_symbol = n_in_jit = n_named = 0
    for sample, (_, *places) in zip(capture.samples, capture.meanings.of_samples):
        for address, place, is_leaf in user_frames(sample, places):
            if not is_leaf and not with_callers:
                break
            in_file = re.fullmatch(r'(/.*)\+([0-9a-f]+)', place or '')
            if address >= JIT_BASE:
                in_jit = capture.jit_names[address] in made_names.get(sample.pid, ())
            else:
                in_jit = any(begin <= address < end for begin, end, _ in made.get(sample.pid, ()))
            if in_file and not in_jit:
                if in_file[1] not in files:
                    files[in_file[1]] = ElfFile(in_file[1])
                if not files[in_file[1]].has_symbol(int(in_file[2], 16) - (not is_leaf)):
                    continue
            elif not in_jit:
                continue
            n_in_symbol += 1
            n_in_jit += in_jit
            name = capture.name(sample.pid, address)
            n_named += name is not None and not re.search(r'\+0x[0-9a-f]+$', name)
    system.note(f'{len(capture.samples)} samples, {n_in_symbol} {"frames" if with_callers else "of them"} in a symbol, {n_in_jit} in a map file, '
                f'{n_named} named: {100 * n_named / max(n_in_symbol, 1):.2f}%')
    check(n_in_symbol >= FEWEST_SAMPLES, f'only {n_in_symbol} in symbols')
    check(n_named >= MIN_NAMED_PERCENT / 100 * n_in_symbol, f'{n_named} of {n_in_symbol} have a name')
    return capture, n_in_jit


def test_node(system):
    script = system.path('work.js')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n'
                   'const end = Date.now() + 2000; let sum = 0;\n'
                   'while (Date.now() < end) sum += fib(20) + JSON.stringify([...Array(50).keys()]).length;\n')
    capture, n_in_jit = test_program(system, False, 'node', '--perf-basic-prof', '--no-logfile-per-isolate',
                                     '--logfile=' + system.path('v8.log'), script)
    check(n_in_jit >= FEWEST_SAMPLES, f'only {n_in_jit} samples in code made by node')
    names = {name for sample in capture.samples for name in capture.stack(sample) if name}
    check(any(re.search(r'\bfib\b.*work.js', name) for name in names), 'fib() is not there')


def test_node_dump(system):
    """It writes its jitdump when it has 2 MB of it, or ends."""
    script = system.path('dump.js')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n'
                   'const end = Date.now() + 1500; let sum = 0;\nwhile (Date.now() < end) sum += fib(20);\n')
    capture, _ = system.record('dump.syscap', '--', 'sh', '-c', f'cd {system.folder} && exec node --perf-prof {script}')
    named = [sample for sample in capture.samples if re.search(r'\bfib\b.*dump.js', capture.stack(sample)[0] or '')]
    system.note(f'{len(capture.samples)} samples, {len(named)} of them in fib()')
    check(len(named) >= FEWEST_SAMPLES, f'only {len(named)} samples in fib()')


def find_python():
    """One that has trampolines, or None."""
    for path in filter(None, map(shutil.which, ('python3', 'python3.12', 'python3.13', 'python3.14'))):
        version = subprocess.run([path, '-c', 'import sys; print(*sys.version_info[:2])'], capture_output=True, text=True, check=False)
        if version.returncode == 0 and tuple(map(int, version.stdout.split())) >= (3, 12):
            return path
    return None


def test_python(system, python):
    """Each function is on the stack between the evaluators, whatever C code is between them."""
    script = system.path('work.py')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('import time\ndef leaf(x):\n    return sum(x % (i + 1) for i in range(200))\n'
                   'def outer():\n    return sorted(range(20), key=leaf)\n'
                   'end = time.time() + 2\nwhile time.time() < end: outer()\n')
    capture, _ = system.record('python.syscap', '--', python, '-X', 'perf', script)
    stacks = [' '.join(map(str, capture.stack(sample))) for sample in capture.samples]
    n_outer = sum(f'py::outer:{script}' in stack for stack in stacks)
    n_whole = sum(bool(re.search(rf'py::leaf:{script}.* py::outer:{script}.*py::<module>:{script}.* _start$', stack))
                  for stack in stacks)
    system.note(f'{python}: {len(stacks)} stacks, {n_outer} of them with outer(), {n_whole} whole through leaf()')
    check(n_outer > 0.8 * len(stacks) and n_whole > 0.8 * len(stacks), f'{stacks[-3:]}')


def read_rows(text):
    return sorted((row['name'], row['module'], row['self'], row['total']) for row in json.loads(text)['rows'])


def test_chroot(system):
    """In a root with sondectl, its libraries and the capture alone."""
    root = system.path('root')
    recorded = system.path('burn.syscap')
    program = system.path('burn-copy')
    shutil.copy(system.program('tests/system/burn'), program)
    system.record('burn.syscap', '--', program, '1')
    system.run('strip', program)  # it goes anyway
    system.sondectl('archive', recorded)
    before = read_rows(system.sondectl('report', '--json', '--flat', '-l', '0', recorded))
    sondectl = system.program('client/sondectl')
    for library in [sondectl] + re.findall(r'(/\S+) \(0x', system.run('ldd', sondectl)):
        place = root + library  # its own library is found from where it is
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copy(library, place)
    shutil.copy(recorded, root + '/x.syscap')
    inside = system.run('chroot', root, sondectl, 'report', '--json', '--flat', '-l', '0', '/x.syscap')
    after = read_rows(inside)
    system.note(f'{len(after)} functions')
    check(after == before, f'only here: {set(before) - set(after)}, only there: {set(after) - set(before)}')
    check(sum(row[2] for row in after if not re.search(r'\+?0x[0-9a-f]+$', row[0])) > 500, after)


def test_sysprof(system):
    """Names that it finds are ours, and there are no fewer."""
    capture, _ = system.record('sysprof.syscap', '--', system.program('tests/system/burn'), '1')
    output = system.run(sys.argv[3], system.path('sysprof.syscap'))
    theirs = {(int(pid), int(address, 16)): name for pid, address, name in (line.split(' ', 2) for line in output.splitlines())}
    unlike = {place: (name, capture.name(*place)) for place, name in theirs.items() if name != (capture.name(*place) or '')}
    n_named = sum(bool(name) for name in theirs.values())
    system.note(f'{len(theirs)} addresses, {n_named} of them named by libsysprof, {len(unlike)} unlike')
    check(not unlike, f'{unlike}')
    check({'main'} <= set(theirs.values()) and n_named > len(theirs) * 0.9, f'{theirs}')


def parse_lines(text):
    """{address: [(function, file:line), …]}, as addr2line -a -f -i prints it."""
    frames, current = {}, None
    lines = iter(text.splitlines())
    for line in lines:
        if re.fullmatch('0x[0-9a-f]{16}', line):
            current = frames.setdefault(int(line, 16), [])
        else:
            place = re.sub(r' \(discriminator \d+\)', '', next(lines))
            current.append((line, os.path.basename(place).replace(':?', ':0')))
    return frames


def is_like(ours, theirs):
    """addr2line takes the innermost name from the symbol table if DWARF has no linkage name, and the outermost one if DWARF has
    none at all."""
    if not ours:
        return all(place.endswith(':0') for _, place in theirs)
    return [place for _, place in ours] == [place for _, place in theirs] \
        and all(a == b or a == '??' or i == 0 and not a.startswith('_Z')
                for i, ((a, _), (b, _)) in enumerate(zip(ours, theirs)) if i < len(ours) - 1)


def test_lines(system):
    program = system.path('inlined')
    system.run('g++', '-g', '-O2', '-no-pie', '-o', program, os.path.join(sys.argv[2], 'tests/system/inlined.cc'))
    process = system.start_recording('inlined.syscap', '--', program, '3')
    capture, _ = system.finish_recording(process, 'inlined.syscap', with_meanings=True)
    elf = ElfFile(program)
    sampled = {elf.vaddr(int(match[1], 16)) for _, *places in capture.meanings.of_samples for place in places
               if (match := re.fullmatch(re.escape(program) + r'\+([0-9a-f]+)', place or ''))} - {None}
    more = [int(address, 16) for address in re.findall(r'^ +([0-9a-f]+):', system.run('objdump', '-d', '--no-show-raw-insn', program), re.M)]
    random.Random(4711).shuffle(more)
    addresses = (sorted(sampled) + [address for address in more if address not in sampled])[:N_ADDRESSES]
    asked = ''.join(f'{address:#x}\n' for address in addresses)
    theirs = parse_lines(subprocess.run(['addr2line', '-a', '-f', '-i', '-e', program], input=asked, capture_output=True, text=True,
                                        check=True).stdout)
    ours = parse_lines(subprocess.run([system.program('tests/system/print-lines'), program], input=asked, capture_output=True,
                                      text=True, check=True).stdout)
    unlike = [address for address in addresses if not is_like(ours[address], theirs[address])]
    n_inlined = sum(len(theirs[address]) > 1 for address in addresses)
    system.note(f'{len(addresses)} addresses, {len(sampled)} of them sampled, {n_inlined} in inlined functions, {len(unlike)} unlike')
    for address in unlike[:5]:
        system.note(f'{address:#x}: {ours[address]} and {theirs[address]}')
    check(len(addresses) == N_ADDRESSES and n_inlined > N_ADDRESSES / 4, 'too little to compare')
    check(len(unlike) <= MAX_UNLIKE_PERCENT / 100 * N_ADDRESSES, f'{len(unlike)} of {N_ADDRESSES} are unlike')
    tree = system.sondectl('report', '--inline', '--lines', '--flat', '-l', '0', system.path('inlined.syscap'))
    check(re.search(r'% +next_number .* inlined\.cc:3\d', tree), tree[:2000])


def write_source(system):
    path = system.path('source.cc')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('#include <regex>\n#include <map>\n#include <iostream>\n'
                   'int main () { std::regex r ("a*b"); std::map<std::string, std::regex> m; m["x"] = r;\n'
                   '  std::cout << std::regex_match ("aab", m["x"]); }\n')
    return path


def main():
    system = System(9)
    programs = {
        'a C++ program, clang': lambda: (False, 'clang++', '-O2', '-c', '-o', '/dev/null', write_source(system)),
        'Python': lambda: (False, '/usr/bin/python3', '-c', 'import json\nfor i in range(6000): json.loads(json.dumps(list(range(500)), indent=1))'),
        # stripped: its libraries' symbols are all there is
        'a Rust program, ripgrep': lambda: (True, 'rg', '--no-ignore', '--threads', '1', '-c', '[a-z]+_[a-z]+ [^e]*e$', '/usr/include', '/usr/share/perl'),
    }
    for what, command in programs.items():
        with_callers, *arguments = command()
        if shutil.which(arguments[0]) is None:
            system.skip(f'{what} has names', f'{arguments[0]} is not installed')
            continue
        with system.case(f'{what} has names'):
            test_program(system, with_callers, *arguments)
    if shutil.which('node') is None:
        system.skip('node has names of the code that it makes', 'node is not installed')
        system.skip("node's jitdump names it, too", 'node is not installed')
    else:
        with system.case('node has names of the code that it makes'):
            test_node(system)
        with system.case("node's jitdump names it, too"):
            test_node_dump(system)
    python = find_python()
    if python is None:
        system.skip("Python's functions are on its stacks", 'there is no Python from 3.12 on')
    else:
        with system.case("Python's functions are on its stacks"):
            test_python(system, python)
    with system.case('a capture with its names opens where nothing else is'):
        test_chroot(system)
    if len(sys.argv) < 4:
        system.skip("Debian's sysprof reads the names, too", 'sysprof is not there: tools/test.sh gets it')
    else:
        with system.case("Debian's sysprof reads the names, too"):
            test_sysprof(system)
    with system.case('inlined functions and lines are those of addr2line'):
        test_lines(system)
    system.finish()


main()
