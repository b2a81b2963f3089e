"""Does a head of a pretrained encoder look at the informative token, as single-location theory has it?

In the theory a softmax head gives the informative token a weight that depends on three numbers of
its logits: their spread over the other tokens, and mean and spread of the informative one. Here the
three are measured for each head that looks from `[CLS]` at the words of a sentence, and the exact
mean weight that follows from them is compared with the mean weight that the head gives.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from ...claims import Check, Outcome
from .probed import EncoderConfig, no_encoder

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

_LEAST = 0.02  # spreads below change no weight that can be seen
_TICKS = tuple((x, f"{x:g}") for x in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5))


class HeadAttentionConfig(EncoderConfig):
    """Which encoder, and how many sentences."""

    sentences: int = Field(500, ge=100, le=100_000, description="number of sentences, even")


def run(config: HeadAttentionConfig) -> xarray.Dataset:
    """What `probing.attention_to_words` measures, and `predicted`, the theory's `mass`."""
    import xarray as xr

    from ...probing import attention_to_words

    trained, sentences = config.load()
    networks = {"trained": trained, "untrained": trained.untrained(config.seed)}
    found = [attention_to_words(network, sentences) for network in networks.values()]
    out = xr.concat(found, xr.IndexVariable("network", list(networks)), data_vars="all")
    out["length"], out["uniform"] = found[0]["length"], found[0]["uniform"]
    out["predicted"] = (out.mass.dims, predicted_mass(out))
    spreads = np.linspace(0.1, max(2.0, float(out.bulk_std.max())), 12)
    out["needed_gap"] = ("spread", needed_gap(spreads, others(out)))
    out = out.assign_coords(spread=spreads)
    out.attrs = {"model": trained.name, "sentences": len(sentences)}
    return out


@functools.lru_cache(maxsize=1)
def _computed(config: HeadAttentionConfig) -> xarray.Dataset:
    return run(config)


def measured(config: HeadAttentionConfig) -> xarray.Dataset:
    """`run`, remembered: the experiment and the claim look at the same numbers."""
    return _computed(config).copy()


def open_heads(preset: str, seed: int) -> Outcome:
    """The check of the claim."""
    lacking = no_encoder()
    if lacking is not None:
        return lacking
    settings: dict[str, Any] = {"seed": seed, "sentences": 500 if preset == "quick" else 4000}
    config = HeadAttentionConfig(**settings)
    ds = measured(config).sel(network="trained")
    predicted, found = (np.log(mass).ravel() for mass in (predicted_mass(ds), ds.mass.values))
    apart, likeness = np.abs(predicted - found), np.corrcoef(predicted, found)[0, 1]
    error = float(apart.std(ddof=1) / np.sqrt(apart.size))
    top = np.unravel_index(np.argmax(ds.mass.values), ds.mass.shape)
    largest, uniform = float(ds.mass.values[top]), float(ds.uniform)
    checks = (
        Check.bound("mean |log(predicted/measured)| over heads", float(apart.mean()), upper=0.1, standard_error=error),
        Check.bound("correlation of the logarithms over heads", float(likeness), lower=0.95),
        Check.bound("largest weight of a head", largest, upper=0.5, standard_error=float(ds.mass_error.values[top])),
    )  # fmt: skip
    prefer = int(np.sum(ds.mass > ds.mass_other + 3 * np.hypot(ds.mass_error, ds.mass_other_error)))
    return Outcome(
        checks,
        answer=(
            f"Yes: for the {apart.size} heads of {ds.attrs['model']} predicted and measured weights are "
            f"{100 * apart.mean():.1f} ± {100 * error:.1f} % apart on average ({100 * apart.max():.0f} % at worst), over "
            f"weights from {float(ds.mass.min()):.3f} to {largest:.3f}. But no head looks at one word alone: the "
            f"largest weight is {largest / uniform:.1f} times that of equal attention, over {1 / uniform:.0f} words, and "
            f"{prefer} heads prefer the informative adjective to a neutral one."
        ),
        notes=f"{config.sentences} sentences; from [CLS], among the words of a sentence. Nothing is fitted.",
    )  # fmt: skip


def others(dataset: xarray.Dataset) -> float:
    """`log(L - 1)` at the length whose inverse is the mean inverse length."""
    return float(np.log(1 / float(dataset.uniform) - 1))


