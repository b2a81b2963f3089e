"""The parts that the simplified predictor leaves out, put back one after the other."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from ...plotting.marks import spread
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_SAVES = 40
# name -> options of TransformerLayer; None is the softmax student with two vectors
VARIANTS: dict[str, dict[str, Any] | None] = {
    "two vectors": None,
    "four matrices": {"skip": False, "normalization": "none"},
    "with skip": {"skip": True, "normalization": "none"},
    "with skip and RMS norm": {"skip": True, "normalization": "rms"},
    "with skip and layer norm": {"skip": True, "normalization": "layer"},
}


class FullLayerConfig(Config):
    """Settings of the training of fuller layers."""

    dim: int = Field(40, ge=4, description="token dimension d")
    length: int = Field(10, ge=1, description="number of tokens L")
    n_heads: int = Field(1, ge=1, description="heads of the fuller layers")
    learning_rate: float = Field(3e-3, gt=0, description="learning rate of Adam")
    batch_size: int = Field(64, ge=1, description="fresh prompts a step")
    steps: int = Field(5000, ge=0, description="number of steps")
    runs: int = Field(10, ge=1, description="number of random starts")
    variants: tuple[str, ...] = Field(
        tuple(VARIANTS), min_length=1, description=f"of {', '.join(VARIANTS)}"
    )

    @field_validator("variants")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value) or not set(value) <= set(VARIANTS):
            raise ValueError(f"different names of {', '.join(VARIANTS)}")
        return value


def train_variant(config: FullLayerConfig, variant: str) -> xarray.Dataset:
    """The history of one variant: `risk`, and |cos| of where it looks with k* and reads with v*.

    Trained once a process for equal settings: leave what is returned as it is.
    """
    return _history(config.model_copy(update={"variants": (variant,)}))


@lru_cache(maxsize=16)
def _history(config: FullLayerConfig) -> xarray.Dataset:
    """The training of the only variant of `config`."""
    import jax

    from ...dynamics import train
    from ...tasks import SingleLocation

    return train(
        _maker(config, config.variants[0]),
        SingleLocation(config.dim, config.length),
        optimizer=_adam(config.learning_rate),
        steps=config.steps,
        batch_size=config.batch_size,
        key=jax.random.key(config.seed),
        runs=config.runs,
        save_every=max(1, config.steps // _SAVES),
        measure=_measure,
    ).history


@lru_cache(maxsize=8)  # one object for equal settings, so that trainings share their program
def _adam(rate: float) -> Any:
    import optax

    return optax.adam(rate)


def run(config: FullLayerConfig) -> xarray.Dataset:
    """`risk`, `key_alignment`, `value_alignment` on `(variant, run, step)`."""
    import xarray

    parts = [train_variant(config, variant) for variant in config.variants]
    data = xarray.concat(parts, xarray.Variable("variant", list(config.variants)))
    data.attrs.update(dim=config.dim, length=config.length)
    return data


def _maker(config: FullLayerConfig, variant: str) -> Any:
    from ...students import AttentionHeads, SoftmaxAttention, TransformerLayer

    options = VARIANTS[variant]
    if options is None:
        # logits of the size that a fresh layer's matrices can reach in as many steps
        return lambda key: AttentionHeads(SoftmaxAttention(0.5), config.dim, key=key)
    return lambda key: TransformerLayer(config.dim, config.n_heads, key=key, **options)


def _measure(layer: Any) -> dict[str, Any]:
    """Of the head that matters most: the one with the largest product of both lengths."""
    import jax.numpy as jnp

    looks, reads = layer.score_directions(), layer.value_directions()
    look, read = (jnp.sqrt(jnp.sum(x**2, axis=-1)) for x in (looks, reads))
    head = jnp.argmax(look * read)
    return {
        "key_alignment": jnp.abs(looks[head, 0]) / look[head],
        "value_alignment": jnp.abs(reads[head, 1]) / read[head],
    }


def figure(dataset: xarray.Dataset) -> Figure:
    """Risk, alignment of the looking direction with k*, of the reading direction with v*."""
    from ...plotting.spec import Axis, Figure, Panel, Rule

    x = dataset.step.values / 1000
    marks: dict[str, list[Mark]] = {"risk": [], "key_alignment": [], "value_alignment": []}
    for role, variant in enumerate(dataset.variant.values):
        for name, into in marks.items():
            into += spread(x, dataset[name].sel(variant=variant).values, str(variant), role)
    marks["risk"].append(Rule(0.5, label="predicting 0"))
    step = Axis("step / 1000")
    learned = [
        f"{variant} {int((dataset.risk.sel(variant=variant)[:, -1] < 0.1).sum())}"
        f"/{dataset.sizes['run']}"
        for variant in dataset.variant.values
    ]
    return Figure(
        title="Skip connection, normalisation and matrices put back in",
        panels=[
            Panel("Risk", step, Axis("R", log=True), marks["risk"]),
            Panel(
                "Looking", step, Axis("|cos(Kᵀq, k*)|", limits=(0, 1.05)), marks["key_alignment"]
            ),
            Panel(
                "Reading",
                step,
                Axis("|cos(VᵀOᵀr, v*)|", limits=(0, 1.05)),
                marks["value_alignment"],
            ),
        ],
        columns=3,
        caption=(
            f"Adam on fresh prompts, d = {dataset.attrs['dim']}, L = {dataset.attrs['length']}; "
            "medians with 10-90 % bands. Runs that end below R = 0.1: " + ", ".join(learned) + "."
        ),
        alt="Risk and the two alignments against steps, one colour per variant of the layer.",
    )
