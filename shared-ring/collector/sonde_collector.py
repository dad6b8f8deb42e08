# SPDX-License-Identifier: LGPL-2.1-or-later
"""sonde-collector.h in Python: marks, counters and log lines of a program in its Sonde profile.

    import sonde_collector

    with sonde_collector.mark('draw', group='ui'):
        ...

    @sonde_collector.mark('parse')
    def parse(text): ...

    shapes = sonde_collector.Counter('shapes', category='ui')
    shapes.set(17)

Where nobody listens each of them is a call that says so. Where libsonde-collector is not installed
they do nothing. No event raises an exception.
"""

import ctypes
import functools
import inspect

__all__ = ['Counter', 'is_wanted', 'log', 'mark', 'now']

ERROR, CRITICAL, WARNING, MESSAGE, INFO, DEBUG = (1 << bit for bit in range(2, 8))  # severities


def _nothing(*_):
    return 0


def _find():
    """Functions by name. Those that never wait keep the interpreter's lock."""
    signatures = {
        'is_wanted': (ctypes.PyDLL, ctypes.c_bool, []),
        'now': (ctypes.PyDLL, ctypes.c_int64, []),
        'mark': (ctypes.CDLL, ctypes.c_int, [ctypes.c_int64, ctypes.c_int64] + [ctypes.c_char_p] * 3),
        'log': (ctypes.CDLL, ctypes.c_int, [ctypes.c_uint, ctypes.c_char_p, ctypes.c_char_p]),
        'define_counter': (ctypes.PyDLL, ctypes.c_int, [ctypes.c_int] + [ctypes.c_char_p] * 3),
        'set_int64': (ctypes.CDLL, ctypes.c_int, [ctypes.c_int, ctypes.c_int64]),
        'set_double': (ctypes.CDLL, ctypes.c_int, [ctypes.c_int, ctypes.c_double])}
    found = {}
    try:
        for name, (kind, result, arguments) in signatures.items():
            found[name] = getattr(kind('libsonde-collector.so.0'), f'sonde_collector_{name}')
            found[name].restype, found[name].argtypes = result, arguments
    except (OSError, AttributeError):  # it is not installed, or older
        return {name: _nothing for name in signatures}
    return found


_functions = _find()
is_wanted = _functions['is_wanted']
now = _functions['now']


def _encode(text):
    return text if text is None or isinstance(text, bytes) else str(text).encode('utf-8', 'replace')


def _tell(start_ns, group, name, message):
    _functions['mark'](start_ns, now() - start_ns, group, name, _encode(message))


class mark:  # pylint: disable=invalid-name
    """A piece of work with a name: a context, or a decorator of functions and coroutine functions.

    As a context it may get its message meanwhile: it is what "with" gives. One object is for one
    block at a time.
    """

    __slots__ = ('_group', '_name', '_start_ns', 'message')

    def __init__(self, name, group='python', message=None):
        self._group, self._name, self._start_ns, self.message = _encode(group), _encode(name), 0, message

    def __enter__(self):
        self._start_ns = now() if is_wanted() else 0
        return self

    def __exit__(self, *_):
        if self._start_ns:
            _tell(self._start_ns, self._group, self._name, self.message)

    def __call__(self, function):
        group, name, message = self._group, self._name, self.message

        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def wait(*args, **kwargs):
                if not is_wanted():
                    return await function(*args, **kwargs)
                start_ns = now()
                try:
                    return await function(*args, **kwargs)
                finally:
                    _tell(start_ns, group, name, message)
            return wait

        @functools.wraps(function)
        def call(*args, **kwargs):
            if not is_wanted():
                return function(*args, **kwargs)
            start_ns = now()
            try:
                return function(*args, **kwargs)
            finally:
                _tell(start_ns, group, name, message)
        return call


class Counter:
    """A number, of the kind int or float, that changes. There may be 256 in a process."""

    __slots__ = ('_id', '_set')

    def __init__(self, name, category='python', description='', kind=int):
        if kind not in (int, float):
            raise TypeError('a counter is of the kind int or float')
        self._set = _functions['set_double' if kind is float else 'set_int64']
        self._id = _functions['define_counter'](int(kind is float), _encode(category), _encode(name), _encode(description))

    def set(self, value):
        """Its value from now on."""
        if self._id > 0 and is_wanted():
            self._set(self._id, value)


def log(message, severity=MESSAGE, domain='python'):
    """A line in the profile."""
    if is_wanted():
        _functions['log'](severity, _encode(domain), _encode(message))
