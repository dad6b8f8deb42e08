# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the style checks share: the files of the checkout, and TAP."""

import os
import re
import sys

# Folders that a checkout may have. Another one is a decision for the design, not for a commit.
FOLDERS = {'.ci', 'base', 'client', 'daemon', 'dbus', 'debian', 'docs', 'protocol', 'shared-ring', 'symbols', 'systemd',
           'tests', 'tools', 'unwind'}


def is_build_tree(path):
    return os.path.exists(os.path.join(path, 'meson-private')) or re.match(
        r'build($|-)', os.path.basename(path))


def list_folders(root):
    """Top-level folders that git would know: not .git, not build trees."""
    return sorted(entry.name for entry in os.scandir(root)
                  if entry.is_dir() and entry.name != '.git' and not is_build_tree(entry.path))


def list_files(root):
    """Paths relative to root, of all files in the checkout, in order."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ('.git', '__pycache__')
                            and not is_build_tree(os.path.join(folder, name)))
        found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(files)
                  if name != '.git' and not name.endswith('.syscap')]
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def strip_code(text):
    """C text with the insides of comments, strings and preprocessor lines blanked, lines kept."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match[0])

    tokens = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    text = re.sub(tokens, blank, text, flags=re.S)
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', blank, text, flags=re.M)


class Tap:
    """Prints each case as it is decided; exit_status() says whether all passed."""

    def __init__(self):
        self.n_cases = 0
        self.n_failed = 0

    def case(self, name, complaints):
        """One case, which passes if the list complaints is empty."""
        self.n_cases += 1
        self.n_failed += bool(complaints)
        print(f"{'not ok' if complaints else 'ok'} {self.n_cases} - {name}")
        for complaint in complaints:
            print(f'# {complaint}')

    def refuses(self, name, complaints):
        """One case, which passes if a bad example was complained about."""
        self.case(name, [] if complaints else ['the check accepts what it should refuse'])

    def warn(self, complaints):
        """What fails nothing, for whoever reads the log."""
        for complaint in complaints:
            print(f'# warning: {complaint}')

    def exit_status(self):
        print(f'1..{self.n_cases}')
        return 1 if self.n_failed else 0


def main(check):
    """Runs check (root, tap) on the checkout named on the command line."""
    tap = Tap()
    check(sys.argv[1], tap)
    sys.exit(tap.exit_status())
