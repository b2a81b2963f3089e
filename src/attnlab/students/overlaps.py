"""Overlaps: the five order parameters on which every single-location risk depends.

Source: Section 4 of marion2025, Section 2.4 of dohmatob2025; `docs/theory/order-parameters`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_amount, check_integer, is_traced
from .._core.keys import check_key, key_words
from .._core.precision import float64, to_float64, to_numpy

NAMES = ("kappa", "nu", "theta", "eta", "rho")
_TOLERANCE = 1e-6
_MOST_RUNS = 10**7  # starts of one call


class Overlaps(eqx.Module):
    """Inner products of a student's unit vectors `k`, `v` with the hidden `k*`, `v*`.

    | field | definition | reading |
    |---|---|---|
    | `kappa` | k·k* | the student looks where it should |
    | `nu` | v·v* | it reads what it should |
    | `theta` | v·k* | it reads the marker instead |
    | `eta` | k·v* | it looks at the answer's direction |
    | `rho` | k·v | it reads where it looks |

    Fields broadcast against each other; any leading batch shape is allowed. Concrete numbers are
    kept in float64 even where JAX runs in float32.

    Raises `InvalidArgument` when an overlap is NaN, outside [-1, 1], or when no four vectors have
    these inner products (the Gram matrix must be positive semi-definite). Values that JAX traces
    pass unchecked.
    """

    kappa: Float[ArrayLike, "*runs"]
    nu: Float[ArrayLike, "*runs"]
    theta: Float[ArrayLike, "*runs"]
    eta: Float[ArrayLike, "*runs"]
    rho: Float[ArrayLike, "*runs"]

    def __init__(
        self,
        kappa: Float[ArrayLike, "*#runs"],
        nu: Float[ArrayLike, "*#runs"],
        theta: Float[ArrayLike, "*#runs"] = 0.0,
        eta: Float[ArrayLike, "*#runs"] = 0.0,
        rho: Float[ArrayLike, "*#runs"] = 0.0,
    ):
        values = [
            _as_array(name, value)
            for name, value in zip(NAMES, (kappa, nu, theta, eta, rho), strict=True)
        ]
        try:
            shape = np.broadcast_shapes(*(np.shape(value) for value in values))
        except ValueError:
            shapes = {name: np.shape(value) for name, value in zip(NAMES, values, strict=True)}
            raise InvalidArgument("overlaps", shapes, "arrays whose shapes broadcast") from None
        if not is_traced(*values):
            values = [np.broadcast_to(np.asarray(value, np.float64), shape) for value in values]
            _check_realisable(values)
        else:
            values = [jnp.broadcast_to(value, shape) for value in values]
        self.kappa, self.nu, self.theta, self.eta, self.rho = values

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch shape."""
        return np.shape(self.kappa)

    def stack(self) -> Float[Array, "*runs 5"]:
        """One array, in the order kappa, nu, theta, eta, rho."""
        fields = tuple(getattr(self, name) for name in NAMES)
        if is_traced(*fields):
            return jnp.stack(jnp.broadcast_arrays(*fields), axis=-1)
        return np.stack(np.broadcast_arrays(*fields), axis=-1)  # type: ignore[return-value]

    @classmethod
    def unstack(cls, state: Float[ArrayLike, "*runs 5"]) -> Overlaps:
        """The inverse of `stack`, unchecked: for states that a computation produced."""
        self = object.__new__(cls)
        for index, name in enumerate(NAMES):
            object.__setattr__(self, name, state[..., index])  # type: ignore[index]
        return self

    @property
    def distance_to_manifold(self) -> Float[Array, "*runs"]:
        """`√(θ² + η² + ρ²)`, distance to the invariant manifold M of marion2025."""
        root: Any = jnp.sqrt if is_traced(self.theta, self.eta, self.rho) else np.sqrt
        return root(self.theta**2 + self.eta**2 + self.rho**2)

    @classmethod
    def teacher(cls) -> Overlaps:
        """The oracle parameters `(k*, v*)`: kappa = nu = 1, all else 0."""
        return cls(1.0, 1.0, 0.0, 0.0, 0.0)

    @classmethod
    def on_sphere(cls, key: PRNGKeyArray, dim: int, runs: int | None = None) -> Overlaps:
        """Overlaps of independent `k`, `v`, each uniform on the unit sphere of `R^dim`.

        `runs`: number of draws (None: one, of batch shape `()`). Draw `i` depends on `key` and
        `i` alone, so asking for more never changes the earlier ones. Exact for every `dim >= 2`
        and O(1) in it: directions beyond `k*`, `v*` and the rest of `k` enter by their norm only.
        """
        dim = check_integer("dim", dim, minimum=2)

        def draw(random: np.random.Generator) -> list[float]:
            k2, v3 = random.standard_normal(2), random.standard_normal(3)
            v3[2] *= dim > 2
            k_far = np.sqrt(_chi_squared(random, dim - 2))
            k_norm = np.sqrt(k2 @ k2 + k_far**2)
            v_norm = np.sqrt(v3 @ v3 + _chi_squared(random, dim - 3))
            rho = (k2 @ v3[:2] + k_far * v3[2]) / (k_norm * v_norm)
            return [k2[0] / k_norm, v3[1] / v_norm, v3[0] / v_norm, k2[1] / k_norm, rho]

        return cls._draw(draw, key, runs)

    @classmethod
    def on_manifold(cls, key: PRNGKeyArray, dim: int, runs: int | None = None) -> Overlaps:
        """Overlaps of a random point of the invariant manifold M (theta = eta = rho = 0).

        `k` is uniform on the unit vectors orthogonal to `v*`, then `v` uniform on the unit
        vectors orthogonal to `k*` and `k`. `runs` and `key` as in `on_sphere`.
        """
        dim = check_integer("dim", dim, minimum=2)

        def draw(random: np.random.Generator) -> list[float]:
            firsts = []
            for size in (dim - 1, max(dim - 2, 1)):
                near = random.standard_normal()
                firsts.append(near / np.sqrt(near**2 + _chi_squared(random, size - 1)))
            return [*firsts, 0.0, 0.0, 0.0]

        return cls._draw(draw, key, runs)

    @classmethod
    def _draw(
        cls,
        draw: Callable[[np.random.Generator], list[float]],
        key: PRNGKeyArray,
        runs: int | None,
    ) -> Overlaps:
        """One draw per run, in NumPy: a few numbers each, the same under every JAX version, and
        nothing to compile. Run `i` has the generator seeded by the words of `key` and by `i`."""
        if is_traced(key):
            raise InvalidArgument("key", key, "a concrete key: starts are drawn outside of jit")
        words = key_words(check_key(key))
        count = 1 if runs is None else check_integer("runs", runs, minimum=1)
        check_amount("runs", count, _MOST_RUNS, seconds=2e-5, size=200)
        states = np.array([draw(np.random.default_rng([*words, i])) for i in range(count)])
        return cls.unstack(np.clip(states[0] if runs is None else states, -1.0, 1.0))

    @classmethod
    def from_vectors(
        cls,
        k: Float[ArrayLike, "*runs dim"],
        v: Float[ArrayLike, "*runs dim"],
        k_star: Float[ArrayLike, " dim"],
        v_star: Float[ArrayLike, " dim"],
    ) -> Overlaps:
        """The overlaps of unit vectors `k`, `v` (not renormalised here), in float64.

        Raises `InvalidArgument` for vectors of different dimensions or, where their numbers are
        known, of a length that is not 1 to 1e-3.
        """
        vectors = {"k": k, "v": v, "k_star": k_star, "v_star": v_star}
        for name, vector in vectors.items():
            vectors[name] = _as_unit_vectors(name, vector)
        k, v, k_star, v_star = vectors.values()
        sizes = {name: np.shape(vector)[-1] for name, vector in vectors.items()}
        if len(set(sizes.values())) > 1:
            raise InvalidArgument("dimensions", sizes, "the same for all four vectors")
        with float64():
            k, v, k_star, v_star = to_float64((k, v, k_star, v_star))
            pairs = ((k, k_star), (v, v_star), (v, k_star), (k, v_star), (k, v))
            state = jnp.stack([jnp.sum(a * b, axis=-1) for a, b in pairs], axis=-1)
        return cls.unstack(to_numpy(state))

    def to_vectors(self, dim: int) -> tuple[Float[Array, "*runs dim"], Float[Array, "*runs dim"]]:
        """Unit vectors `(k, v)` in `R^dim` with these overlaps, where `k*`, `v*` are the first
        two coordinate axes.

        Raises `InvalidArgument` when `dim < 4` is too small to hold them.
        """
        dim = check_integer("dim", dim, minimum=2)
        if is_traced(self.kappa, self.nu, self.theta, self.eta, self.rho):
            raise InvalidArgument("overlaps", self, "concrete: vectors are built outside of jit")
        kappa, nu, theta, eta, rho = (np.asarray(getattr(self, n), np.float64) for n in NAMES)
        k_rest = np.sqrt(np.maximum(1 - kappa**2 - eta**2, 0.0))
        inner = rho - kappa * theta - eta * nu
        v_left = np.maximum(1 - nu**2 - theta**2, 0.0)
        # a k within the plane of k*, v* leaves the third axis to v: three dimensions then suffice
        free = k_rest > 1e-12
        v_along = np.where(free, inner / np.where(free, k_rest, 1.0), np.sqrt(v_left))
        v_rest = np.sqrt(np.maximum(v_left - v_along**2, 0.0))
        zero = np.zeros_like(kappa)
        k = np.stack([kappa, eta, k_rest, zero], axis=-1)
        v = np.stack([theta, nu, v_along, v_rest], axis=-1)
        lost = max(np.abs(part[..., dim:]).max(initial=0.0) for part in (k, v))
        if lost > 10 * np.sqrt(_TOLERANCE):
            raise InvalidArgument("dim", dim, f"large enough to hold these overlaps, {self}")
        shape = (*self.shape, dim)
        out = []
        for part in (k, v):
            full = np.zeros(shape)
            full[..., : min(dim, 4)] = part[..., :dim]
            out.append(full / np.linalg.norm(full, axis=-1, keepdims=True))
        return out[0], out[1]  # type: ignore[return-value]


