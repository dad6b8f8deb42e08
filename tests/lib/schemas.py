# SPDX-License-Identifier: LGPL-2.1-or-later
"""What sondectl prints for programs, against the schemas that are installed for it."""

import json
import os

from tap import Skip

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../client/schemas')


def names():
    return {name.removesuffix('.json') for name in os.listdir(FOLDER) if name.endswith('.json')}


def load(name):
    with open(os.path.join(FOLDER, f'{name}.json'), encoding='utf-8') as file:
        return json.load(file)


def close(schema):
    """The same without room for members that it does not name: what is printed has to be documented."""
    if isinstance(schema, list):
        return [close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(value) for name, value in schema.items()}
    if closed.get('type') == 'object' and isinstance(closed.get('properties'), dict):
        closed.setdefault('unevaluatedProperties', False)
    return closed


def validator():
    try:
        import jsonschema  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Skip('python3-jsonschema is not here') from error
    return jsonschema.Draft202012Validator


def refuse_duplicates(pairs):
    if len(dict(pairs)) < len(pairs):
        raise AssertionError(f'a member twice: {[name for name, _ in pairs]}')
    return dict(pairs)


def refuse_constant(word):
    raise AssertionError(f'{word} is no JSON')


def check_schema(name, text):
    """Returns: what @text says; raises if it is not what the schema says, member for member"""
    document = json.loads(text, object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant)
    errors = list(validator()(close(load(name))).iter_errors(document))
    if errors:
        where = '/'.join(str(step) for step in errors[0].absolute_path)
        raise AssertionError(f'{name}: {where}: {errors[0].message[:400]}')
    return document
