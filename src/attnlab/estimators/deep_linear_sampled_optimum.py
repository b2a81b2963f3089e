"""The best layers of linear attention with any matrices, on any covariance, over sampled examples.

In the coordinates `x = Σ^{1/2} x̃` the covariates are isotropic, and a covariance `Σ` with a prior
`W` is one prior `Σ^{1/2} W Σ^{1/2}`. There the risk averages the statistic of
`deep_linear_sampled` over one sample of `X`, the same for all layers, and BFGS descends on it by
JAX's gradient from several starts. What is found is measured on a fresh sample.
Source: ahn2023; `docs/theory/deep-linear-attention`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_choice, check_flag, check_integer
from .._core.keys import check_key
from .._core.precision import float64, to_numpy
from ..tasks import InContextRegression
from .deep_linear_optimum import optimal_deep_linear
from .deep_linear_sampled import deep_linear_sampled_risk
from .deep_linear_whitened import Whitened, risks_given
from .estimator_risk import EstimatorRisk

Structure = Literal["full", "eigenbasis", "preconditioned", "steps"]

# Layers with and without b. From three with b on the mean is made by examples so rare that no sample
# shows them, and a search on a sample ends in layers whose true risk is far above.
_LARGEST = {True: 2, False: 30}


@dataclass(frozen=True)
class SampledDeepLinearOptimum:
    """Layers `(a, b)`, `(layers, d, d)` each, of smallest risk found; the last `b` is 0.

    - `risk`: theirs on examples that the search did not see, a fair estimate;
    - `training_risk`: on those it saw, too low by what fitting them gained;
    - `start_risks`: the training risk at which each start ended, NaN where it diverged: unequal
      ones are local minima;
    - `gradient_norm`: the largest derivative of `training_risk/tr(WΣ)` in the free numbers of the
      layers, in coordinates in which covariates are isotropic; `converged`: it is below `1e-6`;
    - `off_eigenbasis`: for each layer the share of `|A_l|²` between eigenvectors of the covariance
      with different eigenvalues, `(layers,)`.
    """

    a: Float[np.ndarray, "layers dim dim"]
    b: Float[np.ndarray, "layers dim dim"]
    risk: EstimatorRisk
    training_risk: EstimatorRisk
    start_risks: Float[np.ndarray, " starts"]
    gradient_norm: float
    converged: bool
    off_eigenbasis: Float[np.ndarray, " layers"]


def optimal_deep_linear_sampled(
    covariance: Float[ArrayLike, "dim dim"],
    length: int,
    layers: int,
    *,
    prior: Float[ArrayLike, "dim dim"],
    noise_std: float = 0.0,
    with_b: bool = True,
    structure: Structure = "full",
    shared: bool = False,
    key: Any,
    samples: int = 2000,
    test_samples: int = 20_000,
    starts: int = 3,
) -> tuple[SampledDeepLinearOptimum, ...]:
    """The layers with the smallest `deep_linear_sampled_risk` found, for 1, 2, ..., `layers` layers.

    **Arguments:**

    - `covariance`, `length`, `prior`, `noise_std`: the data, as in `deep_linear_sampled_risk`;
    - `with_b`: whether layers may change the covariates;
    - `structure`: `"full"`, any matrices; `"eigenbasis"`, diagonal in the eigenvectors of the
      covariance; `"preconditioned"`, `A_l = a_l Σ⁻¹`, `B_l = b_l I`; `"steps"`, `A_l = a_l I`,
      `B_l = b_l I`, which without `b` is plain gradient descent;
    - `shared`: all layers are the same, such as steps of one size;
    - `samples` of `X` for the search, `test_samples` for the risk that is reported;
    - `starts`: random ones, besides the layers of one layer fewer with one that does nothing, those
      of `optimal_deep_linear` for isotropic covariates, and the same numbers times the best matrix
      of a single layer.

    A local minimum that all starts miss is not excluded. With `k` free numbers the fit lowers the
    training risk, and raises the true one, by about `k/samples` of its size.

    Raises `InvalidArgument` for more than 2 layers with `b`, whose risk a sample does not show, or
    30 without, and for bad numbers.
    Source: ahn2023; `docs/theory/deep-linear-attention`.
    """
    shape = np.shape(covariance)
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise InvalidArgument("covariance", covariance, "a positive definite matrix (d, d)")
    task = InContextRegression(
        shape[0], length, noise_std=noise_std, covariance=covariance, prior=prior
    )
    with_b, shared = check_flag("with_b", with_b), check_flag("shared", shared)
    layers = check_integer("layers", layers, minimum=1)
    if layers > _LARGEST[with_b]:
        raise InvalidArgument("layers", layers, f"at most {_LARGEST[with_b]} with these matrices")
    check_choice("structure", structure, get_args(Structure))
    key = check_key(key)
    samples = check_integer("samples", samples, minimum=2)
    test_samples = check_integer("test_samples", test_samples, minimum=2)
    starts = check_integer("starts", starts, minimum=0)
    train, test, random = (jax.random.fold_in(key, i) for i in range(3))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(random)).ravel())
    search = _Search(task, train, samples, with_b, structure, shared)
    found: list[SampledDeepLinearOptimum] = []
    best = np.zeros((2, 0, task.dim, task.dim))
    single = best
    for count in range(1, layers + 1):
        points = search.starts(best, single, starts, rng)
        best, risks, norm = search.descend(points)
        single = best if count == 1 else single
        a, b = search.original(best)
        risk = deep_linear_sampled_risk(
            task.covariance_matrix, task.length, a, b, prior=task.prior_matrix,
            noise_std=task.noise_std, key=test, samples=test_samples,
        )  # fmt: skip
        off = np.array([search.off_eigenbasis(matrix) for matrix in a])
        found.append(SampledDeepLinearOptimum(
            a, b, risk, search.training_risk(best), risks, norm, norm < 1e-6, off,
        ))  # fmt: skip
    return tuple(found)


@jax.jit
def _look(layers: Any, S: Any, prior: Any, noise: Any) -> Any:
    """The mean risk, the risks, and the mean's gradient."""

    def mean(at: Any) -> tuple[Any, Any]:
        risks = risks_given(at, S, prior, noise)
        return jnp.mean(risks), risks

    return jax.value_and_grad(mean, has_aux=True)(layers)


