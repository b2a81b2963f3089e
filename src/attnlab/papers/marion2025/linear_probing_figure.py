"""The figure of the linear probes: by layer and by training size, against the controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel

_UNSEEN = {"words": "words not seen", "sentences": "sentences not seen"}


def figure(dataset: xarray.Dataset) -> Figure:
    """Two panels by layer and two by training size: trained, and [CLS] against its controls."""
    from ...plotting.spec import Figure

    last, most = int(dataset.layer[-1]), int(dataset["size"][-1])
    words = dataset.sel(unseen="words")
    panels = (
        _places(words.isel(size=-1), "layer", f"Where the label can be read (trained on {most})"),
        _places(words.isel(layer=-1), "size", f"Learning curves in layer {last}"),
        _controls(dataset.isel(size=-1), "layer", "[CLS] and its controls, by layer"),
        _controls(dataset.isel(layer=-1), "size", f"[CLS] and its controls, layer {last}"),
    )
    cls = words.sel(network="trained", place="[CLS]").isel(size=-1)
    return Figure(
        title=f"Linear probes of {dataset.attrs['model']}",
        panels=panels,
        caption=(
            f"Accuracy of logistic regression on embeddings of {dataset.attrs['sentences']} sentences with one "
            "sentiment adjective each, with 95 % bands (they allow for sentences with the same adjective). Upper "
            "row: judged on adjectives that the probe has not seen. Lower row: [CLS] of the trained network and of "
            "the same network before training, judged on unseen sentences or on unseen words. Layer 0 are the "
            "embeddings. Below one half: the words left out of training pull the probe the other way."
        ),
        alt=(
            "Accuracy curves. The informative token is read at every layer; [CLS] is at chance in layer 0 and at "
            f"{float(cls.accuracy[-1]):.2f} in the last layer, far above an untrained network on unseen words."
        ),
    )  # fmt: skip


def _places(rows: Any, along: str, title: str) -> Panel:
    marks: list[Mark] = []
    for place, role in (("informative", 0), ("[CLS]", 1), ("mean", 2), ("other", 3)):
        label = {
            "informative": "informative token",
            "mean": "mean of all",
            "other": "neutral token",
        }
        one = rows.sel(network="trained", place=place)
        marks += _curve(one, along, label.get(place, place), role)
    return _panel(title, along, marks)


def _controls(rows: Any, along: str, title: str) -> Panel:
    marks: list[Mark] = []
    for role, (network, unseen) in enumerate(
        ((n, u) for n in ("trained", "untrained") for u in ("sentences", "words")), start=4
    ):
        one = rows.sel(network=network, unseen=unseen, place="[CLS]")
        marks += _curve(one, along, f"{network}, {_UNSEEN[unseen]}", role, network == "untrained")
    return _panel(title, along, marks)


def _curve(one: Any, along: str, label: str, role: int, dash: bool = False) -> list[Mark]:
    from ...plotting.spec import Band, Line

    x = one[along].values
    return [
        Band(x, one.low.values, one.high.values, role=role),
        Line(x, one.accuracy.values, label=label, role=role, dash=dash),
    ]


def _panel(title: str, along: str, marks: list[Mark]) -> Panel:
    from ...plotting.spec import Axis, Panel, Rule

    x = {
        "layer": Axis("layer (0: embeddings)"),
        "size": Axis("training sentences", log=True),
    }[along]
    chance = Rule(0.5, label="chance")
    return Panel(title, x, Axis("accuracy", limits=(0.35, 1.02)), [*marks, chance])
