#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Builds trees of XML, writes and reads them: xml-trees.py TREES. With PYTHONMALLOC=malloc each object is a block."""

import sys
from xml.etree import ElementTree

N_ITEMS = 2000
N_PARTS = 4


def build():
    root = ElementTree.Element('root')
    for i in range(N_ITEMS):
        item = ElementTree.SubElement(root, 'item', {'number': str(i), 'name': f'name {i}'})
        for j in range(N_PARTS):
            ElementTree.SubElement(item, f'part{j}').text = f'text {i * j}'
    return root


print(sum(len(element.text or '') for _ in range(int(sys.argv[1]))
          for element in ElementTree.fromstring(ElementTree.tostring(build())).iter()))
