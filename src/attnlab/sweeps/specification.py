"""What a sweep computes: a target, what is fixed, what varies; checked before anything is computed."""

from __future__ import annotations

import builtins
import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .axes import Factor, Plan, grid_factor, plain, points_factor, seeds_factor, zip_factor
from .functions import check_function, resolve_with, source_of
from .naming import check_labels, check_setting, short
from .risks import SECTIONS, check_names

BATCHING = ("each", "vmap", "arrays")
QUANTITIES = ("risk", "error", "components", "gradient")
THEORIES = ("exact", "mean field", "approximate")
_TARGETS = {"risk": "a risk", "experiment": "an experiment", "function": "a function"}
_OPTIONS = {
    "risk": (*SECTIONS, "quantities", "theory"),
    "experiment": ("preset", "variables", "select"),
    "function": ("batching", "static", "seed", "variables", "select"),
}
pairs = builtins.zip  # `zip` is an argument here
_WRITTEN_OUT = 1000  # values of an axis that records list one by one
_LONGEST = 1e7  # seconds that a point may be given: four months


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
        return short([name for factor in self.plan.factors for name in factor.names])


def specify(
    target: str | Callable[..., Any],
    *,
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    zip: Any = None,
    points: Any = None,
    seeds: Any = None,
    batch: int | None = None,
    timeout: float | None = None,
    paths: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
    **options: Any,
) -> Specification:
    """The sweep that these arguments describe; see `sweep` for what they mean.

    Raises `InvalidArgument` naming the argument that is wrong.
    """
    kind = _kind(target)
    for name, value in options.items():
        check_choice("argument", name, {name for names in _OPTIONS.values() for name in names})
        if name not in _OPTIONS[kind]:
            raise InvalidArgument(name, value, f"left out: {_TARGETS[kind]} knows no such thing")
    fixed = dict(plain("settings", _mapping("settings", settings)))
    factors = _factors(grid, zip, points, seeds)
    swept = [name for factor in factors for name in factor.names]
    for name in [*fixed, *swept]:
        check_setting(name)
    if timeout is not None:
        timeout = check_real("timeout", timeout, low=0.0, low_open=True, high=_LONGEST)
    paths = tuple(_names("paths", paths))
    about = dict(about or {})
    if about.get("figure"):
        resolve_with(about["figure"], paths, "figure")
    function, source = None, None
    if kind == "risk":
        fixed |= {k: plain(k, _mapping(k, options[k])) for k in SECTIONS if k in options}
        check_names(fixed, swept)
        checked = _risk_options(options)
    elif kind == "experiment":
        target = _check_experiment(str(target), options.get("preset", "quick"), fixed, factors)
        checked = {"preset": options.get("preset", "quick"), **_kept(options)}
    else:
        checked = _function_options(options)
        function = resolve_with(target, paths) if isinstance(target, str) else target
        check_function(function, fixed, swept, checked["batching"])
        for name in checked["static"]:
            check_choice("static", name, [*fixed, *swept])
        source = source_of(function)
        if isinstance(target, str):
            function = None  # workers import it
        else:
            target = f"{target.__module__}:{getattr(target, '__qualname__', type(target).__name__)}"
    assigned(fixed, {n: c[0] for f in factors for n, c in pairs(f.names, f.columns)})
    batching = {"risk": "vmap", "experiment": "each"}.get(kind) or checked["batching"]
    held = _held(batching, factors, checked.get("static", ()))
    plan = Plan(tuple(factors), 1, held)
    plan = Plan(plan.factors, _batch(batch, plan, batching), held)
    return Specification(
        kind, str(target), fixed, plan, checked, function, source, timeout, paths, about
    )


def _kind(target: Any) -> str:
    if not isinstance(target, str):
        if not callable(target):
            raise InvalidArgument("target", target, "an experiment id, 'risk' or a function")
        return "function"
    if target == "risk":
        return "risk"
    return "function" if ":" in target else "experiment"


def _risk_options(given: Mapping[str, Any]) -> dict[str, Any]:
    quantities = _names("quantities", given.get("quantities", ("risk", "error")))
    for name in quantities:
        check_choice("quantities", name, QUANTITIES)
    if not quantities:
        raise InvalidArgument("quantities", quantities, f"some of {', '.join(QUANTITIES)}")
    return {
        "quantities": quantities,
        "theory": check_choice("theory", given.get("theory", "exact"), THEORIES),
    }


def _function_options(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "batching": check_choice("batching", given.get("batching", "each"), BATCHING),
        "static": _names("static", given.get("static", ())),
        "seed": check_integer("seed", given.get("seed", 0), minimum=0, maximum=2**32 - 1),
        **_kept(given),
    }


def _kept(given: Mapping[str, Any]) -> dict[str, Any]:
    """Which results of a point are kept, and at which positions of their dimensions."""
    variables = given.get("variables")
    limit = 2**31
    select = {
        dim: check_integer(f"select.{dim}", at, minimum=-limit, maximum=limit)
        for dim, at in _mapping("select", given.get("select")).items()
    }
    kept = None if variables is None else _names("variables", variables)
    if kept == []:
        raise InvalidArgument("variables", kept, "at least one name, or left out for all results")
    return {"variables": kept, "select": select}


def assigned(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, whose names may be paths into it: `task.dim`, `student.omega.0`.

    Raises `InvalidArgument` for a path that leads nowhere.
    """
    made = copy.deepcopy(dict(settings))
    for name, value in changes.items():
        *path, last = name.split(".")
        place: Any = made
        try:
            for part in path:
                place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
            place[int(last) if isinstance(place, list) else last] = value
        except (AttributeError, IndexError, TypeError, ValueError):
            raise InvalidArgument("setting", name, "a path into the settings") from None
    return made


def _factors(grid: Any, zips: Any, points: Any, seeds: Any) -> list[Factor]:
    factors = [grid_factor(name, values) for name, values in _mapping("grid", grid).items()]
    if zips is not None:
        if isinstance(zips, str) or not isinstance(zips, Iterable):
            raise InvalidArgument("zip", zips, "a mapping of names to lists, or a list of such")
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
    labels = short(names)
    factors = [Factor(labels.get(f.dim, f.dim), f.names, f.columns) for f in factors]
    check_labels(factors)
    return factors


def _held(batching: str, factors: list[Factor], static: Iterable[str]) -> frozenset[int]:
    if batching == "each":
        return frozenset()
    held = set()
    for index, factor in enumerate(factors):
        for name, column in pairs(factor.names, factor.columns):
            if name in static or array_type(column) is None:
                held.add(index)
    return frozenset(held)


def array_type(column: Sequence[Any]) -> str | None:
    """As what a setting with these values varies within a call: whole numbers as int64, others as
    float64, all else not at all (None)."""
    kinds = {type(value) for value in column}
    if kinds == {int}:
        return "int64"
    return "float64" if kinds <= {int, float} else None


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


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument(name, value, "a mapping of names to values")
    return dict(value)


def _names(name: str, value: Any) -> list[str]:
    several = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    names = list(value) if several else [value]
    if not all(isinstance(item, str) for item in names):
        raise InvalidArgument(name, value, "a list of names")
    return names


def _brief(column: Sequence[Any]) -> Any:
    if len(column) <= _WRITTEN_OUT:
        return list(column)
    text = json.dumps(list(column)).encode()
    ends = {"first": column[0], "last": column[-1]}
    return {"number": len(column), **ends, "sha256": hashlib.sha256(text).hexdigest()}
