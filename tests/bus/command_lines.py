# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the command lines of documentation: blocks of lines that are typed one after the other."""

import re

import docutils.core
import docutils.nodes

# What stands in a literal block and is no command: by how the block begins.
NO_COMMANDS = ('polkit.addRule(', '# systemctl edit ', '[', '{', '//')


def parse_block(text):
    """The commands of a block: continued lines joined, comments, prompts and empty lines left out. None if it has none."""
    text = text.strip('\n')
    if text.startswith(NO_COMMANDS):
        return None
    lines = re.sub(r'\\\n\s*', '', text).splitlines()
    lines = [re.sub(r'^\$ |(^|\s+)# .*$', '', line).strip() for line in lines]
    return [line for line in lines if line]


def find_in_markdown(text):
    """Indented blocks, and fenced ones of the language sh; other fences show output and programs."""
    fences = re.findall(r'^```(\w*)\n(.*?)^```$', text, re.M | re.S)
    blocks = [body for language, body in fences if language == 'sh']
    without = re.sub(r'^```.*?^```$', '', text, flags=re.M | re.S)
    blocks += re.findall(r'(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)', without)
    return [lines for lines in map(parse_block, blocks) if lines]


def find_in_page(text):
    """Literal blocks, and what prose shows in bold: commands of sondectl with a file and more."""
    document = docutils.core.publish_doctree(text, settings_overrides={'report_level': 5, 'doctitle_xform': False})
    blocks = [block.astext() for block in document.findall(docutils.nodes.literal_block)]
    blocks += [re.sub(r'\s+', ' ', bold.astext()) for bold in document.findall(docutils.nodes.strong)
               if re.match(r'sondectl [a-z]+ .*\.syscap', bold.astext().replace('\n', ' '))]
    return [lines for lines in map(parse_block, blocks) if lines]


def find_in_help(text):
    """What stands below "Example:" or beside it, or is indented without a column of explanations."""
    lines = [line for line in re.findall(r'^(?:Example: |  )(sondectl (?:\S+ )*\S+)$', text, re.M)
             if not re.search(r'\b[A-Z]{2,}|\.\.\.|--version$', re.sub(r"'[^']*'", '', line))]
    return [lines] if lines else []


MARKDOWN = """
Text with `sondectl report`:

    sondectl record \\
      -a    # the machine
    sondectl list

```
  Total    Self
```

```sh
sondectl top
```
"""
PAGE = """
Text of **sondectl report** and of **sondectl dump
x.syscap**.

::

    # a comment
    sondectl verify x.syscap

A rule::

    polkit.addRule(function () {});
"""
HELP = """Usage: sondectl top [OPTION...]
  sondectl FILE
  sondectl list [--all]      show the sessions
  -a, --all  All
Example:
  sondectl top -a | awk 'END { print }'
Example: sondectl list
"""
RULES = (
    (find_in_markdown, MARKDOWN, [['sondectl top'], ['sondectl record -a', 'sondectl list']]),
    (find_in_page, PAGE, [['sondectl verify x.syscap'], ['sondectl dump x.syscap']]),
    (find_in_help, HELP, [["sondectl top -a | awk 'END { print }'", 'sondectl list']]),
)
