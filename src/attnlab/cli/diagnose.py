"""`diagnose`: a trained layer or model from a file, what its heads do, as table, figure and data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._core.errors import InvalidArgument, check_integer, check_real
from .console import computing, output, say

if TYPE_CHECKING:
    import xarray

    from ..circuits import Circuits
    from ..plotting import Figure


def diagnose(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Weights: .safetensors, .pt, .pth, .bin, .npz, .npy, or a Hugging Face directory.",
        ),
    ],
    layer: Annotated[
        int | None, typer.Option(help="Only this layer, counted from 0 [default: all].")
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option(help="TOML or JSON file that names the weights.")
    ] = None,
    convention: Annotated[
        str | None, typer.Option(help="row (z W) or column (W z), where the file does not tell.")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Number of heads, where the file does not tell.")
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(help="The file holds a layer on tokens (x, y), with so many covariates."),
    ] = None,
    outputs: Annotated[int | None, typer.Option(help="Labels of a token, with --dim.")] = None,
    length: Annotated[
        int | None,
        typer.Option(help="In-context regression: compare with estimators at this length."),
    ] = None,
    noise: Annotated[float, typer.Option(help="Standard deviation of the label noise there.")] = (
        0.1**0.5
    ),
    seed: Annotated[int, typer.Option(help="Seed of the prompts there.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the outputs [default: attnlab-output]."),
    ] = None,
    figure: Annotated[bool, typer.Option(help="Draw the figure.")] = True,
) -> None:
    """Read a trained layer or model: what each head does, which are alike, which cancel.

    Prints a table; writes the numbers (.nc) and the figure (.png, .pdf, .html). Nothing in the
    file is executed.
    """
    from .. import circuits, records
    from ..students import AttentionStack

    started = time.perf_counter()
    if outputs is not None and dim is None:
        raise InvalidArgument("--outputs", outputs, "given with --dim only")
    read: dict[str, Any] = {"layer": layer, "convention": convention, "heads": heads, "dim": dim}
    read |= {"n_outputs": 1 if outputs is None else outputs}
    read |= {"mapping": None if mapping is None else str(mapping)}
    folder = records.default_directory() if out is None else out
    name = file.resolve().stem or "model"
    stem = folder / f"diagnose-{name}{'' if layer is None else f'-layer-{layer}'}"
    drawn_kinds = ("png", "pdf", "html") if figure else ()
    records.writable_files(folder, [f"{stem.name}.{end}" for end in ("nc", *drawn_kinds)])
    found = circuits.load(file, **read)
    if isinstance(found, AttentionStack):
        if len(found.layers) > 1:
            raise InvalidArgument("--layer", layer, f"one of 0 to {len(found.layers) - 1}")
        found = circuits.extract(found)
    in_context = isinstance(found, circuits.Circuits)
    if length is not None and not in_context:
        raise InvalidArgument("--length", length, "absent: the file holds no in-context regression")
    with computing(drawing=figure):
        if in_context:
            told, numbers, drawn = _in_context(found, length, noise, seed)  # type: ignore[arg-type]
        else:
            diagnosis = circuits.diagnose_heads(found)
            told, numbers = str(diagnosis), diagnosis.to_dataset()
            drawn = _heads_figure(diagnosis, name, layer)
        settings = {"file": str(file), **read, "length": length, "noise": noise, "seed": seed}
        provenance = records.provenance(settings, extra={"command": "diagnose"})
        provenance = records.finish(provenance, time.perf_counter() - started)
        paths = [("record", records.save(records.attach(numbers, provenance), f"{stem}.nc"))]
        if figure:
            from .. import plotting

            drawn_paths = plotting.save_figure(drawn, stem, kinds=("png", "pdf"))
            page = plotting.save_html(drawn, f"{stem}.html", text=told)
            paths += [("figure", path) for path in (*drawn_paths, page)]
    console = output()
    say(console, told)
    say(console, "")
    for kind, path in paths:
        say(console, f"  {kind:<8}  {path}")


def _in_context(
    found: Circuits, length: int | None, noise: float, seed: int
) -> tuple[str, xarray.Dataset, Figure]:
    """Table, numbers and figure of a layer of in-context regression, as he2025 looks at it."""
    from .. import circuits, plotting

    if length is None:
        diagnosis = circuits.diagnose(found)
    else:
        import jax

        from ..tasks import InContextRegression

        length = check_integer("--length", length, minimum=2)
        noise = check_real("--noise", noise, low=0.0)
        seed = check_integer("--seed", seed, minimum=0)
        task = InContextRegression(found.dim, length, noise_std=noise)
        if found.n_outputs > 1:
            allowed = "absent for a layer of several outputs, whose tasks the file does not tell"
            raise InvalidArgument("--length", length, allowed)
        diagnosis = circuits.diagnose(found, task=task, key=jax.random.key(seed))
    return str(diagnosis), diagnosis.to_dataset(), plotting.circuit_figure(diagnosis)


def _heads_figure(diagnosis: Any, name: str, layer: int | None) -> Figure:
    from .. import plotting

    return plotting.head_figure(
        diagnosis, title=f"Heads of {name}" + ("" if layer is None else f", layer {layer}")
    )
