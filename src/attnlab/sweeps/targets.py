"""A target as workers see it: a small description that travels, and the evaluation of points.

A description is plain data (the function object pickled, where it has no name to be imported by).
Points are evaluated one by one, or in one call; a call that raises is halved until it is known
which points did it, and these alone have failed.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument
from .parts import FAILED, Part, batch_part, part_of
from .specification import Specification, assigned, resolve_with

Tell = Callable[[Part | tuple[int, int, str]], None]
_LONGEST = 500  # characters of an error that are kept


def description(specification: Specification) -> bytes:
    """What workers need to know, once: everything but the points.

    Raises `InvalidArgument` for a function that cannot be sent to another process.
    """
    return pickle.dumps(
        {
            "kind": specification.kind,
            "target": specification.target,
            "settings": dict(specification.settings),
            "options": dict(specification.options),
            "function": _pickled(specification.function),
            "batch": specification.plan.batch,
            "paths": specification.paths,
        }
    )


def is_one_by_one(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether every point of such a target is a call of its own."""
    return kind == "experiment" or options.get("batching") == "each"


class Target:
    """A target ready to be evaluated in this process."""

    def __init__(self, data: bytes, function: Any = None):
        found = pickle.loads(data)
        self.kind, self.options = found["kind"], found["options"]
        self.settings: dict[str, Any] = found["settings"]
        self.target, self.batch = found["target"], found["batch"]
        if function is None and self.kind == "function":
            packed = found["function"]
            function = (
                resolve_with(self.target, found["paths"])
                if packed is None
                else pickle.loads(packed)
            )
        self.function = function
        self._programs: dict[str, Any] = {}

    @property
    def one_by_one(self) -> bool:
        """Whether every point is a call of its own."""
        return is_one_by_one(self.kind, self.options)

    def evaluate(
        self, columns: Mapping[str, Sequence[Any]], positions: Sequence[int], tell: Tell
    ) -> None:
        """Evaluates these positions of a batch; each part and each failure goes to `tell`."""
        if not self.one_by_one:
            self._halving(columns, list(positions), tell)
            return
        for position in positions:
            try:
                tell(self._point(position, _changes(columns, position)))
            except (Exception, SystemExit) as error:
                tell((position, FAILED, described(error)))

    def _point(self, position: int, changes: dict[str, Any]) -> Part:
        settings = assigned(self.settings, changes)
        keep, select = self.options["variables"], self.options["select"]
        if self.kind == "experiment":
            from ..papers import find_experiment

            experiment = find_experiment(self.target)
            config = experiment.configure(self.options["preset"], settings)
            value: Any = experiment.compute(config)
        else:
            if _takes_key(self.function):
                settings["key"] = point_key(self.options["seed"], settings)
            value = self.function(**settings)
        return part_of(position, value, keep, select)

    def _halving(self, columns: Mapping[str, Any], positions: list[int], tell: Tell) -> None:
        try:
            for part in self._call(columns, positions, tell):
                tell(part)
        except (Exception, SystemExit) as error:
            if len(positions) == 1:
                tell((positions[0], FAILED, described(error)))
                return
            middle = (len(positions) + 1) // 2
            self._halving(columns, positions[:middle], tell)
            self._halving(columns, positions[middle:], tell)

    def _call(self, columns: Mapping[str, Any], positions: list[int], tell: Tell) -> list[Part]:
        if self.kind == "risk":
            from .risks import evaluate

            settings = [assigned(self.settings, _changes(columns, p)) for p in positions]
            wrong: list[tuple[int, BaseException]] = []
            parts = evaluate(
                settings,
                positions,
                self.options["quantities"],
                self.options["theory"],
                lambda position, error: wrong.append((position, error)),
            )
            for position, error in wrong:
                tell((position, FAILED, described(error)))
            return parts
        groups: dict[str, list[int]] = {}
        fixed = [name for name in columns if self._is_fixed(name, columns[name])]
        for position in positions:
            values = [columns[name][position] for name in fixed]
            groups.setdefault(json.dumps(values), []).append(position)
        parts = []
        for group in groups.values():
            here = self.settings | {name: columns[name][group[0]] for name in fixed}
            moving = {n: [c[p] for p in group] for n, c in columns.items() if n not in fixed}
            parts.append(self._grouped(tuple(group), here, moving))
        return parts

    def _is_fixed(self, name: str, column: Sequence[Any]) -> bool:
        return not all(_varies(name, value, self.options) for value in column)

    def _grouped(
        self, positions: tuple[int, ...], fixed: dict[str, Any], moving: dict[str, list[Any]]
    ) -> Part:
        """One call for points that share everything in `fixed`."""
        import numpy as np

        keep = self.options["variables"]
        if self.options["batching"] == "arrays":
            given = {name: np.asarray(values) for name, values in moving.items()}
            value = self.function(**fixed, **given)
            return batch_part(positions, value, keep)
        import jax

        from .._core.precision import float64

        count = _rounded(len(positions), self.batch)
        rows = [min(k, len(positions) - 1) for k in range(count)]
        with float64():
            arrays: dict[str, Any] = {
                name: jax.numpy.asarray(
                    np.asarray([values[k] for k in rows]),
                    np.float64 if any(isinstance(v, float) for v in values) else np.int64,
                )
                for name, values in moving.items()
            }
            if _takes_key(self.function):
                every = [fixed | {n: v[k] for n, v in moving.items()} for k in rows]
                keys = [point_key(self.options["seed"], settings) for settings in every]
                arrays["key"] = jax.numpy.stack(keys)
            name = json.dumps(fixed, sort_keys=True)
            if name not in self._programs:
                function = self.function
                self._programs[name] = jax.jit(jax.vmap(lambda kw: function(**fixed, **kw)))
            found = self._programs[name](arrays)
        if not isinstance(found, Mapping):
            found = {"value": found}
        cut = {name: np.asarray(values)[: len(positions)] for name, values in found.items()}
        return batch_part(positions, cut, keep)


def point_key(seed: int, settings: Mapping[str, Any]) -> Any:
    """The random key of a point: `jax.random.key(seed)` folded with the digest of its settings.

    It depends on the point's own settings and the sweep's seed alone: other points, their number
    and their order never change it.
    """
    import jax

    text = json.dumps(dict(settings), sort_keys=True)
    words = hashlib.sha256(text.encode()).digest()
    key = jax.random.key(seed)
    for start in range(0, 16, 4):
        key = jax.random.fold_in(key, int.from_bytes(words[start : start + 4], "big"))
    return key


def described(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    if isinstance(error, InvalidArgument):
        place = ""
    return text[: _LONGEST - len(place)] + place


def _changes(columns: Mapping[str, Sequence[Any]], position: int) -> dict[str, Any]:
    return {name: column[position] for name, column in columns.items()}


def _varies(name: str, value: Any, options: Mapping[str, Any]) -> bool:
    """Whether a setting may be an array in a call for many points."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and name not in options["static"]


def _takes_key(function: Any) -> bool:
    try:
        return "key" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _rounded(number: int, most: int) -> int:
    """A few sizes of call, so that few programs are compiled."""
    size = 1
    while size < number:
        size *= 2
    return size if number > most else min(size, max(most, number))


def _pickled(function: Any) -> bytes | None:
    if function is None:
        return None
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = pickle
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        allowed = f"a function that can be sent to another process ({described(error)})"
        raise InvalidArgument("target", function, allowed) from None
