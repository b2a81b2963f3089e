"""A small paper of another distribution, installed in a folder of its own."""

import textwrap

import pytest

from attnlab.papers import _discovery

TOY = """
import os
import time

import numpy as np
import xarray as xr
from pydantic import Field

from attnlab._core.checkpoint import current_checkpoint
from attnlab._core.interrupt import RunInterrupted
from attnlab._core.progress import current_progress
from attnlab.claims import Check, Claim, Outcome
from attnlab.papers import Config, Experiment, Paper
from attnlab.plotting import Axis, Figure, Line, Panel


class Count(Config):
    steps: int = Field(5, ge=1, description="how far to count")
    pause: float = Field(0.0, ge=0, description="seconds between steps")
    noisy: bool = False


def count(config):
    checkpoint, progress = current_checkpoint("count"), current_progress()
    stored = checkpoint.load() if checkpoint else None
    values = list(stored["values"]) if stored else []
    resumed = len(values)
    progress.start("counting", config.steps)
    try:
        while len(values) < config.steps:
            values.append(len(values) + (time.time() if config.noisy else config.seed))
            if checkpoint:
                checkpoint.save({"values": np.array(values, dtype=float)})
            progress.advance(1)
            print(f"step {len(values)}", flush=True)
            time.sleep(config.pause)
    except KeyboardInterrupt:
        raise RunInterrupted(dataset(values, resumed)) from None
    return dataset(values, resumed)


def dataset(values, resumed):
    return xr.Dataset(
        {"x": ("step", np.array(values, dtype=float))},
        coords={"step": np.arange(len(values))},
        attrs={"resumed": resumed},
    )


def broken(config):
    raise KeyboardInterrupt


def broken_check(preset, seed):
    raise KeyboardInterrupt


def figure(ds):
    line = Line(ds["step"].values, ds["x"].values, label="x")
    return Figure("Counting", [Panel("", Axis("step"), Axis("x"), [line])])


def experiment(id, **changes):
    fields = dict(
        title="Counting", summary="Counts up.", source="Section 1", config=Count, run=count,
        figure=figure, presets={"quick": {}, "paper": {"steps": 50}}, expected="x = step + seed",
    )
    return Experiment(id=id, **{**fields, **changes})


def check(preset, seed):
    return Outcome((Check.agreement("two", 1 + 1, 2 if seed == 0 else 3, tolerance=0.0),))


PAPER = Paper(
    key="toy2027",
    title="Counting",
    authors=("A. Author",),
    year=2027,
    bibtex="@misc{toy2027,\\n  title = {Counting}\\n}",
    experiments=(experiment("toy2027/count"),),
    claims=(
        Claim("sum", "toy2027", "One and one", "1 + 1 = 2", "Section 2", "A sum.", check, "confirmed"),
    ),
)
STOP = Paper(
    key="zeno2027",
    title="Stopping",
    authors=("B. Author",),
    year=2027,
    bibtex="@misc{zeno2027,\\n  title = {Stopping}\\n}",
    experiments=(experiment("zeno2027/broken", run=broken),),
    claims=(
        Claim("stop", "zeno2027", "Stops", "It stops.", "Section 3", "It stops.", broken_check),
    ),
)
"""


@pytest.fixture
def toy(tmp_path_factory, monkeypatch):
    """The folder to put on the path; this process has it there already."""
    site = tmp_path_factory.mktemp("site")
    (site / "toy_paper.py").write_text(textwrap.dedent(TOY))
    info = site / "toy_paper-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-paper\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[attnlab.papers]\ntoy2027 = toy_paper:PAPER\nzeno2027 = toy_paper:STOP\n"
    )
    monkeypatch.syspath_prepend(site)
    _discovery.all_papers.cache_clear()
    yield site
    _discovery.all_papers.cache_clear()
