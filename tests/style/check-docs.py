#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fails where pages and programs disagree: check-docs.py SOURCE_ROOT SONDED SONDECTL PROGRAM…

Man pages against --help, pages with code against the files they show, links against the checkout, options and messages
that prose names against the programs, folders and who may include whom against check-includes.py, who speaks D-Bus
against the sources, bounds against limits.h, linked libraries against each PROGRAM; and how long the lines of pages are.
"""

import importlib
import os
import re
import subprocess
import sys

import docutils.core
import docutils.nodes
import docutils.utils

import tree

EXAMPLES = {'c': 'docs/examples/profile-pid.c', 'python': 'docs/examples/profile-pid.py',
            'py': 'docs/examples/call-tree.py', 'js': 'docs/examples/call-tree.js'}
# Options that all programs and commands have; they stand once in a page, under OPTIONS.
COMMON = {'-h', '--help'}
MAX_COLUMNS = 100
# How systemd passes a socket and names a session: nobody sets these by hand.
SYSTEMD = {'LISTEN_PID', 'LISTEN_FDS', 'XDG_SESSION_ID'}


# Of every program, by the compiler's choice or for its sanitizers.
EVERYWHERE = re.compile(r'ld-linux|lib(c|m|dl|pthread|gcc_s|\w+san)\.so')
DBUS_CALL = re.compile(r'\b(?:sd_bus|g_dbus_(?:address|connection|message|proxy|server))_\w+ \(')
UNITS = {'': 1, '%': 1, 's': 10**6, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}


def read_help(*command):
    return subprocess.run([*command, '--help'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=True, env={**os.environ, 'LC_ALL': 'C'}).stdout


def find_help_options(text):
    """{'-o', '--output FILE', …} of what GOption or sondectl itself prints."""
    options = set()
    for short, long, argument in re.findall(r'^ +(?:sondectl )?(?:(-\w), )?(--[\w-]+)((?:=|\[=)\S+)?',
                                            text, re.M):
        options |= {short} - {''} | {f"{long} {argument.strip('[=]')}".strip()}
    return options


def find_help_commands(text):
    return {name for names in re.findall(r'^  sondectl ([a-z|]+)(?: |$)', text, re.M) for name in names.split('|')}


def parse_page(text):
    """The document, and what docutils finds wrong with it."""
    complaints = []
    settings = {'report_level': 1, 'halt_level': 5, 'warning_stream': False, 'doctitle_xform': False}
    document = docutils.core.publish_doctree(text, settings_overrides=settings)
    for message in document.findall(docutils.nodes.system_message):
        complaints.append(f"line {message.get('line')}: {message.astext()}")
    return document, complaints


def find_sections(document):
    """Title: its section, for all sections."""
    return {section.next_node(docutils.nodes.title).astext(): section
            for section in document.findall(docutils.nodes.section)}


def find_page_options(section):
    """The same set as find_help_options() for one section of a page. A short option has the
    argument of its long name and does not repeat it here."""
    options = set()
    for option in section.findall(docutils.nodes.option):
        name = option.next_node(docutils.nodes.option_string).astext()
        argument = option.next_node(docutils.nodes.option_argument)
        if argument is not None and name.startswith('--'):
            name += f' {argument.astext().strip(" =")}'
        options.add(name)
    return options


def compare(what, page, program):
    return ([f'{what}: {name} is in the page only' for name in sorted(page - program)]
            + [f'{what}: {name} is not in the page' for name in sorted(program - page)])


def check_sonded(text, help_text):
    document, complaints = parse_page(text)
    options = find_page_options(find_sections(document)['OPTIONS'])
    return complaints + compare('sonded', options, find_help_options(help_text))


def takes(*command):
    """Whether it knows the option at the end, which its help has no line for; 1 is a number and a text. A page has the
    argument of a short option behind its long name."""
    *command, option = command
    name, *argument = option.split()
    values = [['1'] * len(argument)] if name.startswith('--') else [[], ['1']]
    return any(subprocess.run([*command, name, *value, '--help'], stdin=subprocess.DEVNULL, capture_output=True,
                              check=False).returncode == 0 for value in values)


def check_sondectl(text, help_text, help_of, takes_option):
    """help_of: what `sondectl COMMAND --help` prints, by command; takes_option: COMMAND and option of the page that is
    not there, whether it is taken all the same: a screen is small."""
    document, complaints = parse_page(text)
    sections = find_sections(document)
    synopsis = sections['SYNOPSIS'].astext()
    complaints += compare('synopsis', set(re.findall(r'^sondectl ([a-z]+)\b', synopsis, re.M)),
                          set(help_of))
    general = find_page_options(sections['OPTIONS'])
    complaints += compare('sondectl', general, find_help_options(help_text) | COMMON)
    for command, command_help in help_of.items():
        if command.upper() not in sections:
            complaints.append(f'{command}: no section of its own')
            continue
        options = find_page_options(sections[command.upper()])
        shown = find_help_options(command_help) - COMMON
        hidden = {option for option in options - shown if takes_option(command, option)}
        complaints += compare(command, options - hidden, shown)
    return complaints


def check_names(page, names):
    return [f'{name} is not in the page' for name in sorted(names) if name not in page]


def check_environment(pages, sources):
    """Every variable that a program asks for is explained in a page."""
    return [f'{path}: {name} is in no man page' for path, text in sources.items()
            for name in re.findall(r'getenv \("(\w+)"|, "(SONDE_\w+)", SONDE_', text)
            for name in [name[0] or name[1]]
            if name not in SYSTEMD and not any(name in page for page in pages)]


def check_code(page, language, file):
    """The blocks of one language, one after the other, are the file."""
    blocks = re.findall(rf'^```{language}\n(.*?)\n```$', page, re.M | re.S)
    if '\n\n'.join(blocks) + '\n' == file:
        return []
    return [f'the {language} of docs/clients.md is not that of {EXAMPLES[language]}']


def check_links(path, text, files):
    complaints = []
    for target in re.findall(r'\]\(([^)#\s]+)(?:#[^)]*)?\)', text):
        if not re.match(r'\w+:', target):
            name = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if name not in files:
                complaints.append(f'{path}: no file {name}')
    return complaints


def check_columns(path, text):
    """Prose ends at a column. Code and tables do not break, and neither does a link."""
    complaints = []
    is_code = False
    for number, line in enumerate(text.split('\n'), 1):
        is_code ^= line.lstrip().startswith('```')
        is_whole = (path.endswith('.md') and line.startswith('    ') or line.lstrip().startswith('|')
                    or re.fullmatch(r'\s*([-*] )?\S*\]\(\S+', line))
        if len(line) > MAX_COLUMNS and not is_code and not is_whole:
            complaints.append(f'{path}:{number}: {len(line)} columns')
    return complaints


def check_named_options(path, text, help_of):
    """`sondectl COMMAND --option` in prose: the command has it."""
    complaints = []
    for command, arguments in re.findall(r'`sondectl ([a-z]+)\b([^`]*)`', text):
        if command not in help_of:
            complaints.append(f'{path}: sondectl has no command {command}')
            continue
        options = re.findall(r'(?<!\S)--?[a-z][\w-]*', arguments.split(' -- ')[0], re.I)
        complaints += [f'{path}: sondectl {command} has no option {option}' for option in options
                       if not re.search(rf'(?<![\w-]){option}(?![\w-])', help_of[command])]
    return complaints


def check_messages(text, sources):
    """What the table of a page says is seen is what programs print; … stands for what differs."""
    code = re.sub(r'"\s*(?:PRI\w+|G_\w+_FORMAT)?\s*"', '', sources)
    rows = re.findall(r'^\| `([^`]+ [^`]+)` \|', text, re.M)
    return [f'nothing prints "{row}"' for row in rows
            if not all(piece.strip() in code for piece in row.split('…'))] or ([] if rows else ['no message at all'])


def find_rows(page, heading):
    """The cells of the table that has this heading, row by row, or none."""
    table = re.search(rf'^\| {re.escape(heading)} \|.*\n\|[-|]+\|\n((?:\|.*\n)*)', page + '\n', re.M)
    return [[cell.strip() for cell in row.strip('| ').split('|')] for row in table[1].splitlines()] if table else []


def check_folders(page, layers, folders):
    """layers: of check-includes.py. Which folders there are, and which rooms a room may include."""
    rooms = {}
    for parent in ('daemon/control/', 'daemon/capture/'):
        rooms |= {parent + row[0].strip('`/'): {f'{parent}{room.strip()}/*.h' for room in row[-1].split(',')
                                                 if len(row) == 3 and room.strip() not in ('', 'all of them')}
                  if row[-1] != 'all of them' else None for row in find_rows(page, f'room of `{parent}`')}
    rows = {row[0].strip('`/') for row in find_rows(page, 'folder')}
    complaints = [f'{name}/ is no folder' for name in sorted(rows | set(rooms)) if name not in folders]
    for layer, patterns in layers.items():
        if layer not in rows | set(rooms):
            complaints.append(f'{layer}/ is in no table')
        elif rooms.get(layer) is not None:
            parent = os.path.dirname(layer)
            complaints += compare(f'{layer}/', rooms[layer],
                                  {pattern for pattern in patterns if pattern.startswith(f'{parent}/')})
    return complaints


def check_dbus(page, sources):
    """Which folders call functions of D-Bus."""
    table = re.search(r'^Few folders speak D-Bus.*?(?=\n[^|\n])', page, re.M | re.S)
    return compare('D-Bus', {row[0].strip('`/') for row in find_rows(table[0], 'folder')} if table else set(),
                   {os.path.dirname(path) for path, text in sources.items() if DBUS_CALL.search(tree.strip_code(text))})


def read_bounds(limits, names):
    """Name: value, of the C texts of limits.h and of the tables that name its rows."""
    macros = {}
    for name, value in re.findall(r'^#define (\w+) +(\S.*?)(?: /\*.*)?$', re.sub(r'\\\n', '', limits), re.M):
        value = re.sub(r'G_GU?INT64_CONSTANT', '', value)
        if re.fullmatch(r'[\d\s()*+<-]+', value):
            # Arithmetic of numbers, as just seen.
            macros[name] = eval(value)  # pylint: disable=eval-used
    rows = re.findall(r'\{ (?:ROW \("\w+", )?"([\w-]+)",\s(?:\w+\),\s+)?(SONDE_\w+),', names)
    # Of options, the largest value.
    rows += re.findall(r'\{ "([\w-]+)", "\w+", [^{}]*\.max = (SONDE_\w+)', names)
    return {name: macros[macro] for name, macro in rows if macro in macros}


def check_bounds(page, bounds):
    """Each number of the table of limits is that of the code."""
    rows = find_rows(page, 'limit')
    complaints = [] if rows else ['no table of limits']
    for name, text, *_ in rows:
        number, unit = re.fullmatch(r'([\d,]+) ?(\S*)', text).groups()
        if bounds.get(name.strip('`')) != int(number.replace(',', '')) * UNITS[unit]:
            complaints.append(f"{name} is {bounds.get(name.strip('`'))} and not {text}")
    return complaints


def check_places(page, files):
    """The page's answers to "Where is …"."""
    rows = find_rows(page, '…')
    return [f'{place} is no file' for _, place in rows if place.strip('`') not in files] or (
        [] if rows else ['no question at all'])