def predicted_mass(dataset: xarray.Dataset) -> np.ndarray:
    """`E p` of single-location theory for heads with these logits, exactly."""
    from ...theory import attention_masses

    bulk, informative = (
        np.maximum(dataset[name].values, _LEAST) for name in ("bulk_std", "informative_std")
    )
    return np.asarray(attention_masses(bulk, others(dataset), dataset.gap.values, informative).mass)


def needed_gap(spreads: np.ndarray, log_others: float) -> np.ndarray:
    """The gap at which `E p = 1/2`, when the informative logit spreads as its theory has it by
    default, `√½` times as much as the others."""
    from ...theory import attention_masses

    gaps = np.linspace(0.0, 12.0, 13)
    found = attention_masses(
        spreads[:, None], log_others, gaps, np.maximum(np.sqrt(0.5) * spreads[:, None], _LEAST)
    )
    # the log-odds are nearly linear in the gap
    odds = np.log(found.mass / found.missing)
    return np.array([np.interp(0.0, row, gaps) for row in odds])


def figure(dataset: xarray.Dataset) -> Figure:
    """A map of all heads, measured against predicted weights, and why no head looks there alone."""
    from ...plotting.spec import Figure

    trained = dataset.sel(network="trained")
    best = trained.mass.values
    layer, head = np.unravel_index(np.argmax(best), best.shape)
    return Figure(
        title=f"Attention from [CLS] to the informative token in {dataset.attrs['model']}",
        panels=(_map(trained), _agreement(dataset), _plane(trained), _control(trained)),
        caption=(
            f"Mean over {dataset.attrs['sentences']} sentences of the attention to their words, from [CLS]. Upper "
            "left: weight of the informative word, in units of equal attention to all words. Upper right: that weight "
            "against the exact weight of single-location theory for the three numbers measured of each head's logits. "
            "Lower left: two of these numbers, and the gap at which half of the attention would go to the informative "
            "word. Lower right: against the weight of a neutral adjective of the same sentence."
        ),
        alt=(
            f"Maps and scatter plots of {best.size} heads. The largest weight, {best.max():.2f}, is that of head "
            f"{int(trained['head'][head])} in layer {int(trained.layer[layer])}; measured and predicted weights lie "
            "along the diagonal."
        ),
    )  # fmt: skip


def _map(trained: Any) -> Panel:
    from ...plotting.spec import Axis, Heat, Panel

    ratio = trained.mass.values / float(trained.uniform)
    return Panel(
        "Weight of the informative word",
        Axis("head"),
        Axis("layer (from 1)"),
        (Heat(trained["head"].values, trained.layer.values, ratio, "weight × L"),),
    )


def _agreement(dataset: Any) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Points

    marks: list[Any] = []
    for name in dataset.network.values:
        one = dataset.sel(network=name)
        errors = one.mass_error.values.ravel()
        marks.append(Points(one.predicted.values.ravel(), one.mass.values.ravel(), errors, label=str(name)))  # fmt: skip
    ends = np.array([dataset.predicted.min(), dataset.predicted.max()])
    marks.append(Line(ends, ends, label="equal", role="reference", dash=True))
    marks.append(_uniform(dataset, "y"))
    return Panel(
        "Measured against predicted weight",
        Axis("predicted E p", log=True, ticks=_TICKS),
        Axis("measured mean p", log=True, ticks=_TICKS),
        marks,
    )


def _plane(trained: Any) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Points

    heads = Points(trained.bulk_std.values.ravel(), trained.gap.values.ravel(), label="heads")
    curve = Line(trained.spread.values, trained.needed_gap.values, label="E p = 1/2", role="theory")
    return Panel(
        "Logits of the heads",
        Axis("spread of the other words' logits"),
        Axis("gap of the informative logit"),
        (heads, curve),
    )


def _control(trained: Any) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Points

    mass, other = trained.mass.values.ravel(), trained.mass_other.values.ravel()
    ends = np.array([min(mass.min(), other.min()), max(mass.max(), other.max())])
    return Panel(
        "The two adjectives",
        Axis("weight of the neutral adjective", log=True, ticks=_TICKS),
        Axis("weight of the informative adjective", log=True, ticks=_TICKS),
        (
            Points(other, mass, trained.mass_error.values.ravel(), label="heads"),
            Line(ends, ends, label="equal", role="reference", dash=True),
            _uniform(trained, "y"),
        ),
    )


def _uniform(dataset: Any, axis: Any) -> Any:
    from ...plotting.spec import Rule

    return Rule(float(dataset.uniform), axis=axis, label="equal attention")
