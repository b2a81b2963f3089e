"""The loss of ReLU attention along and around multiples of the identity, and where training ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from ..._core.interrupt import RunInterrupted
from .checks_diagonal import diagonal_side, loss_constants
from .identity_samples import Mean, relu
from .trained import TrainingConfig, course, task_of, trained

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel

_CURVE = 81  # points of a curve
_AT_ONCE = 2**21  # numbers in the examples of a batch
_LARGEST = 2**25  # and in all that are drawn for one value of the best c


class ReluLemmaConfig(TrainingConfig):
    """One task for the losses and the training; several ones for the best c."""

    steps: int = Field(10_000, ge=1, le=10**8, description="number of steps of Adam")
    batch_size: int = Field(256, ge=1, le=10**8, description="fresh prompts a step")
    points: int = Field(9, ge=2, le=200, description="sampled values of c, and of t")
    samples: int = Field(100_000, ge=100, le=10**7, description="prompts for a sampled loss")
    dims: tuple[Annotated[int, Field(ge=1, le=200)], ...] = Field(
        (2, 5, 20), min_length=1, max_length=5, description="dimensions d for the best c"
    )
    lengths: tuple[Annotated[int, Field(ge=1, le=10**4)], ...] = Field(
        (2, 5, 10, 20, 50, 100, 200), min_length=1, description="lengths n for the best c"
    )


class Quadratic(NamedTuple):
    """`α|A|² - β tr A + constant`."""

    alpha: float
    beta: float
    constant: float

    @classmethod
    def of(cls, dim: int, length: int, noise: float, printed: bool = False) -> Quadratic:
        """The loss with label noise of variance `noise`; or as the printed diagonal term has it."""
        alpha, beta, constant = loss_constants(dim, length)
        if printed:  # with (d+2)|A|² in place of its half
            alpha += length * diagonal_side(dim, 1.0) / 2
        return cls(alpha + length * noise / 2, beta, constant + noise)

    @property
    def best(self) -> float:
        """`c` of its minimiser `cI`."""
        return self.beta / (2 * self.alpha)

    def along(self, c: Any, dim: int) -> Any:
        """Its values at `cI`."""
        return self.alpha * dim * c**2 - self.beta * dim * c + self.constant


def run(config: ReluLemmaConfig) -> xarray.Dataset:
    """Losses of `cI` on `c`, of `A* + tD` on `t`; best c on `(dim, length)`; trained layers on `run`."""
    import xarray

    from ...students import MergedAttention
    from ...theory import population_risk

    rng = np.random.default_rng(config.seed)
    d, noise = config.dim, config.noise_var
    eye = np.eye(d)
    loss = Quadratic.of(d, config.length, noise)
    printed = Quadratic.of(d, config.length, noise, printed=True)
    risk = population_risk(task_of(config), MergedAttention.sparse(eye, normalization="relu-sum"))

    def exact(A: np.ndarray) -> float:
        return float(risk(MergedAttention.sparse(A, normalization="relu-sum")))

    def sampled(A: np.ndarray, other: np.ndarray | None = None) -> Mean:
        def values(x: np.ndarray, X: np.ndarray) -> np.ndarray:
            first = _losses(A, x, X, noise)
            return first if other is None else first - _losses(other, x, X, noise)

        return Mean.of(_drawn(rng, values, d, config.length, config.samples))

    c = loss.best * np.linspace(-0.25, 2.0, _CURVE)
    at = loss.best * np.linspace(-0.2, 1.95, config.points)
    names, directions = _directions(rng, d)
    # each direction has its own t, so that points do not hide each other
    shift = (np.arange(len(names)) + 0.5) / len(names) - 0.5
    t = np.linspace(-1, 1, config.points) + shift[:, None] * 2 / (config.points - 1)
    size = loss.best * np.sqrt(d)
    moved = [[loss.best * eye + step * size * D for step in row] for row, D in zip(t, directions)]
    excess = np.array([[sampled(A, loss.best * eye) for A in row] for row in moved])
    best = np.array([[_best(rng, m, n, config) for n in config.lengths] for m in config.dims])
    along = np.array([sampled(value * eye) for value in at])
    minimum = exact(loss.best * eye)
    scales = [
        [[Quadratic.of(m, n, noise, p).best for n in config.lengths] for m in config.dims]
        for p in (False, True)
    ]
    dataset = xarray.Dataset(
        {
            "loss": ("c", [exact(value * eye) for value in c], {"long_name": "exact loss of cI"}),
            "printed": ("c", printed.along(c, d), {"long_name": "with the printed (d+2)|A|²"}),
            "sampled": ("sampled_c", along[:, 0]),
            "sampled_error": ("sampled_c", along[:, 1]),
            "t": (("direction", "point"), t, {"long_name": "distance from A* over |A*|"}),
            "excess": (("direction", "point"), excess[..., 0], {"long_name": "loss over that of A*"}),
            "excess_error": (("direction", "point"), excess[..., 1]),
            "excess_exact": (
                ("direction", "point"),
                np.array([[exact(A) for A in row] for row in moved]) - minimum,
            ),
            "best_exact": (("dim", "length"), scales[0]),
            "best_printed": (("dim", "length"), scales[1]),
            "best_sampled": (("dim", "length"), best[..., 0]),
            "best_sampled_error": (("dim", "length"), best[..., 1]),
        },
        coords={
            "c": c,
            "sampled_c": at,
            "direction": names,
            "dim": list(config.dims),
            "length": list(config.lengths),
        },
        attrs={
            "best": loss.best,
            "minimum": minimum,
            "printed_best": printed.best,
            "loss_at_printed_best": exact(printed.best * eye),
            "curvature": loss.alpha * size**2,
            "course": course(config),
        },
    )  # fmt: skip
    try:
        result = trained(config.training(normalization="relu-sum"))
    except RunInterrupted:
        raise RunInterrupted(dataset) from None
    layers = [result.layer_of(i) for i in range(config.runs)]
    final = [
        float(layer.P[d, d] * np.trace(np.asarray(layer.A, np.float64)) / d) for layer in layers
    ]
    history = result.history
    course_of_c = (history.omega * history.mu).isel(head=0).transpose("run", "step")
    return dataset.assign(
        trained_c=("run", final, {"long_name": "v tr A / d, which rescaling P and Q leaves alone"}),
        trained_loss=("run", [float(risk(layer)) for layer in layers]),
        training_c=(("run", "step"), course_of_c.values),
    ).assign_coords(step=history.step.values)


def figure(dataset: xarray.Dataset) -> Figure:
    """The loss along cI and around A*; the best c against n; c in the course of training."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points, Rule

    at = dataset.attrs
    along: list[Mark] = [
        Line(dataset.c, dataset.loss, "exact", "theory"),
        Line(dataset.c, dataset.printed, "with the printed term", "printed", dash=True),
        Points(
            dataset.sampled_c, dataset.sampled, dataset.sampled_error, "sampled at cI", "sampled"
        ),
        Rule(at["best"], "x", f"c = {at['best']:.4f}"),
    ]
    if "trained_c" in dataset:
        along.append(Points(dataset.trained_c, dataset.trained_loss, None, "trained P, Q", 3))
    t = np.linspace(float(dataset.t.min()), float(dataset.t.max()), _CURVE)
    around: list[Mark] = [Line(t, at["curvature"] * t**2, "α|A − A*|²", "theory")]
    for k, name in enumerate(dataset.direction.values):
        one = dataset.isel(direction=k)
        around.append(Points(one.t, one.excess, one.excess_error, f"D: {name}", k))
    panels = [
        Panel("Multiples of the identity", Axis("c, where A = cI"), Axis("loss f(A)"), along),
        Panel(
            "Around A*, in several directions",
            Axis("t, where A = A* + t |A*| D"),
            Axis("f(A) − f(A*)"),
            around,
        ),
        _best_panel(dataset),
    ]
    if "training_c" in dataset:
        panels.append(_training_panel(dataset))
    return Figure(
        title="The loss of ReLU attention around its minimum A* = cI",
        panels=panels,
        caption=(
            f"Above: the loss along A = cI, least at c = {at['best']:.4f}; with the diagonal term as "
            f"it is printed that would be {at['printed_best']:.4f}, where the loss is "
            f"{at['loss_at_printed_best']:.3f} in place of {at['minimum']:.3f}. Around A* it rises by "
            "the same parabola in all directions D of norm 1. Below: the best c of sampled losses, "
            "lines for the formula, dashed ones for the printed term; v tr A / d in training. Bars are "
            f"one standard error. {at['course']}"
        ),
        alt="Points of sampled losses on a parabola in c, whose minimum trained layers reach, and on "
        "one parabola for five directions; the best c falls with n along the formula's curves.",
    )


