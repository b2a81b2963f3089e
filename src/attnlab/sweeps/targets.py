"""A target as workers see it: a small description that travels, and the evaluation of points.

A description is plain data (the function object pickled, where it has no name to be imported by).
Points are evaluated one by one, or in one call; a call that raises is halved until it is known
which points did it, and these alone have failed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument
from .differences import differences
from .functions import KEY, is_imported, pickled, resolve_with, takes_key
from .identity import identity_of
from .naming import plain_text
from .parts import FAILED, Part
from .results import batch_part, pair_of, part_of
from .specification import Specification, array_type, assigned
from .versions import versions

Tell = Callable[[Part | tuple[int, int, str]], None]
_LONGEST = 500  # characters of an error that are kept


def description(specification: Specification, *, stays: bool = False) -> bytes:
    """What workers need to know, once: everything but the points; a target that `stays` in this
    process does without the function.

    Raises `InvalidArgument` for a function that cannot be sent to another process.
    """
    return pickle.dumps(
        {
            "kind": specification.kind,
            "target": specification.target,
            "settings": dict(specification.settings),
            "options": dict(specification.options),
            "function": None if stays else pickled(specification.function),
            "types": _array_types(specification),
            "batch": specification.plan.batch,
            "paths": specification.paths,
            "source": specification.source,
            "imported": specification.function is None or is_imported(specification.function),
            "versions": versions(),
        }
    )


def is_one_by_one(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether every point of such a target is a call of its own."""
    return kind == "experiment" or options.get("batching") == "each"


class Target:
    """A target ready to be evaluated in this process.

    **Arguments:** its description `data`; the `function` itself, where it is at hand;
    `interruptible`: whether a `KeyboardInterrupt` is the user's, and ends the evaluation.
    """

    def __init__(self, data: bytes, function: Any = None, *, interruptible: bool = True):
        found = pickle.loads(data)
        changed = differences(found["versions"], versions())
        if changed:
            allowed = f"those of the process that runs the sweep: {'; '.join(changed)}"
            raise InvalidArgument("versions", found["versions"], allowed)
        self.kind, self.options = found["kind"], found["options"]
        self.settings: dict[str, Any] = found["settings"]
        self.target, self.batch = found["target"], found["batch"]
        self._types: dict[str, str] = found["types"]
        self._interruptible = interruptible
        if function is None and self.kind == "function":
            packed = found["function"]
            if packed is None:
                function = resolve_with(self.target, found["paths"])
            else:
                function = pickle.loads(packed)
            if found["imported"] and identity_of(function) != found["source"]:
                allowed = "the same function here as where the sweep was started"
                raise InvalidArgument("target", self.target, allowed)
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
        if self.kind == "risk":
            self._halving(self._risks, columns, list(positions), tell)
        elif not self.one_by_one:
            for group in self._groups(columns, positions):
                self._halving(self._grouped, columns, group, tell)
        else:
            for position in positions:
                try:
                    tell(self._point(position, _changes(columns, position)))
                except BaseException as error:
                    self._raise_if_interrupted(error)
                    tell((position, FAILED, described(error)))

    def _raise_if_interrupted(self, error: BaseException) -> None:
        if self._interruptible and isinstance(error, KeyboardInterrupt):
            raise error

    def _point(self, position: int, changes: dict[str, Any]) -> Part:
        settings = assigned(self.settings, changes)
        keep, select = self.options["variables"], self.options["select"]
        if self.kind == "experiment":
            from ..papers import find_experiment

            experiment = find_experiment(self.target)
            config = experiment.configure(self.options["preset"], settings)
            value: Any = experiment.compute(config)
            settings = config.model_dump()
        else:
            if takes_key(self.function, settings):
                settings[KEY] = point_key(self.options["seed"], settings)
            value = self.function(**settings)
        return part_of(position, value, keep, select, settings)

    def _halving(
        self, call: Any, columns: Mapping[str, Any], positions: list[int], tell: Tell
    ) -> None:
        try:
            for item in call(columns, positions):
                tell(item)
        except BaseException as error:
            self._raise_if_interrupted(error)
            if len(positions) == 1 or isinstance(error, _Untraceable):
                cause = error.__cause__ if isinstance(error, _Untraceable) else error
                for position in positions:
                    tell((position, FAILED, described(cause or error)))
                return
            middle = (len(positions) + 1) // 2
            self._halving(call, columns, positions[:middle], tell)
            self._halving(call, columns, positions[middle:], tell)

    def _risks(self, columns: Mapping[str, Any], positions: list[int]) -> list[Any]:
        from .risks import evaluate

        settings = [assigned(self.settings, _changes(columns, p)) for p in positions]
        wrong: list[tuple[int, int, str]] = []
        parts = evaluate(
            settings,
            positions,
            self.options["quantities"],
            self.options["theory"],
            lambda position, error: wrong.append((position, FAILED, described(error))),
        )
        return [*wrong, *parts]

    def _groups(self, columns: Mapping[str, Any], positions: Sequence[int]) -> list[list[int]]:
        """Positions that share all that does not vary within a call."""
        groups: dict[str, list[int]] = {}
        fixed = self._fixed(columns)
        for position in positions:
            values = [columns[name][position] for name in fixed]
            groups.setdefault(json.dumps(values), []).append(position)
        return list(groups.values())

    def _fixed(self, columns: Mapping[str, Any]) -> list[str]:
        return [name for name in columns if name not in self._types]

    def _arrays(self, moving: Mapping[str, list[Any]]) -> dict[str, Any]:
        import numpy as np

        return {name: np.asarray(values, self._types[name]) for name, values in moving.items()}

    def _grouped(self, columns: Mapping[str, Any], positions: list[int]) -> list[Part]:
        """One call for points that share everything that is fixed."""
        fixed = {name: columns[name][positions[0]] for name in self._fixed(columns)}
        here = assigned(self.settings, fixed)
        moving = {n: [c[p] for p in positions] for n, c in columns.items() if n not in fixed}
        if self.options["batching"] == "arrays":
            value = self.function(**assigned(here, self._arrays(moving)))
        else:
            value = self._vectorised(here, moving, len(positions))
        return [batch_part(tuple(positions), value, self.options["variables"])]

    def _vectorised(
        self, fixed: dict[str, Any], moving: dict[str, list[Any]], number: int
    ) -> dict[str, Any]:
        import jax
        import numpy as np

        from .._core.precision import float64

        count = _rounded(number, self.batch)
        rows = [min(k, number - 1) for k in range(count)]
        padded = {name: [values[k] for k in rows] for name, values in moving.items()}
        with float64():
            arrays = jax.tree.map(jax.numpy.asarray, self._arrays(padded))
            if takes_key(self.function, assigned(fixed, {n: v[0] for n, v in moving.items()})):
                every = [assigned(fixed, {n: v[k] for n, v in padded.items()}) for k in rows]
                arrays[KEY] = point_keys(self.options["seed"], every)
            name = json.dumps(fixed, sort_keys=True)
            if name not in self._programs:
                self._programs[name] = _program(self.function, fixed)
            program, dims = self._programs[name]
            try:
                program.eval_shape(np.arange(count), arrays)
            except Exception as error:  # whatever the numbers are
                raise _Untraceable from error
            found = program(np.arange(count), arrays)
        return {
            result: (dims[result], np.asarray(values)[:number])
            if result in dims
            else values[:number]
            for result, values in found.items()
        }


