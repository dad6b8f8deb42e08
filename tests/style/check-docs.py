#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fails where pages and programs disagree: check-docs.py SOURCE_ROOT SONDED SONDECTL

Man pages against --help, pages with code against the files they show, links against the checkout.
"""

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
# How systemd passes a socket and names a session: nobody sets these by hand.
SYSTEMD = {'LISTEN_PID', 'LISTEN_FDS', 'XDG_SESSION_ID'}


def read_help(*command):
    return subprocess.run([*command, '--help'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=True, env={**os.environ, 'LC_ALL': 'C'}).stdout


def find_help_options(text):
    """{'-o', '--output FILE', …} of what GOption or sondectl itself prints."""
    options = set()
    for short, long, argument in re.findall(r'^ +(?:sondectl )?(?:(-\w), )?(--[\w-]+)(?:=(\S+))?',
                                            text, re.M):
        options |= {short} - {''} | {f'{long} {argument}'.strip()}
    return options


def find_help_commands(text):
    return set(re.findall(r'^  sondectl ([a-z]+)\b', text, re.M))


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
            name += f' {argument.astext().strip()}'
        options.add(name)
    return options


def compare(what, page, program):
    return ([f'{what}: {name} is in the page only' for name in sorted(page - program)]
            + [f'{what}: {name} is not in the page' for name in sorted(program - page)])


def check_sonded(text, help_text):
    document, complaints = parse_page(text)
    options = find_page_options(find_sections(document)['OPTIONS'])
    return complaints + compare('sonded', options, find_help_options(help_text))


def check_sondectl(text, help_text, help_of):
    """help_of: what `sondectl COMMAND --help` prints, by command."""
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
        complaints += compare(command, options, find_help_options(command_help) - COMMON)
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
    'links lead somewhere': check_links('docs/a.md', '[x](b.md)', {'docs/a.md'}),
}


def check(root, tap):
    sonded, sondectl = sys.argv[2:]
    for name, complaints in BAD.items():
        tap.refuses(f'the check knows that {name}', complaints)
    tap.case('the check takes a page that says what the program says',
             check_sonded(PAGE, '  -a, --all  All\n  -o, --out=F  Out\n'))

    help_text = read_help(sondectl)
    commands = find_help_commands(help_text)
    pages = {name: tree.read(root, f'docs/{name}') for name in ('sonded.8.rst', 'sondectl.1.rst')}
    tap.case('sonded(8) has the options of sonded', check_sonded(pages['sonded.8.rst'], read_help(sonded)))
    tap.case('sondectl(1) has the commands and options of sondectl',
             check_sondectl(pages['sondectl.1.rst'], help_text,
                            {command: read_help(sondectl, command) for command in commands}))

    files = tree.list_files(root)
    tap.case('man pages have no errors',
             [f'{path}, {complaint}' for path in files if path.endswith('.rst')
              for complaint in parse_page(tree.read(root, path))[1]])
    sources = {path: tree.read(root, path) for path in files
               if path.startswith(('client/', 'daemon/')) and path.endswith('.c')}
    code = '\n'.join(text for path, text in sources.items() if path.startswith('daemon/control/'))
    tap.case('sonded(8) has every journal record and field', check_names(
        pages['sonded.8.rst'],
        re.findall(r'sonde_audit \("([\w-]+)"', code) + re.findall(r'"(SONDE_\w+)",', code)))
    tap.case('sonded(8) has every polkit action', check_names(
        pages['sonded.8.rst'], [f'**{action}**' for action in re.findall(
            r'<action id="org\.sonde\.profiler1\.([\w-]+)"', tree.read(root, 'dbus/org.sonde.profiler1.policy.in'))]))
    tap.case('every environment variable is explained', check_environment(pages.values(), sources))
    clients = tree.read(root, 'docs/clients.md')
    for language, path in EXAMPLES.items():
        tap.case(f'docs/clients.md shows {path}', check_code(clients, language, tree.read(root, path)))
    tap.case('links between pages lead somewhere',
             [complaint for path in files if path.endswith('.md')
              for complaint in check_links(path, tree.read(root, path), files)])


tree.main(check)