class _Search(Whitened):
    """Descent on the mean of `risks_given` over one sample, in the free numbers of the layers."""

    def __init__(
        self,
        task: InContextRegression,
        key: Any,
        samples: int,
        with_b: bool,
        structure: Structure,
        shared: bool,
    ):
        super().__init__(task)
        self.with_b, self.shared = with_b, shared
        d, eye = task.dim, np.eye(task.dim)
        diagonal = np.einsum("ik,jk->kij", self.vectors, self.vectors)
        every = np.eye(d * d).reshape(-1, d, d)
        # the matrices that A_l and B_l are combinations of
        self.directions = {
            "full": (every, every),
            "eigenbasis": (diagonal, diagonal),
            "preconditioned": (eye[None], eye[None]),
            "steps": (task.covariance_matrix[None] / np.mean(self.values), eye[None]),
        }[structure]
        with float64():
            S = jnp.asarray(self.draw(key, samples))
            self.data = S, jnp.asarray(self.prior), jnp.asarray(self.noise / self.length)

    def starts(
        self, fewer: np.ndarray, single: np.ndarray, count: int, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Layers to start from, one more than `fewer`."""
        layers = fewer.shape[1] + 1
        still = np.zeros((2, 1, self.dim, self.dim))
        isotropic = optimal_deep_linear(
            self.dim, self.length, layers, with_b=self.with_b, starts=1,
            noise_std=math.sqrt(self.noise), prior_variance=self.signal / self.dim,
        )  # fmt: skip
        scalars = np.stack([isotropic.a, isotropic.b])[:, :, None, None]
        points = [scalars * np.eye(self.dim)]
        if layers == 1:
            return points  # the risk of one layer is convex
        points.append(np.concatenate([fewer, still], 1))
        shape = single[0, 0] / np.trace(single[0, 0]) * self.dim
        points.append(np.stack([scalars[0] * shape, points[0][1]]))
        for _ in range(count):
            factor = np.exp(0.4 * rng.normal(size=scalars.shape))
            change = 0.2 * rng.normal(size=points[0].shape)
            points.append(scalars * factor * (np.eye(self.dim) + change))
        return points

    def descend(self, points: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, float]:
        """The best end of all starts, the risks of all, and the gradient at the best."""
        from scipy.optimize import minimize

        layers = points[0].shape[1]
        best, value, norm = points[0], math.inf, math.inf
        risks = []
        for point in points:
            found: Any = minimize(
                self._objective, self._numbers(point), (layers,), jac=True, method="BFGS",
                options={"gtol": 1e-8, "maxiter": 1500},
            )  # fmt: skip
            risks.append(self.signal * found.fun + self.noise if np.isfinite(found.fun) else np.nan)
            if np.isfinite(found.fun) and found.fun < value:
                best, value = self._layers(found.x, layers), float(found.fun)
                norm = float(np.max(np.abs(found.jac)))
        return best, np.array(risks), norm

    def training_risk(self, layers: np.ndarray) -> EstimatorRisk:
        (_, risks), _ = self._look(layers)
        error = float(np.std(risks, ddof=1)) / math.sqrt(len(risks))
        return EstimatorRisk(float(np.mean(risks)) + self.noise, "monte carlo", error)

    def off_eigenbasis(self, matrix: np.ndarray) -> float:
        inside = self.vectors.T @ matrix @ self.vectors
        different = ~np.isclose(self.values[:, None], self.values, rtol=1e-9, atol=0.0)
        return float(np.sum(inside[different] ** 2) / max(np.sum(matrix**2), 1e-300))

    def _objective(self, numbers: np.ndarray, layers: int) -> tuple[float, np.ndarray]:
        (value, _), gradient = self._look(self._layers(numbers, layers))
        slopes = self._contracted(gradient, np.sum)
        return float(value) / self.signal, slopes / self.signal

    def _look(self, matrices: np.ndarray) -> Any:
        moves = self.with_b and matrices.shape[1] > 1
        with float64():
            return to_numpy(_look(jnp.asarray(matrices[: 1 + moves]), *self.data))

    def _layers(self, numbers: np.ndarray, layers: int) -> np.ndarray:
        """`(2, layers, d, d)` from the free numbers."""
        out = np.zeros((2, layers, self.dim, self.dim))
        at = 0
        for part, (free, moving) in enumerate(self._free(layers)):
            directions = self.directions[part]
            size = free * len(directions)
            own = numbers[at : at + size].reshape(free, -1)
            out[part, :moving] = np.tensordot(own, directions, 1)  # shared ones broadcast
            at += size
        return out

    def _contracted(self, matrices: np.ndarray, across: Any) -> np.ndarray:
        """Products with the directions; of shared layers the sum or the mean over layers."""
        parts = []
        for part, (free, moving) in enumerate(self._free(matrices.shape[1])):
            own = np.einsum("lij,kij->lk", matrices[part, :moving], self.directions[part])
            parts.append(own if free == moving else across(own, axis=0))
        return np.concatenate([part.ravel() for part in parts])

    def _numbers(self, matrices: np.ndarray) -> np.ndarray:
        """The free numbers of the layers nearest to these: directions are orthogonal."""
        flat = self._contracted(matrices, np.mean)
        sizes = [
            np.full(free * len(self.directions[part]), np.sum(self.directions[part][0] ** 2))
            for part, (free, _) in enumerate(self._free(matrices.shape[1]))
        ]
        return flat / np.concatenate(sizes)

    def _free(self, layers: int) -> list[tuple[int, int]]:
        """For `A` and, if it is free, `B`: how many matrices are free, and how many layers have
        one."""
        moving = [layers] + [layers - 1] * (self.with_b and layers > 1)
        return [(1 if self.shared else count, count) for count in moving]