def _as_array(name: str, value: Any) -> Any:
    if is_traced(value):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, "a real number or an array of them") from None


def _as_unit_vectors(name: str, value: Any) -> Any:
    allowed = "unit vectors of real numbers, the last axis their coordinates"
    if is_traced(value):
        return value
    try:
        array = np.asarray(value)
        good = array.dtype.kind in "fiu" and array.ndim >= 1
        norms = np.linalg.norm(array.astype(np.float64), axis=-1) if good else np.nan
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, allowed) from None
    if not np.all(np.abs(norms - 1) < 1e-3):
        raise InvalidArgument(name, value, allowed)
    return array


def _check_realisable(values: list[Any]) -> None:
    for name, value in zip(NAMES, values, strict=True):
        wrong = ~(np.abs(value) <= 1 + _TOLERANCE)
        if wrong.any():
            raise InvalidArgument(name, float(value[wrong].flat[0]), "in [-1, 1] and not NaN")
    kappa, nu, theta, eta, rho = values
    one, zero = np.ones_like(kappa), np.zeros_like(kappa)
    rows = ((one, zero, kappa, theta), (zero, one, eta, nu), (kappa, eta, one, rho))
    gram = np.stack([np.stack(row, -1) for row in (*rows, (theta, nu, rho, one))], -2)
    smallest = np.linalg.eigvalsh(gram)[..., 0]
    if (smallest < -_TOLERANCE).any():
        index = np.unravel_index(np.argmin(smallest), smallest.shape)
        shown = {n: round(float(v[index]), 6) for n, v in zip(NAMES, values, strict=True)}
        allowed = "the inner products of unit vectors k, v with orthonormal k*, v* "
        allowed += f"(their Gram matrix has the eigenvalue {smallest[index]:.3g} < 0)"
        raise InvalidArgument("overlaps", shown, allowed)


def _chi_squared(random: np.random.Generator, degrees: int) -> float:
    return random.chisquare(degrees) if degrees > 0 else 0.0
