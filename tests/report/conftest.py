"""A made-up paper whose computations leave a mark each time they run."""

import contextlib
import importlib
import sys

import pytest

from attnlab.report import build_report

_MODULE = """
import os, pathlib, time
import numpy as np
from attnlab.claims import Check, Claim, Outcome
from attnlab.papers import Config, Experiment, Paper
from attnlab.plotting import Axis, Figure, Line, Panel

HERE = pathlib.Path(__file__).parent

def mark(name):
    with open(HERE / "runs.txt", "a") as file:
        file.write(name + "\\n")

class Descent(Config):
    steps: int = 50

def run(config):
    import xarray as xr
    mark(f"run {config.seed}")
    step = np.arange(config.steps)
    return xr.Dataset({"risk": ("step", np.exp(-step / 9.0))}, coords={"step": step})

def fails(config):
    raise RuntimeError("gave up at step <17>")

def slow(config):
    mark("slow")
    if not (HERE / "fast").exists():
        time.sleep(120)
    return run(config)

def figure(ds):
    line = Line(ds.step, ds.risk, label="risk & <more>")
    panel = Panel("Risk", Axis("step"), Axis("risk", log=True), [line])
    return Figure("Risk of a run", [panel], caption="Made up.", alt="A falling curve.")

def no_figure(ds):
    raise ValueError("nothing to draw")

def good(preset, seed):
    mark(f"good {seed}")
    return Outcome((Check.agreement("ratio", 2.0, 2.001, standard_error=0.001),), answer="It is 2.")

def bad(preset, seed):
    mark("bad")
    return Outcome((Check.agreement("factor <b>", 1.0, 2.0, standard_error=0.01),),
                   corrected="The factor is 1.",
                   evidence=(Check.agreement("factor", 1.0, 1.0, tolerance=1e-9),))

def open_(preset, seed):
    return Outcome((Check.condition("seen", None, "not in 10 runs"),), settle="More runs.")

def coarse(preset, seed):
    return Outcome((Check.agreement("slope", 1.0, 1.1, standard_error=0.2, tolerance=0.05),))

def raises(preset, seed):
    mark("raises")
    raise ArithmeticError("no such <integral>")

def claim(name, expected=None):
    return Claim(name.strip("_"), "doe2027", f"Title of {name}", "A < B for all n.", "paper, Lemma 1",
                 "One sentence. Another.", f"doe2027_report:{name}", expected)

def experiment(name, run="run", figure="figure"):
    return Experiment(f"doe2027/{name}", f"Experiment {name}", "What is seen.", "paper, Figure 1",
                      "doe2027_report:Descent", f"doe2027_report:{run}",
                      f"doe2027_report:{figure}", {"quick": {}, "paper": {"steps": 500}}, "0.01")

BIBTEX = "@article{doe2027,\\n  title = {Made up},\\n  eprint = {2701.00001}\\n}"

def paper(experiments=(), claims=()):
    return Paper("doe2027", "A paper <made> up", ("Jane Doe",), 2027, BIBTEX, experiments, claims)

EVERYTHING = paper(
    (experiment("descent"), experiment("broken", "fails"), experiment("blank", "run", "no_figure")),
    (claim("good", "confirmed"), claim("bad"), claim("open_", "confirmed"), claim("raises")),
)
"""


@contextlib.contextmanager
def made_up_paper(folder):
    folder.mkdir()
    (folder / "doe2027_report.py").write_text(_MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        sys.modules.pop("doe2027_report", None)
        module = importlib.import_module("doe2027_report")
        log = folder / "runs.txt"
        module.runs = lambda: log.read_text().split("\n")[:-1] if log.exists() else []
        yield module
        sys.modules.pop("doe2027_report", None)


@pytest.fixture
def doe(tmp_path):
    """The module with the paper; `runs()` lists what ran so far."""
    with made_up_paper(tmp_path / "code") as module:
        yield module


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A report with everything in it and its archive, made once: (page, zip, what was computed)."""
    folder = tmp_path_factory.mktemp("finished")
    with made_up_paper(folder / "code") as doe:
        page = build_report(folder, papers=[doe.EVERYTHING], processes=1, archive=folder / "a.zip")
        yield page, folder / "a.zip", doe.runs()
