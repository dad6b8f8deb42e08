#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the seeds of the target json: make-json-corpus.py [CORPUS]"""
import json

import corpus_files

# RFC 8259, and what its readers may refuse.
RIGHT = {
    'everything': b' {"a": [0, -0, 1.5e-3, 1E+2, true, false, null], "\\u00e4\\ud83d\\ude00": "\\"\\\\\\/\\b\\f\\n\\r\\t", "": {}}\r\n\t',
    'text': 'ä€😀\x7f'.join('""').encode(), 'number': b'-12.50', 'nothing': b'null', 'empty': b'[]',
    'large': b'[9223372036854775807,9223372036854775808,-9223372036854775808,1e308,5e-324]', 'deep': b'[' * 8 + b']' * 8,
}
WRONG = {
    'no-bytes': b'', 'space': b' \n', 'mark': b'\xef\xbb\xbf1', 'no-utf-8': b'"\xff"', 'overlong': b'"\xc0\xaf"', 'surrogate': b'"\xed\xa0\x80"',
    'cut-character': b'"\xe2\x82', 'nul': b'"\0"', 'nul-behind': b'1\0', 'escaped-nul': b'"\\u0000"', 'control': b'"\n"', 'open-text': b'"a',
    'open-escape': b'"\\', 'no-escape': b'"\\x41"', 'quote': b"'a'", 'short-unit': b'"\\u12"', 'first-half': b'"\\ud83dx"',
    'first-half-twice': b'"\\ud83d\\ud83d"', 'second-half': b'"\\ude00"', 'zero-first': b'01', 'minus': b'-', 'minus-zero-first': b'-01',
    'plus': b'+1', 'point': b'1.', 'point-first': b'.5', 'exponent': b'1e', 'exponent-sign': b'1e+', 'hexadecimal': b'0x10', 'infinite': b'1e999',
    'nan': b'NaN', 'infinity': b'-Infinity', 'digits': b'1' * 65, 'word': b'nul', 'long-word': b'nullx', 'capital': b'True', 'twice': b'1 2',
    'comma': b'[1,]', 'comma-first': b'[,1]', 'no-comma': b'[1 2]', 'open-array': b'[1', 'wrong-close': b'[1}', 'open-object': b'{"a":1',
    'object-comma': b'{"a":1,}', 'no-colon': b'{"a" 1}', 'no-name': b'{1:2}', 'bare-name': b'{a:1}', 'no-member': b'{"a":}',
    'same-member': b'{"a":1,"b":2,"\\u0061":3}', 'comment': b'[1/*2*/]', 'too-deep': b'[' * 9 + b']' * 9, 'too-deep-open': b'[' * 4000,
    'too-deep-objects': b'{"a":' * 500, 'too-many': b'[' + b'0,' * 300 + b'0]', 'too-long': b' ' * 4097 + b'1',
}
TREE = {
    'functions': [{'name': 'main', 'module': 'bin', 'source': ''}, {'name': '__pthread_mutex_lock', 'module': 'libc.so.6', 'source': ''}],
    'processes': [{'pid': 1, 'nodes': [{'function': 0, 'parent': -1, 'total': 9}, {'function': 1, 'parent': 0, 'total': 4},
                                       {'function': 7, 'parent': 0, 'total': 1}, {'function': 0, 'parent': 9, 'total': 1},
                                       {'function': 0, 'parent': 0, 'total': 9223372036854775807}]}],
}
READ = {'tree': TREE, 'record': {'command': ['./program', ''], 'seconds': 0.5, 'what': 'heap', 'folder': '/tmp'},
        'report': {'capture': 'c1', 'by': 'module', 'pid': 1, 'from': 0.5, 'percent-limit': 0, 'cursor': '10'},
        'bad-arguments': {'command': [], 'seconds': 0, 'pid': 1.5, 'what': 'x', 'capture': ''}, 'unknown-argument': {'\x1b[2J': 1}}

corpus_files.write('json', {**RIGHT, **WRONG, **{name: json.dumps(value).encode() for name, value in READ.items()}})
