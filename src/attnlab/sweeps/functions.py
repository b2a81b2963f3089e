"""Functions that are swept: found by name, checked against the settings, sent to other processes."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._core.errors import InvalidArgument
from .._core.workers import resolve

KEY = "key"  # the argument that gets a random key


def resolve_with(reference: str, paths: Sequence[str], name: str = "target") -> Callable[..., Any]:
    """The function that `"module:name"` names; modules may also lie in `paths`, which are searched
    last: a file there never stands in for a library.

    Raises `InvalidArgument` for the argument `name` when there is none.
    """
    sys.path[:] = [*(path for path in sys.path if path not in paths), *paths]
    try:
        found = resolve(reference)
    except InvalidArgument as error:
        raise InvalidArgument(name, reference, error.allowed) from None
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise InvalidArgument(name, reference, f"importable here ({text})") from None
    if not callable(found):
        raise InvalidArgument(name, reference, "the name of a function")
    return found


def check_function(
    function: Any, settings: Mapping[str, Any], swept: Iterable[str], batching: str
) -> None:
    """Raises `InvalidArgument` when these settings are not its arguments."""
    if not callable(function):
        raise InvalidArgument("target", function, "an experiment id, 'risk' or a function")
    given = {name.partition(".")[0] for name in [*settings, *swept]}
    try:
        parameters = inspect.signature(function).parameters.values()
    except Exception:  # it has none that can be read
        return
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in sorted(given - names):
        if not open_ended:
            raise InvalidArgument("setting", name, f"one of {', '.join(sorted(names))}")
    if batching != "arrays":
        given.add(KEY)
    for p in parameters:
        needed = p.name in names and p.default is p.empty and p.name not in given
        if needed or p.kind is p.POSITIONAL_ONLY:
            raise InvalidArgument("settings", sorted(given), f"complete: {p.name} is missing")


def takes_key(function: Any, given: Iterable[str]) -> bool:
    """Whether the function asks for a random key, which the settings do not give."""
    try:
        return KEY in inspect.signature(function).parameters and KEY not in given
    except Exception:
        return False


def is_imported(function: Any) -> bool:
    """Whether another process gets the function by importing it, from whatever is there."""
    if not isinstance(function, types.FunctionType) or function.__module__ == "__main__":
        return False
    try:
        pickle.dumps(function)
    except Exception:
        return False
    return True


def pickled(function: Any) -> bytes | None:
    """The function for another process. Raises `InvalidArgument` for one that cannot be sent."""
    if function is None:
        return None
    try:
        packer: Any = importlib.import_module("cloudpickle")
    except ImportError:
        packer = pickle
    try:
        return packer.dumps(function)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        allowed = f"a function that can be sent to another process ({text})"
        raise InvalidArgument("target", function, allowed) from None
