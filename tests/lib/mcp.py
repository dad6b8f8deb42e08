# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of sondectl mcp that says what it is told to, right or wrong."""

import json
import os
import select
import subprocess
import tempfile

from tap import DEADLINE_S, check


class Client:
    """Of a server of its own; prefix: of its command line."""

    def __init__(self, program, *prefix, **environment):
        self.home = tempfile.TemporaryDirectory(prefix='sonde-mcp-')  # pylint: disable=consider-using-with
        self.server = subprocess.Popen([*prefix, program, 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=os.environ | {'HOME': self.home.name, 'XDG_RUNTIME_DIR': '', 'DEBUGINFOD_URLS': ''} | environment)
        self.unread = b''
        self.notes = []
        self.n_asked = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server.poll() is None:
            self.server.kill()
        self.server.communicate()
        self.home.cleanup()

    def send(self, message):
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b'\n'
        self.server.stdin.write(line)
        self.server.stdin.flush()

    def receive(self):
        """The next message, or None at the end."""
        while b'\n' not in self.unread:
            check(select.select([self.server.stdout], [], [], DEADLINE_S)[0], 'the server says nothing')
            block = os.read(self.server.stdout.fileno(), 65536)
            if not block:
                check(not self.unread, f'a message was cut: {self.unread}')
                return None
            self.unread += block
        line, self.unread = self.unread.split(b'\n', 1)
        message = json.loads(line)
        check(message['jsonrpc'] == '2.0', f'{message}')
        return message

    def start(self, method, params=None):
        """Returns: the id of what was asked"""
        self.n_asked += 1
        self.send({'jsonrpc': '2.0', 'id': self.n_asked, 'method': method, **({} if params is None else {'params': params})})
        return self.n_asked

    def finish(self, number):
        while (message := self.receive())['id' if 'id' in message else 'method'] != number:
            check('id' not in message, f'an answer to another question: {message}')
            self.notes.append(message)
        return message

    def ask(self, method, params=None):
        return self.finish(self.start(method, params))

    def initialize(self, revision='2025-11-25'):
        answer = self.ask('initialize', {'protocolVersion': revision, 'capabilities': {}, 'clientInfo': {'name': 'test', 'version': '1'}})
        self.send({'jsonrpc': '2.0', 'method': 'notifications/initialized'})
        return answer['result']

    def start_call(self, tool, token=None, **arguments):
        meta = {'_meta': {'progressToken': token}} if token is not None else {}
        return self.start('tools/call', {'name': tool, 'arguments': {name.replace('_', '-'): value for name, value in arguments.items()}, **meta})

    def call(self, tool, **arguments):
        """Returns: what the tool answers, as an object; or, if it failed, its sentence"""
        result = self.finish(self.start_call(tool, **arguments))['result']
        text = result['content'][0]['text']
        check(len(text.encode()) <= 8192, f'{len(text)} characters')
        if result['isError']:
            return text
        check(json.loads(text) == result['structuredContent'], f'{result}')
        return result['structuredContent']

    def close(self):
        """Returns: the exit status"""
        self.server.stdin.close()
        status = self.server.wait(timeout=DEADLINE_S)
        self.server.stdin = None  # communicate() would flush it
        return status
