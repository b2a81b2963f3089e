"""Running an experiment from configuration to files, and running a record again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import records
from .._core.checkpoint import use_checkpoints
from .._core.errors import InvalidArgument
from .._core.files import clear_left_over
from .._core.interrupt import RunInterrupted
from ._discovery import find_experiment
from ._framework import PRESETS, Experiment

if TYPE_CHECKING:
    import xarray
    from pydantic import BaseModel


@dataclass(frozen=True)
class Outputs:
    """What a run gave: the `dataset`, the `record` file and the `figures` (PNG, PDF, numbers)."""

    dataset: xarray.Dataset
    record: Path
    figures: tuple[Path, ...]


@dataclass(frozen=True)
class Replay:
    """A record run again: the new `dataset`, its `comparison` with the old one (left: new), and
    `changed`, what differs in the provenance, as `{name: (then, now)}`."""

    dataset: xarray.Dataset
    comparison: records.Comparison
    changed: Mapping[str, tuple[Any, Any]]


def run_experiment(
    experiment: Experiment | str,
    preset: str = "quick",
    changes: Mapping[str, Any] | None = None,
    *,
    directory: str | os.PathLike[str] | None = None,
    figure: bool = True,
) -> Outputs:
    """Computes an experiment and writes its record, then its figure.

    Files are called `<paper>-<name>-<preset>`, plus a few hex digits of the configuration when it
    has `changes`, so that one set of settings has one set of files. When the run is interrupted,
    what was computed is saved as `<that>.partial.nc`, and loops that keep checkpoints go on from
    there when the same settings are run again.

    **Arguments:** an `experiment` or its id; `preset` and `changes` as in `Experiment.configure`;
    the `directory` of the outputs (default `records.default_directory()`); whether to draw.

    Raises `InvalidArgument` before anything is computed: unknown id, preset or key, wrong value,
    unwritable directory. Raises `RunInterrupted` with `saved`, the path of the partial record.
    """
    if not isinstance(experiment, Experiment):
        experiment = find_experiment(experiment)
    config = experiment.configure(preset, changes)
    folder = records.checked_path(records.default_directory() if directory is None else directory)
    settings = config.model_dump(mode="json")
    provenance = records.provenance(settings, experiment=experiment.id, preset=preset)
    stem = experiment.id.replace("/", "-") + f"-{preset}"
    if config != experiment.configure(preset):
        stem += "-" + _digest(settings)
    partial = folder / f"{stem}.partial.nc"
    drawn = ("png", "pdf", "json") if figure and experiment.figure is not None else ()
    records.writable_files(folder, [f"{stem}.{end}" for end in ("nc", "partial.nc", *drawn)])
    checkpoints = folder / ".checkpoints" / stem
    if os.path.lexists(folder / ".checkpoints"):
        records.writable_directory(folder / ".checkpoints")
    clear_left_over(checkpoints)
    start = time.perf_counter()
    try:
        with use_checkpoints(checkpoints, _checkpoint_key(provenance)):
            dataset = experiment.compute(config)
            finished = records.finish(provenance, time.perf_counter() - start)
            dataset = records.attach(dataset, finished)
            # saved inside the block, whose end removes the checkpoints
            record = _saved(dataset, folder / f"{stem}.nc")
    except RunInterrupted as interruption:
        if interruption.partial is not None:
            seconds = time.perf_counter() - start
            kept = records.finish(provenance, seconds, partial=True)
            interruption.saved = records.save(records.attach(interruption.partial, kept), partial)
        raise
    partial.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty while another run keeps checkpoints there
        (folder / ".checkpoints").rmdir()
    return Outputs(dataset, record, _draw(experiment, dataset, folder / stem) if figure else ())


def rerun(path: str | os.PathLike[str], *, rtol: float = 1e-9, atol: float = 1e-12) -> Replay:
    """Runs a record again from its own configuration and compares every variable.

    Raises `InvalidArgument` when the file is no record of a known experiment, was interrupted, or
    has a configuration that the experiment no longer accepts.
    """
    from ._config import validate

    old = records.load(path)
    then = records.provenance_of(old)
    if then.get("partial"):
        raise InvalidArgument("record", str(path), "of a finished run (this one was interrupted)")
    if not isinstance(then.get("experiment"), str):
        raise InvalidArgument("record", str(path), "of an experiment (its provenance names none)")
    experiment = find_experiment(then["experiment"])
    config: BaseModel = validate(experiment.config_class(), then["config"])
    settings = config.model_dump(mode="json")
    now = records.provenance(settings, experiment=experiment.id, preset=_preset(then))
    records.compare(old, old, rtol=rtol, atol=atol)  # refuses bad tolerances before the run
    start = time.perf_counter()
    new = experiment.compute(config)
    now = records.finish(now, time.perf_counter() - start)
    comparison = records.compare(new, old, rtol=rtol, atol=atol)
    return Replay(records.attach(new, now), comparison, _changed(then, now))


def _saved(dataset: xarray.Dataset, path: Path) -> Path:
    """The record, also when Ctrl-C comes while it is written: all of it was computed."""
    try:
        return records.save(dataset, path)
    except KeyboardInterrupt:
        interruption = RunInterrupted(None, "interrupted when all was computed")
        interruption.saved = records.save(dataset, path)
        raise interruption from None


def _draw(experiment: Experiment, dataset: xarray.Dataset, stem: Path) -> tuple[Path, ...]:
    figure = experiment.plot(dataset)
    if figure is None:
        return ()
    from ..plotting.matplotlib_renderer import save_figure

    return tuple(Path(path) for path in save_figure(figure, stem))


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def _checkpoint_key(provenance: Mapping[str, Any]) -> str:
    """What has to be equal for a checkpoint to be of this run: settings and the code that reads it."""
    names = ("experiment", "config", "precision", "attnlab", "packages", "git")
    return json.dumps({name: provenance[name] for name in names}, sort_keys=True)


def _preset(provenance: Mapping[str, Any]) -> str | None:
    preset = provenance.get("preset")
    return preset if preset in PRESETS else None


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Entries that may explain a difference: versions, device, precision, revision."""
    changed = {}
    for name in ("attnlab", "python", "platform", "precision", "git"):
        if then.get(name) != now.get(name):
            changed[name] = (then.get(name), now.get(name))
    for group in ("packages", "jax"):
        before, after = then.get(group) or {}, now.get(group) or {}
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                changed[f"{group}.{name}"] = (before.get(name), after.get(name))
    return changed
