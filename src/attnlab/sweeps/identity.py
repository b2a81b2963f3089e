"""What a function computes, as a digest: to notice that a directory was filled by another one.

Compared are the code of the function and everything it brings along: its defaults, what it closes
over, the arguments of a partial, the class and the state of an object that is called, the function
below a decorator. What it calls by name is not, nor what a decorator remembers (a cache), nor what
has no state that can be read (a lock).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

_MOST = 1_000_000  # things that are looked at
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# classes from here are named, not read: their versions are compared elsewhere
_LIBRARIES = sys.stdlib_module_names | {"numpy", "scipy", "jax", "jaxlib", "equinox", "xarray"}


def identity_of(function: Any) -> str:
    """The digest, 16 hexadecimal digits: the same in every process."""
    try:
        found = _Reader().parts(function)
    except RecursionError:  # too deep: the code alone
        found = _Reader().parts(getattr(function, "__code__", _name(function)))
    return _digest(found)[:16]


def _digest(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


class _Reader:
    """Turns things into nested tuples of texts and digests, each thing once."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, Any]] = {}  # with the thing, so that its id stays its own

    def parts(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return type(value).__name__, repr(value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)][0]
        if len(self._seen) >= _MOST:
            return "and more"
        self._seen[id(value)] = len(self._seen), value
        return self._inside(value)

    def _inside(self, value: Any) -> Any:
        below = self.parts
        if isinstance(value, types.CodeType):
            names = value.co_names, value.co_varnames, value.co_freevars
            return value.co_code, names, tuple(below(item) for item in value.co_consts)
        if isinstance(value, functools.partial):
            return "partial", below(value.func), below(value.args), below(value.keywords)
        if isinstance(value, types.MethodType):
            return "method", below(value.__func__), below(value.__self__)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, tuple | list):
            return type(value).__name__, self._items(value)
        if isinstance(value, set | frozenset):
            return type(value).__name__, tuple(sorted(_in_no_order(item) for item in value))
        if isinstance(value, dict | types.MappingProxyType):
            return "mapping", tuple((below(name), below(item)) for name, item in value.items())
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        return self._object(value)

    def _items(self, value: Any) -> Any:
        if all(type(item) in _PLAIN for item in value):  # there may be many
            return _digest(list(value))
        return tuple(self.parts(item) for item in value)

    def _function(self, value: types.FunctionType) -> Any:
        # a decorator may keep a memory, which is no part of what is computed
        decorated = hasattr(value, "__wrapped__") or "<locals>" not in value.__qualname__
        cells = tuple(self._cell(cell, decorated) for cell in value.__closure__ or ())
        defaults = self.parts(value.__defaults__), self.parts(value.__kwdefaults__)
        return "function", self.parts(value.__code__), defaults, cells

    def _cell(self, cell: Any, decorated: bool) -> Any:
        try:
            found = cell.cell_contents
        except ValueError:  # not filled yet
            return "empty"
        memory = isinstance(found, dict | list | set)
        return type(found).__name__ if decorated and memory else self.parts(found)

    def _class(self, value: type) -> Any:
        own = []
        for base in value.__mro__:
            if _root(base) in _LIBRARIES:
                continue
            for name, member in vars(base).items():
                if isinstance(member, property):
                    own += [name, *(self.parts(f) for f in (member.fget, member.fset))]
                elif isinstance(member, staticmethod | classmethod):
                    own += [name, self.parts(member.__func__)]
                elif isinstance(member, functools.cached_property):
                    own += [name, self.parts(member.func)]
                elif isinstance(member, types.FunctionType):
                    own += [name, self.parts(member)]
                elif type(member) in _PLAIN and not name.startswith("__"):
                    own += [name, repr(member)]
        return "class", _name(value), tuple(own)

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if kind.__module__ in ("weakref", "_weakref", "_weakrefset"):
            return _name(kind)  # who is alive is no part of it
        if kind.__module__.startswith("numpy.random"):
            return _name(kind)  # nor how often somebody has drawn
        if isinstance(value, np.ndarray | np.generic) or _is_jax_array(value):
            return _name(kind), self._array(value)
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        inner = None if wrapped is None else self.parts(getattr(value, "__wrapped__", None))
        if wrapped is not None and _root(kind) in ("functools", "jaxlib"):
            return _name(kind), inner  # its memory apart
        return _name(kind), _name(value), inner, self.parts(kind), self._state(value)

    def _array(self, value: Any) -> Any:
        array = np.asarray(value)
        if array.dtype.hasobject:
            return array.shape, self._items(array.ravel().tolist())
        return array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest()

    def _state(self, value: Any) -> Any:
        state = getattr(value, "__dict__", None)
        # compiled ones keep theirs elsewhere
        compiled = not state and _root(type(value)) in _LIBRARIES
        if isinstance(state, Mapping) and not compiled:
            remembered = {
                name
                for base in type(value).__mro__
                for name, member in vars(base).items()
                if isinstance(member, functools.cached_property)
            }
            kept = {n: x for n, x in state.items() if n not in {*remembered, "__wrapped__"}}
            return self.parts(kept)
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            return "not compared"
        if isinstance(reduced, str):
            return reduced
        arguments, state, items, pairs = (*reduced[1:], None, None, None)[:4]
        inside = [arguments, state, *(list(each) for each in (items, pairs) if each is not None)]
        return tuple(self.parts(part) for part in inside)


def _in_no_order(value: Any) -> str:
    """A text for an item of a set, by which items can be put in an order."""
    if isinstance(value, tuple):
        return f"({','.join(map(_in_no_order, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_in_no_order, value)))}}}"
    return repr(value) if type(value) in _PLAIN else _name(value) + _name(type(value))


def _is_jax_array(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array) and not _is_key(jax, value)


def _is_key(jax: Any, value: Any) -> bool:
    return jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _name(value: Any) -> str:
    found = []
    for name in ("__module__", "__qualname__", "__name__"):
        try:
            found.append(str(getattr(value, name, "")))
        except Exception:  # of a foreign __getattr__
            found.append("")
    return ".".join(found)
