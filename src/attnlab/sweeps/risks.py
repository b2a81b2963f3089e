"""Exact risks by name, many at once: settings are built into risk objects, objects of one structure
are stacked, and one compiled call gives the values of all of them.

Each object is `population_risk(task, student)` itself, with the resolution that its own settings
ask for, so that a point's value does not depend on which others are swept beside it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument, check_choice
from .parts import Column, Part

SECTIONS = ("task", "student", "overlaps")
_TASKS = ("SingleLocation", "SeveralLocations", "InContextRegression")
_STUDENTS = ("PointwiseAttention", "SoftmaxAttention", "KernelHeads", "MergedAttention")
_OVERLAPS = ("kappa", "nu", "theta", "eta", "rho")
_TOGETHER = 16  # points of a compiled call that exist at once
_KEPT = 512  # risk objects that are not built again


def check_names(settings: Mapping[str, Any], swept: Iterable[str]) -> None:
    """Raises `InvalidArgument` for sections, kinds or arguments that do not exist."""
    for name, value in settings.items():
        check_choice("settings", name, SECTIONS)
        if not isinstance(value, Mapping):
            raise InvalidArgument(name, value, "a mapping of names to values")
    for section, kinds in (("task", _TASKS), ("student", _STUDENTS)):
        kind = settings.get(section, {}).get("kind")
        check_choice(f"{section}.kind", kind, kinds)
        allowed = list(inspect.signature(_class(section, kind)).parameters)
        given = [f"{section}.{name}" for name in settings[section] if name != "kind"]
        for name in [*given, *(name for name in swept if name.startswith(f"{section}."))]:
            check_choice(f"{section} argument", name.split(".")[1], allowed)
    for name in settings.get("overlaps", {}):
        check_choice("overlaps argument", name, _OVERLAPS)
    for name in swept:
        section, _, argument = name.partition(".")
        check_choice("swept setting", section, SECTIONS)
        if section == "overlaps":
            check_choice("overlaps argument", argument, _OVERLAPS)


def check_fixed(probes: Iterable[dict[str, Any]], swept: Iterable[str], theory: str) -> None:
    """Raises `InvalidArgument` when none of the `probes`, settings of some points, gives a risk, and
    what is wrong with each is a setting that does not vary: then all points would fail alike."""
    from .._core.precision import float64

    vary = {part for name in swept for part in name.split(".")[1:]}
    sections = {name.partition(".")[0] for name in swept} - {"overlaps"}
    first: Exception | None = None
    with float64():
        for setting in probes:
            try:
                _prepared(setting, theory)
                return
            except InvalidArgument as error:
                if vary & set(re.split(r"\W+", error.name)):
                    return
                first = first or error
            except TypeError as error:  # an argument without a default is missing
                first = first or error
            except Exception:
                return  # it is told with its point
            if not sections:
                break
    if isinstance(first, InvalidArgument):
        raise first
    if first is not None:
        raise InvalidArgument("settings", None, f"complete ({first})") from None


def evaluate(
    settings: list[dict[str, Any]],
    positions: list[int],
    quantities: Iterable[str],
    theory: str,
    failed: Callable[[int, BaseException], None],
) -> list[Part]:
    """The quantities at these settings; `failed` is told of points whose risk cannot be built."""
    from .._core.precision import float64

    groups: dict[Any, list[tuple[int, Any, list[Any], Any]]] = {}
    with float64():
        for position, setting in zip(positions, settings, strict=True):
            try:
                risk, key, leaves, state = _prepared(setting, theory)
                _check_known(risk, quantities)
            except Exception as error:
                failed(position, error)
                continue
            groups.setdefault(key, []).append((position, risk, leaves, state))
        return [_together(group, list(quantities)) for group in groups.values()]


def _class(section: str, kind: str) -> Any:
    from .. import students, tasks

    return getattr(tasks if section == "task" else students, kind)


_built: OrderedDict[str, tuple[Any, Any, list[Any]]] = OrderedDict()


def _prepared(setting: Mapping[str, Any], theory: str) -> tuple[Any, Any, list[Any], Any]:
    """The risk, what decides its program, its numbers, and the state it is taken at."""
    import jax

    from ..students import Overlaps

    name = json.dumps([theory, setting["task"], setting["student"]], sort_keys=True)
    if name not in _built:
        risk = _risk(setting, theory)
        leaves, tree = jax.tree.flatten(risk)
        leaves = [np.asarray(leaf, np.float64) for leaf in leaves]
        _built[name] = risk, (tree, tuple(leaf.shape for leaf in leaves)), leaves
        if len(_built) > _KEPT:
            _built.popitem(last=False)
    risk, key, leaves = _built[name]
    state = None
    if not hasattr(risk, "heads") and hasattr(risk, "components_of"):
        given = {"kappa": 1.0, "nu": 1.0, **setting.get("overlaps", {})}
        state = np.asarray(Overlaps(**given).stack())
        if state.ndim > 1:
            raise InvalidArgument("overlaps", given, "numbers: what varies goes into the grid")
    elif setting.get("overlaps"):
        raise InvalidArgument("overlaps", setting["overlaps"], "left out for this student")
    return risk, key, leaves, state


def _check_known(risk: Any, quantities: Iterable[str]) -> None:
    """Raises `InvalidArgument` for what this risk does not have; the error goes with the risk."""
    together = hasattr(risk, "components_of") or hasattr(risk, "heads")
    known = {"risk"}
    if hasattr(risk, "error_of") or not together:
        known.add("error")
    if hasattr(risk, "components_of"):
        known.add("components")
    if hasattr(risk, "gradient_of") and together:
        known.add("gradient")
    wanted = set(quantities)
    if wanted - known - ({"error"} if "risk" in wanted else set()):
        allowed = f"some of {', '.join(sorted(known))} for this task and student"
        raise InvalidArgument("quantities", sorted(wanted - known), allowed)


def _risk(setting: Mapping[str, Any], theory: str) -> Any:
    from ..theory import approximate_risk, mean_field_risk, population_risk

    made = []
    for section in ("task", "student"):
        arguments = dict(setting[section])
        made.append(_class(section, arguments.pop("kind"))(**arguments))
    build: Any = {
        "exact": population_risk,
        "mean field": mean_field_risk,
        "approximate": approximate_risk,
    }[theory]
    return build(*made)


def _together(group: list[tuple[int, Any, list[Any], Any]], quantities: list[str]) -> Part:
    """One compiled call for points of one structure, padded to a few sizes of call."""
    import jax
    import jax.numpy as jnp

    positions = tuple(position for position, *_ in group)
    first = group[0][1]
    if not hasattr(first, "components_of") and not hasattr(first, "heads"):
        return _one_by_one(group, quantities)
    count = _TOGETHER
    while count < len(group):
        count *= 2
    rows = [group[min(k, len(group) - 1)] for k in range(count)]
    tree = jax.tree.structure(first)
    one = all(row[1] is first for row in group)
    numbers = group[0][2] if one else [np.stack(c) for c in zip(*(r[2] for r in rows), strict=True)]
    risk: Any = jax.tree.unflatten(tree, [jnp.asarray(leaf) for leaf in numbers])
    states = np.zeros((count, 0)) if rows[0][3] is None else np.stack([row[3] for row in rows])
    found = _program()(risk, jnp.asarray(states), tuple(quantities), one)
    columns = {name: Column((), np.asarray(found[name])[: len(group)]) for name in _names(found)}
    return Part(positions, columns)


def _names(found: Mapping[str, Any]) -> list[str]:
    """JAX sorts the names of a mapping; the risk goes first again."""
    return sorted(found, key=lambda name: (name != "risk", name != "error"))


_compiled: dict[str, Any] = {}


def _program() -> Any:
    if not _compiled:
        import equinox as eqx
        import jax

        @eqx.filter_jit
        def program(risk: Any, states: Any, quantities: tuple[str, ...], one: bool) -> Any:
            if one:
                return jax.lax.map(
                    lambda state: _quantities(risk, state, quantities), states, batch_size=_TOGETHER
                )
            return jax.lax.map(
                lambda pair: _quantities(pair[0], pair[1], quantities),
                (risk, states),
                batch_size=_TOGETHER,
            )

        _compiled["program"] = program
    return _compiled["program"]


def _quantities(risk: Any, state: Any, quantities: Iterable[str]) -> dict[str, Any]:
    heads = getattr(risk, "heads", None)
    at = (state,) if heads is None else (heads.omega, heads.mu)
    found: dict[str, Any] = {}
    for name in quantities:
        if name == "risk":
            found["risk"] = risk.value_of(*at)
        elif name == "error":
            if hasattr(risk, "error_of"):
                found["error"] = risk.error_of(*at)
        elif name == "components":
            if hasattr(risk, "components_of"):
                found |= risk.components_of(*at)._asdict()
        elif heads is None:
            slopes = risk.gradient_of(state)
            found |= {f"d_{name}": slopes[i] for i, name in enumerate(_OVERLAPS)}
        else:
            slopes = risk.gradient_of(*at)
            found |= {
                f"d_{part}_{'_'.join(map(str, index))}": slope[index]
                for part, slope in zip(("omega", "mu"), slopes, strict=True)
                for index in np.ndindex(slope.shape)
            }
    return found


def _one_by_one(group: list[tuple[int, Any, list[Any], Any]], quantities: list[str]) -> Part:
    """Risks that know their own layer only: each has a program of its own."""
    found: dict[str, list[Any]] = {}
    for _, risk, _, _ in group:
        for name in quantities:
            if name in ("risk", "error"):
                value = risk.value if name == "risk" else risk.error
                found.setdefault(name, []).append(float(value))
    columns = {name: Column((), np.asarray(values)) for name, values in found.items()}
    return Part(tuple(position for position, *_ in group), columns)
