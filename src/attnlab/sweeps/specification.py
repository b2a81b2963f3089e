"""What a sweep computes: a target, what is fixed, what varies; checked before anything is computed."""

from __future__ import annotations

import builtins
import copy
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .._core.workers import resolve
from .axes import Factor, Plan, grid_factor, plain, points_factor, seeds_factor, zip_factor

BATCHING = ("each", "vmap", "arrays")
QUANTITIES = ("risk", "error", "components", "gradient")
THEORIES = ("exact", "mean field", "approximate")
_SECTIONS = ("task", "student", "overlaps")
pairs = builtins.zip  # `zip` is an argument here
_WRITTEN_OUT = 1000  # values of an axis that records list one by one


@dataclass(frozen=True)
class Specification:
    """A checked sweep.

    **Fields:** `kind` of the target, `"experiment"`, `"risk"` or `"function"`, and its name
    `target`; fixed `settings`; the `plan` of all points; `options` that the target reads; the
    `function` itself where it is given as an object, and a `source` digest of its text; `timeout`
    in seconds for one point (or one call); `about`, texts for readers.
    """

    kind: str
    target: str
    settings: Mapping[str, Any]
    plan: Plan
    options: Mapping[str, Any]
    function: Callable[..., Any] | None = None
    source: str | None = None
    timeout: float | None = None
    paths: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    def configuration(self, *, brief: bool = False) -> dict[str, Any]:
        """What decides the result, as JSON; `brief`: long axes as a digest."""
        factors = []
        for factor in self.plan.factors:
            columns = [_brief(c) if brief else list(c) for c in factor.columns]
            settings = dict(zip(factor.names, columns, strict=True))
            factors.append({"dim": factor.dim, "settings": settings})
        return {
            "target": self.target,
            "settings": dict(self.settings),
            "swept": factors,
            "batch": self.plan.batch,
            **self.options,
            "source": self.source,
        }

    @property
    def digest(self) -> str:
        """A digest of the configuration."""
        text = json.dumps(self.configuration(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def names(self) -> dict[str, str]:
        """For each swept setting the name of its coordinate: the last part of a dotted name, or all
        of it where that is no longer unique."""
        return _short([name for factor in self.plan.factors for name in factor.names])


def specify(
    target: str | Callable[..., Any],
    *,
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    zip: Any = None,
    points: Any = None,
    seeds: Any = None,
    preset: str = "quick",
    variables: Iterable[str] | None = None,
    select: Mapping[str, int] | None = None,
    quantities: Iterable[str] = ("risk", "error"),
    theory: str = "exact",
    batching: str = "each",
    static: Iterable[str] = (),
    batch: int | None = None,
    timeout: float | None = None,
    seed: int = 0,
    paths: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
    **sections: Any,
) -> Specification:
    """The sweep that these arguments describe; see `sweep` for what they mean.

    Raises `InvalidArgument` naming the argument that is wrong.
    """
    for name in sections:
        check_choice("argument", name, _SECTIONS)
    fixed = dict(plain("settings", _mapping("settings", settings)))
    factors = _factors(grid, zip, points, seeds)
    swept = [name for factor in factors for name in factor.names]
    if timeout is not None:
        timeout = check_real("timeout", timeout, low=0.0, low_open=True)
    seed = check_integer("seed", seed, minimum=0, maximum=2**32 - 1)
    function, source = None, None
    options: dict[str, Any] = {}
    kept = None if variables is None else _names("variables", variables)
    if isinstance(target, str) and target == "risk":
        kind, batching = "risk", "vmap"
        fixed |= {k: plain(k, _mapping(k, v)) for k, v in sections.items()}
        chosen = _names("quantities", quantities)
        for name in chosen:
            check_choice("quantities", name, QUANTITIES)
        check_choice("theory", theory, THEORIES)
        options = {"quantities": chosen, "theory": theory}
        from .risks import check_names

        check_names(fixed, swept)
    elif sections:
        raise InvalidArgument("target", target, f"'risk' where {sorted(sections)} are given")
    elif isinstance(target, str) and ":" not in target:
        kind, batching = "experiment", "each"
        target = _check_experiment(target, preset, fixed, factors)
        options = {"preset": preset, "variables": kept, "select": dict(select or {})}
    else:
        kind = "function"
        check_choice("batching", batching, BATCHING)
        found = resolve_with(target, paths) if isinstance(target, str) else target
        _check_function(found, fixed, swept)
        source = _source(found)
        if not isinstance(target, str):
            function = target
            target = f"{found.__module__}:{getattr(found, '__qualname__', type(found).__name__)}"
        options = {"batching": batching, "static": _names("static", static), "seed": seed}
        options |= {"variables": kept, "select": dict(select or {})}
    held = _held(kind, batching, factors, options.get("static", ()))
    plan = Plan(tuple(factors), 1, held)
    plan = Plan(plan.factors, _batch(batch, plan, batching), held)
    return Specification(
        kind, target, fixed, plan, options, function, source, timeout, tuple(paths), about or {}
    )


def resolve_with(reference: str, paths: Sequence[str]) -> Any:
    """The object that `"module:name"` names; modules may also lie in `paths`."""
    import sys

    sys.path[:0] = [path for path in paths if path not in sys.path]
    try:
        found = resolve(reference)
    except ImportError as error:
        raise InvalidArgument("target", reference, f"importable here ({error})") from None
    if not callable(found):
        raise InvalidArgument("target", reference, "the name of a function")
    return found


def assigned(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, whose names may be paths into it: `task.dim`, `student.omega.0`."""
    made = copy.deepcopy(dict(settings))
    for name, value in changes.items():
        *path, last = name.split(".")
        place: Any = made
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        place[int(last) if isinstance(place, list) else last] = value
    return made


def differences(then: Mapping[str, Any], now: Mapping[str, Any], at: str = "") -> list[str]:
    """What differs between two configurations, one line each."""
    found: list[str] = []
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if old == new:
            continue
        where = f"{at}{name}"
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{where}.")
        elif _all_mappings(old) and _all_mappings(new) and len(old) == len(new):
            for a, b in pairs(old, new):
                found += differences(a, b, f"{where} {b.get('dim', '')}: ")
        else:
            found.append(f"{where} was {_shown(old)}, is {_shown(new)}")
    return found


def _factors(grid: Any, zips: Any, points: Any, seeds: Any) -> list[Factor]:
    factors = [grid_factor(name, values) for name, values in _mapping("grid", grid).items()]
    if zips is not None:
        groups = [zips] if isinstance(zips, Mapping) else list(zips)
        factors += [zip_factor(_mapping("zip", group)) for group in groups]
    if points is not None:
        factors.append(points_factor(points))
    if seeds is not None:
        factors.append(seeds_factor(seeds))
    if not factors:
        raise InvalidArgument("grid", grid, "something to vary: give grid, zip, points or seeds")
    names = [name for factor in factors for name in factor.names]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument("grid", name, "a setting that varies in one place only")
    short = _short(names)
    return [Factor(short.get(f.dim, f.dim.replace(".", "_")), f.names, f.columns) for f in factors]


def _held(kind: str, batching: str, factors: list[Factor], static: Iterable[str]) -> frozenset[int]:
    if batching == "each":
        return frozenset()
    held = set()
    for index, factor in enumerate(factors):
        for name, column in pairs(factor.names, factor.columns):
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in column)
            if name in static or (batching == "vmap" and not numbers):
                held.add(index)
    return frozenset(held)


def _batch(given: int | None, plan: Plan, batching: str) -> int:
    if given is not None:
        return check_integer("batch", given, minimum=1, maximum=100_000)
    size = -(-plan.size // 1000)
    return min(4096, size if batching == "each" else max(256, size))


def _check_experiment(
    id: str, preset: str, settings: Mapping[str, Any], factors: list[Factor]
) -> str:
    from ..papers import find_experiment

    experiment = find_experiment(id)
    first = {n: c[0] for f in factors for n, c in pairs(f.names, f.columns)}
    for factor in factors:
        for k in range(factor.size):
            here = {n: c[k] for n, c in pairs(factor.names, factor.columns)}
            experiment.configure(preset, assigned(settings, first | here))
    return experiment.id


def _check_function(function: Any, settings: Mapping[str, Any], swept: list[str]) -> None:
    if not callable(function):
        raise InvalidArgument("target", function, "an experiment id, 'risk' or a function")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    given = {name.partition(".")[0] for name in [*settings, *swept]}
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in sorted(given - names):
        if not open_ended:
            raise InvalidArgument("setting", name, f"one of {', '.join(sorted(names))}")
    for p in parameters:
        needed = p.name in names and p.default is p.empty and p.name not in {*given, "key"}
        if needed or p.kind is p.POSITIONAL_ONLY:
            raise InvalidArgument("settings", sorted(given), f"complete: {p.name} is missing")


def _source(function: Any) -> str | None:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument(name, value, "a mapping of names to values")
    return dict(value)


def _names(name: str, value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(item, str) for item in names):
        raise InvalidArgument(name, value, "a list of names")
    return names


def _short(names: list[str]) -> dict[str, str]:
    last = [name.rpartition(".")[2] for name in names]
    unique = [text if last.count(text) == 1 and not text.isdigit() else "" for text in last]
    return {n: u or n.replace(".", "_") for n, u in pairs(names, unique)}


def _brief(column: Sequence[Any]) -> Any:
    if len(column) <= _WRITTEN_OUT:
        return list(column)
    text = json.dumps(list(column)).encode()
    ends = {"first": column[0], "last": column[-1]}
    return {"number": len(column), **ends, "sha256": hashlib.sha256(text).hexdigest()}


def _all_mappings(value: Any) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} values from {_shown(value[0])} to {_shown(value[-1])}"
    return json.dumps(value)