def _best_panel(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Points

    marks: list[Mark] = []
    order = np.argsort(dataset.length.values)
    n = dataset.length.values[order]
    for k, dim in enumerate(dataset.dim.values):
        one = dataset.isel(dim=k, length=order)
        marks += [
            Line(n, one.best_exact, None, k),
            Line(n, one.best_printed, None, k, dash=True, width=1.0),
            Points(n, one.best_sampled, one.best_sampled_error, f"d = {dim}", k),
        ]
    ticks = tuple((float(v), f"{v:g}") for v in n)
    return Panel(
        "The best multiple of the identity",
        Axis("number of examples n", log=True, ticks=ticks),
        Axis("best c", log=True, ticks=_plain_ticks(dataset)),
        marks,
    )


def _plain_ticks(dataset: xarray.Dataset) -> tuple[tuple[float, str], ...]:
    """1, 2 and 5 times powers of ten between the smallest and the largest c."""
    low, high = float(dataset.best_printed.min()), float(dataset.best_exact.max())
    values = (m * 10.0**k for k in range(-9, 2) for m in (1, 2, 5))
    return tuple((value, f"{value:g}") for value in values if 0.8 * low <= value <= 1.25 * high)


def _training_panel(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Panel, Paths, Rule

    steps = dataset.step.values
    paths = [(steps, row) for row in dataset.training_c.values]
    marks: list[Mark] = [
        Paths(paths, "trained from random P, Q", 3),
        Rule(dataset.attrs["best"], "y", "where the exact loss is least", "theory"),
        Rule(dataset.attrs["printed_best"], "y", "with the printed term", "printed"),
    ]
    return Panel("The multiple in training", Axis("step of Adam"), Axis("v tr A / d"), marks)


def _losses(A: np.ndarray, x: np.ndarray, X: np.ndarray, noise: float) -> np.ndarray:
    """The squared errors of prompts, averaged over `w` and label noise."""
    weights = relu(np.einsum("nid,nd->ni", X, x @ A))
    read = np.einsum("ni,nid->nd", weights, X)
    return np.sum((read - x) ** 2, -1) + noise * (1 + np.sum(weights**2, -1))


def _drawn(rng: Any, values: Any, dim: int, length: int, samples: int) -> np.ndarray:
    """`values(x, X)` of so many prompts, drawn in batches."""
    batch = max(1, _AT_ONCE // (dim * length))
    found = []
    for start in range(0, samples, batch):
        count = min(batch, samples - start)
        x, X = rng.standard_normal((count, dim)), rng.standard_normal((count, length, dim))
        found.append(values(x, X))
    return np.concatenate(found, -1)


def _best(rng: Any, dim: int, length: int, config: ReluLemmaConfig) -> Mean:
    """`c` of the least sampled loss of `cI`, which is a parabola in `c > 0` for each prompt."""

    def values(x: np.ndarray, X: np.ndarray) -> np.ndarray:
        weights = relu(np.einsum("nid,nd->ni", X, x))
        read = np.einsum("ni,nid->nd", weights, X)
        squares = np.sum(read**2, -1) + config.noise_var * np.sum(weights**2, -1)
        return np.stack([np.sum(read * x, -1), squares])

    samples = min(config.samples, max(1000, _LARGEST // (dim * length)))
    linear, square = _drawn(rng, values, dim, length, samples)
    c = float(linear.mean() / square.mean())
    return Mean(c, Mean.of(linear - c * square).error / float(square.mean()))


def _directions(rng: Any, dim: int) -> tuple[list[str], list[np.ndarray]]:
    """Random matrices with `|D| = 1`, by name."""
    G = rng.standard_normal((dim, dim))
    found = {"identity": np.eye(dim)}
    if dim > 1:
        found["symmetric"] = G + G.T
        found["antisymmetric"] = G - G.T
        found["rank one"] = np.outer(G[0], G[1])
        found["one entry"] = np.outer(np.eye(dim)[0], np.eye(dim)[1])
    return list(found), [D / np.linalg.norm(D) for D in found.values()]