def check_libraries(page, linked):
    """linked: by program, the names of its libraries' files."""
    rows = {name.strip('`'): set(libraries[0].split()) if libraries else set()
            for name, *libraries in find_rows(page, 'program')}
    complaints = compare('programs', set(rows), set(linked))
    for program, libraries in linked.items():
        complaints += compare(program, rows.get(program, set()), {
            re.sub(r'\.so.*', '', library) for library in libraries if not EVERYWHERE.match(library)})
    return complaints


def read_linked(program):
    text = subprocess.run(['readelf', '--dynamic', '--wide', program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r'\(NEEDED\).*\[(.*)\]', text)


TABLES = """
| room of `daemon/capture/` | what | may include |
|---|---|---|
| `a/` | | b |

| folder | what |
|---|---|
| `base/` | leaves |

| limit | standard |
|---|---|
| `calls` | 32 |
| `sessions` | 4 KiB |

| program | is linked with |
|---|---|
| `sonded` | libcap |

Few folders speak D-Bus:

| folder | by |
|---|---|
| `base/` | sd-bus |

Text.
"""
LAYERS = {'daemon/capture/a': ['daemon/capture/b/*.h', 'x.h'], 'base': []}
LIMITS = '#define SONDE_LIMIT_CALLS 32\n#define SONDE_LIMIT_SESSIONS (4 * 1024) /* so many */\n'
NAMES = '{ "calls", SONDE_LIMIT_CALLS, FALSE },\n{ ROW ("Limits", "sessions", sessions),\n  SONDE_LIMIT_SESSIONS, 1 },'

PAGE = """
OPTIONS
=======

-a, --all       All.
-o F, --out F   Out.
"""

BAD = {
    'an option of the program belongs into the page':
        check_sonded(PAGE, '  -a, --all  All\n  -o, --out=F  Out\n  --new  New\n'),
    'an option that is gone leaves the page': check_sonded(PAGE, '  -a, --all  All\n'),
    'an argument is named alike': check_sonded(PAGE, '  -a, --all  All\n  -o, --out=G  Out\n'),
    'a page has no errors': check_sonded(PAGE + '\n**open\n', '  -a, --all  A\n  -o, --out=F  O\n'),
    'a name is explained': check_names('session-started', {'session-started', 'session-ended'}),
    'a variable is explained': check_environment(['nothing'], {'a.c': 'g_getenv ("SONDE_X")'}),
    'quoted code is that of the file': check_code('```c\nint a;\n```\n', 'c', 'int b;\n'),
    'prose ends at column 100': check_columns('docs/a.md', 'word ' * 30),
    'an option in prose is one': check_named_options('docs/a.md', '`sondectl list --new`', {'list': '  -a, --all'}),
    'a command in prose is one': check_named_options('docs/a.md', '`sondectl new FILE`', {'list': '  -a, --all'}),
    'a message is printed by somebody': check_messages('| `it is … gone` | do |', 'error ("it was " "gone")'),
    'a folder is in a table': check_folders(TABLES, {**LAYERS, 'new': []}, {'base', 'daemon/capture/a'}),
    'a folder in a table exists': check_folders(TABLES, LAYERS, {'base'}),
    'a room includes what its row says': check_folders(
        TABLES, {**LAYERS, 'daemon/capture/a': ['daemon/capture/c/*.h']}, {'base', 'daemon/capture/a'}),
    'who speaks D-Bus is in the table': check_dbus(
        TABLES, {'base/a.c': 'sd_bus_call (x);', 'new/a.c': 'g_dbus_connection_call (x);'}),
    'who is in the table speaks D-Bus': check_dbus(TABLES, {'base/a.c': '/* sd_bus_call (x); */'}),
    'a bound is that of the code': check_bounds(TABLES, read_bounds(LIMITS.replace('32', '33'), NAMES)),
    'an answer is a file': check_places('| … | it is |\n|---|---|\n| x | `base/x.c` |\n', {'base/y.c'}),
    'a library is in the table': check_libraries(TABLES, {'sonded': ['libcap.so.2', 'libdw.so.1']}),
    'a library in the table is linked': check_libraries(TABLES, {'sonded': ['libc.so.6']}),
    'a program is in the table': check_libraries(TABLES, {'sonded': ['libcap.so.2'], 'new': []}),
    'links lead somewhere': check_links('docs/a.md', '[x](b.md)', {'docs/a.md'}),
}


def check(root, tap):
    sonded, sondectl, *programs = sys.argv[2:]
    for name, complaints in BAD.items():
        tap.refuses(f'the check knows that {name}', complaints)
    tap.case('the check takes a page that says what the program says',
             check_sonded(PAGE, '  -a, --all  All\n  -o, --out=F  Out\n'))
    tap.case('the check takes code, tables and links that are long',
             check_columns('a.md', f"| {'x ' * 90}|\n```\n{'x ' * 90}\n```\n    {'x ' * 90}\n[x]({'x' * 90})"))
    tap.case('the check takes what is printed in pieces',
             check_messages('| `it is … gone` | do |', 'error ("it is " PRIu64 " gone")')
             + check_named_options('a.md', '`sondectl list -a -- ls -l`', {'list': '  -a, --all'}))

    tap.case('the check takes tables that say what the code says',
             check_folders(TABLES, LAYERS, {'base', 'daemon/capture/a'})
             + check_dbus(TABLES, {'base/a.c': 'sd_bus_call (x);'})
             + check_bounds(TABLES, read_bounds(LIMITS, NAMES))
             + check_libraries(TABLES, {'sonded': ['libcap.so.2', 'libc.so.6', 'libasan.so.8']}))

    help_text = read_help(sondectl)
    commands = find_help_commands(help_text)
    pages = {name: tree.read(root, f'docs/{name}') for name in ('sonded.8.rst', 'sondectl.1.rst')}
    tap.case('sonded(8) has the options of sonded', check_sonded(pages['sonded.8.rst'], read_help(sonded)))
    help_of = {command: read_help(sondectl, command) for command in commands}
    tap.case('sondectl(1) has the commands and options of sondectl',
             check_sondectl(pages['sondectl.1.rst'], help_text, help_of,
                            lambda command, option: takes(sondectl, command, option)))

    files = tree.list_files(root)
    prose = {path: tree.read(root, path) for path in files if path.endswith('.md')}
    tap.case(f'prose ends at column {MAX_COLUMNS}',
             [complaint for path in files if path.endswith(('.md', '.rst')) and path != 'NEWS.md'
              for complaint in check_columns(path, tree.read(root, path))])
    tap.case('prose names options that there are', [complaint for path, text in prose.items()
                                                    for complaint in check_named_options(path, text, help_of)])
    tap.case('man pages have no errors',
             [f'{path}, {complaint}' for path in files if path.endswith('.rst')
              for complaint in parse_page(tree.read(root, path))[1]])
    sources = {path: tree.read(root, path) for path in files
               if path.startswith(('client/', 'daemon/')) and path.endswith('.c')}
    tap.case('README.md names messages that there are',
             check_messages(prose['README.md'], '\n'.join(sources.values())))
    code = '\n'.join(text for path, text in sources.items() if path.startswith('daemon/control/'))
    tap.case('sonded(8) has every journal record and field', check_names(
        pages['sonded.8.rst'],
        re.findall(r'sonde_audit \("([\w-]+)"', code) + re.findall(r'"(SONDE_\w+)",', code)))
    tap.case('sonded(8) has every polkit action', check_names(
        pages['sonded.8.rst'], [f'**{action}**' for action in re.findall(
            r'<action id="org\.sonde\.profiler1\.([\w-]+)"', tree.read(root, 'dbus/org.sonde.profiler1.policy.in'))]))
    tap.case('every environment variable is explained', check_environment(pages.values(), sources))
    tap.case('docs/architecture.md has the folders, and who may include whom', check_folders(
        prose['docs/architecture.md'], importlib.import_module('check-includes').LAYERS,
        {os.path.dirname(path) for path in files} | {os.path.dirname(os.path.dirname(path)) for path in files}))
    tap.case('docs/architecture.md has the folders that speak D-Bus',
             check_dbus(prose['docs/architecture.md'], sources))
    tap.case('docs/architecture.md has the limits as they are', check_bounds(prose['docs/architecture.md'], read_bounds(
        tree.read(root, 'daemon/base/limits.h'), code)))
    tap.case('docs/hacking.md says where things are', check_places(prose['docs/hacking.md'], files))
    tap.case('docs/security.md has the libraries of each program', check_libraries(
        prose['docs/security.md'], {os.path.basename(path).split('.so')[0]: read_linked(path) for path in programs}))
    clients = tree.read(root, 'docs/clients.md')
    for language, path in EXAMPLES.items():
        tap.case(f'docs/clients.md shows {path}', check_code(clients, language, tree.read(root, path)))
    tap.case('links between pages lead somewhere',
             [complaint for path, text in prose.items() for complaint in check_links(path, text, files)])


tree.main(check)
