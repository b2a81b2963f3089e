"""Several informative tokens, with shared or own directions, for one head and for several."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ...plotting.marks import spread
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_SAVES = 40
CASES = ("shared direction, 1 head", "own directions, 1 head", "own directions, s heads")


class SeveralTokensConfig(Config):
    """Settings of the training on several informative tokens."""

    dim: int = Field(40, ge=4, description="token dimension d")
    length: int = Field(10, ge=1, description="number of tokens L")
    n_informative: int = Field(2, ge=1, description="number of informative tokens s")
    aggregate: Literal["mean", "sum"] = Field("mean", description="how the label joins them")
    inverse_temperature: float = Field(0.5, gt=0, description="β of the softmax heads")
    learning_rate: float = Field(5e-3, gt=0, description="learning rate of Adam")
    batch_size: int = Field(64, ge=1, description="fresh prompts a step")
    steps: int = Field(4000, ge=0, description="number of steps")
    runs: int = Field(10, ge=1, description="number of random starts")


@lru_cache(maxsize=16)
def train_case(config: SeveralTokensConfig, case: str) -> xarray.Dataset:
    """The history of one of `CASES`: `risk`, `coverage`, `value`.

    Trained once a process for equal settings: leave what is returned as it is.
    """
    import jax
    import optax

    from ...dynamics import train
    from ...tasks import SeveralLocations

    s = config.n_informative
    own, heads = case.startswith("own"), s if case.endswith("s heads") else 1
    task = SeveralLocations(
        config.dim, config.length, s, own_directions=own, aggregate=config.aggregate
    )
    return train(
        _maker(config, heads),
        task,
        optimizer=optax.adam(config.learning_rate),
        steps=config.steps,
        batch_size=config.batch_size,
        key=jax.random.key(config.seed),
        runs=config.runs,
        save_every=max(1, config.steps // _SAVES),
        measure=_measure(*task.default_directions()),
    ).history


def run(config: SeveralTokensConfig) -> xarray.Dataset:
    """`risk`, `coverage` and `value` on `(case, run, step)`.

    `coverage` is the mean over informative tokens j of the largest |cos(k_h, k*_j)| over heads: 1
    when every token has a head that looks for it, 1/√s for one head that looks along the average.
    `value` is the mean |cos(v_h, v*)|.
    """
    import xarray

    parts = [train_case(config, case) for case in CASES]
    data = xarray.concat(parts, xarray.Variable("case", list(CASES)))
    data.attrs.update(dim=config.dim, length=config.length, n_informative=config.n_informative)
    return data


def _maker(config: SeveralTokensConfig, heads: int) -> Any:
    from ...students import AttentionHeads, SoftmaxAttention

    student = SoftmaxAttention(config.inverse_temperature)
    return lambda key: AttentionHeads(student, config.dim, heads, free_values=True, key=key)


def _measure(keys: Any, value: Any) -> Any:
    import jax.numpy as jnp

    def measure(layer: Any) -> dict[str, Any]:
        looks = jnp.abs(layer.score_directions() @ keys.T)  # (heads, s), unit vectors
        reads = layer.value_directions()
        along = jnp.abs(reads @ value) / jnp.sqrt(jnp.sum(reads**2, -1) + 1e-30)
        return {"coverage": jnp.mean(jnp.max(looks, axis=0)), "value": jnp.mean(along)}

    return measure


def figure(dataset: xarray.Dataset) -> Figure:
    """Risk, how well the heads cover the informative directions, and what they read."""
    from ...plotting.spec import Axis, Figure, Panel, Rule

    x, s = dataset.step.values / 1000, dataset.attrs["n_informative"]
    marks: dict[str, list[Mark]] = {"risk": [], "coverage": [], "value": []}
    for role, case in enumerate(dataset.case.values):
        for name, into in marks.items():
            label = str(case).replace("s heads", f"{s} heads")
            into += spread(x, dataset[name].sel(case=case).values, label, role)
    marks["coverage"].append(Rule(s**-0.5, label="1/√s: the average direction"))
    step = Axis("step / 1000")
    final = {
        str(case): float(dataset.risk.sel(case=case)[:, -1].mean()) for case in dataset.case.values
    }
    return Figure(
        title=f"{s} informative tokens: one head and several",
        panels=[
            Panel("Risk", step, Axis("R", log=True), marks["risk"]),
            Panel("Looking", step, Axis("coverage of k*", limits=(0, 1.05)), marks["coverage"]),
            Panel("Reading", step, Axis("|cos(v, v*)|", limits=(0, 1.05)), marks["value"]),
        ],
        columns=3,
        caption=(
            f"Softmax heads trained by Adam on fresh prompts, d = {dataset.attrs['dim']}, L = "
            f"{dataset.attrs['length']}, {dataset.sizes['run']} runs; medians with 10-90 % bands. "
            "Final mean risk: " + "; ".join(f"{k} {v:.3g}" for k, v in final.items()) + "."
        ),
        alt="Risk, coverage and reading against steps for three combinations of task and heads.",
    )
