#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other programs read what sondectl exports, to the sample: test-exports.py BUILD SOURCE"""

import collections
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import heaptrack
from system import DEADLINE_S, System, check

CHROMIUM = '/usr/bin/chromium'
NAME = '_PyEval_EvalFrameDefault'  # the program is in it most of the time
PERIOD_NS = 1000000
PROFILER = ('node', 'node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js')
READY_S = 60
N_TRIES = 3

PROGRAM = '''
import json
def work(n):
    return [json.dumps(list(range(100))) for _ in range(n)]
def main():
    for _ in range(60):
        work(250)
main()
'''


def find_judges():
    """The folder that tests/lib/get-judges.sh filled, or why there is none."""
    folder = os.environ.get('JUDGES_DIR')
    if folder and os.path.exists(f'{folder}/installed-lock.json'):
        return folder, None
    return None, 'the packages of tests/judges are not there'


class Exports:
    """Exports of one capture, and what others say of them."""

    def __init__(self, system, source):
        self.system = system
        self.scripts = os.path.join(source, 'tests/judges')
        self.schema = os.path.join(source, 'client/export/perfetto.proto')
        self.judges, self.obstacle = find_judges()
        self.environment = {**os.environ, 'HOME': system.folder, 'PPROF_TMPDIR': system.folder}

    def write(self, form, capture='x'):
        path = self.system.path(f'{capture}-{form}')
        if not os.path.exists(path):
            self.system.sondectl('export', '-f', form, '-o', path, self.system.path(f'{capture}.syscap'))
        return path

    def run(self, *command, **options):
        result = subprocess.run(command, cwd=self.judges, env=self.environment, capture_output=True, text=True, timeout=DEADLINE_S,
                                check=False, **options)
        check(result.returncode == 0, f'{command[0]}: {result.stderr}')
        return result.stdout

    def find(self, pattern):
        """A program among the judges' Debian packages."""
        found = glob.glob(f'{self.judges}/debian/{pattern}') if self.judges else []
        return found[0] if found else None

    def judge(self, name, test, obstacle=None):
        if obstacle or self.obstacle:
            self.system.skip(name, obstacle or self.obstacle)
            return
        with self.system.case(name):
            test()

    def check_with_node(self, form, capture='x'):
        return json.loads(self.run('node', f'{self.scripts}/check.mjs', form, self.write(form, capture)))

    def open_in_speedscope(self, *forms):
        lines = self.run('node', f'{self.scripts}/speedscope.mjs', *map(self.write, forms)).splitlines()
        return dict(zip(forms, map(json.loads, lines)))

    def ask_profiler(self, session, *command):
        return subprocess.run([*PROFILER, *command, '--session', session], cwd=self.judges, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def start_profiler(self, session, path):
        """Returns it once it answers; None if it does not. Who asks while it begins can take it for one that has gone, and
        removes the socket that it was about to have."""
        daemon = subprocess.Popen([*PROFILER, '--daemon', path, '--session', session], cwd=self.judges, env=self.environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_S
        while self.ask_profiler(session, 'profile', 'info', '--json').returncode != 0:
            if daemon.poll() is not None or time.monotonic() > deadline:
                daemon.kill()
                daemon.wait()
                return None
            time.sleep(0.1)
        return daemon

    @contextlib.contextmanager
    def firefox_profiler(self, path):
        """Its command line, asked for JSON of a profile. What it starts by itself must be ready in half a second: it is our child."""
        daemon, session = None, ''
        for n in range(N_TRIES):
            session = f'exports-{n}'
            daemon = self.start_profiler(session, path)
            if daemon:
                break
        check(daemon, 'it is not ready')

        def read(*command):
            result = self.ask_profiler(session, *command, '--json')
            check(result.returncode == 0, result.stderr)
            return json.loads(result.stdout)

        try:
            yield read
        finally:
            daemon.kill()
            daemon.wait()


def read_numbers(pattern, text):
    return {int(number) for number in re.findall(pattern, text)}


def check_perfetto(text, total):
    """What it refers to was told: stacks, frames and names."""
    n_samples = len(re.findall(r'^  perf_sample \{', text, re.M))
    check(n_samples == total, f'{n_samples} samples')
    check(len(re.findall(r'^  track_event \{', text, re.M)) > 10 and NAME in text, 'counters or names are missing')
    for table, reference in (('callstacks', r'callstack_iid: (\d+)'), ('frames', r'frame_ids: (\d+)'),
                             ('function_names', r'function_name_id: (\d+)'), ('mappings', r'mapping_id: (\d+)')):
        told = read_numbers(rf'{table} \{{\s+iid: (\d+)', text)
        missing = read_numbers(reference, text) - told
        check(told and not missing, f'{table}: {sorted(missing)[:5]} of {len(told)}')


def sum_of(heap):
    """sondectl heap's JSON in heaptrack's words."""
    return {'allocations': heap['allocated']['blocks'], 'temporary': heap['temporary']['blocks'], 'leaked': heap['left']['bytes'],
            'peak': heap['peak']['bytes']}


def read_own_stacks(path, cost):
    """Those of the program itself: heaptrack brings the C++ library along, which allocates and is in what threads have for their variables;
    and functions of libc have several names."""
    stacks = collections.Counter()
    for stack, number in heaptrack.read_stacks(path, cost).items():
        own = tuple(frame for frame in stack if frame.endswith('(same-blocks.c)'))
        if own and not any('pthread_create' in frame for frame in stack):
            stacks[own] += number
    return stacks


def check_heaptrack(system):
    """It reads the sums that sondectl heap tells, and has recorded the same itself: what it takes for temporary, too."""
    program = system.program('tests/system/same-blocks')
    for arguments, n_disputed in (((), 0), (('--disputed',), 10)):
        name = f'blocks{len(arguments)}'
        system.record(f'{name}.syscap', '--event=none', '--memory', '--memory-wait=1000000', '--', program, *arguments)
        heap = sum_of(json.loads(system.sondectl('heap', '--json', system.path(f'{name}.syscap'))))
        for suffix in ('', '.gz'):
            system.sondectl('export', '-f', 'heaptrack', '-o', system.path(name + suffix), system.path(f'{name}.syscap'))
            sums = heaptrack.read_sums(system.path(name + suffix))
            sums['temporary'] += n_disputed
            check(sums == heap, f'{name}{suffix}: {sums}, not {heap}')
        recorded = heaptrack.record(system.path(f'{name}-recorded'), program, *arguments)
        for cost in heaptrack.COSTS:
            ours, theirs = read_own_stacks(system.path(name), cost), read_own_stacks(recorded, cost)
            check(ours == theirs and sum(ours.values()) > 0, f'{cost}: {ours - theirs} more, {theirs - ours} less than recorded')
        system.note(f'{name}: {heap}')


def check_heaptrack_of_two(system):
    """Of several processes at a time: all blocks, or those of one."""
    program = system.program('tests/system/same-blocks')
    system.record('two.syscap', '--event=none', '--memory', '--memory-wait=1000000', '--', 'sh', '-c', f'{program}; {program}; exit 0')
    groups = json.loads(system.sondectl('heap', '--json', system.path('two.syscap')))['processes']
    check(('same-blocks', -1, 2) in [(group['comm'], group['pid'], group['processes']) for group in groups], groups)
    heap = json.loads(system.sondectl('heap', '--json', '--by=process', system.path('two.syscap')))
    system.sondectl('export', '-f', 'heaptrack', '-o', system.path('two'), system.path('two.syscap'))
    sums = heaptrack.read_sums(system.path('two'))
    check([sums[cost] for cost in ('allocations', 'leaked')] == [heap['allocated']['blocks'], heap['left']['bytes']], f'{sums}: {heap}')
    for process in heap['processes']:
        pid = str(process['pid'])
        one = json.loads(system.sondectl('heap', '--json', '-p', pid, system.path('two.syscap')))
        system.sondectl('export', '-f', 'heaptrack', '-p', pid, '-o', system.path('one'), system.path('two.syscap'))
        sums = heaptrack.read_sums(system.path('one'))
        expected = sum_of(one)
        check(all(sums[cost] == expected[cost] for cost in ('allocations', 'leaked', 'peak')), f'{pid}: {sums}, not {expected}')


def main():
    system = System(23)
    source = sys.argv[2]
    capture, _ = system.record('x.syscap', '--interpreters=no', '--counters', 'cpu,memory,process', '--', '/usr/bin/python3', '-c', PROGRAM)
    report = json.loads(system.sondectl('report', '--json', '-l', '0', system.path('x.syscap')))
    total = sum(process['total'] for process in report['processes'])
    check(total == capture.counts['SAMPLE'], 'the report has all samples')
    system.note(f'{total} samples')
    exports = Exports(system, source)
    export = exports.write

    def check_total(form):
        found = exports.check_with_node(form)
        check(found['total'] == total, f"{found['total']} samples")
        check(NAME in found['names'], 'names are missing')

    def check_speedscope():
        for form, found in exports.open_in_speedscope('speedscope', 'folded', 'pprof', 'cpuprofile', 'perf-script').items():
            check(NAME in found['names'] and any(NAME in row for row in found['shown']), f'{form}: names are missing')
            weights = {}
            for profile in found['profiles']:
                weights[profile['unit']] = weights.get(profile['unit'], 0) + profile['total']
            system.note(f'speedscope reads {form} as {weights}')
            if form in ('pprof', 'speedscope'):
                check(weights == {'nanoseconds': total * PERIOD_NS}, f'{form}: {weights}')
            elif form == 'folded':  # of the others it makes spans of time
                check(weights == {'none': total}, f'{form}: {weights}')

    def check_firefox_profiler():
        shutil.copy(export('firefox'), system.path('firefox.json'))
        with exports.firefox_profiler(system.path('firefox.json')) as read:
            threads = read('thread', 'list', '--limit', '0')['threads']
            trees = [read('thread', 'samples', '--include-idle', '--thread', thread['threadHandle']) for thread in threads]
        found = sum(tree['categoryBreakdown']['totalSamples'] for tree in trees)
        check(found == total, f'{found} samples in {len(threads)} threads')
        names = [function['name'] for tree in trees for function in tree['topFunctionsByTotal']]
        check(any(NAME in name for name in names), f'names are missing: {names[:20]}')

    def check_firefox_places():
        found = exports.check_with_node('firefox', 'inlined')
        n = found['total']
        check(found['cpuMs'] == n > 100, f"{found['cpuMs']} ms of {n} samples of 1 ms")
        check(min(found[key] for key in ('addresses', 'lines', 'inlined', 'symbols')) > 10, found)
        check(any(name.endswith('/tests/system/inlined.cc') for name in found['files']), found['files'])
        own = [library for library in found['libs'] if library['path'] == inlined]
        check(len(own) == 1, found['libs'])
        notes = subprocess.run(['readelf', '-n', inlined], capture_output=True, text=True, check=True).stdout
        build_id = re.search(r'Build ID: ([0-9a-f]+)', notes)[1]
        guid = ''.join(build_id[2 * i:2 * i + 2] for i in (3, 2, 1, 0, 5, 4, 7, 6, *range(8, 16))).upper() + '0'
        check((own[0]['codeId'], own[0]['breakpadId'], own[0]['arch']) == (build_id, guid, os.uname().machine), own[0])
        check((found['meta']['product'], found['meta']['platform']) == ('inlined', 'Linux'), found['meta'])
        check(found['meta']['CPUName'] and found['meta']['logicalCPUs'] == os.cpu_count(), found['meta'])
        shutil.copy(export('firefox', 'inlined'), system.path('inlined.json'))
        with exports.firefox_profiler(system.path('inlined.json')) as read:
            info = read('profile', 'info')
            functions = read('thread', 'functions', '--thread', 't-0', '--limit', '0')['functions']
        check(info['name'] == f'inlined – Linux {os.uname().machine}', info['name'])
        check(abs(info['processes'][0]['cpuMs'] - n) <= 1, info['processes'])
        names = [function['name'] for function in functions]
        check(any('work' in name for name in names) and any('_Rb_tree' in name for name in names), names[:20])

    def check_firefox_heap():
        system.record('blocks.syscap', '--event=none', '--memory', '--memory-wait=1000000', '--', system.program('tests/system/same-blocks'))
        left = json.loads(system.sondectl('heap', '--json', system.path('blocks.syscap')))['left']['bytes']
        found = exports.check_with_node('firefox', 'blocks')
        check(found['retained'] == left and 'Memory/malloc' in found['counters'], f"{found['retained']} of {left} bytes are left")
        shutil.copy(export('firefox', 'blocks'), system.path('blocks.json'))
        with exports.firefox_profiler(system.path('blocks.json')) as read:
            counters = read('counter', 'list')['counters']
            threads = read('thread', 'list', '--limit', '0')['threads']
            read('strategy', 'native-retained-allocations')
            trees = [read('thread', 'samples', '--include-idle', '--thread', thread['threadHandle']) for thread in threads]
        retained = sum(tree['categoryBreakdown']['totalSamples'] for tree in trees if tree['weightType'] == 'bytes')
        check(retained == left, f'the profiler retains {retained} of {left} bytes')
        track = [counter for counter in counters if counter['label'] == 'Memory']
        check(len(track) == 1 and track[0]['unit'] == 'bytes' and track[0]['graph'][-1] > 0, counters)

    def check_cpuprofile():
        check_total('cpuprofile')
        found = exports.check_with_node('cpuprofile', 'inlined')
        check(any(name.endswith('/tests/system/inlined.cc') for name in found['files']) and found['lines'] > 10, found['files'])
        check(found['calls'] > 50 and found['ms'] >= found['total'], found)
        system.note(f"cpuprofile: {found['total']} samples in {found['ms']:.0f} ms, {found['idle']} times idle, {found['lines']} lines")

    def check_heapprofile():
        system.record('peak.syscap', '--event=none', '--memory', '--memory-wait=1000000', '--', system.program('tests/system/same-blocks'))
        peak = json.loads(system.sondectl('heap', '--json', system.path('peak.syscap')))['peak']['bytes']
        found = exports.check_with_node('heapprofile', 'peak')
        check(found['total'] == peak > 0 and 'resize' in found['names'], f"{found['total']} of {peak} bytes: {found['names']}")

    def check_chrome():
        found = exports.check_with_node('chrome')
        with open(export('chrome'), encoding='utf-8') as file:
            n_begun = sum(event['ph'] == 'B' for event in json.load(file)['traceEvents'])
        check(found['slices'] == n_begun > 50 and NAME in found['names'], f"{found['slices']} slices of {n_begun}")

    exports.judge('speedscope\'s schema accepts the file, with all samples', lambda: check_total('speedscope'))
    exports.judge('speedscope opens five formats and shows all samples',
                  check_speedscope, None if os.path.exists(CHROMIUM) else 'chromium is not there')
    exports.judge('npm\'s pprof-format reads all samples', lambda: check_total('pprof'))

    # A program with inlined functions and debug information.
    inlined = system.path('inlined')
    system.run('g++', '-g', '-O2', '-o', inlined, os.path.join(source, 'tests/system/inlined.cc'))
    system.record('inlined.syscap', '--', inlined, '2')

    def check_pprof_places():
        found = exports.check_with_node('pprof', 'inlined')
        check(found['main']['file'] == inlined and re.fullmatch('[0-9a-f]{40}', found['main']['buildId']), found['main'])
        check(found['places']['inlined'] > 10 and found['places']['lined'] > 10, found['places'])
        system.note(f"pprof has {found['places']['lined']} places with lines, {found['places']['inlined']} with inlined functions")

    exports.judge('npm\'s pprof-format reads places, lines and inlined functions', check_pprof_places)
    exports.judge('the rules of the Firefox Profiler\'s types are kept', lambda: check_total('firefox'))
    exports.judge('the Firefox Profiler reads all samples', check_firefox_profiler)
    exports.judge('the Firefox Profiler has CPU times, libraries, lines and inlined functions', check_firefox_places)
    exports.judge('the Firefox Profiler knows what is left of a heap, and draws it', check_firefox_heap)
    exports.judge('Chrome\'s developer tools nest all slices', check_chrome)
    exports.judge('Chrome\'s developer tools read a cpuprofile, with lines', check_cpuprofile)
    exports.judge('a heapprofile has what lived at the peak', check_heapprofile)

    pprof = exports.find('usr/lib/go-*/pkg/tool/*/pprof')

    def check_go():
        text = exports.run(pprof, '-symbolize=none', '-sample_index=samples', '-top', '-nodefraction=0', '-nodecount=0', export('pprof'))
        check(f'100% of {total} total' in text and NAME in text, text[:400])

    exports.judge('Go\'s pprof counts all samples', check_go, None if pprof else 'golang is not there')

    def check_go_places():
        profile = export('pprof', 'inlined')
        raw = exports.run(pprof, '-raw', profile)
        mappings = raw[raw.index('\nMappings\n'):].split('\n')[2:]
        check(re.match(rf'1: 0x[0-9a-f]+/0x[0-9a-f]+/0x[0-9a-f]+ {inlined} [0-9a-f]{{40}} \[FN\]\[FL\]\[LN\]\[IN\]', mappings[0]),
              mappings[0])
        listing = exports.run(pprof, '-symbolize=none', '-source_path=/', '-list', '^work$', profile)
        check(re.search(r'^ROUTINE =+ work in .*/inlined\.cc$', listing, re.M) and 'std::sort' in listing, listing[:500])
        tree = exports.run(pprof, '-symbolize=none', '-top', '-nodefraction=0', '-tagfocus=comm=inlined', '-lines', profile)
        check('(inline)' in tree and 'inlined.cc:' in tree, tree[:500])
        tags = exports.run(pprof, '-tags', profile)
        check(all(f' {label}: Total' in tags for label in ('comm', 'thread', 'pid', 'tid')), tags)

    exports.judge('Go\'s pprof lists lines and inlined functions of the main program', check_go_places,
                  None if pprof else 'golang is not there')

    flamegraph = exports.find('usr/share/perl5/Devel/NYTProf/flamegraph.pl')

    def check_flamegraph():
        picture = exports.run('perl', flamegraph, export('folded'))
        check(f'<title>all ({total:,} samples, 100%)</title>' in picture and NAME in picture, picture[:2000])

    exports.judge('flamegraph.pl draws all samples', check_flamegraph, None if flamegraph else 'flamegraph.pl is not there')

    with system.case('folded stacks add up'):
        stacks = collections.Counter()
        with open(export('folded'), encoding='utf-8') as file:
            for line in file:
                # As flamegraph.pl: all before the last number.
                stack, weight = re.fullmatch(r'(.*)\s+?(\d+(?:\.\d*)?)\n', line).groups()
                stacks[stack] += int(weight)
        check(sum(stacks.values()) == total, f'{sum(stacks.values())} samples')
        check(len(stacks) > 10 and all(stack.count(';') >= 1 for stack in stacks), 'stacks are short')

    with system.case('perf script\'s text has as many samples'):
        with open(export('perf-script'), encoding='utf-8') as file:
            blocks = file.read().split('\n\n')[:-1]
        # As stackcollapse-perf.pl: a line for the event, then the frames.
        heads = [re.match(r'(\S.+?)\s+(\d+)/*(\d+)*\s+', block) for block in blocks]
        frames = [re.match(r'\s*(\w+)\s*(.+) \((.*)\)', line) for block in blocks for line in block.split('\n')[1:]]
        check(len(blocks) == total and all(heads) and all(frames), f'{len(blocks)} blocks')

    with system.case('the trace has samples, slices and counters'):
        with open(export('chrome'), encoding='utf-8') as file:
            trace = json.load(file)
        phases = collections.Counter(event['ph'] for event in trace['traceEvents'])
        system.note(', '.join(f'{phase} {n}' for phase, n in sorted(phases.items())))
        samples = [event for event in trace['traceEvents'] if event['ph'] == 'P']
        check(len(samples) == total, f'{len(samples)} samples')
        check(all(str(event['sf']) in trace['stackFrames'] for event in samples if 'sf' in event), 'a stack is missing')
        check(all(str(frame['parent']) in trace['stackFrames'] for frame in trace['stackFrames'].values() if 'parent' in frame),
              'a caller is missing')
        counters = {event['name'] for event in trace['traceEvents'] if event['ph'] == 'C'}
        check({'Memory/Used', 'CPU Percent/Combined'} <= counters, f'{counters}')
        check(phases['B'] == phases['E'] > 50, 'slices')

    name = "Google's protoc takes the packets of Perfetto apart"
    if not shutil.which('protoc'):
        system.skip(name, 'protobuf-compiler is not there')
    else:
        with system.case(name):
            with open(export('perfetto'), 'rb') as file:
                text = subprocess.run(['protoc', f'--proto_path={os.path.dirname(exports.schema)}', '--decode=sonde.perfetto.Trace',
                                       exports.schema], stdin=file, capture_output=True, text=True, check=True).stdout
            check(not re.search(r'^ *\d+[:{ ]', text, re.M), 'there are fields without names')
            check_perfetto(text, total)

    name = 'Graphviz draws the graph'
    if not shutil.which('dot'):
        system.skip(name, 'graphviz is not there')
    else:
        with system.case(name):
            drawing = system.run('dot', '-Tsvg', export('dot'))
            check(NAME in drawing and '</svg>' in drawing, 'nothing is drawn')

    def count_leaves(name, *options):
        report = json.loads(system.sondectl('report', '--json', '--flat', '--internals', '--fold-recursion=no', '-l', '0', *options,
                                            system.path(name)))
        leaves = collections.Counter()
        for row in report['rows']:
            leaves[row['name']] += row['self']
        return +leaves, report['total']

    def check_own_pprof():
        system.sondectl('import', export('pprof'), '-o', system.path('again.syscap'))
        again, before = count_leaves('again.syscap'), count_leaves('x.syscap', '--inline')
        check(again == before and again[1] == total, f'{again[0] - before[0]} more, {before[0] - again[0]} less of {total}')

    with system.case('what pprof was given comes back'):
        check_own_pprof()

    def check_perf_import():
        data = system.path('perf.data')
        subprocess.run(['perf', 'record', '--output', data, '-F', '999', '-g', '--', inlined, '1'], capture_output=True, check=True,
                       timeout=DEADLINE_S)
        leaves, n_samples = collections.Counter(), 0
        text = subprocess.run(['perf', 'script', '-i', data, '--no-inline', '-F', 'comm,ip,sym'], capture_output=True, text=True, check=True).stdout
        for block in text.split('\n\n'):
            lines = block.strip().split('\n')
            if len(lines) > 1:
                n_samples += 1
                leaves[lines[1].split(None, 1)[1]] += 1
        system.sondectl('import', data, '-o', system.path('perf.syscap'))
        rows, n_imported = count_leaves('perf.syscap')
        check(n_imported == n_samples > 50, f'{n_imported} of {n_samples} samples')
        check(rows == leaves, f'{rows - leaves} more, {leaves - rows} less than perf says')
        system.note(f'{n_samples} samples of perf, {len(leaves)} leaves')

    name = 'a recording of perf has the same samples and leaves'
    if not shutil.which('perf'):
        system.skip(name, 'perf is not there')
    else:
        with system.case(name):
            check_perf_import()

    for name, test in (('heaptrack reads the sums of heap, and records the same stacks', check_heaptrack),
                       ('heaptrack reads several processes, or one of them', check_heaptrack_of_two)):
        if not shutil.which('heaptrack_print'):
            system.skip(name, 'heaptrack is not there')
            continue
        with system.case(name):
            test(system)

    system.finish()


main()
