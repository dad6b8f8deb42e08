# SPDX-License-Identifier: LGPL-2.1-or-later
"""The call trees of call-tree.php and its like, of which each function has known callers."""

import collections
import os
import re

FOLDER = os.path.dirname(os.path.abspath(__file__))

# files: whose functions are judged; natives: what of the interpreter's own is, too; evaluator: its function that every
# stack has; thread_root: where those of other threads begin; function_line: where one begins, at its indentation
# release: of Debian, whose program it is; None: this machine's
Tree = collections.namedtuple('Tree', 'language release programs program files callers natives evaluator roots thread_root optional function_line')

PHP = Tree(
    language='php', release=None, programs=('php8.2', 'php8.4'), program=os.path.join(FOLDER, 'call-tree.php'),
    # What is built in has none, and what was made of a text one of its own.
    files=re.compile(r"call-tree\.php(\(\d+\) : eval\(\)'d code)?|"),
    callers={
        'main': ['{main}'], 'turn': ['main'], 'microtime': ['main'],
        'through_usort': ['turn'], 'range': ['through_usort', 'through_map', 'through_callable'], 'usort': ['through_usort'],
        'zend_sort': ['usort', 'zend_sort'], 'zend_insert_sort': ['usort', 'zend_sort'],
        'compare': ['zend_sort', 'zend_insert_sort'], 'leaf_of_comparing': ['compare'],
        'through_map': ['turn'], 'array_map': ['through_map'], '{closure}': ['array_map'], 'leaf_of_mapping': ['{closure}'],
        'through_re': ['turn'], 'preg_replace_callback': ['through_re'], 'replacement': ['preg_replace_callback'],
        'leaf_of_replacing': ['replacement'], 'chr': ['leaf_of_replacing'],
        'through_generator': ['turn'], 'zend_generator_resume': ['through_generator'], 'numbers': ['zend_generator_resume', 'through_generator'],
        'leaf_of_generator': ['numbers'],
        'through_objects': ['turn'], 'Odd::__get': ['through_objects'], 'Odd::found': ['Odd::__get'],
        'Odd::made': ['through_objects'], 'Odd::{closure}': ['Odd::made'],
        'zend_objects_destroy_object': ['through_objects'], 'Odd::__destruct': ['zend_objects_destroy_object'],
        'through_recursion': ['turn'], 'descend': ['through_recursion', 'descend'], 'bottom': ['descend'],
        'through_eval': ['turn'], 'generated': ['through_eval'], 'made_up': ['generated'],
        'through_callable': ['turn'], 'leaf_of_callable': ['through_callable'], 'array_filter': ['through_callable'],
        'is_int': ['array_filter'],
    },
    natives=('zend_sort', 'zend_insert_sort', 'zend_generator_resume', 'zend_objects_destroy_object'),
    evaluator='execute_ex', roots=('{main}',), thread_root=None,
    optional=('microtime', 'range', 'is_int', 'zend_objects_destroy_object', 'array_filter'),
    function_line=re.compile(r'^(?P<indent> *)(?:public |private |static )*function (?P<name>\w+)'))

PHPS = tuple(PHP._replace(release=release, programs=('php8.4',)) for release in ('trixie', 'sid'))

RUBY = Tree(
    language='ruby', release=None, programs=('ruby3.1',), program=os.path.join(FOLDER, 'call-tree.rb'),
    files=re.compile(r'call-tree\.rb|generated\.rb'),
    callers={
        'main': ['<main>'], 'turn': ['main'], 'compress': ['block in main'],
        # What loads a library does, too.
        'rb_ary_each': ['through_sort', 'through_each', '<main>'],
        'through_sort': ['turn'], 'block in through_sort': ['rb_ary_each'], 'sort_key': ['block in through_sort'],
        'leaf_of_sorting': ['sort_key'],
        'through_each': ['turn'], 'block in through_each': ['rb_ary_each'], 'leaf_of_mapping': ['block in through_each'],
        'block in leaf_of_mapping': ['leaf_of_mapping'],
        'through_re': ['turn'], 'block in through_re': ['through_re'], 'leaf_of_replacing': ['block in through_re'],
        'through_yield': ['turn'], 'yielding': ['through_yield'], 'block in through_yield': ['yielding'],
        'leaf_of_yielding': ['block in through_yield'],
        'through_objects': ['turn'], 'initialize': ['through_objects'], 'method_missing': ['through_objects'],
        'find': ['method_missing'], 'made': ['through_objects'], 'block in made': ['made'],
        'block in <class:Odd>': ['through_objects'],
        'through_recursion': ['turn'], 'descend': ['through_recursion', 'descend'], 'bottom': ['descend'],
        'through_eval': ['turn'], 'generated': ['through_eval'], 'made_up': ['generated'],
        'through_rescue': ['turn'], 'rescue in through_rescue': ['through_rescue'],
        'leaf_of_rescue': ['through_rescue', 'rescue in through_rescue'],
        'through_inject': ['turn'], 'block in through_inject': ['through_inject'], 'leaf_of_inject': ['block in through_inject'],
    },
    natives=('rb_ary_each',), evaluator='rb_vm_exec', roots=('<main>',), thread_root='block in main', optional=('initialize', 'main'),
    function_line=re.compile(r'^(?P<indent> *)def (?:self\.)?(?P<name>[\w?]+)'))

# rb_vm_exec is exported no more.
RUBIES = tuple(RUBY._replace(release=release, programs=('ruby3.3',), evaluator='ruby_run_node') for release in ('trixie', 'sid'))


class Judge:
    """Reads the frames of one tree."""

    def __init__(self, tree):
        self.tree = tree
        self.frame = re.compile(r'^(?P<name>.*?)(?: \((?P<file>[^/]*?)(?::(?P<line>\d+))?\))? \[%s\]$' % tree.language)
        self.lines = function_lines(tree)

    def name_of(self, function):
        """(name, match of the frame) if the tree has it, else None."""
        if function in self.tree.natives:
            return function, None
        match = self.frame.match(function or '')
        is_ours = match and not match['name'].startswith('[') and self.tree.files.fullmatch(match['file'] or '')
        # Since 8.4 PHP says where a closure is.
        return (re.sub(r'\{closure:.*\}', '{closure}', match['name']), match) if is_ours else None

    def judge(self, names, is_of_thread):
        """Why the path, outermost first, is none of the tree, or None."""
        roots = (self.tree.thread_root,) if is_of_thread else self.tree.roots
        if names and names[0] not in roots:
            return f'begins with {names[0]}'
        for caller, name in zip(names, names[1:]):
            if caller not in self.tree.callers.get(name, ()) and name not in roots:
                return f'{name} is called by {caller}'
        return None

    def check_line(self, name, match):
        """Why its line cannot be, or None."""
        name = re.split(r'::| in ', name)[-1]
        if not match or match['file'] != os.path.basename(self.tree.program) or name not in self.lines or not match['line']:
            return None
        first, last = self.lines[name]
        return None if first <= int(match['line']) <= last else f'{name} at line {match["line"]}'


def function_lines(tree):
    """Name: first and last line. A function ends with the first line as far to the left as it begins that says so."""
    found, name = {}, None
    with open(tree.program, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            match = tree.function_line.match(line)
            if match:
                name, indent, first = match['name'], match['indent'], number
            elif name and line.rstrip() in (indent + '}', indent + 'end'):
                found[name], name = (first, number), None
    return found
