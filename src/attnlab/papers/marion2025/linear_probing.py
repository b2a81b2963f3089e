"""Linear probes of a pretrained encoder: which tokens carry the one informative word, layer by layer.

Controls: a neutral adjective of the same sentence; the same network before any training; probes that
are judged on sentiment words that they have not seen; sentences in which that one word is exchanged.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from ...claims import Check, Outcome
from .probed import EncoderConfig, no_encoder

if TYPE_CHECKING:
    import xarray

_CLS = "[CLS]"
_SHARE = 0.75  # of the way from chance to the informative token itself


class ProbingConfig(EncoderConfig):
    """Which encoder, and how it is probed."""

    sizes: tuple[int, ...] = Field(
        (50, 200, 1000),
        min_length=1,
        validate_default=True,
        description="numbers of training sentences, up to half of the sentences",
    )
    folds: int = Field(5, ge=3, le=24, description="folds of the cross-validation")
    penalty: float = Field(1e-2, gt=0, description="weight of |w|²/2 against the mean loss")

    @field_validator("sizes")
    @classmethod
    def _fit(cls, value: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        most = info.data.get("sentences", 10**9) // 2
        if not all(10 <= size <= most for size in value):
            raise ValueError(f"integers from 10 to half of the sentences, {most}")
        return value


def run(config: ProbingConfig) -> xarray.Dataset:
    """Accuracies by network, kind of cross-validation, layer, place and training size."""
    import xarray as xr

    from ...probing import embed, probe

    trained, sentences = config.load()
    networks = {"trained": trained, "untrained": trained.untrained(config.seed)}
    found = []
    for network in networks.values():
        embedded = embed(network, sentences)
        rows = [
            probe(
                embedded,
                sizes=sorted(set(config.sizes)),
                folds=config.folds,
                unseen=unseen,
                penalty=config.penalty,
                seed=config.seed,
            )
            for unseen in ("sentences", "words")
        ]
        found.append(xr.concat(rows, xr.IndexVariable("unseen", ["sentences", "words"])))
    out = xr.concat(found, xr.IndexVariable("network", list(networks)))
    out.attrs = {
        "model": trained.name,
        "sentences": len(sentences),
        "folds": config.folds,
        "example": sentences.texts[0],
    }
    return out


@functools.lru_cache(maxsize=1)
def _computed(config: ProbingConfig) -> xarray.Dataset:
    return run(config)


def probed(config: ProbingConfig) -> xarray.Dataset:
    """`run`, remembered: the experiment and the claim look at the same numbers."""
    return _computed(config).copy()


class OneWord(NamedTuple):
    """What exchanging the sentiment word alone does to [CLS].

    **Fields:** `followed`, how often a probe of the last layer follows, and its standard `error`;
    `first_spread`, the largest difference between sentences before the first layer.
    """

    followed: float
    error: float
    first_spread: float


def exchange(config: ProbingConfig) -> OneWord:
    """Probes judged on the sentences with the sentiment word exchanged for one of the other sign."""
    from ...probing import embed, probe

    encoder, sentences = config.load()
    embedded, exchanged = (
        embed(encoder, version).sel(place=[_CLS])
        for version in (sentences, sentences.swapped(config.seed))
    )
    first = embedded.embedding.values[0]
    found = probe(
        embedded.isel(layer=[-1]),
        judged_on=exchanged.isel(layer=[-1]),
        sizes=[max(config.sizes)],
        folds=config.folds,
        penalty=config.penalty,
        seed=config.seed,
    ).squeeze()
    spread = np.max(np.abs(first - first[:1]))
    return OneWord(float(found.accuracy), float(found.error), float(spread))


_SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {},
    "paper": {"sentences": 6000, "sizes": (50, 200, 1000, 3000), "folds": 8},
}
_FEW: dict[str, Any] = {"sentences": 600, "sizes": (300,)}  # for what takes no fine look


def bert_probing(preset: str, seed: int) -> Outcome:
    """The check of the claim."""
    lacking = no_encoder()
    if lacking is not None:
        return lacking
    config = ProbingConfig(seed=seed, **_SETTINGS[preset])
    few = config if preset == "paper" else ProbingConfig(seed=seed, **_FEW)
    ds = probed(config).isel(size=-1)
    deep = ds.sel(network="trained").isel(layer=slice(1 + ds.sizes["layer"] // 2, None))
    token = deep.sel(unseen="words", place="informative")
    cls = deep.sel(unseen="words", place=_CLS)
    least = 0.5 + _SHARE * (token.accuracy.values - 0.5)
    errors = np.hypot(cls.error.values, _SHARE * token.error.values)
    untrained = ds.sel(network="untrained", unseen="words", place=_CLS)
    gain = cls.accuracy.values[-1] - float(untrained.accuracy[-1])
    gain_error = math.hypot(float(cls.error[-1]), float(untrained.error[-1]))
    word = exchange(few)
    name = "[CLS], deep layers, unseen words"
    checks = (
        Check.bound(f"{name}: accuracy against {_SHARE:g} of the way to the informative token", cls.accuracy.values, lower=least, standard_error=errors),
        Check.bound("[CLS] before the first layer: difference between sentences", word.first_spread, upper=1e-5),
        Check.bound("what training adds to [CLS], last layer, unseen words", gain, lower=0.2, standard_error=gain_error),
        Check.bound("[CLS] follows when the one word is exchanged", word.followed, lower=0.8, standard_error=word.error),
    )  # fmt: skip
    return Outcome(checks, notes=_notes(ds, config))


def _notes(ds: Any, config: ProbingConfig) -> str:
    def number(layer: int, **where: str) -> str:
        one = ds.sel(**where).isel(layer=layer)
        return f"{float(one.accuracy):.3f} ± {float(one.error):.3f}"

    words = {"network": "trained", "unseen": "words"}
    seen = {"unseen": "sentences", "place": _CLS}
    return (
        f"{ds.attrs['model']}, {ds.attrs['sentences']} sentences, {max(config.sizes)} for training. "
        f"Judged on unseen words, [CLS] has the accuracy {number(1, place=_CLS, **words)} after the first layer "
        f"already and {number(-1, place=_CLS, **words)} after the last; the informative token "
        f"{number(-1, place='informative', **words)}, a neutral adjective of the same sentence "
        f"{number(-1, place='other', **words)}. Judged on words seen in training (the usual protocol) a "
        f"network that was never trained does it too: {number(-1, network='untrained', **seen)}, against "
        f"{number(-1, network='trained', **seen)}; on unseen words it has "
        f"{number(-1, network='untrained', unseen='words', place=_CLS)}."
    )