class _Untraceable(Exception):
    """A function that JAX cannot trace fails at all points alike."""


def _program(function: Any, fixed: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function vectorised and compiled, and the dims that it names when it is traced."""
    import jax

    dims: dict[str, Any] = {}

    def one(_: Any, changes: dict[str, Any]) -> dict[str, Any]:
        found = function(**assigned(fixed, changes))
        made = {}
        for name, entry in (found if isinstance(found, Mapping) else {"value": found}).items():
            named, array = pair_of(entry)
            if named is not None:
                dims[name] = named
            made[name] = jax.numpy.asarray(array)
        return made

    return jax.jit(jax.vmap(one)), dims


def point_key(seed: int, settings: Mapping[str, Any]) -> Any:
    """The random key of a point: `jax.random.key(seed)` folded with the digest of its settings.

    It depends on the point's own settings and the sweep's seed alone: other points, their number
    and their order never change it.
    """
    return point_keys(seed, [settings])[0]


def point_keys(seed: int, settings: Sequence[Mapping[str, Any]]) -> Any:
    """The keys of several points, `(points,)`."""
    import jax
    import numpy as np

    texts = [json.dumps(dict(each), sort_keys=True).encode() for each in settings]
    digests = b"".join(hashlib.sha256(text).digest()[:16] for text in texts)
    words = np.frombuffer(digests, ">u4").astype(np.uint32).reshape(-1, 4)
    return _folded()(jax.random.key(seed), words)


@functools.cache
def _folded() -> Any:
    import jax

    def fold(key: Any, words: Any) -> Any:
        for word in words:
            key = jax.random.fold_in(key, word)
        return key

    return jax.jit(jax.vmap(fold, (None, 0)))


def described(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    try:
        text = plain_text(" ".join(str(error).split()))
    except BaseException:  # whatever a foreign __str__ raises
        text = "its message cannot be shown"
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = plain_text(f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})") if frames else ""
    if isinstance(error, InvalidArgument):
        place = ""
    return text[: _LONGEST - len(place)] + place


def _changes(columns: Mapping[str, Sequence[Any]], position: int) -> dict[str, Any]:
    return {name: column[position] for name, column in columns.items()}


def _rounded(number: int, most: int) -> int:
    """A few sizes of call, so that few programs are compiled."""
    size = 1
    while size < number:
        size *= 2
    return size if number > most else min(size, max(most, number))


def _array_types(specification: Specification) -> dict[str, str]:
    """For each setting that varies within a call the type of its array, the same in all calls."""
    static = specification.options.get("static", ())
    found = {
        name: array_type(column)
        for factor in specification.plan.factors
        for name, column in zip(factor.names, factor.columns, strict=True)
    }
    return {name: kind for name, kind in found.items() if kind and name not in static}
