#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What bash, zsh and fish complete: test-completion.py BUILD SOURCE"""

import importlib
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(sys.argv[2], 'tests/lib'))
DEADLINE_S, Skip, Tap, check = (getattr(importlib.import_module('tap'), name) for name in ('DEADLINE_S', 'Skip', 'Tap', 'check'))

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = os.path.join(SOURCE, 'client/completion')
ENVIRONMENT = {'PATH': f'{BUILD}/client:/usr/bin:/bin', 'TERM': 'dumb', 'HOME': '/nonexistent', 'LC_ALL': 'C.UTF-8',
               'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '')}


def read_help(*command):
    return subprocess.run([f'{BUILD}/client/sondectl', *command, '--help'], capture_output=True, text=True, check=True).stdout


COMMANDS = {name for names in re.findall(r'^  sondectl ([a-z|]+) ', read_help(), re.M) for name in names.split('|')}


# A service that has a session and two events, before what was built.
SONDECTL = f'''#!/bin/sh
case "$*" in
  list) printf '%7s  %-12s %-9s %-19s  %s\\n' SESSION OWNER STATE STARTED DESCRIPTION \\
    4711 alice running '2026-01-01 10:00:00' 'the whole machine' ;;
  events) printf 'cpu-clock\\nsched:sched_switch\\n' ;;
  *) exec {BUILD}/client/sondectl "$@" ;;
esac
'''


def options_of(command):
    return set(re.findall(r'^  (?:-., )?(--[a-z-]+)', read_help(command), re.M))


def run(*command):
    result = subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                            check=False)
    check(result.returncode == 0 and not result.stderr, f'{command}: {result.returncode} {result.stderr}')
    return result.stdout


def bash(*words):
    script = f'''. /usr/share/bash-completion/bash_completion; . {FOLDER}/sondectl
                 COMP_WORDS=(sondectl "$@"); COMP_CWORD=$#; COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}
                 compopt() {{ :; }}; _sondectl; printf '%s\\n' "${{COMPREPLY[@]}}"'''
    return set(run('bash', '--norc', '-c', script, 'bash', *words).split())


def fish(*words):
    line = ' '.join(['sondectl', *words])
    text = run('fish', '--no-config', '-c', f'source {FOLDER}/sondectl.fish; complete -C "{line}"')
    return {row.split('\t')[0] for row in text.splitlines()}


class Zsh:
    """An interactive one on a terminal of its own, which lists what it would complete."""
    def __init__(self, folder):
        try:
            self.pid, self.terminal = pty.fork()
        except OSError as error:  # no devpts is mounted
            raise Skip('no pseudo terminal can be had here') from error
        if self.pid == 0:
            os.execvpe('zsh', ['zsh', '-f', '-i'], {**ENVIRONMENT, 'HOME': folder, 'PS1': '', 'COLUMNS': '400'})
        self.type(f"PROMPT='> '; unsetopt zle_bracketed_paste; fpath=({FOLDER} $fpath); autoload -Uz compinit; compinit -u -D; "
                  "zstyle ':completion:*' list-prompt ''; LISTMAX=10000; bindkey '^T' list-choices; stty -echo columns 400 rows 200; "
                  "echo rea''dy\n")
        self.read_until('ready')

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, *wanted):
        text, deadline = '', time.monotonic() + DEADLINE_S
        while not all(word in text for word in wanted):
            check(time.monotonic() < deadline, f'{wanted} is not in: {text}')
            if select.select([self.terminal], [], [], 1)[0]:
                text += os.read(self.terminal, 65536).decode(errors='replace')
        return text

    def list(self, line, wanted):
        self.type(f'{line}\x14')
        self.read_until(*wanted)
        self.type('\x15')

    def close(self):
        self.type('exit\n')
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def check_complete(complete):
    missing = COMMANDS - complete('')
    check(not missing, f'commands: {missing}')
    check('report' in complete('rep') and 'record' not in complete('rep'), complete('rep'))
    for command in COMMANDS:
        missing = options_of(command) - complete(command, '-')
        check(not missing, f'{command}: {missing}')
    check({'module', 'line'} <= complete('report', '--by', ''), complete('report', '--by', ''))
    check('libdwfl' in complete('record', '--unwind', ''), complete('record', '--unwind', ''))
    check('none' in complete('heap', '--suppressions', ''), complete('heap', '--suppressions', ''))
    for command in ('stop', 'attach', 'status', 'pause', 'resume', 'top'):
        check('4711' in complete(command, ''), f'{command}: {complete(command, "")}')
    for command in ('record', 'top', 'start'):
        check('sched:sched_switch' in complete(command, '--event', ''), f'{command}: {complete(command, "--event", "")}')


def test_zsh():
    with tempfile.TemporaryDirectory() as folder:
        zsh = Zsh(folder)
        try:
            zsh.list('sondectl ', COMMANDS)
            for command in sorted(COMMANDS):
                if options_of(command):
                    zsh.list(f'sondectl {command} --', options_of(command))
            zsh.list('sondectl report --by ', {'module', 'line'})
            zsh.list('sondectl stop ', {'4711', 'the whole machine'})
            zsh.list('sondectl record --event ', {'cpu-clock', 'sched:sched_switch'})
        finally:
            zsh.close()


def main():
    cases = {'bash completes commands, options, values, sessions and events': lambda: check_complete(bash),
             'fish completes commands, options, values, sessions and events': lambda: check_complete(fish),
             'zsh completes commands, options, values, sessions and events': test_zsh}
    tap = Tap(len(cases))
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'sondectl'), 'w', encoding='utf-8') as file:
            file.write(SONDECTL)
        os.chmod(file.name, 0o755)
        ENVIRONMENT['PATH'] = f"{folder}:{ENVIRONMENT['PATH']}"
        for name, test in cases.items():
            with tap.case(name):
                test()
    tap.finish()


main()
