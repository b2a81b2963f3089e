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
from .axes import Factor, Plan, grid_factor, points_factor, seeds_factor, zip_factor
from .functions import check_function, resolve_with
from .identity import identity_of
from .naming import check_labels, check_paths, check_setting, short
from .options import (
    about_of,
    check_options,
    function_options,
    kept,
    kind_of,
    mapping,
    names_in,
    risk_options,
)
from .risks import SECTIONS, check_fixed, check_names
from .values import listed, plain

pairs = builtins.zip  # `zip` is an argument here
_WRITTEN_OUT = 1000  # values of an axis that records list one by one
_LONGEST = 1e7  # seconds that a point may be given: four months
_PROBES = 16  # points whose risk is built before anything is computed, at most
_MOST_DIMS = 24  # of the 32 that a file can hold; a result may have 8 of its own
_MOST_POINTS, _MOST_BATCHES = 10**8, 10**6


@dataclass(frozen=True)
class Specification:
    """A checked sweep.

    **Fields:** `kind` of the target, `"experiment"`, `"risk"` or `"function"`, and its name
    `target`; fixed `settings`; the `plan` of all points; `options` that the target reads; the
    `function` itself where it is given as an object, and `source`, what tells it from others
    (`identity`); `timeout` in seconds for one point (or one call); `about`, texts for readers.
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
    kind = kind_of(target)
    check_options(kind, options)
    given = plain("settings", mapping("settings", settings))
    factors = _factors(grid, zip, points, seeds)
    swept = [name for factor in factors for name in factor.names]
    for name in [*given, *swept]:
        check_setting(name)
    check_paths(swept)
    fixed = assigned({}, given)
    if timeout is not None:
        timeout = check_real("timeout", timeout, low=0.0, low_open=True, high=_LONGEST)
    paths = tuple(names_in("paths", paths))
    about = about_of(about)
    if about.get("figure"):
        resolve_with(about["figure"], paths, "figure")
    function, source = None, None
    if kind == "risk":
        for name in SECTIONS:
            if name in fixed and name in options:
                raise InvalidArgument(name, options[name], "given once, here or in settings")
        fixed |= {k: plain(k, mapping(k, options[k])) for k in SECTIONS if k in options}
        check_names(fixed, swept)
        checked = risk_options(options)
    elif kind == "experiment":
        target = _check_experiment(str(target), options.get("preset", "quick"), fixed, factors)
        checked = {"preset": options.get("preset", "quick"), **kept(options)}
    else:
        checked = function_options(options)
        function = resolve_with(target, paths) if isinstance(target, str) else target
        check_function(function, fixed, swept, checked["batching"])
        for name in checked["static"]:
            check_choice("static", name, [*fixed, *swept])
        if checked["select"] and checked["batching"] != "each":
            allowed = "left out where a call is for many points: the function selects itself"
            raise InvalidArgument("select", checked["select"], allowed)
        source = identity_of(function)
        if isinstance(target, str):
            function = None  # workers import it
        else:
            target = f"{target.__module__}:{getattr(target, '__qualname__', type(target).__name__)}"
    assigned(fixed, _at(factors))
    if kind == "risk":
        probes = [assigned(fixed, at) for at in _probes(factors)]
        check_fixed(probes, swept, checked["theory"])
    batching = {"risk": "vmap", "experiment": "each"}.get(kind) or checked["batching"]
    held = _held(batching, factors, checked.get("static", ()))
    plan = Plan(tuple(factors), 1, held)
    if plan.size > _MOST_POINTS:
        raise InvalidArgument("grid", plan.size, f"at most {_MOST_POINTS} points in all")
    plan = Plan(plan.factors, _batch(batch, plan, batching), held)
    if plan.batches > _MOST_BATCHES:
        raise InvalidArgument("batch", batch, f"so large that at most {_MOST_BATCHES} are needed")
    return Specification(
        kind, str(target), fixed, plan, checked, function, source, timeout, paths, about
    )


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
            own = copy.deepcopy(value) if isinstance(value, list | dict) else value
            place[int(last) if isinstance(place, list) else last] = own
        except (AttributeError, IndexError, TypeError, ValueError):
            raise InvalidArgument("setting", name, "a path into the settings") from None
    return made


def _factors(grid: Any, zips: Any, points: Any, seeds: Any) -> list[Factor]:
    factors = [grid_factor(name, values) for name, values in mapping("grid", grid).items()]
    if zips is not None:
        allowed = "a mapping of names to lists, or a list of such"
        groups = [zips] if isinstance(zips, Mapping) else listed("zip", zips, allowed)
        factors += [zip_factor(mapping("zip", group)) for group in groups]
    if points is not None:
        factors.append(points_factor(points))
    if seeds is not None:
        factors.append(seeds_factor(seeds))
    if not 1 <= len(factors) <= _MOST_DIMS:
        allowed = f"something to vary, on 1 to {_MOST_DIMS} dimensions: grid, zip, points or seeds"
        raise InvalidArgument("grid", grid, allowed)
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
    first = _at(factors)
    for factor in factors:
        for k in range(factor.size):
            experiment.configure(preset, assigned(settings, first | _at([factor], k)))
    return experiment.id


def _at(factors: Iterable[Factor], k: int = 0) -> dict[str, Any]:
    """The settings at place `k` of each factor."""
    return {n: c[k] for f in factors for n, c in pairs(f.names, f.columns)}


def _probes(factors: list[Factor]) -> list[dict[str, Any]]:
    """The first point, and some that differ from it in one factor, its last values first."""
    first = _at(factors)
    turns = [(f, k) for f in factors for k in range(f.size - 1, 0, -1)]
    return [first, *(first | _at([f], k) for f, k in turns[:_PROBES])]


def _brief(column: Sequence[Any]) -> Any:
    if len(column) <= _WRITTEN_OUT:
        return list(column)
    text = json.dumps(list(column)).encode()
    ends = {"first": column[0], "last": column[-1]}
    return {"number": len(column), **ends, "sha256": hashlib.sha256(text).hexdigest()}
